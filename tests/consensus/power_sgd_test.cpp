// PowerSGD's products of thin matrices are the same at all peers, and exact if the rank is large
// enough. Otherwise the memory keeps the error.
#include "consensus/compression/power_sgd.hpp"

#include <Eigen/SVD>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/rng.hpp"

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

FactorShape one_matrix(std::size_t rows, std::size_t cols, std::size_t rank) {
  return {.elements = rows * cols, .rank = rank, .matrices = {{0, rows, cols}}};
}

/// Some peers, and the means that they compute.
struct Peers {
  std::vector<PowerSgd> peers;
  PowerSgd::Turn turn{.generation = 99};

  Peers(std::size_t n, const FactorShape& shape) : peers(n, PowerSgd(shape)) {}

  Floats part(std::size_t peer, const Floats& gradient) {
    Floats part(peers[peer].shape().size(turn.number), std::nanf(""));
    peers[peer].encode(gradient, turn, part);
    return part;
  }

  Floats step(const std::vector<Floats>& gradients) {
    std::vector<Floats> parts;
    for (std::size_t i = 0; i < peers.size(); ++i) parts.push_back(part(i, gradients[i]));
    return finish(mean_of(parts));
  }

  Floats finish(const Floats& mean) {
    const std::size_t elements = peers.front().shape().elements;
    std::vector<Floats> outs(peers.size(), Floats(elements, std::nanf("")));
    for (std::size_t i = 0; i < peers.size(); ++i) peers[i].decode(mean, outs[i]);
    for (const Floats& out : outs) REQUIRE(out == outs.front());
    ++turn.number;
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

/// A rows x cols matrix of the given rank.
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

// With matrices M and a basis V of orthonormal columns, out = mean(M) V V^T. The next step derives
// its V from this result.
TEST_CASE("a gradient in factors is its projection on a basis that follows it", "[unit]") {
  const std::size_t rows = 9, cols = 6, rank = 2;
  Rng rng(1);
  Peers peers(3, one_matrix(rows, cols, rank));
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Matrix memory = Matrix::Zero(rows, cols);
  Matrix basis;
  for (int turn = 0; turn < 6; ++turn) {
    const std::vector<Floats> gradients = gradients_of(3, rows * cols, rng);
    const Floats mean = mean_of(gradients);
    const Matrix given =
        memory +
        Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
            mean.data(), rows, cols)
            .cast<double>();
    const Floats sent = peers.step(gradients);
    const Matrix out =
        Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
            sent.data(), rows, cols)
            .cast<double>();
    if (turn > 0) {
      const Matrix expected = turn % 2 == 0 ? Matrix(given * basis * basis.transpose())
                                            : Matrix(basis * basis.transpose() * given);
      // The tolerance allows for sums of a dozen floats of size 1, computed through a basis that
      // loses a digit.
      CHECK((out - expected).norm() < 1e-5 * given.norm());
    }
    // The next basis spans the result's columns after an even turn, and its rows after an odd one.
    const Matrix spanned = turn % 2 == 0 ? out : Matrix(out.transpose());
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(spanned, Eigen::ComputeThinU);
    basis = svd.matrixU().leftCols(rank);
    memory = given - out;
  }
}

TEST_CASE("what does not lie in a matrix travels as it is", "[unit]") {
  Rng rng(7);
  const FactorShape shape{
      .elements = 100, .rank = 2, .matrices = {{5, 4, 6}, {40, 5, 5}, {65, 6, 5}}};
  CHECK(shape.size(0) == 100 - 24 - 25 - 30 + 2 * (4 + 5 + 6));
  CHECK(shape.size(1) == 100 - 24 - 25 - 30 + 2 * (6 + 5 + 5));
  CHECK(shape.largest() == shape.size(1));
  Peers peers(2, shape);
  for (int turn = 0; turn < 4; ++turn) {
    const std::vector<Floats> gradients = gradients_of(2, 100, rng);
    const Floats mean = mean_of(gradients);
    const Floats out = peers.step(gradients);
    for (std::size_t i = 0; i < 100; ++i) {
      const bool in_matrix = (i >= 5 && i < 29) || i >= 40;
      INFO(i);
      if (!in_matrix || i >= 95) CHECK(out[i] == mean[i]);
      if (!in_matrix || i >= 95) CHECK(peers.peers[0].memory()[i] == 0);
      if (in_matrix && i < 95) CHECK(out[i] != mean[i]);
    }
  }
}

