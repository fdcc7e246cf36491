// Runs steps until the next sum.
#include "train/layers/group_network.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "train/layers/signals_held.hpp"

namespace gv {
namespace {

using Kind = GroupStep::Kind;

/// The layers inside it may be cut. Those of a shortcut and of branches side by side are not.
bool can_be_entered(const LayerPlan& layer) {
  return layer.spec.kind == LayerKind::stack ||
         (layer.spec.kind == LayerKind::residual && layer.shortcut.empty());
}

bool has_unit(std::span<const LayerPlan> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers_to_cut(layers, i) > 0) return true;
    if (can_be_entered(layers[i]) && has_unit(layers[i].layers)) return true;
  }
  return false;
}

void append(std::span<const LayerPlan> layers, std::vector<GroupStep>& steps) {
  for (std::size_t i = 0; i < layers.size();) {
    const LayerPlan& layer = layers[i];
    const std::size_t count = std::max<std::size_t>(1, layers_to_cut(layers, i));
    const bool is_unit = layers_to_cut(layers, i) > 0;
    const auto own = layers.subspan(i, count);
    i += count;
    GroupStep step{.kind = is_unit ? Kind::unit : Kind::whole,
                   .layers = {own.begin(), own.end()},
                   .in = elements(layer.in),
                   .out = elements(own.back().out)};
    if (is_unit || !can_be_entered(layer) || !has_unit(layer.layers)) {
      steps.push_back(std::move(step));
      continue;
    }
    if (layer.spec.kind == LayerKind::stack) {
      append(layer.layers, steps);
      continue;
    }
    const std::size_t fork = steps.size();
    steps.push_back({.kind = Kind::fork, .layers = {}, .in = step.in, .out = step.in});
    append(layer.layers, steps);
    steps[fork].other = steps.size();
    steps.push_back(
        {.kind = Kind::join, .layers = {}, .in = step.out, .out = step.out, .other = fork});
  }
}

bool is_trained(const GroupStep& step) {
  return std::ranges::any_of(step.layers,
                             [](const LayerPlan& layer) { return layer.has_parameters(); });
}

std::size_t first_trained(const std::vector<GroupStep>& steps) {
  return static_cast<std::size_t>(std::ranges::find_if(steps, is_trained) - steps.begin());
}

/// The same layer over the values that a member holds.
void move_to_held(LayerPlan& layer, const HeldParameters& held) {
  for (std::size_t* place : {&layer.begin, &layer.end, &layer.weight, &layer.bias}) {
    *place = held.held_before(*place);
  }
  for (LayerPlan& inner : layer.layers) move_to_held(inner, held);
  for (LayerPlan& beside : layer.shortcut) move_to_held(beside, held);
}

}  // namespace

std::vector<GroupStep> group_steps(const ModelPlan& plan) {
  std::vector<GroupStep> steps;
  append(plan.layers, steps);
  return steps;
}

std::vector<std::size_t> group_sums(const ModelPlan& plan, bool backward, bool wants_d_inputs) {
  const std::vector<GroupStep> steps = group_steps(plan);
  std::vector<std::size_t> sums;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != Kind::unit) continue;
    if (backward && !wants_d_inputs && i == first_trained(steps)) continue;
    sums.push_back(backward ? steps[i].in : steps[i].out);
  }
  if (backward) std::ranges::reverse(sums);
  return sums;
}

template <class T>
GroupNetwork<T>::GroupNetwork(const SlicedStage& stage, const HeldParameters& held,
                              std::size_t batch, bool is_first, bool wants_d_inputs)
    : batch_(batch),
      is_first_(is_first),
      wants_d_inputs_(wants_d_inputs),
      steps_(group_steps(stage.plan())),
      first_trained_(first_trained(steps_)),
      rng_(0) {
  gradients_.emplace_back(batch * elements(stage.plan().in));
  for (GroupStep& step : steps_) {
    Unit& unit = units_.emplace_back();
    if (step.kind == Kind::unit) {
      const Range own = stage.grains_of(grains(step.layers), held.slices);
      const Range biases = biases_of(step.layers);
      unit = {.layer = make_cut_part<T>(step.layers, own),
              .begin = held.held_before(step.layers.front().begin),
              .biases = {held.held_before(biases.begin), held.held_before(biases.end)}};
    }
    for (LayerPlan& layer : step.layers) move_to_held(layer, held);
    layers_.push_back(step.kind == Kind::whole ? make_layer<T>(step.layers.front()) : nullptr);
    outputs_.emplace_back(batch * step.out);
    gradients_.emplace_back(batch * step.out);
  }
}

