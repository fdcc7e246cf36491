// Learners that are not built in, trained by real peers in one process: one that a node calls, and
// one with its own loop.
#include "train/learner/learner.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/identity.hpp"
#include "peer/config/config.hpp"
#include "peer/config/task.hpp"
#include "peer/host/host.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/user_loop.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t peers = 3;
constexpr std::size_t dimension = 12;
constexpr float rate = 0.3F;

/// Peer i minimises f_i(x) = 1/2 sum (x_k - c_k)^2 over all k with k mod 3 = i. Its data say
/// nothing about the other coordinates, so alone it learns a third of the model. No two peers ever
/// disagree, and c is the common optimum, whatever their paces.
class Quadratic : public Learner {
 public:
  explicit Quadratic(std::size_t peer) : peer_(peer) { layout_.add("x", {dimension}); }

  static float optimum(std::size_t k) { return k % 2 == 0 ? 1.0F : -0.5F; }

  /// The largest difference between a coordinate and its optimum.
  static float distance(std::span<const float> x) {
    float most = 0;
    for (std::size_t k = 0; k < x.size(); ++k) most = std::max(most, std::abs(x[k] - optimum(k)));
    return most;
  }

  static Score slope(std::size_t peer, std::span<const float> x, std::span<float> out) {
    Score score{.samples = 1, .predictions = 1};
    for (std::size_t k = 0; k < x.size(); ++k) {
      out[k] = k % peers == peer ? x[k] - optimum(k) : 0;
      score.loss += 0.5 * out[k] * out[k];
    }
    return score;
  }

  static void descend(std::span<float> x, std::span<const float> gradient, double factor) {
    for (std::size_t k = 0; k < x.size(); ++k) {
      x[k] -= static_cast<float>(factor) * rate * gradient[k];
    }
  }

  const Layout& layout() const override { return layout_; }
  std::span<const float> parameters() const override { return x_; }
  std::span<float> live_parameters() override { return x_; }
  std::uint64_t step() const override { return step_; }
  double learning_rate() const override { return factor_ * rate; }
  void go_on_at(std::uint64_t step) override { step_ = step; }
  void set_update_factor(double factor) override { factor_ = factor; }

  Score gradient(std::size_t, std::span<float> out, const ReadyRange&,
                 std::span<const std::size_t>) override {
    return slope(peer_, x_, out);
  }
  void update(std::span<const float> mean, std::size_t) override {
    descend(x_, mean, factor_);
    ++step_;
  }
  Score run_steps(std::uint64_t count, const Direct& direct) override {
    Score total;
    std::array<float, dimension> gradient;
    for (std::uint64_t i = 0; i < count && !has_ended(); ++i) {
      total += slope(peer_, x_, gradient);
      if (direct) direct(gradient);
      update(gradient, 0);
    }
    return total;
  }

 private:
  std::size_t peer_;
  Layout layout_;
  std::array<float, dimension> x_{};
  double factor_ = 1;
  std::uint64_t step_ = 0;
};

/// Counts the learners that are at the optimum. A run without a budget of steps ends when all
/// learners are there.
class Goal {
 public:
  static constexpr float near = 1e-3F;

  explicit Goal(bool ends_the_run) : ends_the_run_(ends_the_run) {}

  void look(std::size_t peer, std::span<const float> x) {
    near_[peer] = ends_the_run_ && Quadratic::distance(x) < near;
    if (near_[peer] && all_are()) is_over_ = true;
  }
  bool is_over() const { return is_over_; }

 private:
  bool all_are() const {
    return std::ranges::all_of(near_, [](const auto& one) { return one.load(); });
  }

  bool ends_the_run_;
  std::array<std::atomic<bool>, peers> near_{};
  std::atomic<bool> is_over_ = false;
};

/// A learner that a node calls until the goal is reached.
class CalledLearner final : public Quadratic {
 public:
  CalledLearner(std::size_t peer, std::shared_ptr<Goal> goal, std::span<float> result)
      : Quadratic(peer), peer_(peer), goal_(std::move(goal)), result_(result) {}
  ~CalledLearner() override { std::ranges::copy(parameters(), result_.begin()); }

  bool has_ended() const override {
    goal_->look(peer_, parameters());
    return goal_->is_over();
  }

