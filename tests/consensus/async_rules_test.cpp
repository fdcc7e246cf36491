// Asynchronous DOWNPOUR in stars and trees, and mixing in slices, compared with serial references.
#include <catch2/catch.hpp>
#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "tests/consensus/mixing_lab.hpp"

namespace gv {
namespace {

using Vector = MixingLab::Vector;

/// A star of peers that never wait. Workers make rounds one at a time. The centre makes a round as
/// soon as a message arrives.
class Star {
 public:
  Star(std::size_t workers, const Vector& start)
      : models_(workers + 1, start), rounds_(workers + 1), mail_(workers + 1) {
    const MixRule rule{.topology = {.kind = TopologyKind::star},
                       .kind = MixKind::downpour,
                       .staleness = unbounded_staleness,
                       .centre_rests = true};
    REQUIRE(problems_of(rule, workers + 1).empty());
    for (std::size_t i = 0; i <= workers; ++i) {
      mixers_.emplace_back(rule, start.size(), 1);
      mixers_[i].begin_generation(i, order_of(workers + 1), 1, models_[i]);
    }
    send(0);
  }

  /// The worker makes a step against `gradient` and, if `gets_mail`, mixes the messages that have
  /// arrived.
  void turn(std::size_t worker, const Vector& gradient, double rate, bool gets_mail) {
    mixers_[worker].begin_round(rounds_[worker], models_[worker]);
    for (std::size_t k = 0; k < gradient.size(); ++k) models_[worker][k] -= rate * gradient[k];
    for (const MixMessage& change : mixers_[worker].messages(rounds_[worker], models_[worker])) {
      mixers_[0].mix(rounds_[0]++, models_[0], {&change, 1});
      send(0);
    }
    auto& mail = gets_mail ? mail_[worker] : none_;
    mixers_[worker].mix(rounds_[worker]++, models_[worker], mail);
    mail.clear();
  }

  const std::vector<Vector>& models() const { return models_; }
  /// Number of messages waiting for the worker.
  std::size_t waiting(std::size_t worker) const { return mail_[worker].size(); }

 private:
  void send(std::size_t from) {
    mixers_[from].begin_round(rounds_[from], models_[from]);
    for (const MixMessage& message : mixers_[from].messages(rounds_[from], models_[from])) {
      for (const std::size_t to : message.to) mail_[to].push_back(message);
    }
  }

