// Dense layers that several members share, compared with the same layers in one piece.
#include "train/layers/cut_dense.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <vector>

#include "tests/train/drawn.hpp"
#include "tests/train/dyadic.hpp"
#include "tests/train/slope.hpp"

namespace gv {
namespace {

/// Every way to cut `grains` into consecutive ranges for `members` members.
std::vector<std::vector<Range>> all_cuts(std::size_t grains, std::size_t members) {
  std::vector<std::vector<Range>> cuts;
  std::vector<Range> begun;
  const auto extend = [&](const auto& self, std::size_t begin) -> void {
    if (begun.size() + 1 == members) {
      begun.push_back({begin, grains});
      cuts.push_back(begun);
      begun.pop_back();
      return;
    }
    const std::size_t left = members - begun.size() - 1;
    for (std::size_t end = begin + 1; end + left <= grains; ++end) {
      begun.push_back({begin, end});
      self(self, end);
      begun.pop_back();
    }
  };
  extend(extend, 0);
  return cuts;
}

/// Adds the members' parts in the order of their ranges, as a group does between its passes.
template <class T>
std::vector<T> summed(const std::vector<std::vector<T>>& parts) {
  std::vector<T> sum = parts.front();
  for (std::size_t m = 1; m < parts.size(); ++m) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += parts[m][i];
  }
  return sum;
}

/// Columns [part.begin, part.end) of all rows, which have `width` values each.
template <class T>
std::vector<T> columns(const std::vector<T>& whole, std::size_t width, const Range& part) {
  std::vector<T> own;
  for (std::size_t row = 0; row < whole.size() / width; ++row) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(row * width + part.begin);
    own.insert(own.end(), begin, begin + static_cast<std::ptrdiff_t>(part.size()));
  }
  return own;
}

template <class T>
std::vector<T> gathered(const std::vector<std::vector<T>>& parts, const std::vector<Range>& cut,
                        std::size_t rows) {
  const std::size_t width = cut.back().end;
  std::vector<T> whole(rows * width);
  for (std::size_t m = 0; m < parts.size(); ++m) {
    for (std::size_t row = 0; row < rows; ++row) {
      std::copy_n(parts[m].begin() + static_cast<std::ptrdiff_t>(row * cut[m].size()),
                  cut[m].size(),
                  whole.begin() + static_cast<std::ptrdiff_t>(row * width + cut[m].begin));
    }
  }
  return whole;
}

/// A dense layer, its batch and the gradient of its outputs.
template <class T>
struct DenseProblem {
  std::size_t rows = 3, inputs = 6, outputs = 8;
  std::vector<T> x = dyadic_x.values<T>(rows * inputs);
  std::vector<T> w = dyadic_w.values<T>(outputs * inputs);
  std::vector<T> b = dyadic_b.values<T>(outputs);
  std::vector<T> dy = dyadic_dy.values<T>(rows * outputs);
};

template <class T>
struct Result {
  std::vector<T> y, dx, dw, db;
  std::vector<std::vector<T>> summands;  ///< Each member's summand of y or dx, whichever is summed.

  friend bool operator==(const Result& a, const Result& b) {
    return a.y == b.y && a.dx == b.dx && a.dw == b.dw && a.db == b.db;
  }
};

