// Messages about the codecs of gossip, of an all-reduce or of a pipeline's stages name remedies. A
// config that follows any of these remedies is accepted, and trains. codec_bounds_test tests the
// remedies of mixing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/virtual/draw.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/peer/config_texts.hpp"

namespace gv {
namespace {

/// A config that is refused, and every remedy that its message names.
struct Advice {
  std::string wrong;
  std::string_view remedy;
  std::vector<std::string> right;
};

constexpr std::string_view fifty = "write alpha = 0.5 or less, or codec = \"fp16\"";
constexpr std::string_view fewer = "write topology = \"exponential\", or codec = \"fp16\"";

/// Advice on the codecs of gossip.
std::vector<Advice> of_gossip() {
  const std::string gossip = "[gossip]\nperiod_steps = 4\n";
  const std::string many = "[run]\npeers = 66\n" + gossip;
  std::vector<Advice> all;
  for (const std::string codec :
       {"codec = \"qsgd8\"\n", "codec = \"top_k\"\ncodec_fraction = 0.1\n"}) {
    all.push_back({gossip + codec + "alpha = 0.6\n",
                   fifty,
                   {gossip + codec + "alpha = 0.5\n", gossip + "codec = \"fp16\"\nalpha = 0.6\n"}});
    all.push_back({many + codec,
                   fewer,
                   {many + codec + "topology = \"exponential\"\n", many + "codec = \"fp16\"\n"}});
  }
  return all;
}

/// Advice on two ways to compress gradients that exclude each other.
Advice clash(const std::string& first, const std::string& second, std::string_view remedy) {
  const std::string sums = "[run]\nmode = \"allreduce\"\n[allreduce]\n";
  return {sums + first + second, remedy, {sums + first, sums + second}};
}

/// Advice on the codecs and compressors of an all-reduce.
std::vector<Advice> of_sums() {
  const std::string sparse = "top_k_per_512 = 64\n";
  const std::string drawn = "random_k_per_512 = 128\n";
  const std::string codec = "codec = \"qsgd8\"\n";
  constexpr std::string_view of_one_bit =
      "leave codec, top_k_per_512, rank and sufficient_factors out, or one_bit";
  constexpr std::string_view of_drawn =
      "leave top_k_per_512, rank, sufficient_factors and one_bit out, or random_k_per_512";
  constexpr std::string_view of_ternary =
      "leave codec, top_k_per_512, rank, sufficient_factors, one_bit and random_k_per_512 out, or "
      "ternary";
  std::vector<Advice> all = {
      clash(sparse, "rank = 2\n", "leave rank or top_k_per_512 out"),
      clash(codec, "one_bit = true\n", of_one_bit),
      clash(sparse, "one_bit = true\n", of_one_bit),
      clash(sparse, drawn, of_drawn),
      clash("one_bit = true\n", drawn, of_drawn),
      clash(codec, "ternary = true\n", of_ternary),
      clash(drawn, "ternary = true\n", of_ternary),
  };
  const std::string sums = "[run]\nmode = \"allreduce\"\n[allreduce]\n";
  for (const std::string& coded : {codec, sparse}) {
    all.push_back({sums + coded + "algorithm = \"tree\"\n",
                   "write algorithm = \"ring\" or \"auto\", or leave codec and top_k_per_512 out",
                   {sums + coded + "algorithm = \"ring\"\n",
                    sums + coded + "algorithm = \"auto\"\n", sums + "algorithm = \"tree\"\n"}});
  }
  return all;
}

/// Distances from the common optimum after training, relative to the distance at the start.
struct Left {
  double mean = 0;   ///< The distance of the mean of all models.
  double worst = 0;  ///< The distance of the model that is furthest away.
};

/// Trains peers on quadratics with a common optimum.
Left left_to_learn(const std::string& text) {
  DrawnWorld world{.seed = 5};
  world.config = sound(text);
  world.config.run.budget = BudgetKind::peer;
  world.config.run.steps = 400;
  world.config.run.linger = std::chrono::seconds(2);
  world.config.train.schedule = {.learning_rate = 0.1};
  world.config.checkpoint.every_steps = 0;
  Scenario& scenario = world.scenario;
  scenario.peers = world.config.run.peers;
  scenario.dimension = 64;
  scenario.work = WorkKind::quadratic;
  scenario.noise = 0.05;
  scenario.disagreement = 0;
  scenario.step = std::chrono::milliseconds(20);
  Simulator simulator(simulator_options(world), workloads(world));
  simulator.run(Time(std::chrono::minutes(5)));
  const auto distance = [](const std::vector<double>& model) {
    double squares = 0;
    for (const double value : model) squares += std::pow(1 - value, 2);
    return std::sqrt(squares / static_cast<double>(model.size()));
  };
  // All coordinates of the optimum are 1, and those of the first model are about 0.
  Left left;
  std::vector<double> mean(scenario.dimension);
  for (PeerNumber number = 0; number < simulator.size(); ++number) {
    const auto& work = simulator.peer(number).work;
    REQUIRE(work);
    CHECK(work->step() >= 400);
    const std::vector<double> model(work->parameters().begin(), work->parameters().end());
    left.worst = std::max(left.worst, distance(model));
    for (std::size_t k = 0; k < mean.size(); ++k) {
      mean[k] += model[k] / static_cast<double>(simulator.size());
    }
  }
  left.mean = distance(mean);
  return left;
}

void check_advice(const std::vector<Advice>& all) {
  // The distance that plain descent of one peer leaves. In the flattest direction, each step leaves
  // a fraction of 0.99, which makes 0.018 in the end. Noise of 0.05 adds sqrt(0.1 / 0.2) * 0.05 =
  // 0.035. In all other directions less is left.
  constexpr double plain = 0.055;
  // If pairs meet rarely and send only the largest differences, partners learn different values
  // between two meetings, and single models stay this far apart.
  constexpr double apart = 0.25;
  for (const Advice& advice : all) {
    INFO(advice.wrong);
    CHECK(only_problem(advice.wrong).remedy == advice.remedy);
    for (const std::string& right : advice.right) {
      INFO(right);
      const Left left = left_to_learn(right);
      CHECK(left.mean < plain);
      CHECK(left.worst < apart);
    }
  }
}

}  // namespace

TEST_CASE("every remedy for a codec of gossip trains", "[sim]") { check_advice(of_gossip()); }

TEST_CASE("every remedy for a codec of an all-reduce trains", "[sim]") { check_advice(of_sums()); }

TEST_CASE("every remedy for a codec of stages is accepted", "[unit]") {
  const std::string stages =
      "[run]\nmode = \"pipeline\"\npeers = 8\n[pipeline]\nconsensus = \"mixing\"\n[mixing]\n";
  const auto with = [&](const std::string& codec) {
    return stages + "codec = \"" + codec + "\"\n";
  };
  for (const std::string codec : {"terngrad", "sign", "top_k", "random_k"}) {
    CHECK(only_problem(with(codec)).remedy == "write codec = \"fp16\", \"bf16\" or \"qsgd\"");
  }
  // pipeline_test tests how stages mix with each codec.
  for (const std::string codec : {"fp16", "bf16", "qsgd"}) sound(with(codec));
}

}  // namespace gv