  std::vector<Mixer<double>> mixers_;
  std::vector<Vector> models_;
  std::vector<std::uint64_t> rounds_;
  std::vector<std::vector<MixMessage>> mail_;
  std::vector<MixMessage> none_;
};

}  // namespace

// Dean 2012, section 4.1: a worker sends its change and continues from the newest model that it has
// received. The centre adds changes as they arrive, and answers each sender.
TEST_CASE("asynchronous DOWNPOUR is a parameter server that is written in a few lines", "[unit]") {
  constexpr std::size_t workers = 4;
  const auto targets = drawn_models(workers + 1, 3);
  const auto gradient = pulls_to(targets);
  const Vector start(3, 1);
  Star star(workers, start);

  Vector server = start;
  std::vector<Vector> local(workers + 1, start);
  std::vector<std::deque<Vector>> replies(workers + 1, {start});
  Rng rng(4);
  for (int turn = 0; turn < 500; ++turn) {
    const std::size_t worker = 1 + rng.below(workers);
    const bool gets_mail = rng.chance(0.6);
    star.turn(worker, gradient(worker, star.models()[worker]), 0.05, gets_mail);

    const Vector g = gradient(worker, local[worker]);
    Vector stepped = local[worker];
    for (std::size_t k = 0; k < 3; ++k) stepped[k] -= 0.05 * g[k];
    for (std::size_t k = 0; k < 3; ++k) server[k] += stepped[k] - local[worker][k];
    local[worker] = stepped;
    replies[worker].push_back(server);
    if (gets_mail) {
      local[worker] = replies[worker].back();
      replies[worker].clear();
    }
    REQUIRE(largest_difference(star.models()[0], server) < rounding);
    REQUIRE(largest_difference(star.models()[worker], local[worker]) < rounding);
    for (std::size_t i = 1; i <= workers; ++i) REQUIRE(star.waiting(i) == replies[i].size());
  }
}

TEST_CASE("a tree of servers brings every change to its root once", "[unit]") {
  const MixRule rule{
      .topology = {.kind = TopologyKind::tree}, .kind = MixKind::downpour, .centre_rests = true};
  REQUIRE(problems_of(rule, 7).empty());
  MixingLab lab(rule, std::vector<Vector>(7, Vector(2, 0)));
  const auto constant = [](std::size_t peer, const Vector&) {
    return Vector(2, peer > 0 ? -1.0 : 0.0);
  };
  constexpr int rounds = 10;
  lab.rounds(rounds, constant, 0.5);
  // The two servers are one round away from the root, and their four workers are two rounds away.
  CHECK(lab.models()[0] == Vector(2, 0.5 * (2 * rounds + 4 * (rounds - 1))));
  CHECK(lab.refused() == 0);
}

TEST_CASE("a tree of servers and a star come to the same optimum", "[unit]") {
  const auto targets = drawn_models(7, 3);
  Vector mean(3, 0);
  for (std::size_t peer = 1; peer < 7; ++peer) {
    for (std::size_t k = 0; k < 3; ++k) mean[k] += targets[peer][k] / 6;
  }
  const auto pulls = pulls_to(targets);
  const auto gradient = [&](std::size_t peer, const Vector& x) {
    return peer > 0 ? pulls(peer, x) : Vector(3, 0);
  };
  for (const TopologyKind kind : {TopologyKind::star, TopologyKind::tree}) {
    MixingLab lab({.topology = {.kind = kind}, .kind = MixKind::downpour, .centre_rests = true},
                  std::vector<Vector>(7, Vector(3, 0)));
    lab.rounds(3000, gradient, 0.005);
    // Workers compute gradients at models of different ages, which shifts the result by about the
    // learning rate.
    CHECK(largest_difference(lab.models()[0], mean) < 0.05);
  }
}

TEST_CASE("slices of a separable loss make the steps of one peer", "[unit]") {
  const auto targets = std::vector<Vector>(5, drawn_models(1, 7).front());
  const auto gradient = pulls_to(targets);
  // With three slices on five peers, two of the slices have two peers each.
  for (const std::size_t peers : {3, 5}) {
    MixingLab lab({.topology = {.kind = TopologyKind::complete},
                   .fragments = 3,
                   .fragment_order = FragmentOrder::own},
                  std::vector<Vector>(peers, Vector(7, 1)));
    Vector serial(7, 1);
    for (int round = 0; round < 20; ++round) {
      lab.round(gradient, 0.1, 2);
      for (int step = 0; step < 2; ++step) {
        const Vector g = gradient(0, serial);
        for (std::size_t k = 0; k < 7; ++k) serial[k] -= 0.1 * g[k];
      }
      for (const Vector& x : lab.models()) REQUIRE(largest_difference(x, serial) < rounding);
    }
    CHECK(lab.refused() == 0);
  }
}

TEST_CASE("a peer with several slices trains one after the other", "[unit]") {
  MixingLab lab({.topology = {.kind = TopologyKind::complete},
                 .fragments = 5,
                 .fragment_order = FragmentOrder::own},
                std::vector<Vector>(2, Vector(5, 0)));
  lab.rounds(
      6, [](std::size_t, const Vector& x) { return Vector(x.size(), -1); }, 1);
  for (const Vector& x : lab.models()) CHECK(x == Vector{2, 3, 2, 3, 2});
}

TEST_CASE("who hears nothing keeps enough of its weight in push-sum without waiting", "[unit]") {
  const MixRule rule{.topology = {.kind = TopologyKind::complete},
                     .kind = MixKind::push_sum,
                     .staleness = unbounded_staleness};
  std::vector<float> x{1, 2}, y{3, 4};
  Mixer<float> fast(rule, 2, 1);
  Mixer<float> slow(rule, 2, 1);
  fast.begin_generation(0, order_of(2), 1, x);
  slow.begin_generation(1, order_of(2), 1, y);
  std::vector<MixMessage> mail;
  std::uint64_t round = 0;
  const auto turn = [&] {
    fast.begin_round(round, x);
    fast.end_steps(x, 0.1, 1);
    for (MixMessage& message : fast.messages(round, x)) mail.push_back(std::move(message));
    fast.mix(round++, x, {});
  };
  while (round < 200) turn();
  // The weights 1, 1/2, 1/4 and 1/8 were halved. Smaller weights were not.
  CHECK(mail.size() == 4);
  CHECK(fast.weight() == 1.0 / 16);
  CHECK(x == std::vector<float>{1, 2});
  // Nothing is lost: once all messages have arrived, the peers hold the sum.
  slow.mix(0, y, mail);
  CHECK(fast.weight() + slow.weight() == 2);
  for (std::size_t k = 0; k < 2; ++k) {
    const double sum =
        fast.weight() * static_cast<double>(x[k]) + slow.weight() * static_cast<double>(y[k]);
    CHECK(sum == Approx(4 + 2 * static_cast<double>(k)));
  }
  // The peer sends again once it has received messages.
  slow.begin_round(1, y);
  slow.end_steps(y, 0.1, 1);
  fast.mix(round++, x, slow.messages(1, y));
  mail.clear();
  turn();
  CHECK(mail.size() == 1);
}

TEST_CASE("who runs ahead within the staleness keeps enough of its weight in push-sum", "[unit]") {
  const MixRule rule{
      .topology = {.kind = TopologyKind::complete}, .kind = MixKind::push_sum, .staleness = 128};
  std::vector<float> x{1, 2}, y{3, 4};
  Mixer<float> fast(rule, 2, 1);
  Mixer<float> slow(rule, 2, 1);
  fast.begin_generation(0, order_of(2), 1, x);
  slow.begin_generation(1, order_of(2), 1, y);
  std::vector<MixMessage> mail;
  for (std::uint64_t round = 0; round < 128; ++round) {
    fast.begin_round(round, x);
    fast.end_steps(x, 0.1, 1);
    for (MixMessage& message : fast.messages(round, x)) mail.push_back(std::move(message));
    fast.mix(round, x, {});
  }
  // The other peer waits for each message, even for those with hardly any weight.
  CHECK(mail.size() == 128);
  CHECK(fast.weight() > 0.99 / 8);
  CHECK(fast.weight() <= 1.0 / 8);
  for (std::size_t k = 0; k < 2; ++k) CHECK(x[k] == Approx(1 + k).epsilon(1e-5));
  // Nothing is lost: once all messages have arrived, the peers hold the sum.
  CHECK(slow.mix(0, y, mail) == 0);
  CHECK(fast.weight() + slow.weight() == Approx(2).epsilon(1e-12));
  for (std::size_t k = 0; k < 2; ++k) {
    const double sum =
        fast.weight() * static_cast<double>(x[k]) + slow.weight() * static_cast<double>(y[k]);
    CHECK(sum == Approx(4 + 2 * static_cast<double>(k)));
  }
}

TEST_CASE("messages of several rounds do not move a model beyond those it hears", "[unit]") {
  const auto kind = GENERATE(GuardKind::none, GuardKind::self_centred_clip);
  const MixRule rule{.topology = {.kind = TopologyKind::matching},
                     .guard = {.kind = kind, .radius = 1e6},
                     .staleness = unbounded_staleness};
  REQUIRE(problems_of(rule, 8).empty());
  // The other peers' first messages to peer 0, each of a different round and with a share of 1/2.
  std::vector<MixMessage> mail;
  for (std::size_t peer = 1; peer < 8; ++peer) {
    Vector ones(3, 1);
    Mixer<double> sender(rule, 3, 1);
    sender.begin_generation(peer, order_of(8), 1, ones);
    bool is_sent = false;
    for (std::uint64_t round = 0; round < 200 && !is_sent; ++round) {
      for (const MixMessage& message : sender.messages(round, ones)) {
        is_sent = message.to.front() == 0;
        if (is_sent) mail.push_back(message);
      }
    }
    REQUIRE(is_sent);
  }
  for (std::size_t heard = 1; heard <= mail.size(); ++heard) {
    Vector x(3, 0);
    Mixer<double> slow(rule, 3, 1);
    slow.begin_generation(0, order_of(8), 1, x);
    slow.messages(200, x);
    CHECK(slow.mix(200, x, std::span(mail).first(heard)) == 0);
    for (const double value : x) CHECK(value == Approx(heard == 1 ? 0.5 : 1));
  }
}

TEST_CASE("every slice of a peer arrives over a link that takes each second message", "[unit]") {
  const MixRule rule{.topology = {.kind = TopologyKind::complete},
                     .staleness = unbounded_staleness,
                     .fragments = 4,
                     .fragment_order = FragmentOrder::own};
  CHECK(traits_of(rule).newest_suffices);
  Vector x(4, 0);
  Vector y(4, 0);
  Mixer<double> sender(rule, 4, 1);
  Mixer<double> receiver(rule, 4, 1);
  sender.begin_generation(0, order_of(2), 1, x);
  receiver.begin_generation(1, order_of(2), 1, y);
  for (std::uint64_t round = 0; round < 8; ++round) {
    sender.begin_round(round, x);
    x[0] = x[2] = 1;
    const auto messages = sender.messages(round, x);
    if (round % 2 == 0) receiver.mix(round, y, messages);
    sender.mix(round, x, {});
  }
  CHECK(y == Vector{1, 0, 1, 0});
}

TEST_CASE("slices are refused where some peers would not hear them", "[unit]") {
  const auto place = [](const MixRule& rule) {
    const Problems problems = problems_of(rule, 8);
    return problems.empty() ? std::string() : problems.front().place;
  };
  const MixRule sound{.topology = {.kind = TopologyKind::complete},
                      .staleness = unbounded_staleness,
                      .fragments = 4,
                      .fragment_order = FragmentOrder::own};
  CHECK(place(sound).empty());
  MixRule ring = sound;
  ring.topology.kind = TopologyKind::ring;
  CHECK(place(ring) == "topology");
  MixRule one = sound;
  one.fragments = 1;
  CHECK(place(one) == "fragment_order");
  MixRule first = sound;
  first.order = MixOrder::combine_then_adapt;
  CHECK(place(first) == "fragment_order");
}

}  // namespace gv
