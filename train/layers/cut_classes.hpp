// One member's classes of a model's last dense layer, with a cross-entropy computed in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/cut_dense.hpp"
#include "train/layers/cut_loss.hpp"

namespace gv {

/// Every member computes the logits of its own classes. Logits are not sent to other members.
/// Instead, members exchange four numbers for each row and member (LossPart). T is float or double.
template <class T>
class ClassesPart {
 public:
  /// `classes` are the classes of each member, in the order of the members. `own` is the index of
  /// this member. A member may have no classes.
  ClassesPart(const LayerPlan& layer, std::vector<Range> classes, std::size_t own);

  /// The number of floats in the forward sum, which has a place for each member.
  std::size_t floats(std::size_t batch) const { return classes_.size() * floats_of_one(batch); }

  /// Computes our logits, and writes our parts of the loss to our place in `summand`, which must
  /// hold zeros. `weights` and `biases` are those of our classes.
  void forward(const T* weights, const T* biases, const T* in, std::span<const std::int32_t> labels,
               T* summand);
  /// Computes the loss and the gradient of our logits from the sum. If another member has tampered
  /// with the sum, the gradient is wrong, but finite.
  LossSum finish(const T* sum, std::span<const std::int32_t> labels);

  /// Writes our summand of the gradient of the inputs.
  void backward_input(const T* weights, T* d_in) const;
  /// Overwrites the gradients of our weights and biases.
  void backward_weight(const T* in, T* d_weights, T* d_biases) const;

 private:
  bool has_classes() const { return !classes_[own_].empty(); }
  std::size_t floats_of_one(std::size_t batch) const { return loss_part_floats * batch * rows_; }
  std::vector<LossPart<T>> parts_in(const T* place, const Range& classes, std::size_t rows) const;

  std::size_t rows_;  ///< Rows in each sample.
  std::vector<Range> classes_;
  std::size_t own_;
  CutDense<T> dense_;
  std::vector<T> logits_;
  std::vector<T> d_logits_;
  std::vector<LossPart<T>> own_parts_;
};

}  // namespace gv
