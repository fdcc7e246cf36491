// Populations: which peers copy which, how hyperparameters vary and are sent, and what a copy
// contains.
#include "peer/modes/population.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "peer/config/config.hpp"
#include "peer/node/whole_replica.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/generated.hpp"

namespace gv {
namespace {

std::shared_ptr<const DataSet> blobs(std::uint64_t seed) {
  return std::make_shared<const DataSet>(
      generate_blobs({.samples = 200, .features = 4, .classes = 3, .noise = 1, .seed = seed}, 0));
}

WholeReplica member(std::uint64_t peer, const Hyperparameters& own) {
  const TrainerSpec spec{.model = mlp({8}, 3),
                         .optimizer = {.kind = OptimizerKind::momentum, .momentum = own.momentum},
                         .schedule = {.learning_rate = own.learning_rate},
                         .batch = 10,
                         .steps = 1000,
                         .peer = peer};
  return WholeReplica(built_in_learner(spec, blobs(peer), blobs(100)), peer);
}

std::string problem_with(const std::string& text) {
  const ParsedConfig parsed = parse_config_text(text, "a.toml");
  return parsed.problems.empty() ? "" : to_string(parsed.problems.front());
}

}  // namespace

TEST_CASE("of a population one of the worst fifth copies one of the best fifth") {
  const std::vector<float> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  for (const float own : ten) {
    for (const float other : ten) {
      INFO(own << " and " << other);
      CHECK(is_worth_copying(ten, own, other) == (own >= 9 && other <= 2));
    }
  }
}

TEST_CASE("in halving the worse half copies the better half, and in a random search none copies") {
  const std::vector<float> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::vector<float> three = {0.5F, 0.3F, 0.4F};
  for (const float own : ten) {
    for (const float other : ten) {
      INFO(own << " and " << other);
      CHECK(is_worth_copying(ten, own, other, Selection::halving) == (own >= 6 && other <= 5));
      CHECK_FALSE(is_worth_copying(ten, own, other, Selection::none));
    }
  }
  CHECK(is_worth_copying(three, 0.5F, 0.3F, Selection::halving));
  CHECK_FALSE(is_worth_copying(three, 0.4F, 0.3F, Selection::halving));
}

TEST_CASE("settings that halving copies stay as they are, and those of a population vary") {
  for (const Selection selection : {Selection::truncation, Selection::halving}) {
    Population population({.every_steps = 10, .select = selection, .has_momentum = true}, Rng(1));
    DownloadedModel model{.source = PeerId{2}, .values = {1, 2, 3}, .step = 50};
    append({{0.25, 0.5}, 7}, model.values);
    REQUIRE(population.take_over(model, 40));
    const bool is_same = tail_of(model.values)->hyperparameters == Hyperparameters{0.25, 0.5};
    CHECK(is_same == (selection == Selection::halving));
  }
}

TEST_CASE("a search without variation needs a spread") {
  const std::string text = "[population]\nevery_steps = 100\n";
  CHECK(problem_with(text + "select = \"none\"\n").find("population.spread") != std::string::npos);
  CHECK(problem_with(text + "select = \"halving\"\nspread = 8.0\n").empty());
  CHECK(problem_with(text).empty());
}

TEST_CASE("in a small population the worst copies the best alone") {
  const std::vector<float> three = {0.5F, 0.3F, 0.4F};
  CHECK(is_worth_copying(three, 0.5F, 0.3F));
  CHECK_FALSE(is_worth_copying(three, 0.5F, 0.4F));
  CHECK_FALSE(is_worth_copying(three, 0.4F, 0.3F));
  const std::vector<float> alone = {0.5F};
  CHECK_FALSE(is_worth_copying(alone, 0.5F, 0.5F));
}

TEST_CASE("where all are equally good nobody copies anybody") {
  const std::vector<float> alike(9, 0.25F);
  CHECK_FALSE(is_worth_copying(alike, 0.25F, 0.25F));
}

TEST_CASE("exploring multiplies the learning rate and the distance of the momentum from 1") {
  Rng rng(1);
  std::set<std::pair<double, double>> seen;
  for (int i = 0; i < 200; ++i) {
    const Hyperparameters next = explored({0.5, 0.9}, true, rng);
    seen.emplace(std::round(1e6 * next.learning_rate), std::round(1e6 * next.momentum));
  }
  CHECK(seen == std::set<std::pair<double, double>>{
                    {4e5, 0.92e6}, {4e5, 0.88e6}, {6e5, 0.92e6}, {6e5, 0.88e6}});
  // An optimiser without momentum has none to vary.
  CHECK(explored({0.5, 0}, false, rng).momentum == 0);
}

TEST_CASE("however often hyper-parameters are varied one can train with them") {
  Rng rng(2);
  Hyperparameters own{1, 0.5};
  for (int i = 0; i < 100000; ++i) {
    own = explored(own, true, rng);
    const bool sound = own.learning_rate > 0 && own.learning_rate <= learning_rate_max &&
                       own.momentum >= 0 && own.momentum <= momentum_max;
    REQUIRE(sound);
  }
}

TEST_CASE("hyper-parameters begin where the config says or as far from it as the spread allows") {
  const Hyperparameters config{0.02, 0.9};
  CHECK(first_hyperparameters(config, 1, 7, 3) == config);
  std::set<double> rates;
  for (std::uint64_t peer = 0; peer < 50; ++peer) {
    const Hyperparameters first = first_hyperparameters(config, 4, 7, peer);
    CHECK(first == first_hyperparameters(config, 4, 7, peer));
    CHECK(first.learning_rate >= 0.02 / 4);
    CHECK(first.learning_rate <= 0.02 * 4);
    CHECK(1 - first.momentum >= Approx(0.1 / 4));
    CHECK(1 - first.momentum <= Approx(0.1 * 4));
    rates.insert(first.learning_rate);
  }
  CHECK(rates.size() == 50);
}

TEST_CASE("peers also differ in what the config says, and not in the rest") {
  const Hyperparameters config{.learning_rate = 0.02,
                               .momentum = 0.9,
                               .weight_decay = 0.001,
                               .batch = 32,
                               .alpha = 0.25,
                               .period = 16};
  std::set<double> batches;
  for (std::uint64_t peer = 0; peer < 50; ++peer) {
    const Hyperparameters first = first_hyperparameters(config, 4, 7, peer);
    // The random learning rate and momentum come first, so they do not depend on the other
    // hyperparameters.
    const Hyperparameters fewer = first_hyperparameters({0.02, 0.9}, 4, 7, peer);
    CHECK(first.learning_rate == fewer.learning_rate);
    CHECK(first.momentum == fewer.momentum);
    CHECK(fewer == Hyperparameters{fewer.learning_rate, fewer.momentum});
    CHECK(first.weight_decay >= 0.001 / 4);
    CHECK(first.weight_decay <= 0.001 * 4);
    CHECK(first.batch >= 8);
    CHECK(first.batch <= 128);
    CHECK(first.batch == std::round(first.batch));
    CHECK(first.alpha >= 0.25 / 4);
    CHECK(first.alpha <= alpha_max);
    CHECK(first.period == std::round(first.period));
    batches.insert(first.batch);
  }
  CHECK(batches.size() > 25);
  Rng rng(3);
  std::set<double> next;
  for (int i = 0; i < 50; ++i) next.insert(explored(config, true, rng).batch);
  CHECK(next == std::set<double>{25, 39});
  // An integer hyperparameter changes by at least one, even if a fifth of it is less.
  Hyperparameters small{.learning_rate = 1, .momentum = 0.5, .batch = 2, .period = 1};
  std::set<double> seen;
  for (int i = 0; i < 50; ++i) seen.insert(explored(small, true, rng).batch);
  CHECK(seen == std::set<double>{1, 3});
}

TEST_CASE("a batch and a weight decay that a copy took over are those of its next steps") {
  WholeReplica replica = member(1, {0.1, 0.5});
  Tunable& tunable = *replica.learner().tunable();
  CHECK(tunable.hyperparameters().batch == 0);
  CHECK(replica.run({.tasks = {task::TakeSteps{2}}}).score.samples == 20);
  const Hyperparameters own{.learning_rate = 0.125,
                            .momentum = 0.5,
                            .weight_decay = 0.25,
                            .batch = 3,
                            .alpha = 0.125,
                            .period = 7};
  tunable.set_hyperparameters(own);
  CHECK(replica.run({.tasks = {task::TakeSteps{2}}}).score.samples == 6);
  CHECK(tunable.hyperparameters() == own);
  std::vector<float> tail;
  append({own, 7}, tail);
  REQUIRE(tail_of(tail));
  CHECK(tail_of(tail)->hyperparameters == own);
  for (const auto& [place, value] :
       {std::pair{3, -1.0F}, {3, 2.0F}, {4, 2.5F}, {4, 1e9F}, {5, 0.75F}, {6, 1.5F}, {6, -1.0F}}) {
    std::vector<float> other = tail;
    other[static_cast<std::size_t>(place)] = value;
    CHECK_FALSE(tail_of(other));
  }
}

TEST_CASE("what peers may differ in depends on the other settings") {
  const std::string text = "[population]\nevery_steps = 100\n";
  CHECK(problem_with(text + "vary_batch = true\nvary_alpha = true\n").empty());
  CHECK(problem_with(text + "vary_weight_decay = true\n").find("weight_decay = 0.0001") !=
        std::string::npos);
  CHECK(problem_with(text + "vary_weight_decay = true\n[train]\nweight_decay = 0.001\n").empty());
  CHECK(problem_with(text + "vary_period = true\n").find("uniform") != std::string::npos);
  CHECK(problem_with(text + "vary_period = true\n[gossip]\npairing = \"uniform\"\n").empty());
  CHECK(problem_with(text + "vary_alpha = true\n[gossip]\nalpha = 0.0\n").find("alpha = 0.25") !=
        std::string::npos);
  const Config config =
      parse_config_text(text + "vary_batch = true\n[train]\nbatch = 48\n", "a.toml").config;
  CHECK(config_hyperparameters(config).batch == 48);
  CHECK(config_hyperparameters(config).period == 0);
}

TEST_CASE("hyper-parameters that nobody can train with are not taken from a download") {
  std::vector<float> values = {1, 2};
  append({{0.25, 0.5}, 7}, values);
  REQUIRE(tail_of(values));
  CHECK(tail_of(values)->hyperparameters == Hyperparameters{0.25, 0.5});
  CHECK(tail_of(values)->updates == 7);
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float rate : {0.0F, -1.0F, 1e6F, inf, nan}) {
    values[2] = rate;
    CHECK_FALSE(tail_of(values));
  }
  values[2] = 0.25F;
  for (const float momentum : {-0.1F, 1.0F, 2.0F, inf, nan}) {
    values[3] = momentum;
    CHECK_FALSE(tail_of(values));
  }
  CHECK_FALSE(tail_of(std::vector<float>{1, 0.5F}));
}

