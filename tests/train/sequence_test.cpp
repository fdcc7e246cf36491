// Layers on sequences are compared with a naive reference, and must be causal. Complete
// transformers are tested with tied and untied tables.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/train/drawn.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/loss.hpp"
#include "train/layers/network.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using Doubles = std::vector<double>;

constexpr std::size_t batch = 2;
constexpr std::size_t positions = 5;
constexpr std::size_t vocabulary = 7;

ModelPlan plan_of(const ModelSpec& spec, const SampleShape& in) {
  Problems problems;
  ModelPlan plan = plan_model(spec, in, problems);
  REQUIRE(problems.empty());
  return plan;
}

ModelSpec tiny(bool tied) {
  return transformer({.blocks = 2, .width = 6, .heads = 2, .tied = tied}, vocabulary);
}

template <class T>
std::vector<T> ids(std::size_t count, Rng& rng) {
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(rng.below(vocabulary));
  return values;
}

std::vector<std::int32_t> labels(std::size_t count, Rng& rng) {
  return ids<std::int32_t>(count, rng);
}

const TensorSlot& slot_of(const ModelPlan& plan, const std::string& name) {
  for (const TensorSlot& slot : plan.layout.slots()) {
    if (slot.name == name) return slot;
  }
  FAIL("no tensor " << name);
  return plan.layout.slots().front();
}

Doubles part(const ModelPlan& plan, const Doubles& flat, const std::string& name) {
  const TensorSlot& slot = slot_of(plan, name);
  const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(slot.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(slot.size)};
}

/// Attention by its definition, one number at a time.
Doubles naive_attention(const ModelPlan& plan, const Doubles& flat, const Doubles& x,
                        std::size_t heads) {
  const std::size_t width = plan.in[2];
  const std::size_t length = plan.in[0];
  const std::size_t head = width / heads;
  const Doubles w = part(plan, flat, "attention1.qkv.weight");
  const Doubles b = part(plan, flat, "attention1.qkv.bias");
  const Doubles w_out = part(plan, flat, "attention1.out.weight");
  const Doubles b_out = part(plan, flat, "attention1.out.bias");
  Doubles y(x.size());
  for (std::size_t n = 0; n < x.size() / (length * width); ++n) {
    // Queries are columns 0 to width. Keys and values follow.
    const auto projected = [&](std::size_t t, std::size_t column) {
      double sum = b[column];
      for (std::size_t i = 0; i < width; ++i) {
        sum += x[(n * length + t) * width + i] * w[column * width + i];
      }
      return sum;
    };
    for (std::size_t t = 0; t < length; ++t) {
      Doubles mixed(width);
      for (std::size_t column = 0; column < width; ++column) {
        const std::size_t first = column / head * head;
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double product = 0;
          for (std::size_t i = first; i < first + head; ++i) {
            product += projected(t, i) * projected(s, width + i);
          }
          const double share = std::exp(product / std::sqrt(static_cast<double>(head)));
          total += share;
          mixed[column] += share * projected(s, 2 * width + column);
        }
        mixed[column] /= total;
      }
      for (std::size_t o = 0; o < width; ++o) {
        double sum = b_out[o];
        for (std::size_t i = 0; i < width; ++i) sum += mixed[i] * w_out[o * width + i];
        y[(n * length + t) * width + o] = sum;
      }
    }
  }
  return y;
}

/// A batch, and the mean cross-entropy of a network over all its positions.
struct Task {
  explicit Task(const ModelPlan& the_plan)
      : plan(the_plan), network(make_plain_network<double>(plan, batch)) {
    Rng rng(11);
    parameters = normals<double>(plan.layout.size(), rng);
    for (double& value : parameters) value *= 0.5;
    inputs = ids<double>(batch * positions, rng);
    wanted = labels(batch * positions, rng);
  }

  double loss(std::span<double> d_outputs = {}) {
    Rng unused(0);
    const auto outputs = network->forward(parameters, inputs, true, unused);
    return cross_entropy<double>(outputs, wanted, vocabulary, d_outputs).loss /
           static_cast<double>(wanted.size());
  }

