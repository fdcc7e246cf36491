// Optimisers compared with scalar references in double precision, and with plausible wrong forms.
#include "train/optimizer.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/magnitude.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

using Kind = OptimizerKind;

constexpr std::array kinds = {Kind::sgd,     Kind::momentum, Kind::nesterov,
                              Kind::adagrad, Kind::rmsprop,  Kind::adam,
                              Kind::adamw,   Kind::lars,     Kind::lamb};

// Every constant is a sum of a few powers of two, so that float and double hold the same number and
// only rounding needs tolerance. Epsilon is large, so that its place in the formula matters.
OptimizerSpec exact_spec(Kind kind) {
  return {.kind = kind,
          .momentum = 0.875,
          .decay = 0.875,
          .beta1 = 0.875,
          .beta2 = 1 - 1.0 / 1024,
          .epsilon = 1.0 / 128,
          .trust = 1.0 / 2,
          .weight_decay = 1.0 / 32};
}

// An optimiser for one parameter, written from the papers and independent of the implementation.
// For lars and lamb, the norms of its tensor are passed in.
struct Reference {
  OptimizerSpec spec;
  double x = 0, m = 0, s = 0;
  int t = 0;

  /// For lamb: Adam's direction plus the decay, before step() scales it.
  double direction(double g) {
    m = spec.beta1 * m + (1 - spec.beta1) * g;
    s = spec.beta2 * s + (1 - spec.beta2) * g * g;
    const double mean = m / (1 - std::pow(spec.beta1, t + 1));
    const double square = s / (1 - std::pow(spec.beta2, t + 1));
    return mean / (std::sqrt(square) + spec.epsilon) + spec.weight_decay * x;
  }

  void step(double g, double rate, double ratio = 1) {
    ++t;
    if (spec.kind != Kind::adamw && spec.kind != Kind::lamb) g += spec.weight_decay * x;
    switch (spec.kind) {
      case Kind::sgd:
        x -= rate * g;
        break;
      case Kind::momentum:
        m = spec.momentum * m + g;
        x -= rate * m;
        break;
      case Kind::nesterov:
        m = spec.momentum * m + g;
        x -= rate * (g + spec.momentum * m);
        break;
      case Kind::adagrad:
        s += g * g;
        x -= rate * g / (std::sqrt(s) + spec.epsilon);
        break;
      case Kind::rmsprop:
        s = spec.decay * s + (1 - spec.decay) * g * g;
        x -= rate * g / (std::sqrt(s) + spec.epsilon);
        break;
      case Kind::adam:
      case Kind::adamw: {
        if (spec.kind == Kind::adamw) x -= rate * spec.weight_decay * x;
        m = spec.beta1 * m + (1 - spec.beta1) * g;
        s = spec.beta2 * s + (1 - spec.beta2) * g * g;
        const double mean = m / (1 - std::pow(spec.beta1, t));
        const double square = s / (1 - std::pow(spec.beta2, t));
        x -= rate * mean / (std::sqrt(square) + spec.epsilon);
        break;
      }
      case Kind::lars:
        m = spec.momentum * m + ratio * g;
        x -= rate * m;
        break;
      case Kind::lamb:
        x -= rate * ratio * g;
        break;
    }
  }
};

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// Takes a step with all parameters of a tensor.
void step(std::vector<Reference>& tensor, std::vector<double> g, double rate) {
  const OptimizerSpec& spec = tensor.front().spec;
  std::vector<double> weights;
  for (const Reference& one : tensor) weights.push_back(one.x);
  double ratio = 1;
  if (spec.kind == Kind::lars) {
    ratio =
        spec.trust * norm(weights) / (norm(g) + spec.weight_decay * norm(weights) + spec.epsilon);
  } else if (spec.kind == Kind::lamb) {
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = tensor[i].direction(g[i]);
    ratio = std::min(norm(weights), 10.0) / norm(g);
  }
  for (std::size_t i = 0; i < g.size(); ++i) tensor[i].step(g[i], rate, ratio);
}

