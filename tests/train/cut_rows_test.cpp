// Convolutions and pools whose images several members share by rows, compared with whole images.
#include "train/layers/cut_rows.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/train/drawn.hpp"
#include "tests/train/dyadic.hpp"
#include "train/layers/cut_norm.hpp"
#include "train/layers/network.hpp"
#include "train/layers/strips.hpp"

namespace gv {
namespace {

LayerPlan plan_of(const LayerSpec& spec, const SampleShape& in) {
  Problems problems;
  // A dense layer follows, because a model must have parameters.
  const ModelPlan plan =
      plan_model({.layers = {spec, {.kind = LayerKind::dense, .units = 1}}}, in, problems);
  REQUIRE(problems.empty());
  return plan.layers.front();
}

/// Consecutive ranges in proportion to `weights`. The last range also gets the remainder.
std::vector<Range> strips(std::size_t rows, const std::vector<std::size_t>& weights) {
  std::size_t sum = 0;
  for (const std::size_t weight : weights) sum += weight;
  std::vector<Range> ranges;
  std::size_t passed = 0;
  for (const std::size_t weight : weights) {
    const std::size_t begin = rows * passed / sum;
    passed += weight;
    ranges.push_back({begin, rows * passed / sum});
  }
  return ranges;
}

struct Passes {
  std::vector<float> y, dx, parameters;

  friend bool operator==(const Passes&, const Passes&) = default;
};

struct Given {
  LayerPlan layer;
  std::size_t batch = 1;
  std::vector<float> parameters, x, dy;
  std::vector<LayerPlan> followers = {};  ///< Layers after the first, in the same strips.

