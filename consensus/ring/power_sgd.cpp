// Thin products by loops in a fixed order.
#include "consensus/ring/power_sgd.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "consensus/base/check.hpp"

namespace gv {
namespace {

bool sends_left(std::uint64_t turn) { return turn % 2 == 0; }

/// In lanes, which processors add up at once, and these in their order. Pointers, since checked
/// elements are read one at a time.
float dot(std::span<const float> a, std::span<const float> b) {
  check(a.size() == b.size(), "vectors of one length");
  constexpr std::size_t lanes = 8;
  const float* x = a.data();
  const float* y = b.data();
  std::array<float, lanes> sums{};
  std::size_t i = 0;
  for (; i + lanes <= a.size(); i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  for (; i < a.size(); ++i) sums[0] += x[i] * y[i];
  float sum = 0;
  for (const float value : sums) sum += value;
  return sum;
}

void add(float factor, std::span<const float> from, std::span<float> to) {
  check(from.size() == to.size(), "vectors of one length");
  const float* x = from.data();
  float* y = to.data();
  for (std::size_t i = 0; i < to.size(); ++i) y[i] += factor * x[i];
}

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// Takes off column c what lies along those before it. What is left of its norm, as a part.
double project(std::span<float> columns, std::size_t length, std::size_t c) {
  const auto column = columns.subspan(c * length, length);
  const double before = product(column, column);
  // What rounding leaves of a column in the span of others is far from orthogonal to them. A second
  // time makes it so, or shows that nothing is left.
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t b = 0; b < c; ++b) {
      const auto other = columns.subspan(b * length, length);
      const double along = product(other, column);
      for (std::size_t i = 0; i < length; ++i) {
        column[i] = static_cast<float>(column[i] - along * other[i]);
      }
    }
  }
  return before > 0 ? std::sqrt(product(column, column) / before) : 0;
}

}  // namespace

std::size_t FactorShape::size(std::uint64_t turn) const {
  std::size_t size = elements;
  for (const MatrixPlace& matrix : matrices) {
    size -= matrix.rows * matrix.cols;
    size += rank * (sends_left(turn) ? matrix.rows : matrix.cols);
  }
  return size;
}

std::size_t FactorShape::largest() const { return std::max(size(0), size(1)); }

void orthonormalise(std::span<float> columns, std::size_t rank, Rng& rng) {
  check(rank >= 1 && columns.size() % rank == 0 && columns.size() >= rank * rank,
        "whole columns, no longer ones than there are");
  const std::size_t length = columns.size() / rank;
  for (std::size_t c = 0; c < rank; ++c) {
    const auto column = columns.subspan(c * length, length);
    while (project(columns, length, c) < 1e-6) {
      for (float& value : column) value = static_cast<float>(rng.normal());
    }
    const double factor = 1 / std::sqrt(product(column, column));
    for (float& value : column) value = static_cast<float>(value * factor);
  }
}

PowerSgd::PowerSgd(FactorShape shape)
    : shape_(std::move(shape)), given_(shape_.elements), bases_(shape_.matrices.size()) {
  std::size_t end = 0;
  for (const MatrixPlace& matrix : shape_.matrices) {
    check(matrix.begin >= end && shape_.rank >= 1 &&
              shape_.rank <= std::min(matrix.rows, matrix.cols),
          "matrices apart, of no smaller rank");
    end = matrix.begin + matrix.rows * matrix.cols;
  }
  check(end <= shape_.elements, "matrices lie in the gradient");
}