template <class T>
Result<T> run_cut(const DenseProblem<T>& p, DenseCut cut, const std::vector<Range>& parts) {
  const bool by_outputs = cut == DenseCut::outputs;
  std::vector<std::vector<T>> weights, ys, dxs;
  for (const Range& part : parts) {
    const CutDense<T> own(cut, p.inputs, p.outputs, part);
    std::vector<T> w(own.weights());
    own.take_weights(p.w, w);
    const std::vector<T> b = by_outputs ? columns(p.b, p.outputs, part) : p.b;
    const std::vector<T> x = by_outputs ? p.x : columns(p.x, p.inputs, part);
    std::vector<T> y(p.rows * own.out_width());
    own.forward(w.data(), b.data(), x.data(), y.data(), p.rows);
    weights.push_back(w);
    ys.push_back(y);
  }
  Result<T> result;
  result.y = by_outputs ? gathered(ys, parts, p.rows) : summed(ys);
  result.dw.resize(p.w.size());
  result.db.resize(p.b.size());
  for (std::size_t m = 0; m < parts.size(); ++m) {
    const CutDense<T> own(cut, p.inputs, p.outputs, parts[m]);
    CHECK(own.after_forward() == (by_outputs ? GroupExchange::gather : GroupExchange::sum));
    CHECK(own.after_backward() == (by_outputs ? GroupExchange::sum : GroupExchange::none));
    if (m == 0) own.add_biases(p.b.data(), result.y.data(), p.rows);
    const std::vector<T> x = by_outputs ? p.x : columns(p.x, p.inputs, parts[m]);
    const std::vector<T> dy = by_outputs ? columns(p.dy, p.outputs, parts[m]) : p.dy;
    std::vector<T> dx(p.rows * own.in_width()), dw(own.weights()), db(own.biases());
    own.backward_input(weights[m].data(), dy.data(), dx.data(), p.rows);
    own.backward_weight(x.data(), dy.data(), dw.data(), db.data(), p.rows);
    own.put_weights(dw, result.dw);
    std::copy(db.begin(), db.end(),
              result.db.begin() + static_cast<std::ptrdiff_t>(by_outputs ? parts[m].begin : 0));
    dxs.push_back(dx);
  }
  result.dx = by_outputs ? summed(dxs) : gathered(dxs, parts, p.rows);
  result.summands = by_outputs ? dxs : ys;
  return result;
}

/// Runs the layer in one piece.
template <class T>
Result<T> run_whole(const DenseProblem<T>& p) {
  Problems none;
  const ModelPlan plan = plan_model({.layers = {{.kind = LayerKind::dense, .units = p.outputs}}},
                                    {p.inputs, 1, 1}, none);
  const auto layer = make_layer<T>(plan.layers.front());
  std::vector<T> parameters = p.w;
  parameters.insert(parameters.end(), p.b.begin(), p.b.end());
  Result<T> result;
  result.y.resize(p.rows * p.outputs);
  result.dx.resize(p.x.size());
  std::vector<T> gradient(parameters.size());
  Rng rng(1);
  layer->forward(parameters.data(), p.x.data(), result.y.data(), p.rows, true, rng);
  layer->backward_input(parameters.data(), p.x.data(), result.y.data(), p.dy.data(),
                        result.dx.data(), p.rows);
  layer->backward_weight(parameters.data(), p.x.data(), result.y.data(), p.dy.data(),
                         gradient.data(), p.rows);
  const auto middle = gradient.begin() + static_cast<std::ptrdiff_t>(p.w.size());
  result.dw.assign(gradient.begin(), middle);
  result.db.assign(middle, gradient.end());
  return result;
}

}  // namespace

TEST_CASE("a dense layer cut by outputs or inputs has the known results") {
  const DenseProblem<float> p;
  const Result<float> whole = run_whole(p);
  CHECK(checksum(whole.y) == 19.8125);
  CHECK(checksum(whole.dx) == 1.53125);
  CHECK(checksum(whole.dw) == -45.46875);
  CHECK(checksum(whole.db) == 12.25);
  CHECK(whole.y[2 * 8 + 7] == 0.09375F);
  CHECK(whole.dx[1 * 6 + 2] == 0.6875F);
  CHECK(whole.dw[7 * 6 + 5] == 0.5F);
  const Result<float> outputs = run_cut(p, DenseCut::outputs, {{0, 3}, {3, 8}});
  CHECK(outputs == whole);
  CHECK(checksum(outputs.summands[0]) == -39.71875);
  CHECK(checksum(outputs.summands[1]) == 41.25);
  const Result<float> inputs = run_cut(p, DenseCut::inputs, {{0, 2}, {2, 6}});
  CHECK(inputs == whole);
  CHECK(checksum(inputs.summands[0]) == 66.203125);
  CHECK(checksum(inputs.summands[1]) == -34.390625);
}

