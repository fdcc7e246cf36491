// Thin products by loops in a fixed order.
#include "consensus/ring/power_sgd.hpp"

#include <algorithm>
#include <cmath>

#include "consensus/base/check.hpp"

namespace gv {
namespace {

/// out = A B for A (n x m) and B (m x r), both row after row.
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

/// Element (i, j) of P Q^T.
float product_at(std::span<const float> p, std::span<const float> q, std::size_t i, std::size_t j,
                 std::size_t r) {
  float sum = 0;
  for (std::size_t c = 0; c < r; ++c) sum += p[i * r + c] * q[j * r + c];
  return sum;
}

double column_product(std::span<const float> matrix, std::size_t rank, std::size_t a,
                      std::size_t b) {
  double sum = 0;
  for (std::size_t i = 0; i < matrix.size(); i += rank) {
    sum += static_cast<double>(matrix[i + a]) * matrix[i + b];
  }
  return sum;
}

}  // namespace

void orthonormalise(std::span<float> matrix, std::size_t rank) {
  check(rank >= 1 && matrix.size() % rank == 0, "a matrix of whole rows");
  for (std::size_t c = 0; c < rank; ++c) {
    const double before = std::sqrt(column_product(matrix, rank, c, c));
    // What rounding leaves of a column in the span of others is far from orthogonal to them. A
    // second time makes it so, or shows that nothing is left.
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t b = 0; b < c; ++b) {
        const double along = column_product(matrix, rank, b, c);
        for (std::size_t i = 0; i < matrix.size(); i += rank) {
          matrix[i + c] = static_cast<float>(matrix[i + c] - along * matrix[i + b]);
        }
      }
    }
    const double norm = std::sqrt(column_product(matrix, rank, c, c));
    const double factor = norm > 1e-6 * before ? 1 / norm : 0;
    for (std::size_t i = 0; i < matrix.size(); i += rank) {
      matrix[i + c] = static_cast<float>(matrix[i + c] * factor);
    }
  }
}

PowerSgd::PowerSgd(std::size_t rows, std::size_t cols, std::size_t rank, Rng rng)
    : rows_(rows),
      cols_(cols),
      rank_(rank),
      memory_(rows * cols),
      left_(rows * rank),
      right_(cols * rank),
      start_(cols * rank) {
  check(rows >= 1 && cols >= 1 && rank >= 1, "a matrix and a rank of at least 1");
  for (float& value : start_) value = static_cast<float>(rng.normal());
}

std::span<const float> PowerSgd::left(std::span<const float> gradient) {
  check(gradient.size() == memory_.size(), "a gradient of the matrix's size");
  for (std::size_t i = 0; i < gradient.size(); ++i) memory_[i] += gradient[i];
  multiply(memory_, start_, cols_, rank_, left_);
  return left_;
}

std::span<const float> PowerSgd::right(std::span<const float> mean_left) {
  check(mean_left.size() == left_.size(), "the mean has the size of what was sent");
  if (mean_left.data() != left_.data()) std::ranges::copy(mean_left, left_.begin());
  orthonormalise(left_, rank_);
  multiply_transposed(memory_, left_, cols_, rank_, right_);
  return right_;
}

void PowerSgd::finish(std::span<const float> mean_right, std::span<float> out) {
  check(mean_right.size() == right_.size(), "the mean has the size of what was sent");
  check(out.size() == memory_.size(), "a gradient of the matrix's size");
  for (std::size_t i = 0; i < rows_; ++i) {
    for (std::size_t j = 0; j < cols_; ++j) {
      out[i * cols_ + j] = product_at(left_, mean_right, i, j, rank_);
      memory_[i * cols_ + j] -= product_at(left_, right_, i, j, rank_);
    }
  }
  // A column of zeros would stay so for ever; all peers keep the one before it.
  for (std::size_t c = 0; c < rank_; ++c) {
    if (column_product(mean_right, rank_, c, c) == 0) continue;
    for (std::size_t i = c; i < start_.size(); i += rank_) start_[i] = mean_right[i];
  }
}

}  // namespace gv