// The positions of one parameter with gradient h x, starting from x = 1.
std::vector<double> on_quadratic(Kind kind, double mu, double h, double rate, int steps) {
  Optimizer optimizer({.kind = kind, .momentum = mu}, 1);
  std::array<float, 1> x = {1};
  std::vector<double> path = {1};
  for (int i = 0; i < steps; ++i) {
    const std::array<float, 1> g = {static_cast<float>(h) * x[0]};
    optimizer.step(x, g, rate);
    path.push_back(x[0]);
  }
  return path;
}

// A sequence x(t+2) = a x(t+1) - b x(t) with complex roots shrinks by sqrt(b) in a step, and x(t)
// x(t+2) - x(t+1)^2 shrinks by exactly b, so there is no need to fit an oscillation.
double radius(const std::vector<double>& x) {
  const auto casoratian = [&](std::size_t t) { return x[t] * x[t + 2] - x[t + 1] * x[t + 1]; };
  const std::size_t last = x.size() - 3;
  return std::pow(casoratian(last) / casoratian(0), 0.5 / static_cast<double>(last));
}

// Nesterov's method as a lecture note prints it in two lines, where the slope is eta h: w' = w + v
// and v' = mu v - grad(w + sign mu v).
std::vector<double> lecture_nesterov(double mu, double eta_h, double sign, int steps) {
  double w = 1, v = 0;
  std::vector<double> path = {w};
  for (int i = 0; i < steps; ++i) {
    const double ahead = w + sign * mu * v;
    w += v;
    v = mu * v - eta_h * ahead;
    path.push_back(w);
  }
  return path;
}

}  // namespace

TEST_CASE("every optimiser follows its double-precision reference", "[unit]") {
  // Not a multiple of a vector width, so that the loops' tails are tested.
  constexpr std::size_t size = 37;
  constexpr int steps = 50;
  // Values stay below 8, where rounding is at most 2^-22. A step rounds the parameter twice at that
  // size, and its change about ten times more finely. 50 steps, amplified by up to 1 / (1 - mu) = 8
  // in the worst case, give 50 * 2 * 2^-22 = 2.4e-5 for the parameter itself. Errors in a formula
  // cause 1e-3 and more (next case).
  constexpr double tolerance = 3e-5;
  for (const Kind kind : kinds) {
    INFO("kind " << static_cast<int>(kind));
    Rng rng(static_cast<std::uint64_t>(kind) + 1);
    const OptimizerSpec spec = exact_spec(kind);
    Optimizer optimizer(spec, size);
    std::vector<float> x(size), g(size);
    std::vector<Reference> references(size, Reference{.spec = spec});
    for (std::size_t i = 0; i < size; ++i) {
      x[i] = static_cast<float>(rng.normal());
      references[i].x = x[i];
    }
    for (int t = 0; t < steps; ++t) {
      // The learning rate changes, as in schedules.
      const double rate = t < 20 ? 1.0 / 64 : 1.0 / 256;
      for (std::size_t i = 0; i < size; ++i) {
        // Gradients range from very small to large, so that epsilon matters for only some of them.
        g[i] = static_cast<float>(rng.normal() * std::ldexp(1.0, -static_cast<int>(i % 10)));
      }
      step(references, {g.begin(), g.end()}, rate);
      optimizer.step(x, g, rate);
    }
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < size; ++i) {
      worst = std::max(worst, std::abs(x[i] - references[i].x));
      largest = std::max(largest, std::abs(references[i].x));
    }
    CHECK(worst < tolerance);
    CHECK(largest < 8);
    CHECK(optimizer.updates() == steps);
  }
}

TEST_CASE("no two kinds of optimiser are the same within the tolerance", "[unit]") {
  // Compares the references of different kinds with each other, rather than with the optimisers.
  std::vector<std::vector<double>> ends;
  for (const Kind kind : kinds) {
    std::vector<Reference> tensor(3, Reference{.spec = exact_spec(kind), .x = 1});
    Rng rng(9);
    for (int t = 0; t < 50; ++t) step(tensor, {rng.normal(), rng.normal(), 0.5}, 1.0 / 64);
    const std::vector<double> end = {tensor[0].x, tensor[1].x, tensor[2].x};
    for (const std::vector<double>& other : ends) {
      double most = 0;
      for (std::size_t i = 0; i < 3; ++i) most = std::max(most, std::abs(end[i] - other[i]));
      CHECK(most > 1e-3);
    }
    ends.push_back(end);
  }
}

