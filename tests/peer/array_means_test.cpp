// Swarms of peers without a model, whose programs average arrays. Each peer has its real mode,
// membership and replica. The network delivers at once and in order.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/magnitude.hpp"
#include "consensus/membership/statement.hpp"
#include "peer/host/mean_calls.hpp"
#include "peer/modes/allreduce.hpp"
#include "peer/modes/array_lengths.hpp"
#include "peer/node/whole_replica.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

using Array = std::vector<float>;

constexpr std::uint64_t layout = 5;

Member statement(PeerId peer) {
  Member member{.id = peer, .name = "peer", .address = "virtual:1", .layout_hash = layout};
  restate(member, signer_of(peer));
  return member;
}

CourseOptions course() {
  return {.run_seed = 1, .steps = 1'000'000, .layout_hash = layout, .elements = 1};
}

AllReduceOptions options() {
  return {.state_elements = 1,
          .averages_arrays = true,
          .bucket_elements = 100,
          .segment_elements = 16,
          .batch = 1};
}

/// One peer and its program.
struct Averager {
  Averager(PeerId self, const std::vector<PeerId>& all)
      : self(self),
        mode(self, 7, course(), options(), signer_of(self), Rng(1)),
        members({.id = self, .name = "us", .address = "virtual:0", .layout_hash = layout}, all, {},
                signer_of(self), Rng(1)),
        replica(calls.learner(), 0) {}

  /// The program contributes an array, which stays at the same address, and continues.
  std::uint64_t give(Array values, float weight = 1) {
    Array& array = arrays.emplace_back(std::move(values));
    return calls.give(
        {.floats = array.size(),
         .read = [&array](std::span<float> to) { std::ranges::copy(array, to.begin()); },
         .write =
             [&array](std::span<const float> from) { std::ranges::copy(from, array.begin()); }},
        weight);
  }
  /// The result of a call; nullopt while the call is in progress.
  std::optional<Mean> ended(std::uint64_t call) {
    if (calls.wait(call, Duration{}) != MeanCalls::Waited::is_done) return std::nullopt;
    return calls.take(call);
  }

  template <class F>
  const F* told() const {
    for (const Fact& fact : facts) {
      if (const auto* found = std::get_if<F>(&fact)) return found;
    }
    return nullptr;
  }

  PeerId self;
  MeanCalls calls;
  std::deque<Array> arrays;
  std::uint64_t taken = 0;  ///< Number of arrays that the replica has taken.
  AllReduceMode mode;
  Membership members;
  WholeReplica replica;
  std::deque<Job> jobs;
  std::vector<Fact> facts;
  bool has_ended(std::uint64_t call) {
    return calls.wait(call, Duration{}) == MeanCalls::Waited::is_done;
  }

  bool is_cut_off = false;  ///< True if nothing is delivered to or from this peer.
};

struct Swarm {
  explicit Swarm(std::size_t count) {
    for (std::size_t i = 1; i <= count; ++i) all.push_back(PeerId{i});
    for (const PeerId peer : all) start(peer);
    settle();
  }

  void start(PeerId peer) {
    peers[peer] = std::make_unique<Averager>(peer, all);
    peers[peer]->mode.start(now, 0, peers.size() > 1);
    for (const auto& [other, averager] : peers) {
      for (const auto& [known, unused] : peers) introduce(*averager, known);
    }
  }
  void introduce(Averager& to, PeerId known) {
    if (to.self == known) return;
    Effects out;
    PushPull table;
    table.members.push_back(statement(known));
    to.members.receive(now, known, table, out);
  }

  Averager& at(std::uint64_t peer) { return *peers.at(PeerId{peer}); }

