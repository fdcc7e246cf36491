// Runs the steps of a pass up to the next sum.
#include "train/layers/group_network.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "train/layers/compute_scope.hpp"
#include "train/layers/cut_rows.hpp"

namespace gv {
namespace {

using Kind = GroupStep::Kind;

/// Converts the places of a layer's parameters in the stage to places among the held parameters.
void move_to_held(LayerPlan& layer, const HeldParameters& held) {
  for (std::size_t* place : {&layer.begin, &layer.end, &layer.weight, &layer.bias}) {
    *place = held.held_before(*place);
  }
  for (LayerPlan& inner : layer.layers) move_to_held(inner, held);
  for (LayerPlan& beside : layer.shortcut) move_to_held(beside, held);
}

template <class T>
void add_to(std::vector<T>& sum, const T* values) {
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += values[k];
}

}  // namespace

template <class T>
GroupNetwork<T>::GroupNetwork(const SlicedStage& stage, const HeldParameters& held,
                              std::size_t batch, const GroupPlace& place, bool wants_d_inputs)
    : batch_(batch),
      place_(place),
      wants_d_inputs_(wants_d_inputs),
      steps_(group_steps(stage.plan())),
      first_trained_(first_trained(steps_)),
      rng_(0) {
  gradients_.emplace_back(batch * elements(stage.plan().in));
  for (GroupStep& step : steps_) make_step(stage, held, step);
}

template <class T>
void GroupNetwork<T>::make_step(const SlicedStage& stage, const HeldParameters& held,
                                GroupStep& step) {
  Range rows{0, step.out[1]};
  if (step.is_strip) rows = stage.grains_of(step.out[1], place_.slices);
  if (brings_rows(step.kind) && !step.layers.empty()) {
    rows = rows_to_read(stage, step.layers, place_.slices);
  }
  make_exchange(stage, held, step, rows);
  for (LayerPlan& layer : step.layers) move_to_held(layer, held);
  std::unique_ptr<Layer<T>> layer;
  if (step.kind == Kind::whole) layer = make_layer<T>(step.layers.front());
  if (step.kind == Kind::rows) layer = make_rows_part<T>(step.layers, rows, batch_);
  has_rows_ = has_rows_ || step.kind == Kind::rows || step.kind == Kind::norm;
  layers_.push_back(std::move(layer));
  rows_.push_back(rows);
  outputs_.emplace_back(step.kind == Kind::classes ? 0 : floats(step.out, rows));
  gradients_.emplace_back(outputs_.back().size());
}

/// Makes the unit, edges, norm or classes of a step in which members exchange values. Places in the
/// stage are converted to places among the held parameters.
template <class T>
void GroupNetwork<T>::make_exchange(const SlicedStage& stage, const HeldParameters& held,
                                    const GroupStep& step, const Range& rows) {
  Unit& unit = units_.emplace_back();
  edges_.emplace_back();
  norms_.emplace_back();
  if (step.layers.empty()) return;
  const LayerPlan& layer = step.layers.front();
  const auto before = std::ranges::upper_bound(place_.cuts, place_.slices.begin);
  const auto number = static_cast<std::size_t>(before - place_.cuts.begin());
  if (step.kind == Kind::unit) {
    const Range biases = biases_of(step.layers);
    unit = {
        .layer = make_cut_part<T>(step.layers, stage.grains_of(grains(step.layers), held.slices)),
        .begin = held.held_before(layer.begin),
        .biases = {held.held_before(biases.begin), held.held_before(biases.end)}};
  } else if (step.kind == Kind::edges) {
    edges_.back().emplace(step.in[0], step.in[2], rows_.back(), rows,
                          edge_rows(stage, step.layers, place_.cuts));
  } else if (step.kind == Kind::norm) {
    LayerPlan own = layer;
    move_to_held(own, held);
    norms_.back().emplace(own, shares_of(stage, step.in[1], place_.cuts), number);
  } else if (step.kind == Kind::classes) {
    const std::vector<Range> classes = shares_of(stage, layer.spec.units, place_.cuts);
    const std::size_t width = elements(layer.in) / layer.rows;
    class_weights_ = held.held_before(layer.weight + classes[number].begin * width);
    class_biases_ = held.held_before(layer.bias + classes[number].begin);
    classes_.emplace(layer, classes, number);
  }
}

template <class T>
std::size_t GroupNetwork<T>::floats(const SampleShape& shape, const Range& rows) const {
  return batch_ * shape[0] * rows.size() * shape[2];
}

// ---- Forward ----

template <class T>
std::span<const T> GroupNetwork<T>::begin(std::span<const T> parameters, std::span<const T> inputs,
                                          std::span<const std::int32_t> labels, const Rng& rng,
                                          bool training) {
  parameters_ = parameters;
  inputs_ = inputs;
  labels_ = labels;
  loss_.reset();
  training_ = training;
  rng_ = rng;
  return forward_from(0);
}

template <class T>
std::span<const T> GroupNetwork<T>::go_on(std::span<const T> sum) {
  const SubnormalsFlushed flushed;
  check(sum.size() == summand_.size(), "a sum is as long as its summands");
  if (steps_[at_].kind == Kind::edges) {
    edges_[at_]->take(input(at_), sum.data(), outputs_[at_].data(), batch_);
  } else if (norms_[at_]) {
    norms_[at_]->forward(parameters_.data(), input(at_), sum.data(), outputs_[at_].data(), batch_);
  } else if (steps_[at_].kind == Kind::classes) {
    loss_ = classes_->finish(sum.data(), labels_);
  } else {
    std::ranges::copy(sum, outputs_[at_].begin());
    add_biases(at_);
  }
  return forward_from(at_ + 1);
}

template <class T>
void GroupNetwork<T>::add_biases(std::size_t i) {
  const Range& biases = units_[i].biases;
  if (biases.empty()) return;
  std::vector<T>& out = outputs_[i];
  for (std::size_t row = 0; row < out.size(); row += biases.size()) {
    for (std::size_t k = 0; k < biases.size(); ++k) out[row + k] += parameters_[biases.begin + k];
  }
}

template <class T>
std::span<const T> GroupNetwork<T>::forward_from(std::size_t step) {
  const ComputeScope scope;
  for (std::size_t i = step; i < steps_.size(); ++i) {
    if (is_summed_now(i)) return summand_of(i);
    compute_here(i);
  }
  return outputs_.back();
}

/// True if the members make a sum in step `i` of the forward pass.
template <class T>
bool GroupNetwork<T>::is_summed_now(std::size_t i) const {
  return is_summed(steps_[i].kind, false) && (training_ || !has_batch_statistics(steps_[i]));
}

/// Computes our summand for the sum in step `i`.
template <class T>
std::span<const T> GroupNetwork<T>::summand_of(std::size_t i) {
  at_ = i;
  const GroupStep& step = steps_[i];
  if (step.kind == Kind::edges) {
    summand_.assign(edges_[i]->floats(batch_), T(0));
    edges_[i]->give(input(i), summand_.data(), batch_);
    return summand_;
  }
  if (norms_[i]) {
    summand_.assign(norms_[i]->floats(batch_), T(0));
    norms_[i]->give(input(i), summand_.data(), batch_);
    return summand_;
  }
  if (step.kind == Kind::classes) {
    summand_.assign(classes_->floats(batch_), T(0));
    classes_->forward(parameters_.data() + class_weights_, parameters_.data() + class_biases_,
                      input(i), labels_, summand_.data());
    return summand_;
  }
  summand_.assign(outputs_[i].size(), T(0));
  if (step.kind == Kind::gather) {
    copy_rows(input(i), rows_[i - 1], summand_.data(), rows_[i], batch_ * step.in[0], step.in[2]);
  } else if (const Unit& unit = units_[i]; unit.layer) {
    unit.layer->forward(parameters_.data() + unit.begin, input(i), summand_.data(), batch_,
                        training_, rng_);
  }
  return summand_;
}

/// Computes step `i`, which needs nothing from other members.
template <class T>
void GroupNetwork<T>::compute_here(std::size_t i) {
  const GroupStep& step = steps_[i];
  std::vector<T>& out = outputs_[i];
  if (step.kind == Kind::fork) {
    std::copy_n(input(i), out.size(), out.begin());
  } else if (step.kind == Kind::join) {
    std::copy_n(input(i), out.size(), out.begin());
    add_to(out, input(step.other));
  } else if (step.kind == Kind::scatter) {
    copy_rows(input(i), {0, step.in[1]}, out.data(), rows_[i], batch_ * step.in[0], step.in[2]);
  } else if (norms_[i]) {
    norms_[i]->forward_by_running(parameters_.data(), input(i), out.data(), batch_);
  } else {
    layers_[i]->forward(parameters_.data(), input(i), out.data(), batch_, training_, rng_);
  }
}

// ---- Backward ----

template <class T>
std::span<const T> GroupNetwork<T>::begin_back(std::span<const T> d_outputs) {
  std::ranges::copy(d_outputs, gradients_.back().begin());
  return backward_from(steps_.size());
}

template <class T>
std::span<const T> GroupNetwork<T>::go_on_back(std::span<const T> sum) {
  const SubnormalsFlushed flushed;
  check(sum.size() == summand_.size(), "a sum is as long as its summands");
  if (steps_[at_].kind == Kind::edges) {
    edges_[at_]->take_back(gradients_[at_ + 1].data(), sum.data(), gradients_[at_].data(), batch_);
  } else if (norms_[at_]) {
    norms_[at_]->backward(parameters_.data(), input(at_), gradients_[at_ + 1].data(), sum.data(),
                          gradients_[at_].data(), batch_);
  } else {
    std::ranges::copy(sum, gradients_[at_].begin());
  }
  return backward_from(at_);
}

template <class T>
std::span<const T> GroupNetwork<T>::backward_from(std::size_t end) {
  const ComputeScope scope;
  for (std::size_t i = end; i-- > (wants_d_inputs_ ? 0 : first_trained_);) {
    const bool is_wanted = wants_d_inputs_ || i > first_trained_;
    if (is_summed(steps_[i].kind, true)) {
      const std::span<const T> summand = summand_back_of(i, is_wanted);
      if (is_wanted) return summand;
    } else {
      go_back_here(i, is_wanted);
    }
  }
  return wants_d_inputs_ ? std::span<const T>(gradients_.front()) : std::span<const T>();
}

template <class T>
std::span<const T> GroupNetwork<T>::summand_back_of(std::size_t i, bool is_wanted) {
  at_ = i;
  const GroupStep& step = steps_[i];
  const T* d_out = gradients_[i + 1].data();
  if (step.kind == Kind::edges) {
    summand_.assign(edges_[i]->floats(batch_), T(0));
    edges_[i]->give_back(d_out, summand_.data(), batch_);
    return summand_;
  }
  if (norms_[i]) {
    summand_.assign(norms_[i]->floats_back(batch_), T(0));
    norms_[i]->give_back(parameters_.data(), input(i), d_out, summand_.data(), batch_);
    return summand_;
  }
  summand_.assign(gradients_[i].size(), T(0));
  if (step.kind == Kind::scatter) {
    copy_rows(d_out, rows_[i], summand_.data(), {0, step.in[1]}, batch_ * step.in[0], step.in[2]);
  } else if (step.kind == Kind::classes) {
    if (is_wanted) {
      classes_->backward_input(parameters_.data() + class_weights_, summand_.data());
    }
  } else if (const Unit& unit = units_[i]; unit.layer) {
    unit.layer->backward_input(parameters_.data() + unit.begin, input(i), outputs_[i].data(), d_out,
                               is_wanted ? summand_.data() : nullptr, batch_);
  }
  return summand_;
}

template <class T>
void GroupNetwork<T>::go_back_here(std::size_t i, bool is_wanted) {
  const GroupStep& step = steps_[i];
  const T* d_out = gradients_[i + 1].data();
  if (step.kind == Kind::join || step.kind == Kind::fork) {
    gradients_[i] = gradients_[i + 1];
    if (step.kind == Kind::fork) add_to(gradients_[i], gradients_[step.other + 1].data());
  } else if (step.kind == Kind::gather) {
    copy_rows(d_out, rows_[i], gradients_[i].data(), rows_[i - 1], batch_ * step.in[0], step.in[2]);
  } else {
    layers_[i]->backward_input(parameters_.data(), input(i), outputs_[i].data(), d_out,
                               is_wanted ? gradients_[i].data() : nullptr, batch_);
  }
}

template <class T>
void GroupNetwork<T>::write_gradient(std::span<T> gradient) {
  const ComputeScope scope;
  const bool is_first = place_.is_first();
  if (has_rows_ && !is_first) std::ranges::fill(gradient, T(0));
  // Go backwards, because a layer that shares its table adds to the gradient that a later layer has
  // written.
  for (std::size_t i = steps_.size(); i-- > first_trained_;) {
    const Unit& unit = units_[i];
    const T* d_out = gradients_[i + 1].data();
    if (unit.layer) {
      unit.layer->backward_weight(parameters_.data() + unit.begin, input(i), outputs_[i].data(),
                                  d_out, gradient.data() + unit.begin, batch_);
      if (is_first) continue;
      std::fill(gradient.begin() + static_cast<std::ptrdiff_t>(unit.biases.begin),
                gradient.begin() + static_cast<std::ptrdiff_t>(unit.biases.end), T(0));
    } else if (steps_[i].kind == Kind::classes) {
      classes_->backward_weight(input(i), gradient.data() + class_weights_,
                                gradient.data() + class_biases_);
    } else if (norms_[i]) {
      norms_[i]->write_gradient(parameters_.data(), input(i), d_out, gradient.data(), batch_);
    } else if (layers_[i] && (is_first || steps_[i].kind == Kind::rows)) {
      layers_[i]->backward_weight(parameters_.data(), input(i), outputs_[i].data(), d_out,
                                  gradient.data(), batch_);
    }
  }
}

template class GroupNetwork<float>;
template class GroupNetwork<double>;

}  // namespace gv
