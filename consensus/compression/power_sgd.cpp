// Multiplies matrices by a few columns, with loops in a fixed order.
#include "consensus/compression/power_sgd.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

bool sends_left(std::uint64_t turn) { return turn % 2 == 0; }

// Columns are stored one after another, `length` floats each. Four columns at a time share one pass
// over a row. Each sum has a fixed order, which does not depend on the vector width.

constexpr std::size_t together = 4;
constexpr std::size_t lanes = 8;

/// sums[c] = x . column c, for four columns.
GV_WIDE void dot_four(const float* __restrict x, const float* __restrict columns,
                      std::size_t length, float* __restrict sums) {
  float parts[together][lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= length; i += lanes) {
    for (std::size_t c = 0; c < together; ++c) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        parts[c][lane] += x[i + lane] * columns[c * length + i + lane];
      }
    }
  }
  for (std::size_t c = 0; c < together; ++c) {
    float sum = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) sum += parts[c][lane];
    for (std::size_t rest = i; rest < length; ++rest) sum += x[rest] * columns[c * length + rest];
    sums[c] = sum;
  }
}

GV_WIDE void dot_one(const float* __restrict x, const float* __restrict column, std::size_t length,
                     float* __restrict sums) {
  float parts[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= length; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) parts[lane] += x[i + lane] * column[i + lane];
  }
  float sum = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) sum += parts[lane];
  for (; i < length; ++i) sum += x[i] * column[i];
  *sums = sum;
}

/// y += sum_c factors[c] column c, for four columns.
GV_WIDE void add_four(const float* __restrict factors, const float* __restrict columns,
                      std::size_t length, float* __restrict y) {
  const float a = factors[0], b = factors[1], c = factors[2], d = factors[3];
  for (std::size_t i = 0; i < length; ++i) {
    y[i] = y[i] + a * columns[i] + b * columns[length + i] + c * columns[2 * length + i] +
           d * columns[3 * length + i];
  }
}

GV_WIDE void add_one(const float* __restrict factors, const float* __restrict x, std::size_t length,
                     float* __restrict y) {
  const float factor = factors[0];
  for (std::size_t i = 0; i < length; ++i) y[i] += factor * x[i];
}

/// y_c += factors[c] x, for four vectors y_c stored one after another.
GV_WIDE void add_to_four(const float* __restrict factors, const float* __restrict x,
                         std::size_t length, float* __restrict y) {
  const float a = factors[0], b = factors[1], c = factors[2], d = factors[3];
  for (std::size_t i = 0; i < length; ++i) {
    y[i] += a * x[i];
    y[length + i] += b * x[i];
    y[2 * length + i] += c * x[i];
    y[3 * length + i] += d * x[i];
  }
}