  /// Delivers everything and runs all jobs that can run, while two seconds pass. Stops early once
  /// `is_enough` returns true.
  void settle(const std::function<bool()>& is_enough = [] { return false; }) {
    for (int round = 0; round < 400 && !is_enough(); ++round) {
      now += std::chrono::milliseconds(5);
      for (const auto& entry : peers) {
        Averager& peer = *entry.second;
        act(peer, [&](Effects& out) { peer.mode.tick(now, peer.members, out, posted); });
      }
      while (!is_enough() && deliver()) {
      }
    }
  }

  template <class Action>
  void act(Averager& peer, Action action) {
    Effects out;
    posted.clear();
    action(out);
    peer.mode.tick(now, peer.members, out, posted);
    for (Job& job : posted) peer.jobs.push_back(std::move(job));
    posted.clear();
    peer.facts.insert(peer.facts.end(), out.facts.begin(), out.facts.end());
    for (Outgoing& sent : out.messages) messages.emplace_back(peer.self, std::move(sent));
    for (Transfer& sent : out.transfers) transfers.emplace_back(peer.self, std::move(sent));
    run_jobs(peer);
  }

  /// Runs the oldest job up to the array that it waits for.
  void run_jobs(Averager& peer) {
    if (peer.jobs.empty()) return;
    Job& job = peer.jobs.front();
    Job now_possible{.number = job.number};
    const bool has_array = peer.calls.newest() > peer.taken;
    while (!job.tasks.empty()) {
      const bool waits = std::holds_alternative<task::ComputeGradient>(job.tasks.front());
      if (waits && !has_array) break;
      if (waits) ++peer.taken;
      now_possible.add(std::move(job.tasks.front()));
      job.tasks.erase(job.tasks.begin());
    }
    const bool is_whole = job.tasks.empty();
    JobDone done = peer.replica.run(std::move(now_possible));
    if (!is_whole) return;
    peer.jobs.pop_front();
    act(peer, [&](Effects& out) { peer.mode.complete(now, std::move(done), peer.members, out); });
  }

  /// Delivers one message or block. Those to the `slow` peer come after all others.
  bool deliver() {
    if (!messages.empty()) {
      const PeerId from = messages.front().first;
      const Outgoing sent = std::move(messages.front().second);
      messages.pop_front();
      if (!reaches(from, sent.to)) return true;
      Averager& to = *peers.at(sent.to);
      act(to, [&](Effects& out) { to.mode.receive(now, from, sent.message, to.members, out); });
      return true;
    }
    if (transfers.empty()) return false;
    auto next =
        std::ranges::find_if(transfers, [this](const auto& one) { return one.second.to != slow; });
    if (next == transfers.end()) next = transfers.begin();
    const PeerId from = next->first;
    const Transfer sent = std::move(next->second);
    transfers.erase(next);
    if (!reaches(from, sent.to)) return true;
    Averager& to = *peers.at(sent.to);
    act(to, [&](Effects& out) {
      to.mode.receive_block(now, from, Block{.id = sent.id, .bytes = sent.payload.bytes}, out);
    });
    return true;
  }
  bool reaches(PeerId from, PeerId to) const {
    const auto found = peers.find(to);
    const auto sender = peers.find(from);
    return found != peers.end() && sender != peers.end() && !found->second->is_cut_off &&
           !sender->second->is_cut_off;
  }

  void tell_others_of_loss(PeerId lost) {
    for (const auto& entry : peers) {
      if (entry.first == lost) continue;
      Averager& other = *entry.second;
      act(other, [&](Effects& out) {
        other.mode.lane_lost(now, lost, out);
        other.mode.peer_gone(now, lost, out);
      });
    }
  }

  /// Kills the peer, and lets all other peers know.
  void kill(std::uint64_t peer) {
    peers.erase(PeerId{peer});
    tell_others_of_loss(PeerId{peer});
  }

  /// Cuts the peer off. The others notice, but the peer itself does not.
  void cut_off(std::uint64_t peer) {
    at(peer).is_cut_off = true;
    tell_others_of_loss(PeerId{peer});
  }
  void let_back(std::uint64_t peer) {
    at(peer).is_cut_off = false;
    for (const auto& [id, other] : peers) introduce(*other, PeerId{peer});
    settle();
  }