TEST_CASE("a cut dense layer has the bits of the whole one on exact data for every cut") {
  DenseProblem<float> p;
  p.inputs = 8;
  p.x = dyadic_x.values<float>(p.rows * p.inputs);
  p.w = dyadic_w.values<float>(p.outputs * p.inputs);
  const Result<float> whole = run_whole(p);
  for (std::size_t members = 1; members <= 8; ++members) {
    for (const std::vector<Range>& parts : all_cuts(8, members)) {
      CHECK(run_cut(p, DenseCut::outputs, parts) == whole);
      CHECK(run_cut(p, DenseCut::inputs, parts) == whole);
    }
  }
}

TEST_CASE("a cut dense layer is as near to the whole one as sums in another order") {
  Rng rng(3);
  DenseProblem<float> p{.rows = 5, .inputs = 512, .outputs = 40};
  p.x = normals<float>(p.rows * p.inputs, rng);
  p.w = normals<float>(p.outputs * p.inputs, rng);
  p.b = normals<float>(p.outputs, rng);
  p.dy = normals<float>(p.rows * p.outputs, rng);
  const Result<float> whole = run_whole(p);
  const auto check_near = [](const std::vector<float>& a, const std::vector<float>& b,
                             std::size_t products) {
    // A sum of products of two normal numbers may be off by 8e-6 times the root of the number of
    // products.
    const double bound = 8e-6 * std::sqrt(static_cast<double>(products));
    for (std::size_t i = 0; i < a.size(); ++i) {
      REQUIRE(std::abs(static_cast<double>(a[i]) - b[i]) <= bound);
    }
  };
  const Result<float> outputs = run_cut(p, DenseCut::outputs, {{0, 7}, {7, 8}, {8, 40}});
  check_near(outputs.y, whole.y, p.inputs);
  check_near(outputs.dx, whole.dx, p.outputs);
  check_near(outputs.dw, whole.dw, p.rows);
  const Result<float> inputs = run_cut(p, DenseCut::inputs, {{0, 100}, {100, 101}, {101, 512}});
  check_near(inputs.y, whole.y, p.inputs);
  check_near(inputs.dx, whole.dx, p.outputs);
  check_near(inputs.dw, whole.dw, p.rows);
}

