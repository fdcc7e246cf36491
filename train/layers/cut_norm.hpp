// One member's strip of a group norm, whose statistics are those of whole images.
#pragma once

#include <cstddef>
#include <vector>

#include "base/range.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Every member has some rows of each image. Forward the members exchange the mean and the sum of
/// squares of their rows, and combine them (Chan 1979); backward they sum two numbers. Each adds
/// its rows to the gradient of gains and biases. T is float or double.
template <class T>
class StripNorm {
 public:
  /// `strips` are the rows of all members in their order, and `own` is the number of this one.
  StripNorm(const LayerPlan& layer, std::vector<Range> strips, std::size_t own);

  /// The length of the forward sum, which has a place for each strip.
  std::size_t floats(std::size_t batch) const { return strips_.size() * floats_back(batch); }
  std::size_t floats_back(std::size_t batch) const { return 2 * batch * groups_; }

  /// Writes our statistics to our place in the summand (zeros), and keeps them.
  void give(const T* in, T* summand, std::size_t batch);
  /// Call it after give(), with the same inputs. Our own statistics are those that we have kept, so
  /// that a sum with which other members have tampered leaves our values normalised.
  void forward(const T* parameters, const T* in, const T* sum, T* out, std::size_t batch);
  /// Writes our summand.
  void give_back(const T* parameters, const T* in, const T* d_out, T* summand,
                 std::size_t batch) const;
  void backward(const T* parameters, const T* in, const T* d_out, const T* sum, T* d_in,
                std::size_t batch) const;
  /// Overwrites the gradient of gains and biases by our summand.
  void write_gradient(const T* in, const T* d_out, T* d_parameters, std::size_t batch) const;

 private:
  /// Values of one channel in our strip, and of one group.
  std::size_t plane() const { return strips_[own_].size() * plan_.in[2]; }
  std::size_t span() const { return plan_.in[0] / groups_ * plane(); }
  /// Calls use(group, channel, offset of the channel in our strip) for every sample.
  template <class Use>
  void each_channel(std::size_t batch, const Use& use) const;

  LayerPlan plan_;
  std::size_t groups_;
  std::vector<Range> strips_;
  std::size_t own_;
  std::vector<T> kept_;   ///< Our mean and sum of squares, by sample and group.
  std::vector<T> means_;  ///< By sample and group, of whole images.
  std::vector<T> scales_;
};

}  // namespace gv
