// Attention whose heads several members share, compared with the whole layer.
#include "train/layers/cut_attention.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/train/dyadic.hpp"

namespace gv {
namespace {

/// Causal attention of 4 positions, width 8 and 4 heads.
struct AttentionProblem {
  LayerPlan plan;
  std::vector<double> parameters, x, dy;

  AttentionProblem() {
    Problems problems;
    plan = plan_model({.layers = {{.kind = LayerKind::attention, .heads = 4}}}, {4, 1, 8}, problems)
               .layers.front();
    const AttentionOffsets at = attention_offsets(plan);
    parameters.resize(plan.end);
    const auto put = [&](const Dyadic& values, std::size_t begin, std::size_t count) {
      std::ranges::copy(values.values<double>(count),
                        parameters.begin() + static_cast<std::ptrdiff_t>(begin));
    };
    put({29, 5, 19, 16}, at.qkv_weight, 24 * 8);
    put({7, 3, 5, 8}, at.qkv_bias, 24);
    put({31, 2, 23, 16}, at.out_weight, 8 * 8);
    put({3, 1, 7, 8}, at.out_bias, 8);
    x = dyadic_x.values<double>(32);
    dy = Dyadic{23, 1, 13, 8}.values<double>(32);
  }
};

struct AttentionResult {
  std::vector<double> y, dx, gradient;
  std::vector<std::vector<double>> summands;  ///< Each member's summand of the outputs.
};

AttentionResult run_heads(const AttentionProblem& p, const std::vector<Range>& cut) {
  AttentionResult result{.y = std::vector<double>(32), .dx = std::vector<double>(32)};
  result.gradient.resize(p.parameters.size());
  Rng rng(1);
  for (const Range& heads : cut) {
    const AttentionPart part = attention_part(p.plan, heads);
    std::vector<double> own;
    for (const Range& range : part.ranges) {
      own.insert(own.end(), p.parameters.begin() + static_cast<std::ptrdiff_t>(range.begin),
                 p.parameters.begin() + static_cast<std::ptrdiff_t>(range.end));
    }
    REQUIRE(own.size() == part.out_bias + 8);
    const auto layer = make_attention_part<double>(p.plan, heads);
    std::vector<double> y(32), dx(32), gradient(own.size());
    layer->forward(own.data(), p.x.data(), y.data(), 1, true, rng);
    layer->backward_input(own.data(), p.x.data(), y.data(), p.dy.data(), dx.data(), 1);
    layer->backward_weight(own.data(), p.x.data(), y.data(), p.dy.data(), gradient.data(), 1);
    for (std::size_t i = 0; i < 32; ++i) {
      result.y[i] += y[i];
      result.dx[i] += dx[i];
    }
    std::size_t at = 0;
    for (const Range& range : part.ranges) {
      for (std::size_t i = range.begin; i < range.end; ++i) result.gradient[i] = gradient[at++];
    }
    result.summands.push_back(y);
  }
  const std::size_t bias = attention_offsets(p.plan).out_bias;
  for (std::size_t i = 0; i < 32; ++i) result.y[i] += p.parameters[bias + i % 8];
  return result;
}

AttentionResult run_whole_attention(const AttentionProblem& p) {
  AttentionResult result{.y = std::vector<double>(32), .dx = std::vector<double>(32)};
  result.gradient.resize(p.parameters.size());
  Rng rng(1);
  const auto layer = make_layer<double>(p.plan);
  layer->forward(p.parameters.data(), p.x.data(), result.y.data(), 1, true, rng);
  layer->backward_input(p.parameters.data(), p.x.data(), result.y.data(), p.dy.data(),
                        result.dx.data(), 1);
  layer->backward_weight(p.parameters.data(), p.x.data(), result.y.data(), p.dy.data(),
                         result.gradient.data(), 1);
  return result;
}

bool is_near(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) <= 1e-12; });
}

}  // namespace

TEST_CASE("attention cut by heads has the known results") {
  const AttentionProblem p;
  const AttentionResult cut = run_heads(p, {{0, 1}, {1, 4}});
  CHECK(checksum(cut.summands[0]) == Approx(11.338187390681236).epsilon(1e-12));
  CHECK(checksum(cut.summands[1]) == Approx(-60.8209638064352).epsilon(1e-12));
  CHECK(checksum(cut.y) == Approx(-62.48277641575398).epsilon(1e-12));
  CHECK(cut.y[3 * 8 + 7] == Approx(-0.5969265059861781).epsilon(1e-12));
  CHECK(checksum(cut.dx) == Approx(-46.663727).epsilon(1e-7));
}

TEST_CASE("attention cut by heads is the whole layer for every cut") {
  const AttentionProblem p;
  const AttentionResult whole = run_whole_attention(p);
  const std::vector<std::vector<Range>> cuts{{{0, 4}},
                                             {{0, 1}, {1, 4}},
                                             {{0, 2}, {2, 4}},
                                             {{0, 3}, {3, 4}},
                                             {{0, 1}, {1, 2}, {2, 4}},
                                             {{0, 1}, {1, 3}, {3, 4}},
                                             {{0, 2}, {2, 3}, {3, 4}},
                                             {{0, 1}, {1, 2}, {2, 3}, {3, 4}}};
  for (const std::vector<Range>& cut : cuts) {
    const AttentionResult parts = run_heads(p, cut);
    CHECK(is_near(parts.y, whole.y));
    CHECK(is_near(parts.dx, whole.dx));
    CHECK(is_near(parts.gradient, whole.gradient));
  }
}

}  // namespace gv