TEST_CASE("by tensor a step is as long as the tensor says and not the gradient", "[unit]") {
  Layout layout;
  layout.add("weight", {4, 5});
  layout.add("bias", {5});
  layout.add("later", {3, 2});
  const auto change = [&](Kind kind, double scale, double decay) {
    Optimizer optimizer({.kind = kind, .epsilon = 1e-30, .trust = 0.01, .weight_decay = decay},
                        layout);
    Rng rng(3);
    std::vector<float> x(layout.size()), g(layout.size());
    for (float& value : x) value = static_cast<float>(rng.normal());
    for (float& value : g) value = static_cast<float>(scale * rng.normal());
    std::vector<float> before = x;
    optimizer.step(x, g, 0.5);
    // For each tensor, the norm of the step and the norm of the tensor before the step.
    std::vector<std::pair<double, double>> lengths;
    for (const TensorSlot& slot : layout.slots()) {
      std::vector<double> step, weights;
      for (std::size_t i = slot.offset; i < slot.offset + slot.size; ++i) {
        step.push_back(static_cast<double>(x[i]) - static_cast<double>(before[i]));
        weights.push_back(before[i]);
      }
      lengths.emplace_back(norm(step), norm(weights));
    }
    return lengths;
  };
  for (const double scale : {1e-3, 1.0, 1e3}) {
    const auto lars = change(Kind::lars, scale, 0);
    const auto lamb = change(Kind::lamb, scale, 0);
    for (const std::size_t matrix : {0, 2}) {
      CHECK(lars[matrix].first == Approx(0.5 * 0.01 * lars[matrix].second).epsilon(1e-4));
      CHECK(lamb[matrix].first == Approx(0.5 * lamb[matrix].second).epsilon(1e-4));
    }
    // With lars, a bias steps by its gradient. With lamb it steps like Adam, by the rate in each of
    // its five values.
    CHECK(lars[1].first == Approx(scale * change(Kind::lars, 1, 0)[1].first).epsilon(1e-4));
    CHECK(lamb[1].first == Approx(0.5 * std::sqrt(5)).epsilon(1e-4));
  }
  // Weight decay does not affect a bias.
  CHECK(change(Kind::lars, 1, 0.1)[1] == change(Kind::lars, 1, 0)[1]);
  CHECK(change(Kind::lamb, 1, 0.1)[1] == change(Kind::lamb, 1, 0)[1]);
  CHECK(change(Kind::lamb, 1, 0.1)[0] != change(Kind::lamb, 1, 0)[0]);
  // A tensor of zeros begins to move.
  Optimizer optimizer({.kind = Kind::lars}, 2);
  std::array<float, 2> x = {0, 0};
  optimizer.step(x, std::array<float, 2>{1, 2}, 0.5);
  CHECK(x == std::array<float, 2>{-0.5F, -1});
}

TEST_CASE("epsilon stands outside the square root", "[unit]") {
  // In the first step, the gradient is g = eps. Epsilon outside the root gives g / (g + eps) = 1/2.
  // Inside it gives g / sqrt(g^2 + eps) = 1/sqrt(1 + 1/g), which is 0.088.
  for (const Kind kind : {Kind::adagrad, Kind::adam, Kind::adamw}) {
    OptimizerSpec spec = exact_spec(kind);
    spec.weight_decay = 0;
    Optimizer optimizer(spec, 1);
    std::array<float, 1> x = {0};
    const std::array<float, 1> g = {1.0f / 128};
    optimizer.step(x, g, 1);
    CHECK(x[0] == Approx(-0.5).epsilon(1e-6));
  }
}

