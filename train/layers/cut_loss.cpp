// Computes softmax and cross-entropy from the members' parts of each row.
#include "train/layers/cut_loss.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace gv {

template <class T>
std::vector<LossPart<T>> loss_parts(std::span<const T> logits, std::span<const std::int32_t> labels,
                                    const Range& classes) {
  check(!classes.empty() && logits.size() == labels.size() * classes.size(),
        "a member has columns of every row");
  std::vector<LossPart<T>> parts;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const std::span<const T> row = logits.subspan(n * classes.size(), classes.size());
    const auto largest = std::ranges::max_element(row);
    LossPart<T> part{.largest = *largest,
                     .best = classes.begin + static_cast<std::size_t>(largest - row.begin())};
    for (const T logit : row) part.sum += std::exp(logit - part.largest);
    const auto label = static_cast<std::size_t>(labels[n]);
    if (label >= classes.begin && label < classes.end) part.label = row[label - classes.begin];
    parts.push_back(part);
  }
  return parts;
}

template <class T>
LossSum loss_of_parts(std::span<const std::vector<LossPart<T>>> parts, std::span<const T> logits,
                      std::span<const std::int32_t> labels, const Range& classes,
                      std::span<T> d_logits) {
  LossSum loss;
  const T share = T(1) / static_cast<T>(labels.size());
  for (std::size_t n = 0; n < labels.size(); ++n) {
    LossPart<T> whole = parts.front().at(n);
    for (const std::vector<LossPart<T>>& member : parts.subspan(1)) {
      // On a tie, the earlier class wins, because only a larger logit replaces it.
      if (member.at(n).largest > whole.largest) {
        whole.largest = member[n].largest;
        whole.best = member[n].best;
      }
    }
    whole.sum = 0;
    whole.label = 0;
    for (const std::vector<LossPart<T>>& member : parts) {
      whole.sum += member[n].sum * std::exp(member[n].largest - whole.largest);
      whole.label += member[n].label;
    }
    const auto label = static_cast<std::size_t>(labels[n]);
    loss.loss += static_cast<double>(std::log(whole.sum) - (whole.label - whole.largest));
    loss.correct += whole.best == label ? 1 : 0;
    if (d_logits.empty()) continue;
    const std::size_t row = n * classes.size();
    for (std::size_t i = 0; i < classes.size(); ++i) {
      d_logits[row + i] = std::exp(logits[row + i] - whole.largest) / whole.sum * share;
    }
    if (label >= classes.begin && label < classes.end)
      d_logits[row + label - classes.begin] -= share;
  }
  return loss;
}

template std::vector<LossPart<float>> loss_parts(std::span<const float>,
                                                 std::span<const std::int32_t>, const Range&);
template std::vector<LossPart<double>> loss_parts(std::span<const double>,
                                                  std::span<const std::int32_t>, const Range&);
template LossSum loss_of_parts(std::span<const std::vector<LossPart<float>>>,
                               std::span<const float>, std::span<const std::int32_t>, const Range&,
                               std::span<float>);
template LossSum loss_of_parts(std::span<const std::vector<LossPart<double>>>,
                               std::span<const double>, std::span<const std::int32_t>, const Range&,
                               std::span<double>);

}  // namespace gv