  Time now{};
  std::vector<PeerId> all;
  std::map<PeerId, std::unique_ptr<Averager>> peers;
  std::deque<std::pair<PeerId, Outgoing>> messages;
  std::deque<std::pair<PeerId, Transfer>> transfers;
  std::vector<Job> posted;
  std::optional<PeerId> slow;
};

/// An array of whole numbers, whose means over two and four peers are exact.
Array array_of(std::uint64_t peer, std::size_t length) {
  Array array(length);
  for (std::size_t i = 0; i < length; ++i) array[i] = static_cast<float>(4 * peer * (i % 50 + 1));
  return array;
}

}  // namespace

TEST_CASE("arrays of any length become their mean call by call", "[unit]") {
  Swarm swarm(4);
  std::uint64_t call = 0;
  for (const std::size_t length : {7, 1, 1000, 300, 1000, 12345}) {
    ++call;
    for (std::uint64_t peer = 1; peer <= 4; ++peer) swarm.at(peer).give(array_of(peer, length));
    swarm.settle();
    for (std::uint64_t peer = 1; peer <= 4; ++peer) {
      const auto mean = swarm.at(peer).ended(call);
      REQUIRE(mean);
      CHECK(mean->peers == 4);
      CHECK_FALSE(mean->is_missed);
      for (std::size_t i = 0; i < length; ++i) {
        REQUIRE(swarm.at(peer).arrays.back()[i] == static_cast<float>(10 * (i % 50 + 1)));
      }
    }
    CHECK(swarm.at(1).calls.common_calls() == call);
  }
}

TEST_CASE("the weight of an array may differ from call to call and be zero", "[unit]") {
  Swarm swarm(2);
  swarm.at(1).give({8, 16}, 3);
  swarm.at(2).give({16, 0}, 1);
  swarm.at(1).give({1, 2}, 0);
  swarm.at(2).give({3, 4}, 0.5F);
  swarm.at(1).give({5, 6}, 0);
  swarm.at(2).give({7, 8}, 0);
  swarm.settle();
  for (std::uint64_t peer = 1; peer <= 2; ++peer) {
    const auto& arrays = swarm.at(peer).arrays;
    CHECK(arrays[0] == Array{10, 12});
    CHECK(arrays[1] == Array{3, 4});
    CHECK(swarm.at(peer).ended(1)->peers == 2);
    // All weights are 0, so there is no mean.
    CHECK(swarm.at(peer).ended(3)->peers == 0);
  }
  CHECK(swarm.at(1).arrays[2] == Array{5, 6});
  CHECK(swarm.at(2).arrays[2] == Array{7, 8});
}

TEST_CASE("huge values in an array name the peer that gave them and no other", "[unit]") {
  // There is no mean if the hostile peer itself is the first to add the values, because its code is
  // correct.
  std::size_t witnesses = 0;
  for (std::uint64_t hostile = 1; hostile <= 4; ++hostile) {
    Swarm swarm(4);
    // The sum with one honest array is just finite.
    const float huge = std::numeric_limits<float>::max() - 1.2e35F;
    for (std::uint64_t peer = 1; peer <= 4; ++peer) {
      swarm.at(peer).give(Array(200, peer == hostile ? huge : 0.9F * largest_in_array));
    }
    swarm.settle();
    for (std::uint64_t peer = 1; peer <= 4; ++peer) {
      const auto* refused = swarm.at(peer).told<SumRefused>();
      if (peer == hostile || refused == nullptr) continue;
      ++witnesses;
      CHECK_THAT(refused->why, Catch::StartsWith(to_string(PeerId{hostile})));
    }
  }
  CHECK(witnesses > 0);
}