void PowerSgd::encode(std::span<const float> gradient, Turn turn, std::span<float> out) {
  check(gradient.size() == shape_.elements && out.size() == shape_.size(turn.number),
        "a gradient of the shape, and a part of the turn");
  memory_.resize(shape_.elements);
  turn_ = turn;
  for (std::size_t i = 0; i < given_.size(); ++i) given_[i] = memory_[i] + gradient[i];
  std::size_t at = 0;
  std::size_t rest = 0;
  const auto copy_until = [&](std::size_t end) {
    std::copy(given_.begin() + static_cast<std::ptrdiff_t>(rest),
              given_.begin() + static_cast<std::ptrdiff_t>(end),
              out.begin() + static_cast<std::ptrdiff_t>(at));
    at += end - rest;
  };
  const std::size_t rank = shape_.rank;
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const MatrixPlace& place = shape_.matrices[i];
    copy_until(place.begin);
    rest = place.begin + place.rows * place.cols;
    std::vector<float>& basis = bases_[i];
    if (turn.number == 0) {
      Rng rng = Rng(turn.epoch).fork("basis").fork(i);
      basis.resize(place.cols * rank);
      for (float& value : basis) value = static_cast<float>(rng.normal());
      orthonormalise(basis, rank, rng);
    }
    const bool left = sends_left(turn.number);
    check(basis.size() == rank * (left ? place.cols : place.rows), "a turn after the one before");
    const std::span<const float> columns = basis;
    const auto factor = out.subspan(at, rank * (left ? place.rows : place.cols));
    if (!left) std::ranges::fill(factor, 0.0f);
    for (std::size_t row = 0; row < place.rows; ++row) {
      const auto values =
          std::span<const float>(given_).subspan(place.begin + row * place.cols, place.cols);
      for (std::size_t c = 0; c < rank; ++c) {
        if (left) {
          factor[c * place.rows + row] = dot(values, columns.subspan(c * place.cols, place.cols));
        } else {
          add(columns[c * place.rows + row], values, factor.subspan(c * place.cols, place.cols));
        }
      }
    }
    at += factor.size();
  }
  copy_until(given_.size());
  part_.assign(out.begin(), out.end());
}

void PowerSgd::decode(std::span<const float> mean, std::span<float> gradient) {
  check(mean.size() == part_.size() && gradient.size() == shape_.elements,
        "the mean has the size of what was sent");
  memory_.resize(shape_.elements);
  std::size_t at = 0;
  std::size_t rest = 0;
  const auto copy_until = [&](std::size_t end) {
    std::copy(mean.begin() + static_cast<std::ptrdiff_t>(at),
              mean.begin() + static_cast<std::ptrdiff_t>(at + end - rest),
              gradient.begin() + static_cast<std::ptrdiff_t>(rest));
    at += end - rest;
  };
  const std::size_t rank = shape_.rank;
  const bool left = sends_left(turn_.number);
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const MatrixPlace& place = shape_.matrices[i];
    copy_until(place.begin);
    rest = place.begin + place.rows * place.cols;
    std::vector<float>& basis = bases_[i];
    const std::size_t size = rank * (left ? place.rows : place.cols);
    const auto all = mean.subspan(at, size);
    const auto ours = std::span<const float>(part_).subspan(at, size);
    at += size;
    const std::span<const float> columns = basis;
    const auto expand = [&](std::span<const float> factor, std::size_t row, float sign,
                            std::span<float> values) {
      const std::span<const float> lefts = left ? factor : columns;
      const std::span<const float> rights = left ? columns : factor;
      for (std::size_t c = 0; c < rank; ++c) {
        add(sign * lefts[c * place.rows + row], rights.subspan(c * place.cols, place.cols), values);
      }
    };
    for (std::size_t row = 0; row < place.rows; ++row) {
      const std::size_t begin = place.begin + row * place.cols;
      const auto out = gradient.subspan(begin, place.cols);
      std::ranges::fill(out, 0.0f);
      expand(all, row, 1, out);
      const auto kept = std::span(memory_).subspan(begin, place.cols);
      std::copy_n(given_.begin() + static_cast<std::ptrdiff_t>(begin), place.cols, kept.begin());
      expand(ours, row, -1, kept);
    }
    basis.assign(all.begin(), all.end());
    Rng rng = Rng(turn_.epoch).fork("basis").fork(i).fork(turn_.number + 1);
    orthonormalise(basis, rank, rng);
  }
  copy_until(shape_.elements);
}

void PowerSgd::restore(std::vector<float> memory) {
  if (memory.size() == shape_.elements) memory_ = std::move(memory);
}

void PowerSgd::clear() { memory_.clear(); }

}  // namespace gv
