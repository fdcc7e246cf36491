// The optimisers, each in one fused pass over memory.
#include "train/optimizer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/portable_math.hpp"
#include "base/wide.hpp"
#include "train/parameter_bound.hpp"

namespace gv {
namespace {

using Size = std::size_t;

/// lamb: a tensor with a larger norm is treated as if it had this norm.
constexpr double longest_weight = 10;

/// Number of parameters in a block. The block's largest parameter is found while the block is still
/// in the first-level cache.
constexpr Size block_size = 4096;

/// The fraction of running statistics that one step forgets.
constexpr float statistics_rate = 0.1F;

/// Replaces a subnormal value with zero. Rounding keeps the smallest values from decaying any
/// further, so a state without new gradients would stay subnormal for ever. Processors are many
/// times slower with such values. Unlike a processor's own setting for subnormal values, this gives
/// the same bits on all machines.
inline float decayed(float value) {
  return std::abs(value) < std::numeric_limits<float>::min() ? 0.0F : value;
}

GV_WIDE void sgd(float* __restrict x, const float* __restrict g, Size n, float rate, float decay) {
  for (Size i = 0; i < n; ++i) x[i] -= rate * (g[i] + decay * x[i]);
}

GV_WIDE void momentum(float* __restrict x, const float* __restrict g, float* __restrict v, Size n,
                      float rate, float decay, float mu) {
  for (Size i = 0; i < n; ++i) {
    v[i] = decayed(mu * v[i] + (g[i] + decay * x[i]));
    x[i] -= rate * v[i];
  }
}

GV_WIDE void nesterov(float* __restrict x, const float* __restrict g, float* __restrict v, Size n,
                      float rate, float decay, float mu) {
  for (Size i = 0; i < n; ++i) {
    const float slope = g[i] + decay * x[i];
    v[i] = decayed(mu * v[i] + slope);
    x[i] -= rate * (slope + mu * v[i]);
  }
}

GV_WIDE void adagrad(float* __restrict x, const float* __restrict g, float* __restrict s, Size n,
                     float rate, float decay, float epsilon) {
  for (Size i = 0; i < n; ++i) {
    const float slope = g[i] + decay * x[i];
    s[i] = decayed(s[i] + slope * slope);
    x[i] -= rate * slope / (std::sqrt(s[i]) + epsilon);
  }
}

GV_WIDE void rmsprop(float* __restrict x, const float* __restrict g, float* __restrict s, Size n,
                     float rate, float decay, float keep, float epsilon) {
  for (Size i = 0; i < n; ++i) {
    const float slope = g[i] + decay * x[i];
    s[i] = decayed(keep * s[i] + (1 - keep) * slope * slope);
    x[i] -= rate * slope / (std::sqrt(s[i]) + epsilon);
  }
}

struct Moments {
  float beta1, beta2, epsilon;
  float rate;    ///< The learning rate (1 for lamb), divided by the first moment's bias correction.
  float unbias;  ///< One over the square root of the second moment's bias correction.
  float coupled;  ///< Weight decay added to the gradient.
  /// Factor on the parameter for decoupled decay. For lamb, the weight decay itself.
  float shrink;
};

GV_WIDE void adam(float* __restrict x, const float* __restrict g, float* __restrict m,
                  float* __restrict s, Size n, Moments c) {
  for (Size i = 0; i < n; ++i) {
    const float slope = g[i] + c.coupled * x[i];
    m[i] = decayed(c.beta1 * m[i] + (1 - c.beta1) * slope);
    s[i] = decayed(c.beta2 * s[i] + (1 - c.beta2) * slope * slope);
    x[i] = c.shrink * x[i] - c.rate * m[i] / (std::sqrt(s[i]) * c.unbias + c.epsilon);
  }
}

/// Squares are summed in a fixed number of partial sums, so that the bits of the result do not
/// depend on the machine's vector width.
constexpr Size lanes = 16;
using Lanes = std::array<double, lanes>;

double total(const Lanes& sums) { return std::accumulate(sums.begin(), sums.end(), 0.0); }

GV_WIDE void add_squares(const float* __restrict x, Size n, double* __restrict sums) {
  const Size whole = n / lanes * lanes;
  for (Size i = 0; i < whole; i += lanes) {
    for (Size k = 0; k < lanes; ++k) {
      const auto value = static_cast<double>(x[i + k]);
      sums[k] += value * value;
    }
  }
  for (Size i = whole; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    sums[i - whole] += value * value;
  }
}

double length(const float* x, Size n) {
  Lanes sums{};
  add_squares(x, n, sums.data());
  return std::sqrt(total(sums));
}

GV_WIDE void lars(float* __restrict x, const float* __restrict g, float* __restrict v, Size n,
                  float rate, float decay, float mu, float local) {
  for (Size i = 0; i < n; ++i) {
    v[i] = decayed(mu * v[i] + local * (g[i] + decay * x[i]));
    x[i] -= rate * v[i];
  }
}

/// Updates the moments, and writes Adam's direction plus weight decay to `out`.
GV_WIDE void lamb_direction(const float* __restrict x, const float* __restrict g,
                            float* __restrict m, float* __restrict s, float* __restrict out, Size n,
                            Moments c) {
  for (Size i = 0; i < n; ++i) {
    m[i] = decayed(c.beta1 * m[i] + (1 - c.beta1) * g[i]);
    s[i] = decayed(c.beta2 * s[i] + (1 - c.beta2) * g[i] * g[i]);
    out[i] = c.rate * m[i] / (std::sqrt(s[i]) * c.unbias + c.epsilon) + c.shrink * x[i];
  }
}

bool has_moments(OptimizerKind kind) {
  return kind == OptimizerKind::adam || kind == OptimizerKind::adamw || kind == OptimizerKind::lamb;
}

bool has_first(OptimizerKind kind) {
  return kind == OptimizerKind::momentum || kind == OptimizerKind::nesterov ||
         kind == OptimizerKind::lars || has_moments(kind);
}

bool has_second(OptimizerKind kind) {
  return kind == OptimizerKind::adagrad || kind == OptimizerKind::rmsprop || has_moments(kind);
}

/// The largest possible ratio of a first moment to the square root of the second. It follows from
/// the Cauchy-Schwarz inequality for the two weighted sums over past gradients. Infinite if there
/// is no bound.
double moments_ratio(const OptimizerSpec& spec) {
  const double squared = spec.beta1 * spec.beta1 / spec.beta2;
  if (!(squared < 1) || spec.beta2 >= 1) return std::numeric_limits<double>::infinity();
  return (1 - spec.beta1) / std::sqrt((1 - spec.beta2) * (1 - squared));
}

/// Factor on moments_ratio() that leaves room for rounding, and for an optimiser that had different
/// settings before it was resumed.
constexpr double ratio_slack = 10;
/// First moments up to this size are always allowed: the squares of such small gradients may round
/// to 0.
constexpr double smallest_moment = 1e-12;

}  // namespace

std::size_t optimizer_vectors(const OptimizerSpec& spec) {
  return (has_first(spec.kind) ? 1U : 0U) + (has_second(spec.kind) ? 1U : 0U);
}

bool has_momentum(const OptimizerSpec& spec) {
  return spec.kind == OptimizerKind::momentum || spec.kind == OptimizerKind::nesterov ||
         spec.kind == OptimizerKind::lars;
}

Optimizer::Optimizer(OptimizerSpec spec, const Layout& layout, std::vector<Range> statistics)
    : Optimizer(spec, layout.size()) {
  parts_.clear();
  statistics_ = std::move(statistics);
  for (const TensorSlot& slot : layout.slots()) {
    parts_.push_back({slot.offset, slot.size, slot.shape.size() > 1});
  }
}

Optimizer::Optimizer(OptimizerSpec spec, std::size_t parameters)
    : spec_(spec),
      parts_{{.begin = 0, .size = parameters}},
      first_(has_first(spec.kind) ? parameters : 0),
      second_(has_second(spec.kind) ? parameters : 0) {}

void Optimizer::step_by_tensor(std::span<float> parameters, std::span<const float> gradient,
                               double learning_rate) {
  std::vector<float> direction;
  for (const Part& part : parts_) {
    float* x = parameters.subspan(part.begin, part.size).data();
    const float* g = gradient.subspan(part.begin, part.size).data();
    float* first = std::span(first_).subspan(part.begin, part.size).data();
    const Size n = part.size;
    const double decay = part.adapts ? spec_.weight_decay : 0;
    const double weight = part.adapts ? length(x, n) : 0;
    if (spec_.kind == OptimizerKind::lars) {
      const double slope = weight > 0 ? length(g, n) : 0;
      const double local =
          slope > 0 ? spec_.trust * weight / (slope + decay * weight + spec_.epsilon) : 1;
      lars(x, g, first, n, static_cast<float>(learning_rate),
           static_cast<float>(slope > 0 ? decay : 0), static_cast<float>(spec_.momentum),
           static_cast<float>(local));
      continue;
    }
    direction.resize(n);
    lamb_direction(
        x, g, first, std::span(second_).subspan(part.begin, n).data(), direction.data(), n,
        {.beta1 = static_cast<float>(spec_.beta1),
         .beta2 = static_cast<float>(spec_.beta2),
         .epsilon = static_cast<float>(spec_.epsilon),
         .rate = static_cast<float>(1 / (1 - integer_power(spec_.beta1, updates_))),
         .unbias = static_cast<float>(1 / std::sqrt(1 - integer_power(spec_.beta2, updates_))),
         .coupled = 0,
         .shrink = static_cast<float>(decay)});
    const double way = weight > 0 ? length(direction.data(), n) : 0;
    const double ratio = way > 0 ? std::min(weight, longest_weight) / way : 1;
    sgd(x, direction.data(), n, static_cast<float>(learning_rate * ratio), 0);
  }
}

float Optimizer::step(std::span<float> parameters, std::span<const float> gradient,
                      double learning_rate) {
  check(parameters.size() == gradient.size(), "one gradient for each parameter");
  // Updating the whole vector at once is quicker than updating each piece between statistics.
  std::vector<float> followed;
  for (const Range& range : statistics_) {
    for (Size i = range.begin; i < range.end; ++i) {
      followed.push_back(parameters[i] - statistics_rate * gradient[i]);
    }
  }
  const float largest = step_parameters(parameters, gradient, learning_rate);
  if (statistics_.empty()) return largest;
  Size at = 0;
  for (const Range& range : statistics_) {
    for (std::vector<float>* state : {&first_, &second_}) {
      if (!state->empty()) std::fill_n(state->data() + range.begin, range.size(), 0.0F);
    }
    std::copy_n(followed.data() + at, range.size(), parameters.data() + range.begin);
    at += range.size();
  }
  return largest_outside(statistics_, parameters);
}

/// Returns the largest magnitude of the parameters after the step.
float Optimizer::step_parameters(std::span<float> parameters, std::span<const float> gradient,
                                 double learning_rate) {
  ++updates_;
  if (spec_.kind == OptimizerKind::lars || spec_.kind == OptimizerKind::lamb) {
    step_by_tensor(parameters, gradient, learning_rate);
    return largest_magnitude(parameters);
  }
  std::uint32_t largest = 0;
  for (Size begin = 0; begin < parameters.size(); begin += block_size) {
    const Size size = std::min(block_size, parameters.size() - begin);
    const std::span<float> block = parameters.subspan(begin, size);
    step_block(block, gradient.subspan(begin, size), begin, learning_rate);
    largest = std::max(largest, magnitude_bits(largest_magnitude(block)));
  }
  return std::bit_cast<float>(largest);
}

/// Updates the parameters of the block at `begin`, each independently of the others.
void Optimizer::step_block(std::span<float> parameters, std::span<const float> gradient,
                           std::size_t begin, double learning_rate) {
  const Size n = parameters.size();
  float* x = parameters.data();
  const float* g = gradient.data();
  const auto state = [begin](std::vector<float>& values) {
    return values.empty() ? nullptr : values.data() + begin;
  };
  float* first = state(first_);
  float* second = state(second_);
  const auto rate = static_cast<float>(learning_rate);
  const auto decay = static_cast<float>(spec_.weight_decay);
  const auto mu = static_cast<float>(spec_.momentum);
  const auto epsilon = static_cast<float>(spec_.epsilon);
  switch (spec_.kind) {
    case OptimizerKind::sgd:
      sgd(x, g, n, rate, decay);
      break;
    case OptimizerKind::momentum:
      momentum(x, g, first, n, rate, decay, mu);
      break;
    case OptimizerKind::nesterov:
      nesterov(x, g, first, n, rate, decay, mu);
      break;
    case OptimizerKind::adagrad:
      adagrad(x, g, second, n, rate, decay, epsilon);
      break;
    case OptimizerKind::rmsprop:
      rmsprop(x, g, second, n, rate, decay, static_cast<float>(spec_.decay), epsilon);
      break;
    case OptimizerKind::lars:
    case OptimizerKind::lamb:
      break;  // lars and lamb update whole tensors, not blocks.
    case OptimizerKind::adam:
    case OptimizerKind::adamw: {
      const bool decoupled = spec_.kind == OptimizerKind::adamw;
      adam(x, g, first, second, n,
           {.beta1 = static_cast<float>(spec_.beta1),
            .beta2 = static_cast<float>(spec_.beta2),
            .epsilon = epsilon,
            .rate = static_cast<float>(learning_rate / (1 - integer_power(spec_.beta1, updates_))),
            .unbias = static_cast<float>(1 / std::sqrt(1 - integer_power(spec_.beta2, updates_))),
            .coupled = decoupled ? 0.0f : decay,
            .shrink =
                decoupled ? static_cast<float>(1 - learning_rate * spec_.weight_decay) : 1.0f});
      break;
    }
  }
}

std::vector<std::string> Optimizer::names() const {
  std::vector<std::string> names;
  const bool moments = has_first(spec_.kind) && has_second(spec_.kind);
  if (has_first(spec_.kind)) names.emplace_back(moments ? "first_moment" : "momentum");
  if (has_second(spec_.kind)) names.emplace_back(moments ? "second_moment" : "squares");
  return names;
}

std::vector<std::pair<std::string, std::vector<float>>> Optimizer::vectors() const {
  std::vector<std::pair<std::string, std::vector<float>>> state;
  for (const std::string& name : names()) {
    const bool second = name == "second_moment" || name == "squares";
    state.emplace_back(name, second ? second_ : first_);
  }
  return state;
}

std::string Optimizer::restore(
    const std::vector<std::pair<std::string, std::vector<float>>>& vectors, std::uint64_t updates) {
  const std::vector<std::string> expected = names();
  if (vectors.size() != expected.size()) return "it holds the state of another optimiser";
  const std::size_t size = std::max(first_.size(), second_.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (vectors[i].first != expected[i]) {
      return "it holds '" + vectors[i].first + "' where '" + expected[i] + "' is needed";
    }
    if (vectors[i].second.size() != size) return "'" + expected[i] + "' has another size";
  }
  std::span<const float> first;
  std::span<const float> second;
  if (has_first(spec_.kind)) first = vectors.front().second;
  if (has_second(spec_.kind)) second = vectors.back().second;
  if (!are_possible(first, second)) return "no optimiser can have made its state";
  std::ranges::copy(first, first_.begin());
  std::ranges::copy(second, second_.begin());
  updates_ = updates;
  return {};
}

void Optimizer::copy_state(std::span<float> out) const {
  check(out.size() == state_size(), "the optimiser's state has one size");
  std::ranges::copy(first_, out.begin());
  std::ranges::copy(second_, out.subspan(first_.size()).begin());
}

void Optimizer::adopt_state(std::span<const float> state, std::uint64_t updates) {
  check(state.size() == state_size(), "the optimiser's state has one size");
  std::ranges::copy(state.first(first_.size()), first_.begin());
  std::ranges::copy(state.subspan(first_.size()), second_.begin());
  updates_ = updates;
}

std::vector<std::span<float>> Optimizer::state() {
  std::vector<std::span<float>> vectors;
  if (has_first(spec_.kind)) vectors.emplace_back(first_);
  if (has_second(spec_.kind)) vectors.emplace_back(second_);
  return vectors;
}

std::vector<std::span<const float>> Optimizer::state() const {
  std::vector<std::span<const float>> vectors;
  if (has_first(spec_.kind)) vectors.emplace_back(first_);
  if (has_second(spec_.kind)) vectors.emplace_back(second_);
  return vectors;
}

bool Optimizer::is_possible(std::span<const float> state) const {
  const Size vectors = std::max<Size>(1, optimizer_vectors(spec_));
  check(state.size() % vectors == 0, "the optimiser's vectors are equally long");
  const auto first = state.first(has_first(spec_.kind) ? state.size() / vectors : 0);
  return are_possible(first, state.subspan(first.size()));
}

bool Optimizer::are_possible(std::span<const float> first, std::span<const float> second) const {
  if (std::ranges::any_of(second, [](float square) { return square < 0; })) return false;
  if (second.empty()) {
    const double fastest = ratio_slack * largest_gradient / std::max(0.0, 1 - spec_.momentum);
    return largest_magnitude(first) <= fastest;
  }
  const double ratio = ratio_slack * moments_ratio(spec_);
  for (Size i = 0; i < first.size(); ++i) {
    const double most = ratio * std::sqrt(static_cast<double>(second[i])) + smallest_moment;
    if (std::abs(static_cast<double>(first[i])) > most) return false;
  }
  return true;
}

void Optimizer::reset() {
  std::ranges::fill(first_, 0.0f);
  std::ranges::fill(second_, 0.0f);
  updates_ = 0;
}

}  // namespace gv
