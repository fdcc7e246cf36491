// Thin products by loops in a fixed order.
#include "consensus/ring/power_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "consensus/base/check.hpp"

namespace gv {
namespace {

bool sends_left(std::uint64_t turn) { return turn % 2 == 0; }

/// out = A B for A (n x m) and B (m x r), all row after row.
void multiply(std::span<const float> a, std::span<const float> b, std::size_t m, std::size_t r,
              std::span<float> out) {
  std::ranges::fill(out, 0.0f);
  for (std::size_t i = 0; i < out.size() / r; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      const float factor = a[i * m + j];
      for (std::size_t c = 0; c < r; ++c) out[i * r + c] += factor * b[j * r + c];
    }
  }
}

/// out = A^T B for A (n x m) and B (n x r).
void multiply_transposed(std::span<const float> a, std::span<const float> b, std::size_t m,
                         std::size_t r, std::span<float> out) {
  std::ranges::fill(out, 0.0f);
  for (std::size_t i = 0; i < a.size() / m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      const float factor = a[i * m + j];
      for (std::size_t c = 0; c < r; ++c) out[j * r + c] += factor * b[i * r + c];
    }
  }
}

double column_product(std::span<const float> matrix, std::size_t rank, std::size_t a,
                      std::size_t b) {
  double sum = 0;
  for (std::size_t i = 0; i < matrix.size(); i += rank) {
    sum += static_cast<double>(matrix[i + a]) * matrix[i + b];
  }
  return sum;
}

/// Takes off column c what lies along those before it. What is left of its norm, as a part.
double project(std::span<float> matrix, std::size_t rank, std::size_t c) {
  const double before = column_product(matrix, rank, c, c);
  // What rounding leaves of a column in the span of others is far from orthogonal to them. A second
  // time makes it so, or shows that nothing is left.
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t b = 0; b < c; ++b) {
      const double along = column_product(matrix, rank, b, c);
      for (std::size_t i = 0; i < matrix.size(); i += rank) {
        matrix[i + c] = static_cast<float>(matrix[i + c] - along * matrix[i + b]);
      }
    }
  }
  return before > 0 ? std::sqrt(column_product(matrix, rank, c, c) / before) : 0;
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

void orthonormalise(std::span<float> matrix, std::size_t rank, Rng& rng) {
  check(rank >= 1 && matrix.size() % rank == 0 && matrix.size() >= rank * rank,
        "a matrix of whole rows, no fewer than columns");
  for (std::size_t c = 0; c < rank; ++c) {
    while (project(matrix, rank, c) < 1e-6) {
      for (std::size_t i = c; i < matrix.size(); i += rank) {
        matrix[i] = static_cast<float>(rng.normal());
      }
    }
    const double factor = 1 / std::sqrt(column_product(matrix, rank, c, c));
    for (std::size_t i = c; i < matrix.size(); i += rank) {
      matrix[i] = static_cast<float>(matrix[i] * factor);
    }
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
    const auto matrix = std::span(given_).subspan(place.begin, place.rows * place.cols);
    const auto factor = out.subspan(at, rank * (left ? place.rows : place.cols));
    (left ? multiply : multiply_transposed)(matrix, basis, place.cols, rank, factor);
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
    for (std::size_t row = 0; row < place.rows; ++row) {
      for (std::size_t col = 0; col < place.cols; ++col) {
        const std::size_t factor = rank * (left ? row : col);
        const std::size_t along = rank * (left ? col : row);
        float sum = 0;
        float own = 0;
        for (std::size_t c = 0; c < rank; ++c) {
          sum += all[factor + c] * basis[along + c];
          own += ours[factor + c] * basis[along + c];
        }
        const std::size_t element = place.begin + row * place.cols + col;
        gradient[element] = sum;
        memory_[element] = given_[element] - own;
      }
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