  Doubles gradient(const ReadyRange& ready = {}) {
    Doubles d_outputs(batch * plan.outputs);
    loss(d_outputs);
    Doubles result(parameters.size(), NAN);
    const ReadyRange on_result = [&](std::size_t begin, std::size_t end) {
      seen.insert(seen.begin(), result.begin() + static_cast<std::ptrdiff_t>(begin),
                  result.begin() + static_cast<std::ptrdiff_t>(end));
      if (ready) ready(begin, end);
    };
    network->backward(parameters, d_outputs, result, on_result);
    return result;
  }

  ModelPlan plan;
  std::unique_ptr<Network<double>> network;
  Doubles parameters, inputs;
  std::vector<std::int32_t> wanted;
  Doubles seen;  ///< The parts of the gradient, each copied when it was reported as final.
};

}  // namespace

TEST_CASE("attention is what its definition says") {
  for (const std::size_t heads : {1, 2, 6}) {
    const ModelPlan plan =
        plan_of({.layers = {{.kind = LayerKind::attention, .heads = heads}}}, {positions, 1, 6});
    Rng rng(3);
    const Doubles parameters = normals<double>(plan.layout.size(), rng);
    const Doubles x = normals<double>(batch * elements(plan.in), rng);
    const auto network = make_plain_network<double>(plan, batch);
    const auto y = network->forward(parameters, x, true, rng);
    const Doubles naive = naive_attention(plan, parameters, x, heads);
    // These sums of at most 6 terms are added in another order.
    for (std::size_t i = 0; i < naive.size(); ++i) CHECK(y[i] == Approx(naive[i]).epsilon(1e-12));
  }
}

TEST_CASE("an embedding is the sum of a token's row and a position's") {
  const ModelPlan plan =
      plan_of({.layers = {{.kind = LayerKind::embedding, .units = 2, .vocabulary = 3}}}, {2, 1, 1});
  const Doubles parameters = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40};
  const Doubles inputs = {2, 0};
  const auto network = make_plain_network<double>(plan, 1);
  Rng unused(0);
  const auto y = network->forward(parameters, inputs, true, unused);
  CHECK(Doubles(y.begin(), y.end()) == Doubles{15, 26, 31, 42});
  Doubles gradient(10, NAN);
  const Doubles d_outputs = {1, 2, 3, 4};
  const auto d_inputs = network->backward(parameters, d_outputs, gradient, {}, true);
  CHECK(gradient == Doubles{3, 4, 0, 0, 1, 2, 1, 2, 3, 4});
  CHECK(Doubles(d_inputs.begin(), d_inputs.end()) == Doubles{0, 0});
}

TEST_CASE("an id that does not exist is taken for the first or the last one") {
  const ModelPlan plan =
      plan_of({.layers = {{.kind = LayerKind::embedding, .units = 2, .vocabulary = 3}}}, {2, 1, 1});
  const Doubles parameters = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40};
  const auto network = make_plain_network<double>(plan, 1);
  Rng unused(0);
  for (const Doubles& inputs : {Doubles{-1, 3}, Doubles{NAN, 1e300}, Doubles{-1e300, INFINITY}}) {
    const auto y = network->forward(parameters, inputs, true, unused);
    CHECK(Doubles(y.begin(), y.end()) == Doubles{11, 22, 35, 46});
    Doubles gradient(10, NAN);
    const Doubles d_outputs = {1, 2, 3, 4};
    network->backward(parameters, d_outputs, gradient, {}, true);
    CHECK(gradient == Doubles{1, 2, 0, 0, 3, 4, 1, 2, 3, 4});
  }
}

TEST_CASE("a residual layer adds what is inside to its input") {
  const ModelPlan plan = plan_of({.layers = {{.kind = LayerKind::residual,
                                              .layers = {{.kind = LayerKind::dense, .units = 2}}}}},
                                 {2, 1, 1});
  const Doubles parameters = {1, 2, 3, 4, 10, 20};
  const auto network = make_plain_network<double>(plan, 1);
  Rng unused(0);
  const Doubles inputs = {1, 1};
  const auto y = network->forward(parameters, inputs, true, unused);
  CHECK(Doubles(y.begin(), y.end()) == Doubles{14, 28});
}