TEST_CASE("a copy has the model and the optimiser and the hyper-parameters of its source") {
  WholeReplica source = member(1, {0.1, 0.5});
  WholeReplica copier = member(2, {0.001, 0.9});
  source.run({.tasks = {task::TakeSteps{20}}});
  copier.run({.tasks = {task::TakeSteps{30}}});
  const auto shown = std::make_shared<Snapshot>();
  source.run({.tasks = {task::TakeSnapshot{shown, true}}});
  DownloadedModel whole{.source = PeerId{1}, .values = shown->values, .step = 30};
  whole.values.insert(whole.values.end(), shown->rest.begin(), shown->rest.end());
  const JobDone done = copier.run({.tasks = {task::AdoptModel{whole}, task::Validate{}}});
  CHECK(std::ranges::equal(copier.learner().parameters(), source.learner().parameters()));
  CHECK(copier.optimizer_state().vectors == source.optimizer_state().vectors);
  const auto* trial = first_of<result::Validation>(done.results);
  REQUIRE(trial != nullptr);
  CHECK(trial->hyperparameters.learning_rate == Approx(0.1));
  CHECK(trial->hyperparameters.momentum == Approx(0.5));
  CHECK(done.learning_rate == trial->hyperparameters.learning_rate);
  CHECK(done.step == 30);
  // Both losses are measured on the same samples.
  const JobDone judged = source.run({.tasks = {task::Validate{}}});
  CHECK(trial->loss == first_of<result::Validation>(judged.results)->loss);
}

