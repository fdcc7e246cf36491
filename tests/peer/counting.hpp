// One peer that counts the swarm's work, for tests of its counts and of its reports.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "peer/modes/swarm_work.hpp"
#include "tests/signers.hpp"

namespace gv {

inline constexpr PeerId counting_self{1};
inline constexpr std::uint64_t counting_batch = 10;

/// One peer that counts the work, and the reports of other peers.
struct Counting {
  explicit Counting(SwarmWorkOptions options = {.budget = 100000, .batch = counting_batch},
                    std::size_t others = 3)
      : work(counting_self, options),
        members({.id = counting_self, .name = "us", .address = "virtual:0", .layout_hash = 3},
                roster(others), {}, signer_of(counting_self), Rng(1)) {
    work.begin(now);
  }

  static std::vector<PeerId> roster(std::size_t others) {
    std::vector<PeerId> all;
    for (std::uint64_t id = 1; id <= others + 1; ++id) all.push_back(PeerId{id});
    return all;
  }

  /// The peer reports its work over its own link.
  void report(PeerId peer, const WorkDone& told, Phase phase = Phase::training) {
    Effects out;
    Member member{.id = peer,
                  .name = "peer",
                  .address = "virtual:1",
                  .incarnation = incarnation,
                  .layout_hash = 3,
                  .progress = {.step = ++steps, .phase = phase, .work = told}};
    restate(member, signer_of(peer));
    members.receive(now, peer, Ping{1, member.progress, {member}, 0}, out);
    work.hear(now, members);
  }

  /// Lets time pass in which no peer reports.
  void hear_nobody() {
    Effects out;
    members.tick(now, out);
    work.hear(now, members);
  }

  SwarmWork work;
  Membership members;
  std::uint64_t incarnation = 0;  ///< Sent in all reports. A higher one revives dead peers.
  Time now{};
  std::uint64_t steps = 0;
};

}  // namespace gv
