// Computes softmax cross-entropy, hinge loss and squared loss.
#include "train/layers/loss.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.hpp"
#include "train/layers/functions.hpp"

namespace gv {

template <class T>
LossSum cross_entropy(std::span<const T> outputs, std::span<const std::int32_t> labels,
                      std::size_t classes, std::span<T> d_outputs) {
  check(outputs.size() == labels.size() * classes, "one label for each row of outputs");
  LossSum sum;
  const T share = T(1) / static_cast<T>(labels.size());
  std::vector<T> powers(classes);
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const std::span<const T> row = outputs.subspan(n * classes, classes);
    const auto label = static_cast<std::size_t>(labels[n]);
    check(label < classes, "a label names one of the classes");
    const auto largest = std::ranges::max_element(row);
    const T total = exponentials(row.data(), powers.data(), classes);
    sum.loss += static_cast<double>(std::log(total) - (row[label] - *largest));
    sum.correct += static_cast<std::size_t>(largest - row.begin()) == label;
    if (d_outputs.empty()) continue;
    const std::span<T> d_row = d_outputs.subspan(n * classes, classes);
    const T factor = share / total;
    for (std::size_t i = 0; i < classes; ++i) d_row[i] = powers[i] * factor;
    d_row[label] -= share;
  }
  return sum;
}

template <class T>
LossSum hinge_loss(std::span<const T> outputs, std::span<const std::int32_t> labels,
                   std::size_t classes, std::span<T> d_outputs) {
  check(outputs.size() == labels.size() * classes, "one label for each row of outputs");
  LossSum sum;
  std::ranges::fill(d_outputs, T(0));
  const T share = T(1) / static_cast<T>(labels.size());
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const std::span<const T> row = outputs.subspan(n * classes, classes);
    const auto label = static_cast<std::size_t>(labels[n]);
    check(label < classes, "a label names one of the classes");
    std::size_t other = label;
    for (std::size_t i = 0; i < classes; ++i) {
      if (i != label && (other == label || row[i] > row[other])) other = i;
    }
    const bool is_correct = row[label] > row[other] || (row[label] == row[other] && label <= other);
    sum.correct += is_correct ? 1 : 0;
    const T missing = 1 + row[other] - row[label];
    // Written so that NaN does not count as a loss of 0.
    if (other == label || missing <= 0) continue;
    sum.loss += static_cast<double>(missing);
    if (d_outputs.empty()) continue;
    d_outputs[n * classes + label] = -share;
    d_outputs[n * classes + other] = share;
  }
  return sum;
}

template <class T>
LossSum squared_loss(std::span<const T> outputs, std::span<const T> targets, std::size_t width,
                     std::span<T> d_outputs) {
  check(outputs.size() == targets.size(), "as many targets as outputs");
  LossSum sum;
  const T share = static_cast<T>(width) / static_cast<T>(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const T error = outputs[i] - targets[i];
    sum.loss += static_cast<double>(error) * static_cast<double>(error) / 2;
    if (!d_outputs.empty()) d_outputs[i] = error * share;
  }
  return sum;
}

template LossSum cross_entropy(std::span<const float>, std::span<const std::int32_t>, std::size_t,
                               std::span<float>);
template LossSum cross_entropy(std::span<const double>, std::span<const std::int32_t>, std::size_t,
                               std::span<double>);
template LossSum hinge_loss(std::span<const float>, std::span<const std::int32_t>, std::size_t,
                            std::span<float>);
template LossSum hinge_loss(std::span<const double>, std::span<const std::int32_t>, std::size_t,
                            std::span<double>);
template LossSum squared_loss(std::span<const float>, std::span<const float>, std::size_t,
                              std::span<float>);
template LossSum squared_loss(std::span<const double>, std::span<const double>, std::size_t,
                              std::span<double>);

}  // namespace gv
