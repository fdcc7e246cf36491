// Runs steps until the next sum.
#include "train/layers/group_network.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "train/layers/signals_held.hpp"

namespace gv {
namespace {

using Kind = GroupStep::Kind;

bool has_unit(std::span<const LayerPlan> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers_to_cut(layers, i) > 0) return true;
    if (layers[i].shortcut.empty() && has_unit(layers[i].layers)) return true;
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
    if (is_unit || !layer.shortcut.empty() || !has_unit(layer.layers)) {
      steps.push_back(std::move(step));
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
GroupNetwork<T>::GroupNetwork(const ModelPlan& plan, std::size_t batch, const GroupPlace& place,
                              bool wants_d_inputs)
    : batch_(batch),
      is_first_(place.is_first()),
      wants_d_inputs_(wants_d_inputs),
      steps_(group_steps(plan)),
      first_trained_(first_trained(steps_)),
      rng_(0) {
  gradients_.emplace_back(batch * elements(plan.in));
  for (const GroupStep& step : steps_) {
    layers_.push_back(step.kind == Kind::whole ? make_layer<T>(step.layers.front()) : nullptr);
    unit_of_.push_back(parts_.size());
    if (step.kind == Kind::unit) {
      const std::vector<Range> cut = grain_ranges(place.speeds, grains(step.layers));
      parts_.push_back(make_cut_part<T>(step.layers, cut[place.own]));
    }
    outputs_.emplace_back(batch * step.out);
    gradients_.emplace_back(batch * step.out);
  }
}

template <class T>
auto GroupNetwork<T>::own_parameters(std::span<const T> parameters) const -> Own {
  Own own;
  for (const CutPart<T>& part : parts_) {
    std::vector<T>& values = own.emplace_back();
    for (const Range& range : part.ranges) {
      const std::span<const T> from = parameters.subspan(range.begin, range.size());
      values.insert(values.end(), from.begin(), from.end());
    }
  }
  return own;
}

// ---- Forward ----

template <class T>
std::span<const T> GroupNetwork<T>::begin(std::span<const T> parameters, const Own& own,
                                          std::span<const T> inputs, const Rng& rng,
                                          bool training) {
  parameters_ = parameters;
  own_ = &own;
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
  const Range& biases = parts_[unit_of_[i]].biases;
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
        const std::size_t unit = unit_of_[i];
        if (const auto& layer = parts_[unit].layer) {
          layer->forward((*own_)[unit].data(), input(i), summand_.data(), batch_, training_, rng_);
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
      const std::size_t unit = unit_of_[i];
      summand_.assign(gradients_[i].size(), T(0));
      if (const auto& layer = parts_[unit].layer) {
        layer->backward_input((*own_)[unit].data(), input(i), outputs_[i].data(), d_out,
                              is_wanted ? summand_.data() : nullptr, batch_);
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
void GroupNetwork<T>::add_unit(std::size_t i, std::span<T> gradient) {
  const std::size_t unit = unit_of_[i];
  const CutPart<T>& part = parts_[unit];
  if (!part.layer) return;
  std::vector<T> own((*own_)[unit].size());
  part.layer->backward_weight((*own_)[unit].data(), input(i), outputs_[i].data(),
                              gradients_[i + 1].data(), own.data(), batch_);
  const T* from = own.data();
  for (const Range& range : part.ranges) {
    const bool counts = is_first_ || !(range == part.biases);
    for (std::size_t k = 0; counts && k < range.size(); ++k) gradient[range.begin + k] += from[k];
    from += range.size();
  }
}

template <class T>
void GroupNetwork<T>::add_gradient(std::span<T> scratch, std::span<T> gradient) {
  const SignalsHeld held;
  for (std::size_t i = steps_.size(); i-- > first_trained_;) {
    if (steps_[i].kind == Kind::unit) add_unit(i, gradient);
    if (steps_[i].kind != Kind::whole || !is_first_) continue;
    layers_[i]->backward_weight(parameters_.data(), input(i), outputs_[i].data(),
                                gradients_[i + 1].data(), scratch.data(), batch_);
  }
  if (!is_first_) return;
  // A layer that shares its table adds to what a later one has written, so this is done last.
  for (const GroupStep& step : steps_) {
    if (step.kind != Kind::whole) continue;
    for (std::size_t k = step.layers.front().begin; k < step.layers.front().end; ++k) {
      gradient[k] += scratch[k];
    }
  }
}

template class GroupNetwork<float>;
template class GroupNetwork<double>;

}  // namespace gv