TEST_CASE("a call waits for every peer and keeps the pieces that were early", "[unit]") {
  Swarm swarm(3);
  swarm.at(1).give(array_of(1, 500));
  swarm.at(3).give(array_of(3, 500));
  swarm.settle();
  CHECK_FALSE(swarm.at(1).ended(1));
  CHECK(swarm.at(2).mode.counts().generations == 1);
  swarm.at(2).give(array_of(2, 500));
  swarm.settle();
  CHECK(swarm.at(1).ended(1));
  CHECK(swarm.at(1).mode.counts().generations == 1);
  CHECK(swarm.at(1).arrays == swarm.at(2).arrays);
  CHECK(swarm.at(1).arrays == swarm.at(3).arrays);
}

TEST_CASE("a peer that dies in a call is in the mean of all others or of none", "[unit]") {
  Swarm swarm(3);
  swarm.at(1).give(array_of(1, 400));
  swarm.at(2).give(array_of(2, 400));
  swarm.settle();
  swarm.kill(3);
  swarm.settle();
  const auto first = swarm.at(1).ended(1);
  const auto second = swarm.at(2).ended(1);
  REQUIRE((first && second));
  CHECK(first->peers == 2);
  CHECK(second->peers == 2);
  CHECK(swarm.at(1).arrays == swarm.at(2).arrays);
  CHECK(swarm.at(1).arrays.front().front() == 6);
}

TEST_CASE("a mean that some have got reaches the others when a peer dies", "[unit]") {
  Swarm swarm(3);
  swarm.slow = PeerId{2};
  for (std::uint64_t peer = 1; peer <= 3; ++peer) swarm.at(peer).give(array_of(peer, 400));
  swarm.settle([&] { return swarm.at(1).has_ended(1) && swarm.at(3).has_ended(1); });
  REQUIRE_FALSE(swarm.at(2).has_ended(1));
  swarm.transfers.clear();
  swarm.kill(3);
  swarm.settle();
  const auto late = swarm.at(2).ended(1);
  REQUIRE(late);
  CHECK_FALSE(late->is_missed);
  CHECK(late->peers == 3);
  CHECK(swarm.at(2).arrays == swarm.at(1).arrays);
  // The next call is made by the other two peers only.
  for (std::uint64_t peer = 1; peer <= 2; ++peer) swarm.at(peer).give(array_of(peer, 4));
  swarm.settle();
  CHECK(swarm.at(2).ended(2)->peers == 2);
}

TEST_CASE("a peer leaves only when the others have the mean that it has", "[unit]") {
  Swarm swarm(2);
  swarm.slow = PeerId{2};
  for (std::uint64_t peer = 1; peer <= 2; ++peer) swarm.at(peer).give(array_of(peer, 400));
  swarm.settle([&] { return swarm.at(1).has_ended(1); });
  REQUIRE_FALSE(swarm.at(2).has_ended(1));
  Averager& first = swarm.at(1);
  first.calls.leave();
  swarm.act(first, [&](Effects& out) { first.mode.leave(swarm.now, out); });
  CHECK(first.mode.is_settling());
  CHECK_FALSE(first.mode.course().is_leaving());
  swarm.settle();
  CHECK(first.mode.course().is_leaving());
  CHECK(swarm.at(2).ended(1)->peers == 2);
  CHECK(swarm.at(2).arrays == first.arrays);
}

TEST_CASE("a peer that leaves as a ballot begins waits for those that lack its mean", "[unit]") {
  Swarm swarm(2);
  swarm.slow = PeerId{2};
  for (std::uint64_t peer = 1; peer <= 2; ++peer) swarm.at(peer).give(array_of(peer, 400));
  swarm.settle([&] { return swarm.at(1).has_ended(1); });
  swarm.transfers.clear();
  Averager& first = swarm.at(1);
  Averager& second = swarm.at(2);
  swarm.act(second, [&](Effects& out) { second.mode.lane_lost(swarm.now, first.self, out); });
  swarm.settle([&] { return first.mode.generations()->current() == nullptr; });
  REQUIRE_FALSE(second.has_ended(1));
  first.calls.leave();
  swarm.act(first, [&](Effects& out) { first.mode.leave(swarm.now, out); });
  CHECK(first.mode.is_settling());
  swarm.settle();
  swarm.settle();
  CHECK(first.mode.course().is_leaving());
  REQUIRE(second.has_ended(1));
  CHECK(second.ended(1)->peers == 2);
  CHECK(second.arrays == first.arrays);
}