TEST_CASE("nesterov contracts where the wrong look-ahead diverges", "[unit]") {
  constexpr double mu = 0.9, eta_h = 0.1;
  // Our Nesterov momentum uses the new velocity in its step, so it obeys x(t+2) = (1+mu)(1-eta h)
  // x(t+1) - mu (1-eta h) x(t), with radius sqrt(0.81).
  const std::vector<double> x = on_quadratic(Kind::nesterov, mu, 1, eta_h, 60);
  for (std::size_t t = 1; t + 2 < x.size(); ++t) {
    const double next = (1 + mu) * (1 - eta_h) * x[t + 1] - mu * (1 - eta_h) * x[t];
    CHECK(x[t + 2] == Approx(next).margin(1e-6));
  }
  CHECK(radius(std::vector<double>(x.begin() + 1, x.end())) == Approx(0.9).margin(0.002));
  // The lecture note's version moves by the old velocity. It is slower with the right sign, and
  // diverges with the sign as printed.
  CHECK(radius(lecture_nesterov(mu, eta_h, +1, 60)) == Approx(std::sqrt(0.91)).margin(1e-6));
  CHECK(radius(lecture_nesterov(mu, eta_h, -1, 60)) == Approx(std::sqrt(1.09)).margin(1e-6));
}

TEST_CASE("heavy-ball momentum has its own radius", "[unit]") {
  // x(t+2) = (1 + mu - eta h) x(t+1) - mu x(t)
  const std::vector<double> x = on_quadratic(Kind::momentum, 0.9, 1, 0.1, 60);
  CHECK(radius(x) == Approx(std::sqrt(0.9)).margin(0.002));
}

TEST_CASE("adam moves by the learning rate for ever under a constant gradient", "[unit]") {
  // If bias correction were inside the recursion, the state would grow without bound and overflow a
  // double at step 314.
  for (const float slope : {1.0f, -1.0f, 1e-3f, 1e3f}) {
    Optimizer optimizer({.kind = Kind::adam}, 1);
    std::array<float, 1> x = {0};
    const std::array<float, 1> g = {slope};
    for (int t = 0; t < 2000; ++t) {
      const float before = x[0];
      optimizer.step(x, g, 1.0 / 1024);
      // A change of 2^-10 at |x| < 2 is rounded at 2^-23, which is 1.2e-4 of it; 1 - 0.999f is off
      // by 4.7e-5.
      REQUIRE(std::abs(x[0] - before) == Approx(1.0 / 1024).epsilon(3e-4));
    }
    CHECK(std::abs(x[0]) == Approx(2000.0 / 1024).epsilon(2e-4));
    CHECK(std::signbit(x[0]) != std::signbit(slope));
  }
}

TEST_CASE("momentum is kept in units of the gradient", "[unit]") {
  const std::array<float, 1> g = {1};
  for (const Kind kind : {Kind::momentum, Kind::nesterov}) {
    Optimizer optimizer({.kind = kind, .momentum = 0.5}, 1);
    std::array<float, 1> x = {0};
    optimizer.step(x, g, 1);  // v = 1
    CHECK(x[0] == (kind == Kind::momentum ? -1.0f : -1.5f));
    // If momentum were kept in weight units, half of the last move would be repeated even at a rate
    // of zero.
    const float before = x[0];
    optimizer.step(x, g, 0);  // v = 1.5
    CHECK(x[0] == before);
    // A change by gossip makes the parameter jump, and must not turn into velocity.
    x[0] = 16;
    optimizer.step(x, g, 2);  // v = 1.75
    CHECK(x[0] == 16 - 2 * (kind == Kind::momentum ? 1.75f : 1.875f));
  }
}

TEST_CASE("weight decay is coupled but for adamw", "[unit]") {
  const std::array<float, 1> none = {0};
  // Adam divides the decay by its own magnitude and so moves by the rate. AdamW shrinks the
  // parameter.
  std::array<float, 1> x = {4};
  Optimizer adam({.kind = Kind::adam, .weight_decay = 0.25}, 1);
  adam.step(x, none, 0.125);
  CHECK(x[0] == Approx(4 - 0.125).epsilon(1e-6));
  x = {4};
  Optimizer adamw({.kind = Kind::adamw, .weight_decay = 0.25}, 1);
  adamw.step(x, none, 0.125);
  CHECK(x[0] == Approx(4 - 0.125 * 0.25 * 4).epsilon(1e-6));
}

