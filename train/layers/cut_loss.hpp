// A cross-entropy over classes that are divided among members, so that no member needs all logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/loss.hpp"

namespace gv {

/// One member's summary of one row of its logits. Only this summary is sent to other members.
template <class T>
struct LossPart {
  T largest = 0;
  std::size_t best = 0;  ///< The first class with the largest logit.
  T sum = 0;             ///< Sum of exp(logit - largest).
  T label = 0;           ///< The label's logit, if it is among the member's classes; else 0.
};

/// The number of floats in which a LossPart is sent.
inline constexpr std::size_t loss_part_floats = 4;

/// Returns one part for each row of `logits` (rows, classes.size()), which are the member's columns
/// of all logits. Labels are indices among all classes. T is float or double.
template <class T>
std::vector<LossPart<T>> loss_parts(std::span<const T> logits, std::span<const std::int32_t> labels,
                                    const Range& classes);

/// Returns the loss over all classes, from the parts of all members in the order of their classes.
/// Also writes to `d_logits` the gradient of the mean loss over rows with respect to this member's
/// own logits. All members get the same loss, bit for bit, and the gradient needs no exchange.
/// `d_logits` has the shape of `logits`, or is empty.
template <class T>
LossSum loss_of_parts(std::span<const std::vector<LossPart<T>>> parts, std::span<const T> logits,
                      std::span<const std::int32_t> labels, const Range& classes,
                      std::span<T> d_logits);

}  // namespace gv
