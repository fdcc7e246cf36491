// Deep gradient compression: applies momentum in one pass, and selects the values to send.
#include "consensus/compression/dgc.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

/// Momentum: u <- mu u + g.
GV_WIDE void heavy_ball(float* __restrict u, const float* __restrict g, std::size_t n, float mu) {
  for (std::size_t i = 0; i < n; ++i) u[i] = mu * u[i] + g[i];
}

}  // namespace

Dgc::Dgc(const DgcOptions& options, std::size_t elements)
    : options_(options), momentum_(elements), waiting_(elements) {
  check(options.momentum >= 0 && options.momentum < 1, "a momentum is in [0, 1)");
}

SparseVector Dgc::step(std::span<const float> gradient, double share) {
  check(gradient.size() == momentum_.size(), "a gradient of every parameter");
  check(share > 0 && share <= 1, "a share of the values is above 0 and at most 1");
  heavy_ball(momentum_.data(), gradient.data(), gradient.size(),
             static_cast<float>(options_.momentum));
  if (share == 1) {
    std::vector<float> sent(gradient.size());
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = waiting_[i] + momentum_[i];
    std::ranges::fill(waiting_, 0.0f);
    return SparseVector::dense(std::move(sent));
  }
  const std::size_t block =
      options_.block > 0 ? options_.block : std::max<std::size_t>(gradient.size(), 1);
  const auto k = static_cast<std::size_t>(std::ceil(share * static_cast<double>(block)));
  SparseVector sent = top_k_per_block(momentum_, waiting_, block, k);
  for (const std::size_t i : sent.indices()) momentum_[i] = 0;
  return sent;
}

void Dgc::restore(std::span<const float> momentum, std::span<const float> waiting) {
  if (momentum.size() == momentum_.size()) std::ranges::copy(momentum, momentum_.begin());
  if (waiting.size() == waiting_.size()) std::ranges::copy(waiting, waiting_.begin());
}

double dgc_share(std::uint64_t epoch, double last, std::uint64_t warm_up_epochs) {
  if (epoch >= warm_up_epochs) return last;
  return std::pow(last, static_cast<double>(epoch + 1) / static_cast<double>(warm_up_epochs + 1));
}

}  // namespace gv