TEST_CASE("with a rank as large as a side every second mean gradient is exact", "[unit]") {
  struct Shape {
    std::size_t rows, cols, rank;
  };
  const Shape shape = GENERATE(Shape{6, 4, 4}, Shape{4, 6, 4}, Shape{5, 5, 5}, Shape{1, 9, 1});
  Rng rng(1);
  Peers peers(3, one_matrix(shape.rows, shape.cols, shape.rank));
  Floats owed(shape.rows * shape.cols);
  for (int step = 0; step < 6; ++step) {
    const std::vector<Floats> gradients = gradients_of(3, shape.rows * shape.cols, rng);
    Floats mean = mean_of(gradients);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += owed[i];
    const Floats out = peers.step(gradients);
    owed = peers.mean_memory();
    // The side whose length equals the rank is spanned completely, so the result is exact.
    const bool whole = shape.rank == (step % 2 == 0 ? shape.cols : shape.rows);
    if (!whole) continue;
    CHECK(distance(out, mean) <= 1e-5 * norm(mean));
    CHECK(norm(owed) <= 1e-5 * norm(mean));
  }
}

TEST_CASE("what is remembered is on average what was not sent", "[unit]") {
  Rng rng(2);
  Peers peers(4, one_matrix(12, 8, 2));
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
      // The margin allows for rounding to float the means of products of values up to 10.
      REQUIRE(remembered[i] == Approx(mean[i] - out[i]).margin(2e-5));
    }
  }
  // The same holds over all steps: sent + remembered = given.
  for (std::size_t i = 0; i < given.size(); ++i) {
    CHECK(sent[i] + remembered[i] == Approx(given[i]).margin(1e-3));
  }
}

TEST_CASE("the memory of a peer is a function of its own data and the shared basis", "[unit]") {
  // The memory of a peer with matrix M is orthogonal to the basis V: e = M - M V V^T.
  Rng rng(3);
  Peers peers(3, one_matrix(10, 7, 2));
  const Floats out = peers.step(gradients_of(3, 70, rng));
  for (const PowerSgd& peer : peers.peers) {
    for (std::size_t a = 0; a < 10; ++a) {
      for (std::size_t b = 0; b < 10; ++b) {
        double product = 0;
        for (std::size_t j = 0; j < 7; ++j) {
          product += static_cast<double>(out[a * 7 + j]) * peer.memory()[b * 7 + j];
        }
        REQUIRE(std::abs(product) < 1e-4);
      }
    }
  }
}

TEST_CASE("a matrix of low rank is found in two steps and a noisy one better from step to step",
          "[unit]") {
  Rng rng(4);
  Peers exact(1, one_matrix(20, 15, 2));
  const Floats low = thin_product(20, 15, 2, rng);
  Floats sum = exact.step({low});
  const Floats second = exact.step({low});
  for (std::size_t i = 0; i < low.size(); ++i) sum[i] = (sum[i] + second[i]) / 2;
  CHECK(norm(exact.mean_memory()) <= 1e-5 * norm(low));
  CHECK(distance(sum, low) <= 1e-5 * norm(low));

  // The matrix is the same in every step, so the warm start turns the steps into power iteration.
  Peers noisy(1, one_matrix(20, 15, 1));
  Floats matrix = thin_product(20, 15, 1, rng);
  for (float& value : matrix) value += 0.7f * static_cast<float>(rng.normal());
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    Floats rest = matrix;  // Subtract the memory, because the step adds it.
    if (step > 0) {
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= noisy.peers[0].memory()[i];
    }
    last = distance(noisy.step({rest}), matrix);
    if (step == 0) first = last;
  }
  // The error of the best approximation of rank 1 follows from the singular values.
  const Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>
      view(matrix.data(), 20, 15);
  const auto values = Eigen::JacobiSVD<Eigen::MatrixXd>(view.cast<double>()).singularValues();
  const double best = std::sqrt(values.squaredNorm() - values(0) * values(0));
  CHECK(last < 0.99 * first);
  CHECK(last == Approx(best).epsilon(0.01));
}

