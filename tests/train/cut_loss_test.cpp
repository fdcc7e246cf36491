// A cross-entropy whose classes several members share, compared with the whole one.
#include "train/layers/cut_loss.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/train/dyadic.hpp"

namespace gv {
namespace {

constexpr std::size_t loss_rows = 3;
constexpr std::size_t loss_classes = 10;

std::vector<double> own_logits(const std::vector<double>& whole, const Range& classes) {
  std::vector<double> own;
  for (std::size_t n = 0; n < loss_rows; ++n) {
    for (std::size_t c = classes.begin; c < classes.end; ++c) {
      own.push_back(whole[n * loss_classes + c]);
    }
  }
  return own;
}

}  // namespace

TEST_CASE("a loss in parts is the whole loss for every cut") {
  const std::vector<double> logits = Dyadic{37, 11, 17, 4}.values<double>(30);
  const std::vector<std::int32_t> labels{7, 2, 9};
  std::vector<double> d_whole(logits.size());
  const LossSum whole = cross_entropy<double>(logits, labels, loss_classes, d_whole);
  CHECK(whole.loss / 3 == Approx(1.5182843708029263).epsilon(1e-14));
  for (const std::vector<Range>& cut :
       std::vector<std::vector<Range>>{{{0, 10}},
                                       {{0, 4}, {4, 10}},
                                       {{0, 9}, {9, 10}},
                                       {{0, 1}, {1, 2}, {2, 10}},
                                       {{0, 3}, {3, 5}, {5, 8}, {8, 10}}}) {
    std::vector<std::vector<LossPart<double>>> parts;
    for (const Range& classes : cut) {
      parts.push_back(loss_parts<double>(own_logits(logits, classes), labels, classes));
    }
    for (const Range& classes : cut) {
      const std::vector<double> own = own_logits(logits, classes);
      std::vector<double> d_own(own.size());
      const LossSum sum = loss_of_parts<double>(parts, own, labels, classes, d_own);
      CHECK(sum.loss == Approx(whole.loss).epsilon(1e-14));
      CHECK(sum.correct == whole.correct);
      const std::vector<double> expected = own_logits(d_whole, classes);
      for (std::size_t i = 0; i < d_own.size(); ++i) {
        CHECK(std::abs(d_own[i] - expected[i]) <= 1e-15);
      }
    }
  }
}

TEST_CASE("a loss in parts holds large logits and gives ties to the earlier class") {
  const std::vector<std::vector<double>> logits{{1000, 5}, {1000, -1000}};
  const std::vector<std::int32_t> label{0};
  std::vector<std::vector<LossPart<double>>> parts{loss_parts<double>(logits[0], label, {0, 2}),
                                                   loss_parts<double>(logits[1], label, {2, 4})};
  const LossSum sum = loss_of_parts<double>(parts, logits[1], label, {2, 4}, {});
  CHECK(sum.loss == Approx(std::log(2.0)));
  CHECK(sum.correct == 1);
}

}  // namespace gv