TEST_CASE("steps go by the hyper-parameters that a copy took over") {
  const auto stepped = [](const Hyperparameters& first, const Hyperparameters& later) {
    WholeReplica replica = member(1, first);
    DownloadedModel whole{.source = PeerId{2}, .step = 0};
    const auto parameters = replica.learner().parameters();
    whole.values.assign(parameters.begin(), parameters.end());
    const std::size_t optimizer = replica.learner().optimizer_size();
    whole.values.resize(parameters.size() + optimizer);
    replica.learner().copy_optimizer(std::span(whole.values).last(optimizer));
    append({later, 0}, whole.values);
    replica.run({.tasks = {task::AdoptModel{whole}, task::TakeSteps{10}}});
    const auto end = replica.learner().parameters();
    return std::vector<float>(end.begin(), end.end());
  };
  const Hyperparameters one{0.25, 0.5};
  const Hyperparameters other{0.125, 0.75};
  CHECK(stepped(one, other) == stepped(other, other));
  CHECK(stepped(one, one) != stepped(other, other));
}

TEST_CASE("hyper-parameters are a part of what a restored replica goes on from") {
  WholeReplica replica = member(1, {0.1, 0.5});
  replica.learner().tunable()->set_hyperparameters({0.03, 0.7});
  replica.run({.tasks = {task::TakeSteps{5}}});
  WholeReplica restored = member(1, {0.1, 0.5});
  REQUIRE(restored.restore(replica.parts().front()).empty());
  CHECK(restored.learner().tunable()->hyperparameters() == Hyperparameters{0.03, 0.7});
}