TEST_CASE("a later token changes no earlier output") {
  const bool tied = GENERATE(true, false);
  Task task(plan_of(tiny(tied), {positions, 1, 1}));
  Rng unused(0);
  const auto outputs = [&] {
    const auto y = task.network->forward(task.parameters, task.inputs, false, unused);
    return Doubles(y.begin(), y.end());
  };
  const Doubles before = outputs();
  constexpr std::size_t changed = 3;
  task.inputs[changed] = std::fmod(task.inputs[changed] + 1, vocabulary);
  const Doubles after = outputs();
  for (std::size_t i = 0; i < changed * vocabulary; ++i) CHECK(before[i] == after[i]);
  for (std::size_t t = changed; t < positions; ++t) {
    CHECK(before[t * vocabulary] != after[t * vocabulary]);
  }
  // The other sample must not change.
  for (std::size_t i = positions * vocabulary; i < before.size(); ++i) CHECK(before[i] == after[i]);
}

TEST_CASE("a whole transformer's gradient agrees with finite differences") {
  const bool tied = GENERATE(true, false);
  Task task(plan_of(tiny(tied), {positions, 1, 1}));
  const Doubles gradient = task.gradient();
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    constexpr double step = 1e-5;
    const double kept = task.parameters[i];
    task.parameters[i] = kept + step;
    const double above = task.loss();
    task.parameters[i] = kept - step;
    const double below = task.loss();
    task.parameters[i] = kept;
    worst = std::max(worst, std::abs((above - below) / (2 * step) - gradient[i]));
    largest = std::max(largest, std::abs(gradient[i]));
  }
  // The differences have an error of about 1e-10 (truncation h^2, rounding 1e-16 / h) times the
  // curvature of ten layers. A forgotten term would change the first digit of the gradient.
  CHECK(worst / largest < 1e-6);
}

TEST_CASE("a shared table's gradient is the sum of both its uses") {
  Task tied(plan_of(tiny(true), {positions, 1, 1}));
  Task untied(plan_of(tiny(false), {positions, 1, 1}));
  CHECK(untied.parameters.size() == tied.parameters.size() + vocabulary * 6);
  for (const TensorSlot& slot : untied.plan.layout.slots()) {
    const bool is_own = slot.name == "dense5.weight";
    const Doubles values =
        part(tied.plan, tied.parameters, is_own ? "embedding1.tokens" : slot.name);
    std::ranges::copy(values, untied.parameters.begin() + static_cast<std::ptrdiff_t>(slot.offset));
  }
  untied.inputs = tied.inputs;
  untied.wanted = tied.wanted;
  CHECK(tied.loss() == untied.loss());
  const Doubles of_tied = tied.gradient();
  const Doubles of_untied = untied.gradient();
  const Doubles sum = part(tied.plan, of_tied, "embedding1.tokens");
  const Doubles in = part(untied.plan, of_untied, "embedding1.tokens");
  const Doubles out = part(untied.plan, of_untied, "dense5.weight");
  for (std::size_t i = 0; i < sum.size(); ++i) {
    CHECK(sum[i] == Approx(in[i] + out[i]).epsilon(1e-9).margin(1e-12));
  }
}

TEST_CASE("a transformer's gradient is ready in parts that no longer change") {
  const bool tied = GENERATE(true, false);
  Task task(plan_of(tiny(tied), {positions, 1, 1}));
  std::size_t next_end = task.parameters.size();
  const Doubles gradient = task.gradient([&](std::size_t begin, std::size_t end) {
    CHECK(end == next_end);
    next_end = begin;
  });
  CHECK(next_end == 0);
  CHECK(task.seen == gradient);
}

