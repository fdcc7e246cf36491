// The factors of dense layers' gradients are packed and multiplied out again.
#include "consensus/compression/sufficient_factors.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

/// The first parameters belong to no dense layer. Then come a dense layer of 7 x 53 with biases,
/// one of 1 x 3 whose factors are never shorter than its gradient, and one of 20 x 400 with two
/// rows per sample.
constexpr std::size_t first = 11;
constexpr std::size_t second = first + 7 * 53 + 7;
constexpr std::size_t third = second + 1 * 3 + 1;
constexpr std::size_t elements = third + 20 * 400 + 20;

std::vector<DensePlace> layers() {
  return {{.place = {first, 7, 53}}, {.place = {second, 1, 3}}, {{third, 20, 400}, 2}};
}

/// A gradient over `share` samples. The first and the last layer's gradients are replaced by
/// factors.
std::vector<float> drawn_gradient(Rng& rng, std::size_t share) {
  std::vector<float> gradient(elements);
  for (float& value : gradient) value = static_cast<float>(rng.normal());
  // The space after the factors keeps its old contents, which must not be used. NaNs there would
  // reveal any use.
  std::fill(gradient.begin() + static_cast<std::ptrdiff_t>(first + share * (7 + 53)),
            gradient.begin() + static_cast<std::ptrdiff_t>(first + 7 * 53), NAN);
  return gradient;
}

/// The gathered factors of all peers and the mean of everything else, as an all-reduce would give
/// them.
std::vector<float> together(const SufficientFactors& cut,
                            const std::vector<std::vector<float>>& vectors,
                            const std::vector<std::uint32_t>& shares) {
  const auto samples = static_cast<float>(std::accumulate(shares.begin(), shares.end(), 0U));
  std::vector<float> all(cut.size());
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const Range& own = cut.parts()[rank];
    std::copy_n(vectors[rank].begin() + static_cast<std::ptrdiff_t>(own.begin), own.size(),
                all.begin() + static_cast<std::ptrdiff_t>(own.begin));
    for (std::size_t i = cut.parts().back().end; i < all.size(); ++i) {
      all[i] += static_cast<float>(shares[rank]) / samples * vectors[rank][i];
    }
  }
  return all;
}

}  // namespace

TEST_CASE("from everybody's factors comes the gradient over all samples", "[allreduce]") {
  const std::vector<std::uint32_t> shares =
      GENERATE(values<std::vector<std::uint32_t>>({{1}, {2, 2}, {1, 3, 2}, {4, 1, 0, 1}}));
  const SufficientFactors cut(elements, layers(), shares);
  REQUIRE(cut.weights() == std::vector<std::size_t>{first, third});
  Rng rng(3);
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<float>> vectors;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    gradients.push_back(drawn_gradient(rng, shares[rank]));
    vectors.emplace_back(cut.size(), NAN);
    cut.pack(gradients.back(), rank, vectors.back());
  }
  std::vector<float> gradient(elements, NAN);
  cut.unpack(together(cut, vectors, shares), gradient);

  const double samples = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (const DensePlace& layer : {layers()[0], layers()[2]}) {
    const auto& [begin, outputs, inputs] = layer.place;
    for (std::size_t o = 0; o < outputs; ++o) {
      for (std::size_t i = 0; i < inputs; ++i) {
        double sum = 0;
        double size = 0;
        for (std::size_t rank = 0; rank < shares.size(); ++rank) {
          const std::size_t rows = shares[rank] * layer.rows_per_sample;
          for (std::size_t row = 0; row < rows; ++row) {
            const double dy = gradients[rank][begin + row * outputs + o];
            const double x = gradients[rank][begin + rows * outputs + row * inputs + i];
            sum += shares[rank] / samples * dy * x;
            size += std::abs(shares[rank] / samples * dy * x);
          }
        }
        // The margin allows for a sum of at most 16 products, each rounded a few times.
        REQUIRE(gradient[begin + o * inputs + i] == Approx(sum).margin(1e-6 * size));
      }
    }
  }
  const auto rest_is_the_mean = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      double mean = 0;
      double size = 0;
      for (std::size_t rank = 0; rank < shares.size(); ++rank) {
        mean += shares[rank] / samples * gradients[rank][i];
        size += std::abs(shares[rank] / samples * gradients[rank][i]);
      }
      REQUIRE(gradient[i] == Approx(mean).margin(1e-6 * size));
    }
  };
  rest_is_the_mean(0, first);
  rest_is_the_mean(first + 7 * 53, third);
  rest_is_the_mean(third + 20 * 400, elements);
}

TEST_CASE("factors travel where there are no more of them than weights", "[allreduce]") {
  for (std::uint32_t samples = 1; samples < 12; ++samples) {
    const SufficientFactors cut(elements, layers(), {samples});
    CAPTURE(samples);
    std::vector<std::size_t> expected;
    std::size_t size = elements;
    if (samples * 60 <= 371) {
      expected.push_back(first);
      size -= 371 - samples * 60;
    }
    if (samples * 2 * 420 <= 8000) {
      expected.push_back(third);
      size -= 8000 - samples * 2 * 420;
    }
    CHECK(cut.weights() == expected);
    CHECK(cut.size() == size);
    CHECK(cut.parts().size() == (expected.empty() ? 0 : 1));
  }
}

TEST_CASE("without a layer that is worth it a gradient travels as it is", "[allreduce]") {
  const SufficientFactors cut(elements, layers(), {100, 100});
  CHECK(cut.parts().empty());
  REQUIRE(cut.size() == elements);
  std::vector<float> gradient(elements);
  std::iota(gradient.begin(), gradient.end(), 0.0f);
  std::vector<float> vector(elements);
  std::vector<float> back(elements);
  cut.pack(gradient, 1, vector);
  CHECK(vector == gradient);
  cut.unpack(vector, back);
  CHECK(back == gradient);
}

}  // namespace gv