 private:
  std::size_t peer_;
  std::shared_ptr<Goal> goal_;
  std::span<float> result_;
};

/// A user's own loop, which knows nothing of other peers except that they exist.
void train(UserLoop& loop, std::size_t peer, Goal& goal) {
  std::vector<float> gradient(dimension);
  loop.set_learning_rate(rate);
  Score score;
  for (bool more = loop.begin(); more; more = loop.step_over(score)) {
    goal.look(peer, loop.parameters());
    if (goal.is_over()) break;
    do {
      score = Quadratic::slope(peer, loop.parameters(), gradient);
    } while (loop.reduce(gradient, score).again);
    Quadratic::descend(loop.parameters(), gradient, loop.update_factor());
  }
  loop.leave();
}

/// How a swarm ended: the exit codes and models of all peers.
struct Ended {
  std::array<int, peers> codes{-1, -1, -1};
  std::array<std::array<float, dimension>, peers> models{};

  float distance() const {
    float most = 0;
    for (const auto& model : models) most = std::max(most, Quadratic::distance(model));
    return most;
  }
};

/// Hosts in this process, each with its own threads, key and folder.
class Hosts {
 public:
  explicit Hosts(const std::string& settings) {
    const ParsedConfig parsed = parse_config_text(settings, "test.toml");
    if (!parsed.problems.empty()) throw std::runtime_error(to_string(parsed.problems.front()));
    std::vector<AuthorizedPeer> all;
    for (std::size_t peer = 0; peer < peers; ++peer) {
      HostOptions& options = options_[peer];
      options.config = parsed.config;
      options.name = "peer-" + std::to_string(peer);
      options.folder = root_.path() / options.name;
      options.identity = generate_key_pair();
      options.listen = "127.0.0.1:0";
      options.shard = peer;
      options.wait_for = peers;
      options.quiet = true;
      all.push_back({.name = options.name, .key = options.identity.public_key});
    }
    for (HostOptions& options : options_) options.authorized = all;
  }

  /// Starts the hosts one after another, each with its learner, and waits until all have ended.
  Ended run(const std::function<std::unique_ptr<Learner>(std::size_t peer)>& make) {
    Ended ended;
    std::vector<std::jthread> threads;
    for (std::size_t peer = 0; peer < peers; ++peer) {
      if (peer > 0) options_[peer].join = {address_of_first()};
      threads.emplace_back([&, peer, learner = make(peer)]() mutable {
        ended.codes[peer] = run_peer(options_[peer], std::move(learner));
      });
    }
    threads.clear();
    return ended;
  }

 private:
  std::string address_of_first() const {
    std::string address;
    eventually(
        [&] {
          const auto report = ask_peer(options_[0].folder);
          const auto json = nlohmann::json::parse(report.value_or(""), nullptr, false);
          if (json.is_object()) address = json["self"].value("advertised", "");
          return !address.empty();
        },
        30s);
    return address;
  }

  TemporaryFolder root_;
  std::array<HostOptions, peers> options_;
};

/// Trains with learners that nodes call.
Ended called(const std::string& settings, bool until_near) {
  const auto goal = std::make_shared<Goal>(until_near);
  std::array<std::array<float, dimension>, peers> models;
  Ended ended = Hosts(settings).run(
      [&](std::size_t peer) { return std::make_unique<CalledLearner>(peer, goal, models[peer]); });
  ended.models = models;
  return ended;
}

/// Trains with loops that drive themselves.
Ended self_driven(const std::string& settings, bool until_near) {
  Goal goal(until_near);
  std::vector<std::unique_ptr<UserLoop>> loops;
  std::vector<std::jthread> threads;
  Ended ended = Hosts(settings).run([&](std::size_t peer) {
    loops.push_back(
        std::make_unique<UserLoop>(Quadratic(peer).layout(), std::vector<float>(dimension)));
    UserLoop& loop = *loops.back();
    threads.emplace_back([&loop, peer, &goal] { train(loop, peer, goal); });
    return loop.learner();
  });
  threads.clear();
  for (std::size_t peer = 0; peer < peers; ++peer) {
    std::ranges::copy(loops[peer]->parameters(), ended.models[peer].begin());
  }
  return ended;
}