TEST_CASE("a restored optimiser goes on bit by bit", "[unit]") {
  constexpr std::size_t size = 19;
  for (const Kind kind : kinds) {
    INFO("kind " << static_cast<int>(kind));
    Rng rng(4);
    std::vector<float> x(size, 1), g(size);
    const auto draw = [&] {
      for (float& value : g) value = static_cast<float>(rng.normal());
    };
    Optimizer first(exact_spec(kind), size);
    for (int t = 0; t < 5; ++t) {
      draw();
      first.step(x, g, 0.01);
    }
    Optimizer second(exact_spec(kind), size);
    CHECK(second.restore(first.vectors(), first.updates()).empty());
    CHECK(second.vectors() == first.vectors());
    CHECK(second.updates() == 5);
    std::vector<float> y = x;
    for (int t = 0; t < 5; ++t) {
      draw();
      first.step(x, g, 0.01);
      second.step(y, g, 0.01);
    }
    CHECK(x == y);
  }
}

TEST_CASE("foreign optimiser state is refused and changes nothing", "[unit]") {
  Optimizer adam({.kind = Kind::adam}, 2);
  std::array<float, 2> x = {1, 2};
  const std::array<float, 2> g = {3, 4};
  adam.step(x, g, 0.1);
  const auto before = adam.vectors();

  Optimizer sgd({.kind = Kind::sgd}, 2);
  CHECK(sgd.vectors().empty());
  CHECK_FALSE(sgd.restore(before, 1).empty());
  CHECK_FALSE(adam.restore({}, 7).empty());
  auto renamed = before;
  std::swap(renamed[0], renamed[1]);
  CHECK_FALSE(adam.restore(renamed, 7).empty());
  // Only the last vector is wrong. That must be noticed before the first one is adopted.
  auto longer = before;
  longer[0].second[0] = 99;
  longer[1].second.push_back(0);
  CHECK_FALSE(adam.restore(longer, 7).empty());
  CHECK(adam.vectors() == before);
  CHECK(adam.updates() == 1);
}

TEST_CASE("any state that an optimiser makes is possible", "[unit]") {
  constexpr std::size_t size = 16;
  for (const Kind kind : kinds) {
    for (OptimizerSpec spec : {exact_spec(kind), OptimizerSpec{.kind = kind}}) {
      INFO("kind " << static_cast<int>(kind));
      Optimizer optimizer(spec, size);
      std::vector<float> x(size, 1), g(size), state(optimizer.state_size());
      Rng rng(7);
      for (int t = 0; t < 400; ++t) {
        optimizer.copy_state(state);
        REQUIRE(optimizer.is_possible(state));
        // Gradients of all sizes, including zeros. The largest size lasts for many steps.
        const int power = static_cast<int>(rng.below(70)) - 30;
        const float most = t % 100 < 40 ? largest_gradient : std::ldexp(1.0F, power);
        for (float& value : g) {
          value = rng.chance(0.2) ? 0 : most * static_cast<float>(2 * rng.uniform() - 1);
        }
        optimizer.step(x, g, 0.001);
      }
    }
  }
}

TEST_CASE("a state that no optimiser makes is not possible", "[unit]") {
  const auto holds = [](Kind kind, std::vector<float> state) {
    return Optimizer({.kind = kind}, 2).is_possible(state);
  };
  for (const Kind kind : {Kind::adam, Kind::adamw, Kind::lamb}) {
    CHECK(holds(kind, {1, -1, 1, 2}));
    CHECK_FALSE(holds(kind, {0, 0, 1, -1e-6F}));  // The square root of this value is not a number.
    CHECK_FALSE(holds(kind, {0, 1, 1, 0}));       // The next step would be 10^8 times too long.
    CHECK_FALSE(holds(kind, {1e6F, 0, 1, 1}));
  }
  for (const Kind kind : {Kind::adagrad, Kind::rmsprop}) {
    CHECK(holds(kind, {0, 1e20F}));
    CHECK_FALSE(holds(kind, {0, -1}));
  }
  for (const Kind kind : {Kind::momentum, Kind::nesterov, Kind::lars}) {
    CHECK(holds(kind, {-5, 1e9F}));
    CHECK_FALSE(holds(kind, {0, -0x1p60F}));
  }
  CHECK(Optimizer({.kind = Kind::sgd}, 2).is_possible({}));
}

