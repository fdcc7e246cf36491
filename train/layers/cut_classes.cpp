// Encodes and decodes the parts of a loss that members exchange.
#include "train/layers/cut_classes.hpp"

#include <algorithm>
#include <utility>

namespace gv {

template <class T>
ClassesPart<T>::ClassesPart(const LayerPlan& layer, std::vector<Range> classes, std::size_t own)
    : rows_(layer.rows),
      classes_(std::move(classes)),
      own_(own),
      // A member without classes never uses this part.
      dense_(DenseCut::outputs, elements(layer.in) / layer.rows, layer.spec.units,
             classes_[own].empty() ? Range{0, 1} : classes_[own]) {}

template <class T>
void ClassesPart<T>::forward(const T* weights, const T* biases, const T* in,
                             std::span<const std::int32_t> labels, T* summand) {
  if (!has_classes()) return;
  logits_.resize(labels.size() * classes_[own_].size());
  dense_.forward(weights, biases, in, logits_.data(), labels.size());
  own_parts_ = loss_parts<T>(logits_, labels, classes_[own_]);
  T* place = summand + own_ * loss_part_floats * labels.size();
  for (const LossPart<T>& part : own_parts_) {
    *place++ = part.largest;
    *place++ = static_cast<T>(part.best);
    *place++ = part.sum;
    *place++ = part.label;
  }
}

/// Reads the parts that another member wrote at `place`. A sum below 1 counts as 1: an honest sum
/// is never smaller, since the largest logit adds exp(0).
template <class T>
std::vector<LossPart<T>> ClassesPart<T>::parts_in(const T* place, const Range& classes,
                                                  std::size_t rows) const {
  std::vector<LossPart<T>> parts(rows);
  for (LossPart<T>& part : parts) {
    const T best =
        std::clamp(place[1], static_cast<T>(classes.begin), static_cast<T>(classes.end - 1));
    part = {.largest = place[0],
            .best = static_cast<std::size_t>(best),
            .sum = std::max(place[2], T(1)),
            .label = place[3]};
    place += loss_part_floats;
  }
  return parts;
}

template <class T>
LossSum ClassesPart<T>::finish(const T* sum, std::span<const std::int32_t> labels) {
  std::vector<std::vector<LossPart<T>>> parts;
  for (std::size_t member = 0; member < classes_.size(); ++member) {
    if (classes_[member].empty()) continue;
    const T* place = sum + member * loss_part_floats * labels.size();
    parts.push_back(member == own_ ? own_parts_ : parts_in(place, classes_[member], labels.size()));
  }
  d_logits_.resize(logits_.size());
  return loss_of_parts<T>(parts, logits_, labels, classes_[own_], d_logits_);
}

template <class T>
void ClassesPart<T>::backward_input(const T* weights, T* d_in) const {
  if (!has_classes()) return;
  dense_.backward_input(weights, d_logits_.data(), d_in, d_logits_.size() / classes_[own_].size());
}

template <class T>
void ClassesPart<T>::backward_weight(const T* in, T* d_weights, T* d_biases) const {
  if (!has_classes()) return;
  dense_.backward_weight(in, d_logits_.data(), d_weights, d_biases,
                         d_logits_.size() / classes_[own_].size());
}

template class ClassesPart<float>;
template class ClassesPart<double>;

}  // namespace gv