std::string settings(const std::string& mode, std::uint64_t steps) {
  return "[run]\nmode = \"" + mode + "\"\npeers = 3\nsteps = " + std::to_string(steps) +
         "\n[train]\nbatch = 1\n";
}

/// In synchronous modes, each round leaves at most 1 - rate / 3 of the distance to the optimum.
/// That leaves 1e-9 after 200 rounds, or after 100 rounds of local steps. Rounding adds a few times
/// 6e-8, the precision of a float of size 1.
constexpr float rounding = 1e-6F;

}  // namespace

TEST_CASE("learners that are not built in find the common optimum by an all-reduce", "[process]") {
  const auto train = GENERATE(&called, &self_driven);
  const Ended ended =
      train(settings("allreduce", 200) + "[allreduce]\nshares = \"equal\"\n", false);
  CHECK(ended.codes == std::array{0, 0, 0});
  CHECK(ended.distance() < rounding);
  CHECK(ended.models[1] == ended.models[0]);
  CHECK(ended.models[2] == ended.models[0]);
}

TEST_CASE("learners that are not built in find the common optimum by local steps", "[process]") {
  const auto train = GENERATE(&called, &self_driven);
  const Ended ended =
      train(settings("allreduce", 400) + "[allreduce]\nperiod = 4\nshares = \"equal\"\n", false);
  CHECK(ended.codes == std::array{0, 0, 0});
  CHECK(ended.distance() < rounding);
}

TEST_CASE("learners that are not built in find the common optimum by mixing", "[process]") {
  const auto train = GENERATE(&called, &self_driven);
  // With gradient tracking, each gradient passes through the mixing rule.
  const std::string rule = GENERATE("", "correction = \"tracking\"\n");
  const Ended ended = train(settings("mixing", 200) + "[mixing]\n" + rule, false);
  CHECK(ended.codes == std::array{0, 0, 0});
  CHECK(ended.distance() < rounding);
}

TEST_CASE("learners that are not built in find the common optimum by gossip", "[process]") {
  const auto train = GENERATE(&called, &self_driven);
  // Exchanges are not steps, so the run ends when all peers are near the optimum at the same time.
  // Forces still in transit come from models that were about equally near.
  const Ended ended = train(settings("gossip", 100'000'000) + "[gossip]\nperiod_steps = 8\n", true);
  CHECK(ended.codes == std::array{0, 0, 0});
  CHECK(ended.distance() < 10 * Goal::near);
}

TEST_CASE("a pipeline refuses a learner that is not built in and says why", "[process]") {
  const ParsedConfig parsed =
      parse_config_text(settings("pipeline", 10) + "[pipeline]\nstages = 2\n", "test.toml");
  REQUIRE(parsed.problems.empty());
  const Task task = task_of(parsed.config, Quadratic(0));
  REQUIRE(task.problems.size() == 1);
  CHECK(task.problems.front().place == "run.mode");
  CHECK(task.problems.front().reason.find("cannot see those of a learner") != std::string::npos);

  UserLoop loop(Quadratic(0).layout(), std::vector<float>(dimension));
  const TemporaryFolder folder;
  const HostOptions options{.config = parsed.config, .folder = folder.path(), .name = "alone"};
  CHECK(run_peer(options, loop.learner()) == 2);
  // The loop must not wait for a run that will never start.
  CHECK_FALSE(loop.begin());
}

TEST_CASE("a mixing rule that changes gradients changes those of a loop", "[process]") {
  UserLoop loop(Quadratic(0).layout(), std::vector<float>(dimension));
  const auto learner = loop.learner();
  std::jthread worker([&] {
    learner->run_steps(1, [](std::span<float> gradient) {
      for (float& value : gradient) value *= 2;
    });
  });
  std::vector<float> gradient(dimension, 3);
  REQUIRE(loop.begin());
  CHECK_FALSE(loop.reduce(gradient, {.samples = 1}).again);
  CHECK(gradient == std::vector<float>(dimension, 6));
  loop.leave();
}