GV_WIDE void add_up(const float* __restrict a, const float* __restrict b, std::size_t n,
                    float* __restrict sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

/// Calls `each` for columns 0 to `rank` - 1: for four at a time while at least four are left, then
/// for one at a time.
template <class Each>
void by_columns(std::size_t rank, Each each) {
  for (std::size_t c = 0; c < rank;) {
    const std::size_t count = c + together <= rank ? together : 1;
    each(c, count);
    c += count;
  }
}

/// Returns element `row` of the `count` columns that start at column c, times `factor`. Each column
/// has `stride` elements.
std::array<float, together> across(std::span<const float> columns, std::size_t stride,
                                   std::size_t row, std::size_t c, std::size_t count,
                                   float factor) {
  std::array<float, together> values{};
  for (std::size_t k = 0; k < count; ++k) values[k] = factor * columns[(c + k) * stride + row];
  return values;
}

/// The product matrix * columns. `out` holds it column by column.
void along_rows(std::span<const float> matrix, std::span<const float> columns, std::size_t rank,
                std::span<float> out) {
  const std::size_t length = columns.size() / rank;
  const std::size_t rows = out.size() / rank;
  std::array<float, together> sums{};
  for (std::size_t row = 0; row < rows; ++row) {
    const float* x = matrix.subspan(row * length, length).data();
    by_columns(rank, [&](std::size_t c, std::size_t count) {
      (count == 1 ? dot_one : dot_four)(x, columns.subspan(c * length, count * length).data(),
                                        length, sums.data());
      for (std::size_t k = 0; k < count; ++k) out[(c + k) * rows + row] = sums[k];
    });
  }
}

/// The product matrix^T * columns. `out` holds it column by column.
void along_columns(std::span<const float> matrix, std::span<const float> columns, std::size_t rank,
                   std::span<float> out) {
  const std::size_t rows = columns.size() / rank;
  const std::size_t length = out.size() / rank;
  std::ranges::fill(out, 0.0f);
  for (std::size_t row = 0; row < rows; ++row) {
    const float* x = matrix.subspan(row * length, length).data();
    by_columns(rank, [&](std::size_t c, std::size_t count) {
      const auto factors = across(columns, rows, row, c, count, 1);
      (count == 1 ? add_one : add_to_four)(factors.data(), x, length,
                                           out.subspan(c * length, count * length).data());
    });
  }
}

/// y += sign * sum_c lefts[c][row] rights[c].
void add_product_row(std::span<const float> lefts, std::span<const float> rights, std::size_t rank,
                     std::size_t row, float sign, std::span<float> y) {
  const std::size_t rows = lefts.size() / rank;
  const std::size_t length = y.size();
  by_columns(rank, [&](std::size_t c, std::size_t count) {
    const auto factors = across(lefts, rows, row, c, count, sign);
    (count == 1 ? add_one : add_four)(
        factors.data(), rights.subspan(c * length, count * length).data(), length, y.data());
  });
}

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// Makes column c orthogonal to the columns before it by subtracting its projections on them.
/// Returns the fraction of the column's norm that is left.
double project(std::span<float> columns, std::size_t length, std::size_t c) {
  const auto column = columns.subspan(c * length, length);
  const double before = product(column, column);
  // If a column lies almost in the span of the others, the remainder is mostly rounding error and
  // far from orthogonal to them. A second pass makes it orthogonal, or shows that nothing is left.
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

FactorShape factor_shape(std::size_t elements, std::span<const MatrixPlace> matrices,
                         std::size_t rank) {
  FactorShape shape{.elements = elements, .rank = rank, .matrices = {}};
  for (const MatrixPlace& matrix : matrices) {
    const bool is_worth_it = rank * (matrix.rows + matrix.cols) <= matrix.rows * matrix.cols;
    if (rank > 0 && is_worth_it) shape.matrices.push_back(matrix);
  }
  return shape;
}

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

/// Visits everything that is sent, in order. Calls matrix(i, its place, offset of its factor in the
/// vector sent) and rest(offset in the gradient, offset in the vector sent, length).
template <class Matrix, class Rest>
void PowerSgd::walk(const Matrix& matrix, const Rest& rest) const {
  std::size_t done = 0;
  std::size_t at = 0;
  const auto rest_until = [&](std::size_t end) {
    rest(done, at, end - done);
    at += end - done;
  };
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const MatrixPlace& place = shape_.matrices[i];
    rest_until(place.begin);
    matrix(i, place, at);
    at += factor_size(place);
    done = place.begin + place.rows * place.cols;
  }
  rest_until(shape_.elements);
}

std::size_t PowerSgd::factor_size(const MatrixPlace& place) const {
  return shape_.rank * (sends_left(turn_.number) ? place.rows : place.cols);
}

void PowerSgd::encode(std::span<const float> gradient, Turn turn, std::span<float> out) {
  check(gradient.size() == shape_.elements && out.size() == shape_.size(turn.number),
        "a gradient of the shape, and a part of the turn");
  memory_.resize(shape_.elements);
  turn_ = turn;
  add_up(memory_.data(), gradient.data(), given_.size(), given_.data());
  const std::span<const float> given = given_;
  const std::size_t rank = shape_.rank;
  const bool left = sends_left(turn.number);
  const auto to_factor = [&](std::size_t i, const MatrixPlace& place, std::size_t at) {
    std::vector<float>& basis = bases_[i];
    if (turn.number == 0) {
      Rng rng = Rng(turn.generation).fork("basis").fork(i);
      basis.resize(place.cols * rank);
      for (float& value : basis) value = static_cast<float>(rng.normal());
      orthonormalise(basis, rank, rng);
    }
    check(basis.size() == rank * (left ? place.cols : place.rows), "a turn after the one before");
    (left ? along_rows : along_columns)(given.subspan(place.begin, place.rows * place.cols), basis,
                                        rank, out.subspan(at, factor_size(place)));
  };
  walk(to_factor, [&](std::size_t from, std::size_t to, std::size_t size) {
    std::ranges::copy(given.subspan(from, size), out.subspan(to, size).begin());
  });
  part_.assign(out.begin(), out.end());
}

void PowerSgd::decode(std::span<const float> mean, std::span<float> gradient) {
  check(mean.size() == part_.size() && gradient.size() == shape_.elements,
        "the mean has the size of what was sent");
  memory_.resize(shape_.elements);
  const std::size_t rank = shape_.rank;
  const bool left = sends_left(turn_.number);
  const auto to_matrix = [&](std::size_t i, const MatrixPlace& place, std::size_t at) {
    std::vector<float>& basis = bases_[i];
    const std::span<const float> columns = basis;
    const auto all = mean.subspan(at, factor_size(place));
    const auto ours = std::span<const float>(part_).subspan(at, factor_size(place));
    const auto add = [&](std::span<const float> factor, std::size_t row, float sign,
                         std::span<float> to) {
      add_product_row(left ? factor : columns, left ? columns : factor, rank, row, sign, to);
    };
    for (std::size_t row = 0; row < place.rows; ++row) {
      const std::size_t begin = place.begin + row * place.cols;
      const auto out = gradient.subspan(begin, place.cols);
      std::ranges::fill(out, 0.0f);
      add(all, row, 1, out);
      const auto kept = std::span(memory_).subspan(begin, place.cols);
      std::ranges::copy(std::span(given_).subspan(begin, place.cols), kept.begin());
      add(ours, row, -1, kept);
    }
    basis.assign(all.begin(), all.end());
    Rng rng = Rng(turn_.generation).fork("basis").fork(i).fork(turn_.number + 1);
    orthonormalise(basis, rank, rng);
  };
  walk(to_matrix, [&](std::size_t to, std::size_t from, std::size_t size) {
    std::ranges::copy(mean.subspan(from, size), gradient.subspan(to, size).begin());
  });
}

void PowerSgd::restore(std::vector<float> memory) {
  if (memory.size() == shape_.elements) memory_ = std::move(memory);
}

void PowerSgd::clear() { memory_.clear(); }

}  // namespace gv