TEST_CASE("oneDNN computes the transformer that the plain layers compute") {
  const bool tied = GENERATE(true, false);
  const ModelSpec spec =
      transformer({.blocks = 2, .width = 32, .heads = 4, .tied = tied}, vocabulary);
  const SampleShape in = {24, 1, 1};
  const ModelPlan plan = plan_of(spec, in);
  const auto plain = make_plain_network<double>(plan, batch);
  auto fast = make_onednn_network(plan, batch);
  if (!fast) fast = make_plain_network<float>(plan, batch);
  Rng rng(5);
  std::vector<float> parameters(plan.layout.size());
  Model(spec, in, batch).initialise(parameters, rng);
  const std::vector<float> inputs = ids<float>(batch * elements(in), rng);
  const std::vector<float> d_outputs = normals<float>(batch * plan.outputs, rng);
  const auto y = fast->forward(parameters, inputs, true, rng);
  std::vector<float> gradient(parameters.size(), NAN);
  std::vector<float> seen(parameters.size(), NAN);
  fast->backward(parameters, d_outputs, gradient, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) seen[i] = gradient[i];
  });
  CHECK(seen == gradient);
  const Doubles same(parameters.begin(), parameters.end());
  const Doubles same_inputs(inputs.begin(), inputs.end());
  const Doubles same_d_outputs(d_outputs.begin(), d_outputs.end());
  Doubles exact(parameters.size());
  const auto exact_y = plain->forward(same, same_inputs, true, rng);
  plain->backward(same, same_d_outputs, exact);
  const auto difference = [](auto a, auto b) {
    double worst = 0;
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(a[i] - static_cast<double>(b[i])));
      largest = std::max(largest, std::abs(a[i]));
    }
    return worst / largest;
  };
  // A float has 7 digits. Ten layers of sums and divisions lose two or three of them.
  CHECK(difference(exact_y, y) < 2e-5);
  CHECK(difference(exact, gradient) < 2e-5);
}

TEST_CASE("a transformer's first weights are small and its residual ends smaller") {
  const ModelSpec spec = transformer({.blocks = 8, .width = 64, .heads = 4}, 256);
  Model model(spec, {16, 1, 1}, 1);
  std::vector<float> parameters(model.layout().size());
  model.initialise(parameters, Rng(3));
  const ModelPlan plan = plan_of(spec, {16, 1, 1});
  const auto deviation = [&](const std::string& name) {
    const TensorSlot& slot = slot_of(plan, name);
    double sum = 0;
    for (std::size_t i = 0; i < slot.size; ++i) {
      sum += std::pow(static_cast<double>(parameters[slot.offset + i]), 2);
    }
    return std::sqrt(sum / static_cast<double>(slot.size));
  };
  // Each tensor has at least 1024 numbers, so its standard deviation is known to 3 %.
  CHECK(deviation("embedding1.tokens") == Approx(0.02).epsilon(0.1));
  CHECK(deviation("attention3.qkv.weight") == Approx(0.02).epsilon(0.1));
  CHECK(deviation("attention3.out.weight") == Approx(0.02 / 4).epsilon(0.1));
  CHECK(deviation("dense3.weight") == Approx(0.02).epsilon(0.1));
  CHECK(deviation("dense4.weight") == Approx(0.02 / 4).epsilon(0.1));
  CHECK(deviation("norm5.gain") == 1);
  CHECK(deviation("dense17.bias") == 0);
}

TEST_CASE("the transformer has the size its paper says") {
  // A block of width W has 12 W^2 + 13 W parameters. The rest are tables of 256 and 128 rows, the
  // last norm, and a bias for each byte.
  const std::size_t block = 12 * 128 * 128 + 13 * 128;
  const std::size_t rest = (256 + 128) * 128 + 2 * 128 + 256;
  CHECK(Model(transformer({}, 256), {128, 1, 1}, 1).layout().size() == 4 * block + rest);
  CHECK(Model(transformer({.tied = false}, 256), {128, 1, 1}, 1).layout().size() ==
        4 * block + rest + 256 * 128);
}