TEST_CASE("nothing to send is no gradient and what comes after it is sent", "[unit]") {
  Rng rng(5);
  Peers peers(2, one_matrix(6, 5, 2));
  const std::vector<Floats> nothing(2, Floats(30));
  for (int step = 0; step < 3; ++step) CHECK(peers.step(nothing) == Floats(30));
  const Floats low = thin_product(6, 5, 2, rng);
  Floats sum(30);
  for (int step = 0; step < 2; ++step) {
    const Floats out = peers.step({low, low});
    for (std::size_t i = 0; i < 30; ++i) sum[i] += out[i] / 2;
  }
  CHECK(distance(sum, low) <= 1e-5 * norm(low));
}

TEST_CASE("a part that is asked for again is as if it had not been asked for before", "[unit]") {
  Rng rng(8);
  const FactorShape shape{.elements = 60, .rank = 2, .matrices = {{10, 7, 7}}};
  Peers once(2, shape);
  Peers again(2, shape);
  for (int step = 0; step < 7; ++step) {
    if (step == 4) {  // A new generation draws a new basis but keeps the memory.
      again.part(0, normals(60, rng));
      once.turn = again.turn = {.generation = 7};
    }
    const std::vector<Floats> gradients = gradients_of(2, 60, rng);
    again.part(0, normals(60, rng));
    again.part(1, gradients[0]);
    CHECK(once.step(gradients) == again.step(gradients));
  }
}

TEST_CASE("what a checkpoint has of a gradient's factors goes on in a new generation", "[unit]") {
  Rng rng(9);
  const FactorShape shape = one_matrix(8, 6, 1);
  Peers one(2, shape);
  Peers other(2, shape);
  for (int step = 0; step < 3; ++step) {
    const std::vector<Floats> gradients = gradients_of(2, 48, rng);
    one.step(gradients);
    other.step(gradients);
  }
  for (PowerSgd& peer : other.peers) {
    const std::vector<float> kept(peer.memory().begin(), peer.memory().end());
    peer = PowerSgd(shape);
    peer.restore(kept);
  }
  one.turn = other.turn = {.generation = 8};
  for (int step = 0; step < 3; ++step) {
    const std::vector<Floats> gradients = gradients_of(2, 48, rng);
    CHECK(one.step(gradients) == other.step(gradients));
  }
  one.peers[0].clear();
  CHECK(one.peers[0].memory().empty());
}

TEST_CASE("orthonormal columns are so and dependent ones are drawn", "[unit]") {
  Rng rng(6);
  Floats columns = normals(4 * 50, rng);
  for (std::size_t i = 0; i < 50; ++i) {
    columns[50 + i] = 0;
    columns[100 + i] = 3 * columns[i];
    columns[150 + i] = columns[i] + 1e-4f * columns[150 + i];  // Nearly dependent on the first.
  }
  orthonormalise(columns, 4, rng);
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < 4; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < 50; ++i) {
        product += static_cast<double>(columns[50 * a + i]) * columns[50 * b + i];
      }
      // The margin allows for rounding 50 products of floats around 0.1.
      CHECK(product == Approx(a == b ? 1 : 0).margin(1e-6));
    }
  }
}

}  // namespace gv