TEST_CASE("a gradient of a model that was replaced is asked for again", "[process]") {
  UserLoop loop(Quadratic(0).layout(), std::vector<float>(dimension));
  const auto learner = loop.learner();
  std::vector<float> sum(dimension);
  std::jthread worker([&] {
    learner->gradient(1, sum);
    learner->adopt_model(std::vector<float>(dimension, 5), 40);
    learner->gradient(1, sum);
    learner->update(std::vector<float>(dimension, 7), 3);
  });
  std::vector<float> gradient(dimension, 1);
  REQUIRE(loop.begin());
  CHECK(loop.reduce(gradient, {.samples = 1}).again);
  CHECK(loop.parameters().front() == 5);
  std::ranges::fill(gradient, 2.0F);
  const Reduced reduced = loop.reduce(gradient, {.samples = 1});
  CHECK_FALSE(reduced.again);
  CHECK(reduced.samples == 3);
  CHECK(gradient == std::vector<float>(dimension, 7));
  CHECK(sum == std::vector<float>(dimension, 2));
  loop.leave();
}

TEST_CASE("parts of a gradient are summed while the loop computes the others", "[process]") {
  UserLoop loop(Quadratic(0).layout(), std::vector<float>(dimension));
  const auto learner = loop.learner();
  std::vector<float> sum(dimension, -1);
  std::atomic<std::size_t> ready_from = dimension;
  std::jthread worker([&] {
    const Score score =
        learner->gradient(1, sum, [&](std::size_t begin, std::size_t) { ready_from = begin; });
    learner->update(std::vector<float>(dimension, 7), score.samples);
  });
  std::vector<float> gradient(dimension, 1);
  const auto part = [&](std::size_t begin, std::size_t end) {
    return std::vector<GradientPart>{
        {.range = {begin, end}, .read = [&gradient, begin](std::span<float> to) {
           std::ranges::copy(std::span(gradient).subspan(begin, to.size()), to.begin());
         }}};
  };
  REQUIRE(loop.begin());
  loop.give_parts(part(4, 8));
  loop.give_parts(part(8, dimension));
  eventually([&] { return ready_from == 4; }, 30s);
  loop.give_parts(part(0, 4));
  CHECK(loop.reduce(gradient, {.samples = 3}).samples == 3);
  CHECK(ready_from == 0);
  CHECK(sum == std::vector<float>(dimension, 1));
  CHECK(gradient == std::vector<float>(dimension, 7));
  CHECK_THROWS_AS(loop.give_parts(part(0, 4)), std::logic_error);
  loop.leave();
}

TEST_CASE("a loop that leaves within a gradient changes nothing that others may have",
          "[process]") {
  UserLoop loop(Quadratic(0).layout(), std::vector<float>(dimension));
  const auto learner = loop.learner();
  std::vector<float> sum(dimension, -1);
  std::atomic<bool> is_told = false;
  std::jthread worker(
      [&] { learner->gradient(1, sum, [&](std::size_t, std::size_t) { is_told = true; }); });
  REQUIRE(loop.begin());
  loop.give_parts({{.range = {8, dimension},
                    .read = [](std::span<float> to) { std::ranges::fill(to, 5.0F); }}});
  eventually([&] { return is_told.load(); }, 30s);
  loop.leave();
  worker.join();
  CHECK(sum == std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5});
}

TEST_CASE("a sum without a gradient of the loop is an error and ends no program", "[process]") {
  UserLoop loop(Quadratic(0).layout(), std::vector<float>(dimension));
  const auto learner = loop.learner();
  CHECK_THROWS_AS(learner->update(std::vector<float>(dimension), 1), std::logic_error);
  CHECK_THROWS_AS(loop.learner(), std::logic_error);
  std::vector<float> shorter(dimension - 1);
  CHECK_THROWS_AS(loop.reduce(shorter, {.samples = 1}), std::invalid_argument);
  CHECK_THROWS_AS(UserLoop(Quadratic(0).layout(), shorter), std::invalid_argument);
}

TEST_CASE("a loop that keeps its gradients to itself is refused where they are summed",
          "[process]") {
  UserLoop loop(Quadratic(0).layout(), std::vector<float>(dimension));
  const auto learner = loop.learner();
  std::vector<float> sum(dimension);
  std::jthread worker([&] { learner->gradient(1, sum); });
  REQUIRE(loop.begin());
  CHECK_THROWS_AS(loop.step_over({}), std::logic_error);
  loop.leave();
}

}  // namespace gv
