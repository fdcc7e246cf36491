// One member's strip of a group norm or a batch norm, normalised by the statistics of whole images.
#pragma once

#include <cstddef>
#include <vector>

#include "base/range.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Every member has some rows of each image. In the forward pass, the members exchange the mean of
/// their rows and the sum of squared deviations from it, and combine them (Chan 1979). In the
/// backward pass, they sum two numbers. A group norm has such a pair of numbers for each sample and
/// group of channels. A batch norm has one for each channel of the whole batch. Each member
/// contributes a summand, computed from its own rows, to the gradient of gains and biases. The same
/// holds for the values that a batch norm writes in place of a gradient of its running statistics.
/// T is float or double.
template <class T>
class StripNorm {
 public:
  /// `strips` are the rows of each member, in the order of the members. `own` is the index of this
  /// member.
  StripNorm(const LayerPlan& layer, std::vector<Range> strips, std::size_t own);

  /// The number of floats in the forward sum, which has a place for each strip.
  std::size_t floats(std::size_t batch) const { return strips_.size() * floats_back(batch); }
  std::size_t floats_back(std::size_t batch) const { return 2 * cells(batch); }

  /// Writes our statistics to our place in `summand`, which must hold zeros, and keeps a copy of
  /// them.
  void give(const T* in, T* summand, std::size_t batch);
  /// Computes the outputs. Call after give(), with the same inputs. For our own strip it uses the
  /// statistics that give() has kept, so our values are normalised even if other members tamper
  /// with the sum.
  void forward(const T* parameters, const T* in, const T* sum, T* out, std::size_t batch);
  /// Normalises with the running statistics of a batch norm, so members sum nothing.
  void forward_by_running(const T* parameters, const T* in, T* out, std::size_t batch);
  /// Writes our summand for the backward pass.
  void give_back(const T* parameters, const T* in, const T* d_out, T* summand,
                 std::size_t batch) const;
  void backward(const T* parameters, const T* in, const T* d_out, const T* sum, T* d_in,
                std::size_t batch) const;
  /// Overwrites the gradient of gains and biases with our summand. The summand for the running
  /// statistics of a batch norm is computed from our own rows alone, so that other members cannot
  /// inflate it.
  void write_gradient(const T* parameters, const T* in, const T* d_out, T* d_parameters,
                      std::size_t batch) const;

 private:
  /// Values of one channel of a sample in our strip.
  std::size_t plane() const { return strips_[own_].size() * plan_.in[2]; }
  /// The number of cells. A cell is a set of values that share a mean: a group of channels of one
  /// sample or, in a batch norm, a channel of the whole batch.
  std::size_t cells(std::size_t batch) const { return is_of_batch_ ? groups_ : batch * groups_; }
  /// The number of values that a cell has in `rows` rows of every image.
  std::size_t values(std::size_t batch, std::size_t rows) const {
    return plan_.in[0] / groups_ * rows * plan_.in[2] * (is_of_batch_ ? batch : 1);
  }
  std::size_t mean_at(std::size_t c) const { return plan_.bias + groups_ + c; }
  std::size_t square_at(std::size_t c) const { return plan_.bias + 2 * groups_ + c; }
  /// Calls use(cell, channel, offset of the channel in our strip) for every channel of every
  /// sample.
  template <class Use>
  void each_channel(std::size_t batch, const Use& use) const;
  /// Writes the outputs, normalised by `means_` and `scales_`.
  void normalise(const T* parameters, const T* in, T* out, std::size_t batch) const;

  LayerPlan plan_;
  bool is_of_batch_;    ///< True for a batch norm.
  std::size_t groups_;  ///< Number of groups of channels. In a batch norm every channel is a group.
  std::vector<Range> strips_;
  std::size_t own_;
  std::vector<T> kept_;   ///< Our mean and sum of squared deviations, by cell.
  std::vector<T> means_;  ///< Means over whole images, by cell.
  std::vector<T> scales_;
};

}  // namespace gv
