// A proposer that sends peers different decisions is detected, and the proof convinces any other
// peer.
#include "consensus/generation/equivocation.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

constexpr PeerId proposer{1};

std::vector<PeerId> peers_up_to(std::uint64_t last) {
  std::vector<PeerId> peers;
  for (std::uint64_t id = 1; id <= last; ++id) peers.push_back(PeerId{id});
  return peers;
}

/// Decisions of the same ballot differ if their steps do.
Decision decision(std::uint64_t step, std::uint64_t ballot = 7) {
  const Install install =
      installed({.id = {.number = ballot, .proposer = proposer}, .version = {.step = step}});
  return decision_in(install, signer_of(PeerId{2}));
}

/// The same decision, but signed by another peer.
Decision forged(std::uint64_t step) {
  Decision false_one = decision(step);
  false_one.signature = signer_of(PeerId{3}).sign({});
  return false_one;
}

EquivocationWatch watch_of(std::uint64_t id) { return {PeerId{id}, signer_of(PeerId{id})}; }

}  // namespace

TEST_CASE("two peers with different decisions of a ballot find out whatever the others do",
          "[unit]") {
  for (std::uint64_t n = 3; n <= 14; ++n) {
    const std::vector<PeerId> present = peers_up_to(n);
    Rng rng(n);
    for (int draw = 0; draw < 300; ++draw) {
      // The proposer, its accomplices and peers without a decision reveal nothing. At least two
      // other peers each have one of the two decisions.
      std::vector<PeerId> sound = present;
      std::erase(sound, proposer);
      rng.shuffle(std::span(sound));
      sound.resize(2 + rng.below(sound.size() - 1));
      std::map<PeerId, std::uint64_t> has;
      for (const PeerId peer : sound) has[peer] = rng.below(2);
      has[sound.front()] = 0;
      has[sound.back()] = 1;

      std::map<PeerId, EquivocationWatch> watches;
      for (const PeerId peer : sound) {
        watches.emplace(peer, watch_of(static_cast<std::uint64_t>(peer)));
      }
      std::size_t shown = 0;
      bool is_proved = false;
      for (const PeerId peer : sound) {
        Effects out;
        const auto own = watches.at(peer).accept(decision(has[peer]), present, out);
        is_proved = is_proved || own.proof;
        for (const Outgoing& outgoing : out.messages) {
          ++shown;
          REQUIRE(outgoing.to != peer);
          if (!has.contains(outgoing.to)) continue;
          const auto found =
              watches.at(outgoing.to).hear(peer, std::get<Decided>(outgoing.message).decision);
          REQUIRE(found.forgers.empty());
          is_proved = is_proved || found.proof;
        }
      }
      REQUIRE(is_proved);
      REQUIRE(shown == sound.size() * (n - 2));
    }
  }
}

TEST_CASE("equal decisions and decisions of different ballots prove nothing", "[unit]") {
  EquivocationWatch watch = watch_of(2);
  Effects out;
  for (std::uint64_t ballot = 1; ballot <= 6; ++ballot) {
    CHECK_FALSE(watch.accept(decision(ballot, ballot), peers_up_to(4), out).proof);
    CHECK_FALSE(watch.hear(PeerId{3}, decision(ballot, ballot)).proof);
    CHECK_FALSE(watch.hear(PeerId{3}, decision(ballot, ballot)).proof);
  }
  // The second of two conflicting decisions may arrive late.
  const auto late = watch.hear(PeerId{4}, decision(99, 5));
  REQUIRE(late.proof);
  CHECK(is_proof(*late.proof, signer_of(PeerId{5})));
}

TEST_CASE("a decision without its proposer's signature accuses the peer that shows it", "[unit]") {
  EquivocationWatch watch = watch_of(2);
  Effects out;
  watch.accept(decision(1), peers_up_to(4), out);
  const auto false_one = watch.hear(PeerId{4}, forged(2));
  CHECK(false_one.forgers == std::vector{PeerId{4}});
  CHECK_FALSE(false_one.proof);
  // While we have no decision to compare with, a false one is kept unchecked. It is exposed later.
  EquivocationWatch early = watch_of(2);
  CHECK(early.hear(PeerId{4}, forged(2)).forgers.empty());
  const auto later = early.accept(decision(1), peers_up_to(4), out);
  CHECK(later.forgers == std::vector{PeerId{4}});
  CHECK_FALSE(later.proof);
  CHECK(early.hear(PeerId{3}, decision(2)).proof);
}

TEST_CASE("a proof holds for everybody and only against the signer of both decisions", "[unit]") {
  const Signer& judge = signer_of(PeerId{5});
  CHECK(is_proof({decision(1), decision(2)}, judge));
  CHECK_FALSE(is_proof({decision(1), decision(1)}, judge));
  CHECK_FALSE(is_proof({decision(1, 7), decision(2, 8)}, judge));
  CHECK_FALSE(is_proof({decision(1), forged(2)}, judge));
  CHECK_FALSE(is_proof({forged(1), decision(2)}, judge));
  Decision of_another = decision(2);
  of_another.ballot.proposer = PeerId{4};
  CHECK_FALSE(is_proof({decision(1), of_another}, judge));
  Decision other_digest = decision(2);
  other_digest.digest[3] ^= 1;
  CHECK_FALSE(is_proof({decision(1), other_digest}, judge));
}

TEST_CASE("a proof is shown at once and again every ten seconds to those that are there",
          "[unit]") {
  EquivocationWatch watch = watch_of(2);
  Effects out;
  watch.show_proofs(Time{}, peers_up_to(4), out);
  CHECK(out.messages.empty());
  CHECK(watch.deadline() == never);
  Time now = Time{} + std::chrono::hours(1);
  watch.convict({decision(1), decision(2)});
  CHECK(watch.is_convicted(proposer));
  watch.show_proofs(now, peers_up_to(4), out);
  watch.show_proofs(now, peers_up_to(4), out);
  REQUIRE(out.messages.size() == 3);
  CHECK(std::get<Equivocation>(out.messages.back().message).one == decision(1));
  CHECK(watch.deadline() == now + std::chrono::seconds(10));
  watch.show_proofs(watch.deadline(), peers_up_to(5), out);
  CHECK(out.messages.size() == 7);
}

}  // namespace gv