namespace {

/// Two dense layers of width 6 with 8 hidden units, for 4 rows, and their results.
struct PairProblem {
  std::size_t rows = 4, width = 6, hidden = 8;
  std::vector<double> x = dyadic_x.values<double>(rows * width);
  std::vector<double> w1 = Dyadic{29, 5, 19, 16}.values<double>(hidden * width);
  std::vector<double> b1 = Dyadic{7, 3, 5, 8}.values<double>(hidden);
  std::vector<double> w2 = Dyadic{31, 2, 23, 16}.values<double>(width * hidden);
  std::vector<double> b2 = Dyadic{3, 1, 7, 8}.values<double>(width);
  std::vector<double> dy = Dyadic{23, 1, 13, 8}.values<double>(rows * width);
};

struct PairResult {
  std::vector<double> y, dx, dw1, db1, dw2, db2;
};

PairResult run_pair(const PairProblem& p, LayerKind activation, const std::vector<Range>& parts) {
  using Pair = CutPair<double>;
  struct Member {
    Pair pair;
    std::vector<double> w1, b1, w2;
  };
  std::vector<Member> members;
  std::vector<std::vector<double>> ys, dxs;
  for (const Range& part : parts) {
    Member& m = members.emplace_back(Member{{p.width, p.hidden, p.width, activation, part}});
    m.w1.resize(m.pair.first().weights());
    m.w2.resize(m.pair.second().weights());
    m.pair.first().take_weights(p.w1, m.w1);
    m.pair.second().take_weights(p.w2, m.w2);
    m.b1 = columns(p.b1, p.hidden, part);
    std::vector<double> y(p.rows * p.width);
    m.pair.forward({m.w1.data(), m.b1.data(), m.w2.data(), p.b2.data()}, p.x.data(), y.data(),
                   p.rows);
    ys.push_back(y);
  }
  PairResult result{.y = summed(ys)};
  result.dw1.resize(p.w1.size());
  result.db1.resize(p.b1.size());
  result.dw2.resize(p.w2.size());
  result.db2.resize(p.b2.size());
  members.front().pair.second().add_biases(p.b2.data(), result.y.data(), p.rows);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Member& m = members[i];
    std::vector<double> dx(p.x.size()), dw1(m.w1.size()), db1(m.b1.size()), dw2(m.w2.size());
    m.pair.backward_input({m.w1.data(), m.b1.data(), m.w2.data(), p.b2.data()}, p.dy.data(),
                          dx.data(), p.rows);
    m.pair.backward_weight(p.x.data(), p.dy.data(),
                           {dw1.data(), db1.data(), dw2.data(), result.db2.data()}, p.rows);
    m.pair.first().put_weights(dw1, result.dw1);
    m.pair.second().put_weights(dw2, result.dw2);
    std::ranges::copy(db1, result.db1.begin() + static_cast<std::ptrdiff_t>(parts[i].begin));
    dxs.push_back(dx);
  }
  result.dx = summed(dxs);
  return result;
}

void check_pair(const PairResult& a, const PairResult& b) {
  const auto near = [](const std::vector<double>& x, const std::vector<double>& y) {
    return std::ranges::equal(x, y, [](double u, double v) { return std::abs(u - v) <= 1e-12; });
  };
  CHECK(near(a.y, b.y));
  CHECK(near(a.dx, b.dx));
  CHECK(near(a.dw1, b.dw1));
  CHECK(near(a.db1, b.db1));
  CHECK(near(a.dw2, b.dw2));
  CHECK(near(a.db2, b.db2));
}

}  // namespace

TEST_CASE("a cut pair of dense layers has the known results for every cut") {
  const PairProblem p;
  const PairResult whole = run_pair(p, LayerKind::gelu, {{0, 8}});
  CHECK(checksum(whole.y) == Approx(-12.417769237549454).epsilon(1e-12));
  CHECK(checksum(whole.dx) == Approx(-5.532864848392284).epsilon(1e-12));
  CHECK(checksum(whole.dw1) == Approx(2.0519940515625574).epsilon(1e-12));
  CHECK(checksum(whole.dw2) == Approx(0.15209722330980524).epsilon(1e-11));
  for (std::size_t members = 2; members <= 8; ++members) {
    for (const std::vector<Range>& parts : all_cuts(8, members)) {
      check_pair(run_pair(p, LayerKind::gelu, parts), whole);
    }
  }
}

TEST_CASE("the gradient of a cut pair agrees with finite differences") {
  PairProblem p;
  const std::vector<Range> parts{{0, 3}, {3, 4}, {4, 8}};
  const PairResult given = run_pair(p, LayerKind::tanh, parts);
  const auto loss = [&] {
    const PairResult result = run_pair(p, LayerKind::tanh, parts);
    double sum = 0;
    for (std::size_t i = 0; i < result.y.size(); ++i) sum += p.dy[i] * result.y[i];
    return sum;
  };
  const auto compare = [&](std::vector<double>& values, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      REQUIRE(std::abs(slope(values[i], loss) - gradient[i]) < 1e-8);
    }
  };
  compare(p.x, given.dx);
  compare(p.w1, given.dw1);
  compare(p.b1, given.db1);
  compare(p.w2, given.dw2);
  compare(p.b2, given.db2);
}

}  // namespace gv