  std::vector<LayerPlan> layers() const {
    std::vector<LayerPlan> all{layer};
    all.insert(all.end(), followers.begin(), followers.end());
    return all;
  }
};

/// Random inputs for a convolution and the layers that follow it.
Given given_with(const std::vector<LayerSpec>& specs, const SampleShape& in, std::size_t batch) {
  Problems problems;
  std::vector<LayerSpec> model = specs;
  model.push_back({.kind = LayerKind::dense, .units = 1});
  const ModelPlan plan = plan_model({.layers = model}, in, problems);
  REQUIRE(problems.empty());
  Given all{.layer = plan.layers.front(), .batch = batch};
  all.followers.assign(plan.layers.begin() + 1, plan.layers.end() - 1);
  // The data are not dyadic. With dyadic data many outputs would be 0, where a rounding error
  // decides whether a gradient passes.
  Rng rng(1);
  all.parameters = normals<float>(all.layer.end, rng);
  all.x = normals<float>(batch * elements(in), rng);
  all.dy = normals<float>(batch * elements(all.layers().back().out), rng);
  return all;
}

Given given(const LayerSpec& spec, const SampleShape& in, std::size_t batch = 1) {
  Given all{.layer = plan_of(spec, in), .batch = batch};
  const LayerPlan& layer = all.layer;
  all.parameters.resize(layer.end);
  if (layer.has_parameters()) {
    const std::vector<float> w = dyadic_w.values<float>(layer.bias - layer.weight);
    std::ranges::copy(w, all.parameters.begin());
  }
  all.x = dyadic_x.values<float>(batch * elements(layer.in));
  all.dy = dyadic_dy.values<float>(batch * elements(layer.out));
  return all;
}

Passes whole_pass(const Given& all) {
  Passes passes;
  passes.y.resize(all.batch * elements(all.layer.out));
  passes.dx.resize(all.x.size());
  passes.parameters.resize(all.parameters.size());
  const auto layer = make_layer<float>(all.layer);
  Rng rng(1);
  layer->forward(all.parameters.data(), all.x.data(), passes.y.data(), all.batch, true, rng);
  layer->backward_input(all.parameters.data(), all.x.data(), passes.y.data(), all.dy.data(),
                        passes.dx.data(), all.batch);
  layer->backward_weight(all.parameters.data(), all.x.data(), passes.y.data(), all.dy.data(),
                         passes.parameters.data(), all.batch);
  return passes;
}

/// Copies or adds `rows` of every plane from `from`, which holds the rows `have`, to `to`, which
/// holds the rows `into`.
void move_rows(const std::vector<float>& from, const Range& have, std::vector<float>& to,
               const Range& into, const Range& rows, std::size_t width, bool adds) {
  if (have.empty() || into.empty()) return;
  const std::size_t planes = from.size() / (have.size() * width);
  for (std::size_t plane = 0; plane < planes; ++plane) {
    for (std::size_t row = rows.begin; row < rows.end; ++row) {
      const std::size_t a = (plane * have.size() + row - have.begin) * width;
      const std::size_t b = (plane * into.size() + row - into.begin) * width;
      for (std::size_t i = 0; i < width; ++i) to[b + i] = from[a + i] + (adds ? to[b + i] : 0);
    }
  }
}

/// The passes of all layers, computed by the network for whole images.
Passes whole_passes(const Given& all) {
  const std::vector<LayerPlan> layers = all.layers();
  const ModelPlan plan{.layers = layers,
                       .layout = {},
                       .in = layers.front().in,
                       .outputs = elements(layers.back().out)};
  const auto network = make_plain_network<float>(plan, all.batch);
  Passes passes;
  Rng rng(1);
  const auto y = network->forward(all.parameters, all.x, true, rng);
  passes.y.assign(y.begin(), y.end());
  passes.parameters.resize(all.parameters.size());
  const auto dx = network->backward(all.parameters, all.dy, passes.parameters, {}, true);
  passes.dx.assign(dx.begin(), dx.end());
  return passes;
}

/// The passes by members with these strips of outputs. Each member reads the rows that it needs.
Passes cut_pass(const Given& all, const std::vector<Range>& outputs) {
  const std::vector<LayerPlan> layers = all.layers();
  const LayerPlan& layer = layers.back();
  const std::size_t width = layers.front().in[2];
  const std::size_t planes = all.batch * layers.front().in[0];
  const Range image{0, layers.front().in[1]};
  const Range made{0, layer.out[1]};
  Passes passes;
  passes.y.resize(all.batch * elements(layer.out));
  passes.dx.resize(all.x.size());
  passes.parameters.resize(all.parameters.size());
  for (const Range& strip : outputs) {
    const auto part = make_rows_part<float>(layers, strip, all.batch);
    const Range reads = rows_read_by(layers, strip);
    std::vector<float> in(planes * reads.size() * width);
    move_rows(all.x, image, in, reads, reads, width, false);
    const std::size_t values = all.batch * layer.out[0] * strip.size() * layer.out[2];
    std::vector<float> out(values), dy(values), d_in(in.size());
    std::vector<float> gradient(all.parameters.size());
    const float* parameters = all.parameters.data();
    Rng rng(1);
    part->forward(parameters, in.data(), out.data(), all.batch, true, rng);
    move_rows(out, strip, passes.y, made, strip, layer.out[2], false);
    move_rows(all.dy, made, dy, strip, strip, layer.out[2], false);
    part->backward_input(parameters, in.data(), out.data(), dy.data(), d_in.data(), all.batch);
    part->backward_weight(parameters, in.data(), out.data(), dy.data(), gradient.data(), all.batch);
    move_rows(d_in, reads, passes.dx, image, reads, width, true);
    for (std::size_t i = 0; i < gradient.size(); ++i) passes.parameters[i] += gradient[i];
  }
  return passes;
}

/// The largest difference of two vectors, relative to the largest value.
template <class T>
double distance(const std::vector<T>& a, const std::vector<T>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  double apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(a[i])));
    apart = std::max(apart, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return apart / largest;
}

/// Runs a batch norm on members with strips, and compares it with the layer over whole images.
template <class T>
void check_batch_norm(double tolerance) {
  const LayerPlan plan = plan_of({.kind = LayerKind::batch_norm}, {3, 6, 4});
  constexpr std::size_t batch = 2;
  Rng rng(1);
  const std::vector<T> parameters = normals<T>(plan.end, rng);
  std::vector<T> x = normals<T>(batch * elements(plan.in), rng);
  for (T& value : x) value += 4;
  const std::vector<T> dy = normals<T>(x.size(), rng);
  std::vector<T> y(x.size()), dx(x.size()), gradient(plan.end);
  const auto whole = make_layer<T>(plan);
  whole->forward(parameters.data(), x.data(), y.data(), batch, true, rng);
  whole->backward_input(parameters.data(), x.data(), y.data(), dy.data(), dx.data(), batch);
  whole->backward_weight(parameters.data(), x.data(), y.data(), dy.data(), gradient.data(), batch);
  for (const auto& cut : std::vector<std::vector<std::size_t>>{{1}, {1, 1}, {1, 3, 2}, {1, 0, 5}}) {
    INFO(cut.size() << " strips");
    const std::vector<Range> rows = strips(6, cut);
    std::vector<StripNorm<T>> members;
    std::vector<std::vector<T>> in, d_out;
    std::vector<T> sum, sum_back, cut_y(x.size()), cut_dx(x.size()), cut_gradient(plan.end);
    const auto take = [&](const std::vector<T>& from, std::size_t m) {
      std::vector<T> own(batch * 3 * rows[m].size() * 4);
      copy_rows(from.data(), {0, 6}, own.data(), rows[m], batch * 3, 4);
      return own;
    };
    for (std::size_t m = 0; m < rows.size(); ++m) {
      members.emplace_back(plan, rows, m);
      in.push_back(take(x, m));
      d_out.push_back(take(dy, m));
      sum.resize(members[m].floats(batch));
      members[m].give(in[m].data(), sum.data(), batch);
    }
    sum_back.resize(members[0].floats_back(batch));
    for (std::size_t m = 0; m < rows.size(); ++m) {
      std::vector<T> out(in[m].size());
      members[m].forward(parameters.data(), in[m].data(), sum.data(), out.data(), batch);
      copy_rows(out.data(), rows[m], cut_y.data(), {0, 6}, batch * 3, 4);
      members[m].give_back(parameters.data(), in[m].data(), d_out[m].data(), sum_back.data(),
                           batch);
    }
    for (std::size_t m = 0; m < rows.size(); ++m) {
      std::vector<T> d_in(in[m].size()), own(plan.end);
      members[m].backward(parameters.data(), in[m].data(), d_out[m].data(), sum_back.data(),
                          d_in.data(), batch);
      copy_rows(d_in.data(), rows[m], cut_dx.data(), {0, 6}, batch * 3, 4);
      members[m].write_gradient(parameters.data(), in[m].data(), d_out[m].data(), own.data(),
                                batch);
      for (std::size_t i = 0; i < own.size(); ++i) cut_gradient[i] += own[i];
    }
    CHECK(distance(y, cut_y) < tolerance);
    CHECK(distance(dx, cut_dx) < tolerance);
    CHECK(distance(gradient, cut_gradient) < tolerance);
  }
}

}  // namespace

