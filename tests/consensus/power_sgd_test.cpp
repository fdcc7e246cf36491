// Products of thin matrices: exact with enough rank, nothing lost with less, the same at all peers.
#include "consensus/ring/power_sgd.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "consensus/base/rng.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;

Floats normals(std::size_t n, Rng& rng) {
  Floats values(n);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

Floats mean_of(const std::vector<Floats>& vectors) {
  Floats mean;
  for (std::size_t i = 0; i < vectors.front().size(); ++i) {
    double sum = 0;
    for (const Floats& vector : vectors) sum += vector[i];
    mean.push_back(static_cast<float>(sum / static_cast<double>(vectors.size())));
  }
  return mean;
}

double norm(const Floats& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

double distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

/// Some peers and the means between them.
struct Peers {
  std::vector<PowerSgd> peers;

  Peers(std::size_t n, std::size_t rows, std::size_t cols, std::size_t rank)
      : peers(n, PowerSgd(rows, cols, rank, Rng(99))) {}

  Floats step(const std::vector<Floats>& gradients) {
    std::vector<Floats> parts;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const auto left = peers[i].left(gradients[i]);
      parts.emplace_back(left.begin(), left.end());
    }
    const Floats mean_left = mean_of(parts);
    parts.clear();
    for (PowerSgd& peer : peers) {
      const auto right = peer.right(mean_left);
      parts.emplace_back(right.begin(), right.end());
    }
    const Floats mean_right = mean_of(parts);
    std::vector<Floats> outs(peers.size(), Floats(gradients.front().size(), std::nanf("")));
    for (std::size_t i = 0; i < peers.size(); ++i) peers[i].finish(mean_right, outs[i]);
    for (const Floats& out : outs) REQUIRE(out == outs.front());
    return outs.front();
  }

  Floats mean_memory() const {
    std::vector<Floats> memories;
    for (const PowerSgd& peer : peers) {
      memories.emplace_back(peer.memory().begin(), peer.memory().end());
    }
    return mean_of(memories);
  }
};

std::vector<Floats> gradients_of(std::size_t peers, std::size_t size, Rng& rng) {
  std::vector<Floats> gradients;
  while (gradients.size() < peers) gradients.push_back(normals(size, rng));
  return gradients;
}

/// rows x cols of the given rank.
Floats thin_product(std::size_t rows, std::size_t cols, std::size_t rank, Rng& rng) {
  const Floats a = normals(rows * rank, rng), b = normals(cols * rank, rng);
  Floats product(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      for (std::size_t c = 0; c < rank; ++c) {
        product[i * cols + j] += a[i * rank + c] * b[j * rank + c];
      }
    }
  }
  return product;
}

}  // namespace

TEST_CASE("with a rank as large as a side the mean gradient is exact after one step") {
  struct Shape {
    std::size_t rows, cols, rank;
  };
  const Shape shape = GENERATE(Shape{6, 4, 4}, Shape{4, 6, 4}, Shape{5, 5, 5}, Shape{5, 3, 7},
                               Shape{1, 9, 1}, Shape{9, 1, 1});
  Rng rng(1);
  Peers peers(3, shape.rows, shape.cols, shape.rank);
  for (int step = 0; step < 3; ++step) {
    const std::vector<Floats> gradients = gradients_of(3, shape.rows * shape.cols, rng);
    const Floats mean = mean_of(gradients);
    // Two products in float, through an inverse that loses a digit or two.
    CHECK(distance(peers.step(gradients), mean) <= 1e-5 * norm(mean));
    CHECK(norm(peers.mean_memory()) <= 1e-5 * norm(mean));
  }
}

TEST_CASE("what is remembered is on average what was not sent") {
  Rng rng(2);
  Peers peers(4, 12, 8, 2);
  Floats remembered(12 * 8);
  std::vector<double> given(12 * 8), sent(12 * 8);
  for (int step = 0; step < 100; ++step) {
    const std::vector<Floats> gradients = gradients_of(4, 12 * 8, rng);
    Floats mean = mean_of(gradients);
    const Floats out = peers.step(gradients);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      given[i] += mean[i];
      sent[i] += out[i];
      mean[i] += remembered[i];
    }
    remembered = peers.mean_memory();
    for (std::size_t i = 0; i < mean.size(); ++i) {
      // Means of products of values up to 10, in float.
      REQUIRE(remembered[i] == Approx(mean[i] - out[i]).margin(2e-5));
    }
  }
  // And so over all steps: sent + remembered = given.
  for (std::size_t i = 0; i < given.size(); ++i) {
    CHECK(sent[i] + remembered[i] == Approx(given[i]).margin(1e-3));
  }
}

TEST_CASE("the memory of a peer is a function of its own data and the shared basis") {
  // What a peer remembers is orthogonal to the columns that were sent: e = M - P P^T M.
  Rng rng(3);
  Peers peers(3, 10, 7, 2);
  const std::vector<Floats> gradients = gradients_of(3, 70, rng);
  const Floats out = peers.step(gradients);
  for (const PowerSgd& peer : peers.peers) {
    for (std::size_t a = 0; a < 7; ++a) {
      for (std::size_t b = 0; b < 7; ++b) {
        double product = 0;
        for (std::size_t i = 0; i < 10; ++i) {
          product += static_cast<double>(out[i * 7 + a]) * peer.memory()[i * 7 + b];
        }
        REQUIRE(std::abs(product) < 1e-4);
      }
    }
  }
}

TEST_CASE("a matrix of low rank is found in one step and a noisy one better from step to step") {
  Rng rng(4);
  Peers exact(1, 20, 15, 2);
  const Floats low = thin_product(20, 15, 2, rng);
  CHECK(distance(exact.step({low}), low) <= 1e-5 * norm(low));

  // The same matrix again and again: the warm start makes power iteration of it.
  Peers noisy(1, 20, 15, 1);
  Floats matrix = thin_product(20, 15, 1, rng);
  for (float& value : matrix) value += 0.7f * static_cast<float>(rng.normal());
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    Floats rest = matrix;  // Take the memory off again.
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= noisy.peers[0].memory()[i];
    last = distance(noisy.step({rest}), matrix);
    if (step == 0) first = last;
  }
  CHECK(last < 0.99 * first);
}

TEST_CASE("nothing to send is no gradient and what comes after it is sent") {
  Rng rng(5);
  Peers peers(2, 6, 5, 2);
  const std::vector<Floats> nothing(2, Floats(30));
  CHECK(peers.step(nothing) == Floats(30));
  const Floats low = thin_product(6, 5, 2, rng);
  CHECK(distance(peers.step({low, low}), low) <= 1e-5 * norm(low));
}

TEST_CASE("orthonormal columns are so and dependent ones are zero") {
  Rng rng(6);
  Floats matrix = normals(50 * 4, rng);
  for (std::size_t i = 0; i < 50; ++i) {
    matrix[i * 4 + 2] = 3 * matrix[i * 4] - 1000 * matrix[i * 4 + 1];
    matrix[i * 4 + 3] = matrix[i * 4] + 1e-4f * matrix[i * 4 + 3];  // Nearly dependent.
  }
  orthonormalise(matrix, 4);
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < 50; ++i) {
        product += static_cast<double>(matrix[i * 4 + a]) * matrix[i * 4 + b];
      }
      // 50 products of floats around 0.1.
      CHECK(product == Approx(a == b && a != 2 ? 1 : 0).margin(1e-6));
    }
  }
}

}  // namespace gv
