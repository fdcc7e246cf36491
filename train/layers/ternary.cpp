// Finds each matrix's threshold and scale, and runs a network on the ternary values.
#include "train/layers/ternary.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

/// The threshold as a multiple of the mean magnitude (Li 2016).
constexpr double threshold_factor = 0.7;

/// Sums are computed in a fixed number of parts, so that their bits do not depend on the machine's
/// vector width.
constexpr std::size_t parts_of_sum = 16;

struct MagnitudeSums {
  std::array<double, parts_of_sum> sums{};
  std::array<std::uint32_t, parts_of_sum> counts{};

  double sum() const { return std::accumulate(sums.begin(), sums.end(), 0.0); }
  double count() const { return std::accumulate(counts.begin(), counts.end(), 0.0); }
};

/// Adds up and counts the magnitudes above the one with the bits `limit`. NaN counts as larger.
/// There are no branches, which would be mispredicted for a third of all weights.
GV_WIDE void add_magnitudes(const float* __restrict weights, std::size_t n, std::uint32_t limit,
                            double* __restrict sums, std::uint32_t* __restrict counts) {
  for (std::size_t i = 0; i < n; i += parts_of_sum) {
    const std::size_t parts = std::min(parts_of_sum, n - i);
    for (std::size_t k = 0; k < parts; ++k) {
      const std::uint32_t bits = magnitude_bits(weights[i + k]);
      const auto is_above = static_cast<std::uint32_t>(bits > limit);
      sums[k] += static_cast<double>(std::bit_cast<float>(bits & (0U - is_above)));
      counts[k] += is_above;
    }
  }
}

MagnitudeSums magnitudes_above(std::span<const float> weights, float threshold) {
  MagnitudeSums all;
  add_magnitudes(weights.data(), weights.size(), std::bit_cast<std::uint32_t>(threshold),
                 all.sums.data(), all.counts.data());
  return all;
}

/// For each weight above the threshold in magnitude, writes the scale with the weight's sign; for
/// the others, 0.
GV_WIDE void write_ternary(const float* weights, float* out, std::size_t n, std::uint32_t threshold,
                           std::uint32_t scale) {
  constexpr std::uint32_t sign = 0x80000000U;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t with_sign = (std::bit_cast<std::uint32_t>(weights[i]) & sign) | scale;
    out[i] = std::bit_cast<float>(magnitude_bits(weights[i]) > threshold ? with_sign : 0U);
  }
}

/// Runs a network on ternary matrices. The backward passes use the copy of the parameters that the
/// forward pass has made.
class TernaryNetwork final : public Network<float> {
 public:
  TernaryNetwork(std::unique_ptr<Network<float>> inner, const Layout& layout)
      : inner_(std::move(inner)), matrices_(weight_matrices(layout)), own_(layout.size()) {}

  void give_factors(std::span<const std::size_t> weights) override {
    inner_->give_factors(weights);
  }

  std::span<const float> forward(std::span<const float> parameters, std::span<const float> inputs,
                                 bool training, Rng& rng) override {
    take_over(parameters);
    return inner_->forward(own_, inputs, training, rng);
  }

  std::span<const float> backward(std::span<const float>, std::span<const float> d_outputs,
                                  std::span<float> gradient, const ReadyRange& ready,
                                  bool want_d_inputs) override {
    return inner_->backward(own_, d_outputs, gradient, ready, want_d_inputs);
  }

  std::span<const float> backward_input(std::span<const float>, std::span<const float> d_outputs,
                                        bool want_d_inputs) override {
    return inner_->backward_input(own_, d_outputs, want_d_inputs);
  }

  void backward_weight(std::span<const float>, std::span<float> gradient,
                       const ReadyRange& ready) override {
    inner_->backward_weight(own_, gradient, ready);
  }

 private:
  void take_over(std::span<const float> parameters) {
    check(parameters.size() == own_.size(), "parameters have the layout's size");
    const std::span<float> own(own_);
    std::size_t done = 0;
    for (const Range& matrix : matrices_) {
      std::ranges::copy(parameters.subspan(done, matrix.begin - done), own.subspan(done).begin());
      make_ternary(parameters.subspan(matrix.begin, matrix.size()),
                   own.subspan(matrix.begin, matrix.size()));
      done = matrix.end;
    }
    std::ranges::copy(parameters.subspan(done), own.subspan(done).begin());
  }

  std::unique_ptr<Network<float>> inner_;
  std::vector<Range> matrices_;
  std::vector<float> own_;  ///< The parameters of the last forward pass, with ternary matrices.
};

}  // namespace

bool is_weight_matrix(std::string_view name, std::span<const std::size_t> shape) {
  return shape.size() > 1 && (name.ends_with(".weight") || name.ends_with("_gates"));
}

std::vector<Range> weight_matrices(const Layout& layout) {
  std::vector<Range> matrices;
  for (const TensorSlot& slot : layout.slots()) {
    if (is_weight_matrix(slot.name, slot.shape)) {
      matrices.push_back({slot.offset, slot.offset + slot.size});
    }
  }
  return matrices;
}

TernaryForm ternary_form(std::span<const float> weights) {
  const double all = magnitudes_above(weights, 0).sum();
  const double mean = all / std::max(1.0, static_cast<double>(weights.size()));
  const auto threshold = static_cast<float>(threshold_factor * mean);
  if (!std::isfinite(threshold)) return {.threshold = threshold, .scale = threshold};
  // The threshold may be so small that rounding raises it to the largest weight. Then no weight is
  // above it.
  const MagnitudeSums above = magnitudes_above(weights, threshold);
  return {.threshold = threshold,
          .scale = static_cast<float>(above.sum() / std::max(1.0, above.count()))};
}

void make_ternary(std::span<const float> weights, std::span<float> out) {
  check(out.size() == weights.size(), "a matrix stays as large as it is");
  const auto [threshold, scale] = ternary_form(weights);
  if (std::isfinite(threshold)) {
    write_ternary(weights.data(), out.data(), weights.size(),
                  std::bit_cast<std::uint32_t>(threshold), std::bit_cast<std::uint32_t>(scale));
  } else if (out.data() != weights.data()) {
    std::ranges::copy(weights, out.begin());
  }
}

std::unique_ptr<Network<float>> make_ternary_network(std::unique_ptr<Network<float>> inner,
                                                     const Layout& layout) {
  return std::make_unique<TernaryNetwork>(std::move(inner), layout);
}

}  // namespace gv