TEST_CASE("a checkpoint with a state that no optimiser makes is refused and changes nothing",
          "[unit]") {
  for (const Kind kind : kinds) {
    if (kind == Kind::sgd) continue;
    INFO("kind " << static_cast<int>(kind));
    Optimizer optimizer({.kind = kind}, 2);
    std::array<float, 2> x = {1, 2};
    const std::array<float, 2> g = {3, 4};
    optimizer.step(x, g, 0.1);
    const auto before = optimizer.vectors();
    auto damaged = before;
    damaged.back().second.back() = -0x1p60F;
    CHECK(optimizer.restore(damaged, 7) == "no optimiser can have made its state");
    CHECK(optimizer.vectors() == before);
    CHECK(optimizer.updates() == 1);
  }
}

TEST_CASE("a state that decays without gradients holds no subnormal numbers", "[unit]") {
  for (const Kind kind : kinds) {
    INFO("kind " << static_cast<int>(kind));
    Optimizer optimizer({.kind = kind}, 3);
    std::vector<float> x(3, 1), state(optimizer.state_size());
    const auto no_subnormals = [&] {
      optimizer.copy_state(state);
      return std::ranges::all_of(state,
                                 [](float value) { return value == 0 || std::isnormal(value); });
    };
    // The square of the last gradient is subnormal. The state for the first gradient falls below
    // 2^-126 after thousands of steps, and a second moment shrinks by factors of 0.999.
    optimizer.step(x, std::vector<float>{1e-15F, -1e-18F, 1e-21F}, 0.1);
    for (int t = 0; t < 20'000; ++t) {
      optimizer.step(x, std::vector<float>{0, 0, 0}, 0.1);
      REQUIRE(no_subnormals());
    }
    const bool forgets = kind != Kind::adagrad;
    CHECK(std::ranges::all_of(state, [&](float value) { return !forgets || value == 0; }));
  }
}

TEST_CASE("a reset optimiser is a new one", "[unit]") {
  for (const Kind kind : kinds) {
    Optimizer used(exact_spec(kind), 2);
    Optimizer fresh(exact_spec(kind), 2);
    std::array<float, 2> x = {1, 2};
    const std::array<float, 2> g = {3, 4};
    used.step(x, g, 0.1);
    used.reset();
    CHECK(used.updates() == 0);
    CHECK(used.vectors() == fresh.vectors());
    std::array<float, 2> y = x;
    used.step(x, g, 0.1);
    fresh.step(y, g, 0.1);
    CHECK(x == y);
  }
}

TEST_CASE("a long vector is updated like its parts, and its largest value is known", "[unit]") {
  constexpr std::size_t size = 10001, cut = 4999;
  for (const Kind kind : kinds) {
    if (kind == Kind::lars || kind == Kind::lamb) continue;  // These need complete tensors.
    INFO("kind " << static_cast<int>(kind));
    Rng rng(6);
    std::vector<float> whole(size, 1), g(size);
    std::vector<float> parts = whole;
    Optimizer of_whole(exact_spec(kind), size);
    Optimizer of_begin(exact_spec(kind), cut), of_end(exact_spec(kind), size - cut);
    const std::span<float> begin = std::span(parts).first(cut), end = std::span(parts).subspan(cut);
    for (int t = 0; t < 3; ++t) {
      for (float& value : g) value = static_cast<float>(rng.normal());
      const float largest = of_whole.step(whole, g, 0.5);
      of_begin.step(begin, std::span(g).first(cut), 0.5);
      of_end.step(end, std::span(g).subspan(cut), 0.5);
      CHECK(whole == parts);
      CHECK(largest == largest_magnitude(whole));
    }
  }
}

TEST_CASE("a step tells of values that are not finite, but not of large statistics", "[unit]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Kind kind : kinds) {
    INFO("kind " << static_cast<int>(kind));
    for (const float wrong : {infinity, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(9000, 1), g(x.size(), 0);
      x[8500] = wrong;
      CHECK_FALSE(std::isfinite(Optimizer(exact_spec(kind), x.size()).step(x, g, 0.5)));
    }
  }
  Layout layout;
  layout.add("variance", {3});
  layout.add("weight", {2});
  std::vector<float> x{1, 500, 2, 3, -4}, g(5, 0);
  Optimizer optimizer(exact_spec(Kind::sgd), layout, {{0, 3}});
  const float largest = optimizer.step(x, g, 0.5);
  CHECK(largest == std::max(std::abs(x[3]), std::abs(x[4])));
}

}  // namespace gv
