// Checks for all mixing rules which messages need not be sent once there is a newer one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "tests/consensus/mixing_lab.hpp"

namespace gv {
namespace {

constexpr std::size_t peers = 5;

/// All rules, each with every staleness that the rule allows.
std::vector<MixRule> rules_that_wait_as_they_may() {
  std::vector<MixRule> all;
  for (MixRule rule : all_rules(peers)) {
    for (const std::uint64_t staleness :
         {std::uint64_t{0}, std::uint64_t{2}, unbounded_staleness}) {
      rule.staleness = staleness;
      if (problems_of(rule, peers).empty()) all.push_back(rule);
    }
  }
  return all;
}

/// Two messages from one peer, of round 0 and of a later round, and their effect on another peer's
/// model.
class TwoMessages {
 public:
  /// Uses the first pair of peers, and the first later round, for which there are two messages.
  /// Returns nullopt if no pair has two messages.
  static std::optional<TwoMessages> of(const MixRule& rule) {
    const RoundPlan plan(rule, peers, 1);
    const auto hears = [&](std::size_t from, std::size_t to, std::uint64_t round) {
      return std::ranges::count(plan.turn(to, round).in, from, &Share::from) > 0;
    };
    for (std::uint64_t round = 1; round < 12; ++round) {
      for (std::size_t from = 0; from < peers; ++from) {
        for (std::size_t to = 0; to < peers; ++to) {
          if (hears(from, to, 0) && hears(from, to, round)) {
            return TwoMessages(rule, from, to, round);
          }
        }
      }
    }
    return std::nullopt;
  }

  /// The model after mixing both messages, or the newer one alone.
  MixingLab::Vector mixed(bool with_older) const {
    std::vector<MixMessage> arrived{newer_};
    if (with_older) arrived.insert(arrived.begin(), older_);
    Mixer<double> mixer = receiver_;
    MixingLab::Vector x = model_;
    CHECK(mixer.mix(round_, x, arrived) == 0);
    return x;
  }

 private:
  TwoMessages(const MixRule& rule, std::size_t from, std::size_t to, std::uint64_t round)
      : from_(from), round_(round), receiver_(rule, 6, 1), model_(drawn_models(peers, 6)[to]) {
    Mixer<double> sender(rule, 6, 1);
    MixingLab::Vector x = drawn_models(peers, 6)[from];
    sender.begin_generation(from, order_of(peers), 1, x);
    receiver_.begin_generation(to, order_of(peers), 1, model_);
    older_ = made(sender, 0, x, to);
    newer_ = made(sender, round, x, to);
    made(receiver_, round, model_, to);
  }

  /// The message that peer `to` gets in a round, after a local step of the sender.
  static MixMessage made(Mixer<double>& mixer, std::uint64_t round, MixingLab::Vector& x,
                         std::size_t to) {
    const bool first = mixer.rule().order == MixOrder::combine_then_adapt;
    std::vector<MixMessage> messages;
    mixer.begin_round(round, x);
    if (first) messages = mixer.messages(round, x);
    for (double& value : x) value += 0.5;
    mixer.end_steps(x, 0.1, 1);
    if (!first) messages = mixer.messages(round, x);
    for (const MixMessage& message : messages) {
      if (std::ranges::count(message.to, to) > 0) return message;
    }
    return {};
  }

  std::size_t from_;
  std::uint64_t round_;
  Mixer<double> receiver_;
  MixingLab::Vector model_;
  MixMessage older_;
  MixMessage newer_;
};

}  // namespace

TEST_CASE("beside a newer message an older one changes nothing where the newest suffices",
          "[unit]") {
  std::size_t seen = 0;
  for (const MixRule& rule : rules_that_wait_as_they_may()) {
    if (!traits_of(rule).newest_suffices) continue;
    const auto messages = TwoMessages::of(rule);
    if (!messages) continue;
    INFO(name_of(rule) << ", staleness " << rule.staleness);
    CHECK(messages->mixed(true) == messages->mixed(false));
    ++seen;
  }
  CHECK(seen > 50);
}

TEST_CASE("what is added up never goes without an older message", "[unit]") {
  std::size_t seen = 0;
  for (const MixRule& rule : rules_that_wait_as_they_may()) {
    const bool adds_up = rule.kind == MixKind::push_sum || rule.kind == MixKind::downpour;
    if (!adds_up || rule.staleness == 0) continue;
    INFO(name_of(rule) << ", staleness " << rule.staleness);
    CHECK_FALSE(traits_of(rule).newest_suffices);
    // With DOWNPOUR only the centre adds messages up. Its workers read the centre's newest sum.
    const auto messages = TwoMessages::of(rule);
    if (!messages || rule.kind == MixKind::downpour) continue;
    CHECK(messages->mixed(true) != messages->mixed(false));
    ++seen;
  }
  CHECK(seen > 5);
}

TEST_CASE("only models as they were may be left out and only where no round waits for its own",
          "[unit]") {
  for (const MixRule& rule : rules_that_wait_as_they_may()) {
    const bool model_as_it_was = rule.kind == MixKind::average && rule.memory == MixMemory::none &&
                                 rule.correction == MixCorrection::none;
    INFO(name_of(rule) << ", staleness " << rule.staleness);
    CHECK(traits_of(rule).newest_suffices == (model_as_it_was && rule.staleness > 0));
  }
  MixRule pieces{.topology = {.kind = TopologyKind::complete}};
  pieces.staleness = 2;
  pieces.fragments = 4;
  CHECK_FALSE(traits_of(pieces).newest_suffices);
}

}  // namespace gv