TEST_CASE("a newcomer has no mean for a peer that comes back, which gets it from another",
          "[unit]") {
  Swarm swarm(3);
  swarm.kill(1);
  swarm.settle();
  swarm.slow = PeerId{3};
  for (std::uint64_t peer = 2; peer <= 3; ++peer) swarm.at(peer).give(array_of(peer, 400));
  swarm.settle([&] { return swarm.at(2).has_ended(1); });
  REQUIRE_FALSE(swarm.at(3).has_ended(1));
  swarm.transfers.clear();
  swarm.cut_off(3);
  swarm.start(PeerId{1});
  swarm.settle();
  CHECK(swarm.at(1).calls.common_calls() == 1);
  swarm.let_back(3);
  for (int second = 0; second < 10 && !swarm.at(3).has_ended(1); ++second) swarm.settle();
  REQUIRE(swarm.at(3).has_ended(1));
  CHECK(swarm.at(3).ended(1)->peers == 2);
  CHECK(swarm.at(3).arrays == swarm.at(2).arrays);
}

TEST_CASE("a newcomer downloads nothing and begins with the next call of the others", "[unit]") {
  Swarm swarm(2);
  for (int call = 0; call < 5; ++call) {
    for (std::uint64_t peer = 1; peer <= 2; ++peer) swarm.at(peer).give(array_of(peer, 10));
    swarm.settle();
  }
  swarm.all.push_back(PeerId{3});
  for (const auto& [id, peer] : swarm.peers) {
    Effects out;
    peer->members.authorize(swarm.now, swarm.all, out);
  }
  swarm.start(PeerId{3});
  swarm.settle();
  CHECK(swarm.at(3).calls.common_calls() == 5);
  CHECK(swarm.at(3).mode.counts().states_adopted == 0);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) swarm.at(peer).give(array_of(peer, 20));
  swarm.settle();
  const auto mean = swarm.at(3).ended(1);
  REQUIRE(mean);
  CHECK(mean->peers == 3);
  CHECK(swarm.at(3).arrays.back() == swarm.at(1).arrays.back());
  CHECK(swarm.at(3).calls.common_calls() == 6);
}

TEST_CASE("a peer that was away is told that its call was missed", "[unit]") {
  Swarm swarm(3);
  const bool had_given = GENERATE(true, false);
  if (had_given) swarm.at(3).give({1, 1, 1});
  swarm.settle();
  swarm.cut_off(3);
  for (int call = 0; call < 2; ++call) {
    for (std::uint64_t peer = 1; peer <= 2; ++peer) swarm.at(peer).give({4, 8, 12});
  }
  swarm.settle();
  CHECK(swarm.at(1).ended(2)->peers == 2);
  swarm.let_back(3);
  if (!had_given) swarm.at(3).give({1, 1, 1});
  swarm.settle();
  const auto missed = swarm.at(3).ended(1);
  REQUIRE(missed);
  CHECK(missed->is_missed);
  CHECK(swarm.at(3).arrays.back() == Array{1, 1, 1});
  CHECK(swarm.at(3).calls.common_calls() == 2);

  for (std::uint64_t peer = 1; peer <= 3; ++peer) swarm.at(peer).give(array_of(peer, 20));
  swarm.settle();
  CHECK(swarm.at(3).ended(2)->peers == 3);
  CHECK(swarm.at(3).arrays.back() == swarm.at(1).arrays.back());
}