TEST_CASE("a model that is not finite counts as the worst of all") {
  Population population({.every_steps = 10}, Rng(1));
  population.learn_from({.loss = std::numeric_limits<double>::quiet_NaN(),
                         .hyperparameters = Hyperparameters{0.1, 0}});
  REQUIRE(population.trial());
  CHECK(population.trial()->validation_loss == std::numeric_limits<float>::max());
}

TEST_CASE("a population works in gossip and other modes say why not") {
  const std::string population = "[population]\nevery_steps = 100\n";
  CHECK(problem_with(population) == "");
  CHECK(problem_with("[run]\nalgorithm = \"population\"\n") == "");
  CHECK_THAT(problem_with("[run]\nmode = \"allreduce\"\n" + population),
             Catch::Contains("population.every_steps") && Catch::Contains("one learning rate"));
  CHECK_THAT(problem_with("[run]\nmode = \"mixing\"\n" + population),
             Catch::Contains("one learning rate"));
  CHECK_THAT(problem_with("[run]\nmode = \"pipeline\"\n" + population),
             Catch::Contains("no peer has a whole model"));
  CHECK_THAT(problem_with(population + "[gossip]\nalpha_schedule = \"with_learning_rate\"\n"),
             Catch::Contains("gossip.alpha_schedule"));
  CHECK_THAT(problem_with("[population]\nspread = 2\n"), Catch::Contains("every_steps above 0"));
}

TEST_CASE("a peer that may copy another must have the same optimiser") {
  const auto agrees = [](const std::string& text) {
    const auto fields = agreement(parse_config_text(text, "a.toml").config);
    return std::ranges::any_of(fields,
                               [](const auto& field) { return field.first == "train.optimizer"; });
  };
  CHECK(agrees("[population]\nevery_steps = 100\n"));
  CHECK_FALSE(agrees(""));
}

}  // namespace gv