TEST_CASE("a convolution and the layers after it in strips compute what they do over images") {
  const LayerSpec relu{.kind = LayerKind::relu};
  const LayerSpec pool{.kind = LayerKind::max_pool, .kernel = 3, .stride = 2};
  const LayerSpec mean{.kind = LayerKind::avg_pool, .kernel = 2, .stride = 1};
  for (const std::size_t units : {3, 16}) {  // Winograd's algorithm needs 16 channels.
    const LayerSpec conv{.kind = LayerKind::conv2d, .units = units, .kernel = 3, .padding = 1};
    for (const auto& specs : std::vector<std::vector<LayerSpec>>{
             {conv, relu}, {conv, relu, pool}, {conv, pool, relu, mean}}) {
      const Given all = given_with(specs, {units, 27, 9}, 2);
      const Passes whole = whole_passes(all);
      const std::size_t rows = all.layers().back().out[1];
      for (const auto& cut : std::vector<std::vector<std::size_t>>{
               {1}, {1, 1}, {3, 1, 2}, {1, 0, 5}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
        INFO(units << " channels, " << specs.size() << " layers, " << cut.size() << " strips");
        const Passes passes = cut_pass(all, strips(rows, cut));
        CHECK(distance(whole.y, passes.y) < 1e-5);
        CHECK(distance(whole.dx, passes.dx) < 1e-5);
        CHECK(distance(whole.parameters, passes.parameters) < 1e-5);
      }
    }
  }
}

TEST_CASE("convolutions cut by rows have the known results") {
  struct Known {
    std::size_t k, s, p;
    double y, dx, dw;
  };
  for (const Known known : {Known{3, 1, 1, -960.359375, 317.875, 149.40625},
                            {5, 1, 2, -144.625, 165.1875, -2417.125},
                            {4, 1, 1, -330.765625, 113.65625, -5165.0625},
                            {3, 2, 1, -60.875, 740.875, 602.375},
                            {5, 2, 2, 426.75, 274.03125, 728.3125},
                            {7, 2, 3, -357.34375, 227.21875, 183.5625},
                            {1, 2, 0, -48.46875, -47.4375, 5.625}}) {
    INFO("kernel " << known.k << " stride " << known.s << " padding " << known.p);
    const Given all = given({.kind = LayerKind::conv2d,
                             .units = 3,
                             .kernel = known.k,
                             .stride = known.s,
                             .padding = known.p},
                            {2, 11, 5});
    const Passes cut = cut_pass(all, strips(all.layer.out[1], {2, 1, 2}));
    CHECK(checksum(cut.y) == known.y);
    CHECK(checksum(cut.dx) == known.dx);
    const auto weights = static_cast<std::ptrdiff_t>(all.layer.bias);
    CHECK(checksum(std::vector<float>(cut.parameters.begin(), cut.parameters.begin() + weights)) ==
          known.dw);
    CHECK(cut == whole_pass(all));
  }
}

TEST_CASE("strips read the rows that windows of theirs touch") {
  const auto reads = [](std::size_t k, std::size_t s, std::size_t p,
                        const std::vector<Range>& cut) {
    const LayerPlan layer =
        plan_of({.kind = LayerKind::conv2d, .units = 3, .kernel = k, .stride = s, .padding = p},
                {2, 11, 5});
    std::vector<Range> rows;
    for (const Range& outputs : cut) rows.push_back(rows_read(layer, outputs).rows);
    return rows;
  };
  const std::vector<Range> six{{0, 3}, {3, 4}, {4, 6}};
  CHECK(reads(5, 2, 2, six) == std::vector<Range>{{0, 7}, {4, 9}, {6, 11}});
  CHECK(reads(7, 2, 3, six) == std::vector<Range>{{0, 8}, {3, 10}, {5, 11}});
  CHECK(reads(3, 2, 1, six) == std::vector<Range>{{0, 6}, {5, 8}, {7, 11}});
  CHECK(reads(4, 1, 1, {{0, 4}, {4, 6}, {6, 10}}) == std::vector<Range>{{0, 6}, {3, 8}, {5, 11}});
  const LayerPlan even =
      plan_of({.kind = LayerKind::conv2d, .units = 3, .kernel = 4, .padding = 1}, {2, 11, 5});
  CHECK(rows_read(even, {0, 1}).zeros_above == 1);
  CHECK(rows_read(even, {9, 10}).zeros_below == 1);
}

TEST_CASE("every kernel and stride and padding can be cut into unlike strips") {
  const std::vector<std::vector<std::size_t>> cuts{
      {1}, {1, 4}, {5, 1, 1}, {1, 0, 2, 1}, {1, 1, 1, 1, 1}};
  for (std::size_t k = 1; k <= 7; ++k) {
    for (std::size_t s = 1; s <= 3; ++s) {
      for (std::size_t p = 0; p < k; ++p) {
        for (const std::size_t height : {5, 8, 17}) {
          if (k > height + 2 * p || k > 5 + 2 * p) continue;
          const Given all =
              given({.kind = LayerKind::conv2d, .units = 2, .kernel = k, .stride = s, .padding = p},
                    {2, height, 5}, 2);
          const Passes whole = whole_pass(all);
          for (const auto& cut : cuts) {
            INFO(k << " " << s << " " << p << " " << height << " " << cut.size());
            REQUIRE(cut_pass(all, strips(all.layer.out[1], cut)) == whole);
          }
        }
      }
    }
  }
}

TEST_CASE("a group norm cut by rows has the known results") {
  const LayerPlan plan = plan_of({.kind = LayerKind::group_norm, .groups = 1}, {2, 6, 4});
  const std::vector<double> parameters{1, 1, 0, 0};
  const std::vector<double> x = dyadic_x.values<double>(48);
  const std::vector<double> dy = dyadic_dy.values<double>(48);
  const std::vector<Range> strips{{0, 1}, {1, 4}, {4, 6}};
  std::vector<StripNorm<double>> members;
  std::vector<std::vector<double>> in(3), d_out(3);
  std::vector<double> sum, sum_back(2);
  for (std::size_t m = 0; m < 3; ++m) {
    members.emplace_back(plan, strips, m);
    in[m].resize(2 * strips[m].size() * 4);
    d_out[m].resize(in[m].size());
    copy_rows(x.data(), {0, 6}, in[m].data(), strips[m], 2, 4);
    copy_rows(dy.data(), {0, 6}, d_out[m].data(), strips[m], 2, 4);
    sum.resize(members[m].floats(1));
    members[m].give(in[m].data(), sum.data(), 1);
  }
  const double mean = (sum[0] * 8 + sum[2] * 24 + sum[4] * 16) / 48;
  CHECK(mean == Approx(0.0234375).epsilon(1e-12));
  for (std::size_t m = 0; m < 3; ++m) {
    std::vector<double> out(in[m].size());
    members[m].forward(parameters.data(), in[m].data(), sum.data(), out.data(), 1);
    CHECK(out[0] == Approx((in[m][0] - 0.0234375) * 1.615321829201403).epsilon(1e-12));
    members[m].give_back(parameters.data(), in[m].data(), d_out[m].data(), sum_back.data(), 1);
  }
  CHECK(sum_back[0] == Approx(0.75).epsilon(1e-12));
  CHECK(sum_back[1] == Approx(-4.521008166495333).epsilon(1e-12));
  std::vector<double> dx(48);
  for (std::size_t m = 0; m < 3; ++m) {
    std::vector<double> d_in(in[m].size());
    members[m].backward(parameters.data(), in[m].data(), d_out[m].data(), sum_back.data(),
                        d_in.data(), 1);
    copy_rows(d_in.data(), strips[m], dx.data(), {0, 6}, 2, 4);
  }
  CHECK(checksum(dx) == Approx(15.548290325002341).epsilon(1e-12));
}

TEST_CASE("a batch norm cut by rows has the statistics of the whole batch") {
  check_batch_norm<float>(1e-5);
  check_batch_norm<double>(1e-12);
}

TEST_CASE("a batch norm stays a norm whatever other members say of their rows") {
  const LayerPlan plan = plan_of({.kind = LayerKind::batch_norm}, {1, 6, 4});
  const std::vector<float> parameters{1, 0, 0, 1};
  const std::vector<float> in = dyadic_x.values<float>(2 * 3 * 4);
  const std::vector<float> d_out = dyadic_dy.values<float>(in.size());
  StripNorm<float> norm(plan, {{0, 3}, {3, 6}}, 0);
  std::vector<float> sum(norm.floats(2));
  norm.give(in.data(), sum.data(), 2);
  const auto statistics_after = [&](const std::vector<float>& told) {
    std::vector<float> out(in.size());
    norm.forward(parameters.data(), in.data(), told.data(), out.data(), 2);
    // No value of a channel is farther from its mean than sqrt(48) standard deviations.
    for (const float value : out) CHECK(std::abs(value) <= std::sqrt(48.0F) * 1.01F);
    std::vector<float> gradient(4);
    norm.write_gradient(parameters.data(), in.data(), d_out.data(), gradient.data(), 2);
    return std::vector<float>(gradient.begin() + 2, gradient.end());
  };
  const std::vector<float> honest = statistics_after(sum);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = i % 2 == 0 ? 0x1p40F : -0x1p40F;
  // A member's part of the running statistics comes from its own rows. Otherwise it would be blamed
  // for the errors of others.
  CHECK(statistics_after(sum) == honest);
}

TEST_CASE("the statistics of a norm are right for millions of values") {
  const LayerPlan plan = plan_of({.kind = LayerKind::batch_norm}, {1, 4096, 4096});
  std::vector<float> in(std::size_t{4096} * 4096);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = i % 2 == 0 ? 0.1F : 0.3F;
  StripNorm<float> norm(plan, {{0, 4096}}, 0);
  std::vector<float> sum(norm.floats(1));
  norm.give(in.data(), sum.data(), 1);
  CHECK(sum[0] == Approx(0.2).epsilon(1e-5));
  CHECK(sum[1] == Approx(0.01 * static_cast<double>(in.size())).epsilon(1e-5));
}

TEST_CASE("a norm stays a norm whatever other members say of their rows") {
  const LayerPlan plan = plan_of({.kind = LayerKind::group_norm, .groups = 1}, {1, 6, 4});
  const std::vector<float> parameters{1, 0};
  const std::vector<float> in = dyadic_x.values<float>(3 * 4);
  StripNorm<float> norm(plan, {{0, 3}, {3, 6}}, 0);
  std::vector<float> sum(norm.floats(1));
  norm.give(in.data(), sum.data(), 1);
  // Another member overwrites every place.
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = i % 2 == 0 ? 0x1p40F : -0x1p40F;
  std::vector<float> out(in.size());
  norm.forward(parameters.data(), in.data(), sum.data(), out.data(), 1);
  // No value of a whole image is farther from its mean than sqrt(24) standard deviations.
  for (const float value : out) CHECK(std::abs(value) <= std::sqrt(24.0F) * 1.01F);
}

TEST_CASE("pools cut by rows choose the same winners") {
  Given all = given({.kind = LayerKind::max_pool, .kernel = 3, .stride = 2}, {1, 5, 5});
  std::fill(all.x.begin(), all.x.end(), 1.0F);
  for (const std::size_t row : {1, 2, 3}) {
    for (const std::size_t column : {1, 2, 3}) all.x[row * 5 + column] = 2;
  }
  all.dy = {1, 2, 3, 4};
  std::vector<float> expected(25);
  expected[1 * 5 + 1] = 1;
  expected[1 * 5 + 2] = 2;
  expected[2 * 5 + 1] = 3;
  expected[2 * 5 + 2] = 4;
  CHECK(cut_pass(all, {{0, 1}, {1, 2}}).dx == expected);
  for (const LayerKind kind : {LayerKind::max_pool, LayerKind::avg_pool}) {
    for (const std::size_t stride : {1, 2, 4}) {
      const Given pool = given({.kind = kind, .kernel = 4, .stride = stride}, {3, 13, 6}, 2);
      const Passes whole = whole_pass(pool);
      for (const auto& cut : std::vector<std::vector<std::size_t>>{{1, 1}, {3, 1, 2}, {1, 5}}) {
        CHECK(cut_pass(pool, strips(pool.layer.out[1], cut)) == whole);
      }
    }
  }
}

}  // namespace gv