// ---- Forward ----

template <class T>
std::span<const T> GroupNetwork<T>::begin(std::span<const T> parameters, std::span<const T> inputs,
                                          const Rng& rng, bool training) {
  parameters_ = parameters;
  inputs_ = inputs;
  training_ = training;
  rng_ = rng;
  return forward_from(0);
}

template <class T>
std::span<const T> GroupNetwork<T>::go_on(std::span<const T> sum) {
  check(sum.size() == outputs_[at_].size(), "a sum is as long as its summands");
  std::ranges::copy(sum, outputs_[at_].begin());
  add_biases(at_);
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
  const SignalsHeld held;
  for (std::size_t i = step; i < steps_.size(); ++i) {
    std::vector<T>& out = outputs_[i];
    switch (steps_[i].kind) {
      case Kind::whole:
        layers_[i]->forward(parameters_.data(), input(i), out.data(), batch_, training_, rng_);
        break;
      case Kind::unit: {
        at_ = i;
        summand_.assign(out.size(), T(0));
        const Unit& unit = units_[i];
        if (unit.layer) {
          unit.layer->forward(parameters_.data() + unit.begin, input(i), summand_.data(), batch_,
                              training_, rng_);
        }
        return summand_;
      }
      case Kind::fork:
        std::copy_n(input(i), out.size(), out.begin());
        break;
      case Kind::join: {
        const T* beside = input(steps_[i].other);
        for (std::size_t k = 0; k < out.size(); ++k) out[k] = beside[k] + input(i)[k];
        break;
      }
    }
  }
  return outputs_.back();
}

// ---- Backward ----

template <class T>
std::span<const T> GroupNetwork<T>::begin_back(std::span<const T> d_outputs) {
  std::ranges::copy(d_outputs, gradients_.back().begin());
  return backward_from(steps_.size());
}

template <class T>
std::span<const T> GroupNetwork<T>::go_on_back(std::span<const T> sum) {
  check(sum.size() == gradients_[at_].size(), "a sum is as long as its summands");
  std::ranges::copy(sum, gradients_[at_].begin());
  return backward_from(at_);
}

template <class T>
void GroupNetwork<T>::back_through_join_or_fork(std::size_t i) {
  gradients_[i] = gradients_[i + 1];
  if (steps_[i].kind == Kind::join) return;
  const std::vector<T>& beside = gradients_[steps_[i].other + 1];
  for (std::size_t k = 0; k < beside.size(); ++k) gradients_[i][k] += beside[k];
}

template <class T>
std::span<const T> GroupNetwork<T>::backward_from(std::size_t end) {
  const SignalsHeld held;
  for (std::size_t i = end; i-- > (wants_d_inputs_ ? 0 : first_trained_);) {
    const bool is_wanted = wants_d_inputs_ || i > first_trained_;
    const T* d_out = gradients_[i + 1].data();
    if (steps_[i].kind == Kind::whole) {
      layers_[i]->backward_input(parameters_.data(), input(i), outputs_[i].data(), d_out,
                                 is_wanted ? gradients_[i].data() : nullptr, batch_);
    } else if (steps_[i].kind == Kind::unit) {
      const Unit& unit = units_[i];
      summand_.assign(gradients_[i].size(), T(0));
      if (unit.layer) {
        unit.layer->backward_input(parameters_.data() + unit.begin, input(i), outputs_[i].data(),
                                   d_out, is_wanted ? summand_.data() : nullptr, batch_);
      }
      at_ = i;
      if (is_wanted) return summand_;
    } else {
      back_through_join_or_fork(i);
    }
  }
  return wants_d_inputs_ ? std::span<const T>(gradients_.front()) : std::span<const T>();
}

template <class T>
void GroupNetwork<T>::write_gradient(std::span<T> gradient) {
  const SignalsHeld held;
  // Backward from the end: a layer that shares its table adds to the gradient that a later layer
  // has written.
  for (std::size_t i = steps_.size(); i-- > first_trained_;) {
    const Unit& unit = units_[i];
    const T* d_out = gradients_[i + 1].data();
    if (unit.layer) {
      unit.layer->backward_weight(parameters_.data() + unit.begin, input(i), outputs_[i].data(),
                                  d_out, gradient.data() + unit.begin, batch_);
    } else if (layers_[i] && is_first_) {
      layers_[i]->backward_weight(parameters_.data(), input(i), outputs_[i].data(), d_out,
                                  gradient.data(), batch_);
    }
  }
}

template class GroupNetwork<float>;
template class GroupNetwork<double>;

}  // namespace gv