TEST_CASE("a score counts every position") {
  const ModelSpec spec = tiny(true);
  Model model(spec, {positions, 1, 1}, batch);
  std::vector<float> parameters(model.layout().size());
  Rng rng(4);
  const std::vector<float> inputs = ids<float>(batch * positions, rng);
  const std::vector<std::int32_t> wanted = labels(batch * positions, rng);
  const Batch given{.inputs = inputs, .labels = wanted, .targets = {}, .size = batch};
  std::vector<float> gradient(parameters.size());
  const Score score = model.gradient(parameters, given, gradient, rng);
  CHECK(score.samples == batch);
  CHECK(score.predictions == batch * positions);
  // If all parameters are zero, every byte is equally likely.
  CHECK(score.mean_loss() == Approx(std::log(vocabulary)));
  CHECK(perplexity(score) == Approx(vocabulary));
  CHECK(bits_per_prediction(score) == Approx(std::log2(vocabulary)));
  const Batch one{.inputs = std::span(inputs).first(positions),
                  .labels = std::span(wanted).first(positions),
                  .targets = {},
                  .size = 1};
  CHECK(model.evaluate(parameters, one).predictions == positions);
}

TEST_CASE("tied layers stay in one slice") {
  const ModelPlan tied = plan_of(tiny(true), {positions, 1, 1});
  const ModelPlan untied = plan_of(tiny(false), {positions, 1, 1});
  CHECK(may_cut(tied, 0));
  CHECK(may_cut(tied, tied.layers.size()));
  for (std::size_t at = 1; at < tied.layers.size(); ++at) {
    CHECK(!may_cut(tied, at));
    CHECK(may_cut(untied, at));
  }
}

TEST_CASE("sequence layers that do not fit are problems with their place") {
  using K = LayerKind;
  struct Case {
    std::vector<LayerSpec> layers;
    SampleShape in;
    std::string place, reason;
  };
  const LayerSpec embedding{.kind = K::embedding, .units = 6, .vocabulary = 5};
  const std::vector<Case> cases = {
      {{{.kind = K::embedding, .units = 4, .vocabulary = 5}}, {1, 8, 8}, "layers[0]", "1x8x8"},
      {{{.kind = K::embedding, .units = 4}}, {8, 1, 1}, "layers[0]", "vocabulary"},
      {{embedding, {.kind = K::attention, .heads = 4}}, {8, 1, 1}, "layers[1]", "width of 6"},
      {{{.kind = K::attention, .heads = 1}}, {3, 4, 4}, "layers[0]", "sequence"},
      {{embedding, {.kind = K::residual}}, {8, 1, 1}, "layers[1]", "without layers"},
      {{embedding,
        {.kind = K::residual, .layers = {{.kind = K::gelu}, {.kind = K::dense, .units = 3}}}},
       {8, 1, 1},
       "layers[1]",
       "8x1x6"},
      {{embedding,
        {.kind = K::residual, .layers = {{.kind = K::gelu}, {.kind = K::attention, .heads = 5}}}},
       {8, 1, 1},
       "layers[1].layers[1]",
       "heads"},
      {{embedding, {.kind = K::dense, .units = 4, .per_position = true, .tied = true}},
       {8, 1, 1},
       "layers[1]",
       "4 x 6"},
      {{{.kind = K::dense, .units = 4, .tied = true}}, {8, 1, 1}, "layers[0]", "table"},
      {{{.kind = K::flatten}, embedding}, {8, 1, 1}, "layers[1]", "takes ids"},
      {{{.kind = K::dense, .units = 4}, embedding}, {8, 1, 1}, "layers[1]", "takes ids"},
      {{{.kind = K::stack, .layers = {embedding}}}, {8, 1, 1}, "layers[0].layers[0]", "takes ids"}};
  for (const Case& wrong : cases) {
    const Problems found = problems({.layers = wrong.layers}, wrong.in);
    INFO(wrong.reason);
    REQUIRE(found.size() == 1);
    CHECK(found.front().place == wrong.place);
    CHECK(found.front().reason.find(wrong.reason) != std::string::npos);
  }
}

}  // namespace gv
