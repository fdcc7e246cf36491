// Packs the factors of gradients, and sums their products in a fixed order.
#include "consensus/compression/sufficient_factors.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

constexpr std::size_t rows_together = 4;
/// Number of columns processed at once. It is small enough for all rows of a batch to stay in the
/// cache.
constexpr std::size_t columns_at_once = 256;

/// Adds four rows of x, times factors, to each of four rows of y: y_k += sum_r factors[4 k + r]
/// x_r. Each element's sum follows the order of the rows and does not depend on the vector width.
GV_WIDE void add_four_to_four(const float* factors, const float* __restrict x, std::size_t x_stride,
                              float* __restrict y, std::size_t y_stride, std::size_t n) {
  const float* x0 = x;
  const float* x1 = x + x_stride;
  const float* x2 = x + 2 * x_stride;
  const float* x3 = x + 3 * x_stride;
  for (std::size_t k = 0; k < rows_together; ++k) {
    const float a = factors[rows_together * k], b = factors[rows_together * k + 1];
    const float c = factors[rows_together * k + 2], d = factors[rows_together * k + 3];
    float* __restrict row = y + k * y_stride;
    for (std::size_t i = 0; i < n; ++i) {
      row[i] = row[i] + a * x0[i] + b * x1[i] + c * x2[i] + d * x3[i];
    }
  }
}

GV_WIDE void add_one(float factor, const float* __restrict x, float* __restrict y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

/// The factors of a dense layer's gradient: dy is (rows, outputs) and x is (rows, inputs).
struct Factors {
  std::span<const float> dy;
  std::span<const float> x;
  std::size_t rows = 0;
};

/// dw += weight dy^T x for columns [begin, end) of dw, which is (outputs, inputs).
void add_product(const Factors& factors, float weight, Range columns, std::span<float> dw) {
  const std::size_t outputs = factors.dy.size() / factors.rows;
  const std::size_t inputs = factors.x.size() / factors.rows;
  const auto factor = [&](std::size_t output, std::size_t row) {
    return weight * factors.dy[row * outputs + output];
  };
  for (std::size_t output = 0; output < outputs;) {
    const std::size_t wide = output + rows_together <= outputs ? rows_together : 1;
    for (std::size_t row = 0; row < factors.rows;) {
      const std::size_t deep = row + rows_together <= factors.rows ? rows_together : 1;
      const float* x = factors.x.data() + row * inputs + columns.begin;
      float* y = dw.data() + output * inputs + columns.begin;
      if (wide == rows_together && deep == rows_together) {
        std::array<float, rows_together * rows_together> all{};
        for (std::size_t k = 0; k < rows_together; ++k) {
          for (std::size_t r = 0; r < rows_together; ++r) {
            all[rows_together * k + r] = factor(output + k, row + r);
          }
        }
        add_four_to_four(all.data(), x, inputs, y, inputs, columns.size());
      } else {
        for (std::size_t k = 0; k < wide; ++k) {
          for (std::size_t r = 0; r < deep; ++r) {
            add_one(factor(output + k, row + r), x + r * inputs, y + k * inputs, columns.size());
          }
        }
      }
      row += deep;
    }
    output += wide;
  }
}

}  // namespace

SufficientFactors::SufficientFactors(std::size_t elements, std::span<const DensePlace> layers,
                                     std::vector<std::uint32_t> shares)
    : elements_(elements), shares_(std::move(shares)), rest_(elements) {
  samples_ = std::accumulate(shares_.begin(), shares_.end(), std::uint64_t{0});
  std::size_t end = 0;
  std::size_t of_a_sample = 0;
  for (const DensePlace& layer : layers) {
    const MatrixPlace& place = layer.place;
    check(place.begin >= end, "weights lie apart");
    end = place.begin + place.rows * place.cols;
    const std::size_t numbers = layer.rows_per_sample * (place.rows + place.cols);
    if (samples_ * numbers > place.rows * place.cols) continue;
    layers_.push_back(layer);
    weights_.push_back(place.begin);
    of_a_sample += numbers;
    rest_ -= place.rows * place.cols;
  }
  check(end <= elements, "weights lie in the gradient");
  if (layers_.empty()) return;
  for (const std::uint32_t share : shares_) {
    const std::size_t begin = std::exchange(factors_, factors_ + share * of_a_sample);
    parts_.push_back({begin, factors_});
  }
}

std::size_t SufficientFactors::rows(const DensePlace& layer, std::size_t rank) const {
  return shares_[rank] * layer.rows_per_sample;
}

/// Calls copy(offset in the gradient, offset in the vector, length) for everything but the factored
/// weights.
template <class Copy>
void SufficientFactors::for_rest(Copy copy) const {
  std::size_t done = 0;
  std::size_t at = factors_;
  const auto until = [&](std::size_t end) {
    copy(done, at, end - done);
    at += end - done;
  };
  for (const DensePlace& layer : layers_) {
    until(layer.place.begin);
    done = layer.place.begin + layer.place.rows * layer.place.cols;
  }
  until(elements_);
}

void SufficientFactors::pack(std::span<const float> gradient, std::size_t rank,
                             std::span<float> vector) const {
  check(gradient.size() == elements_ && vector.size() == size(), "a gradient and its vector");
  if (!parts_.empty()) {
    auto to = vector.subspan(parts_[rank].begin, parts_[rank].size()).begin();
    for (const DensePlace& layer : layers_) {
      const std::size_t numbers = rows(layer, rank) * (layer.place.rows + layer.place.cols);
      to = std::ranges::copy(gradient.subspan(layer.place.begin, numbers), to).out;
    }
  }
  for_rest([&](std::size_t from, std::size_t to, std::size_t size) {
    std::ranges::copy(gradient.subspan(from, size), vector.subspan(to, size).begin());
  });
}

void SufficientFactors::unpack(std::span<const float> vector, std::span<float> gradient) const {
  check(gradient.size() == elements_ && vector.size() == size(), "a vector and its gradient");
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    const auto weight =
        static_cast<float>(static_cast<double>(shares_[rank]) / static_cast<double>(samples_));
    std::size_t at = parts_[rank].begin;
    for (const DensePlace& layer : layers_) {
      const MatrixPlace& place = layer.place;
      const auto dw = gradient.subspan(place.begin, place.rows * place.cols);
      if (rank == 0) std::ranges::fill(dw, 0.0f);
      Factors factors{.dy = {}, .x = {}, .rows = rows(layer, rank)};
      if (factors.rows == 0) continue;
      factors.dy = vector.subspan(at, factors.rows * place.rows);
      factors.x = vector.subspan(at + factors.dy.size(), factors.rows * place.cols);
      at += factors.dy.size() + factors.x.size();
      for (std::size_t begin = 0; begin < place.cols; begin += columns_at_once) {
        add_product(factors, weight, {begin, std::min(place.cols, begin + columns_at_once)}, dw);
      }
    }
  }
  for_rest([&](std::size_t to, std::size_t from, std::size_t size) {
    std::ranges::copy(vector.subspan(from, size), gradient.subspan(to, size).begin());
  });
}

}  // namespace gv