TEST_CASE("a peer that was away for its present call takes over the mean of the others", "[unit]") {
  Swarm swarm(3);
  const bool is_alike = GENERATE(true, false);
  swarm.at(3).give(is_alike ? Array{1, 1, 1} : Array{1, 1});
  swarm.settle();
  swarm.cut_off(3);
  for (std::uint64_t peer = 1; peer <= 2; ++peer) swarm.at(peer).give({4, 8, 12});
  swarm.settle();
  swarm.let_back(3);
  const auto mean = swarm.at(3).ended(1);
  REQUIRE(mean);
  // A mean of a different length does not belong to the call that the peer has made.
  CHECK(mean->is_missed == !is_alike);
  CHECK(swarm.at(3).arrays.back() == (is_alike ? Array{4, 8, 12} : Array{1, 1}));
  CHECK(mean->peers == (is_alike ? 2 : 0));
}

TEST_CASE("peers with arrays of unlike lengths all end and say which differs", "[unit]") {
  const std::size_t count = GENERATE(2U, 3U, 5U);
  Swarm swarm(count);
  for (std::uint64_t peer = 1; peer <= count; ++peer) swarm.at(peer).give(array_of(peer, 30));
  swarm.settle();
  // One program gives its array last.
  for (std::uint64_t peer = 2; peer < count; ++peer) swarm.at(peer).give(array_of(peer, 300));
  swarm.at(count).give(array_of(count, 301));
  swarm.settle();
  swarm.at(1).give(array_of(1, 300));
  swarm.settle();
  for (std::uint64_t peer = 1; peer <= count; ++peer) {
    CHECK_FALSE(swarm.at(peer).ended(2));
    const auto* differ = swarm.at(peer).told<ArraysDiffer>();
    REQUIRE(differ != nullptr);
    CHECK(differ->call == 2);
    CHECK((differ->peer == PeerId{count}) == (peer != count));
    CHECK(differ->ours == (peer == count ? 301 : 300));
    CHECK(differ->theirs == (peer == count ? 300 : 301));
    CHECK(swarm.at(peer).mode.course().is_over(swarm.at(peer).members, true));
  }
}

TEST_CASE("peers with arrays of unlike lengths make no mean once others have ended", "[unit]") {
  // The third peer's program gives its array before or after the others leave.
  const bool is_late = GENERATE(false, true);
  Swarm swarm(3);
  swarm.at(1).give(array_of(1, 300));
  swarm.at(2).give(array_of(2, 302));
  if (!is_late) swarm.at(3).give(array_of(3, 301));
  swarm.settle([&] {
    const auto knows = [&](std::uint64_t peer) {
      return swarm.at(peer).told<ArraysDiffer>() != nullptr;
    };
    return knows(1) && knows(2) && (is_late || knows(3));
  });
  REQUIRE((swarm.at(3).told<ArraysDiffer>() == nullptr) == is_late);
  swarm.kill(1);
  swarm.kill(2);
  if (is_late) swarm.at(3).give(array_of(3, 301));
  swarm.settle();
  CHECK_FALSE(swarm.at(3).ended(1));
  CHECK(swarm.at(3).told<ArraysDiffer>() != nullptr);
  CHECK(swarm.at(3).mode.course().is_over(swarm.at(3).members, true));
}

TEST_CASE("a peer says the length of its array once where there is doubt", "[unit]") {
  ArrayLengths lengths;
  CHECK_FALSE(lengths.must_tell(4, false));
  CHECK(lengths.must_tell(4, true));
  CHECK_FALSE(lengths.must_tell(4, true));
  lengths.note(PeerId{2}, 5, 10);
  CHECK(lengths.must_tell(5, false));
  CHECK_FALSE(lengths.must_tell(5, false));
  CHECK_FALSE(lengths.unlike(5, 10));
  CHECK_FALSE(lengths.unlike(6, 11));
  CHECK(lengths.unlike(5, 11)->peer == PeerId{2});
}

}  // namespace gv
