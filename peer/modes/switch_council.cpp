// Holds ballots about switches, and decides when to call one.
#include "peer/modes/switch_council.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <variant>

#include "base/rng.hpp"
#include "peer/modes/generations.hpp"
#include "peer/modes/vouched.hpp"

namespace gv {
namespace {

/// The first and the longest delay before another council is called for newcomers that did not
/// answer. The delay doubles each time.
constexpr Duration tells_after_min = std::chrono::seconds(1);
constexpr Duration tells_after_max = std::chrono::seconds(60);

/// Shortest time that peers get to answer a council. Ballots within a mode allow less time.
constexpr Duration patience = std::chrono::milliseconds(500);

/// The ballot numbers of one mode differ only in this many low bits. The next `text_bits` bits are
/// part of the hash of the settings.
constexpr int ballot_bits = 32;
constexpr int text_bits = 8;
/// Sizes of the same two fields in the numbers of ballots about one mean.
constexpr int ballot_bits_of_mean = 28;
constexpr int hash_bits_of_mean = 31;

const SettingsRevision& newest_of(const Answers& answers) {
  return std::ranges::max_element(
             answers, {},
             [](const auto& answer) -> const SettingsRevision& { return answer.second.revision; })
      ->second.revision;
}

/// Passes on the agreement's messages and facts. Drops facts about generations, because a council's
/// generations belong to no mode. Also drops refusals, because the mode sends its own.
void pass_on(Effects& made, Effects& out) {
  for (Outgoing& outgoing : made.messages) {
    if (std::holds_alternative<Refusals>(outgoing.message)) continue;
    out.messages.push_back(std::move(outgoing));
  }
  for (Fact& fact : made.facts) {
    if (std::holds_alternative<GenerationBegan>(fact)) continue;
    out.facts.push_back(std::move(fact));
  }
}

}  // namespace

BallotRange ballots_of_mode(const SettingsRevision& revision) {
  // This range ends below the ranges of the first switch, whatever the settings of that switch are.
  if (revision.number == 0) return {0, std::uint64_t{1} << (text_bits + ballot_bits)};
  const std::uint64_t text = stable_hash(revision.settings) >> (64 - text_bits);
  return {(revision.number << text_bits | text) << ballot_bits, std::uint64_t{1} << ballot_bits};
}

std::uint64_t SwitchPlanner::lineage_of(const SettingsRevision& revision) {
  return hash_combine(stable_hash(revision.settings), revision.number);
}

std::optional<Generation> SwitchPlanner::plan(const Answers& answers, const Generation*) const {
  const SettingsRevision& newest = newest_of(answers);
  const auto is_there = [&](const Answer& answer) {
    return answer.version.lineage == lineage_of(newest);
  };
  Generation council;
  std::optional<PeerId> there;
  std::vector<std::uint64_t> steps;
  std::vector<std::uint64_t> samples;
  bool ends = false;
  bool is_refused = false;
  bool are_alike = true;
  for (const auto& [peer, answer] : answers) {
    if (is_there(answer) && !there) there = peer;
    council.order.push_back(peer);
    council.shares.push_back(1);
    steps.push_back(answer.version.step);
    samples.push_back(answer.version.samples);
    ends |= answer.ends;
    is_refused |= answer.speed >= static_cast<float>(newest.number);
    are_alike &= answer.host == answers.begin()->second.host;
  }
  for (const auto& [peer, answer] : answers) {
    council.sources.push_back(is_there(answer) ? peer : there.value_or(peer));
  }
  const std::uint64_t most = std::ranges::max(steps);
  council.version.step = std::max<std::uint64_t>(1, std::min(most, 2 * vouched(std::move(steps))));
  council.version.samples =
      std::min(vouched(std::move(samples)), council.version.step * samples_max());
  Outcome outcome = Outcome::switches;
  if (ends && !there) outcome = Outcome::ends;
  if (!are_alike && needs_alike_(newest.settings)) outcome = Outcome::differs;
  if (is_refused && !there && newest.number > 0) outcome = Outcome::refused;
  council.algorithm = static_cast<std::uint8_t>(outcome);
  return council;
}

std::string SwitchPlanner::problem(const Generation& generation) const {
  if (generation.algorithm > static_cast<std::uint8_t>(Outcome::refused)) {
    return "it installs an outcome that does not exist";
  }
  // The mean of a switch counts as one step, so it cannot lead to step 0.
  if (generation.version.step == 0) return "it switches before the first step";
  return generation.assignments.empty() ? "" : "it assigns stages where there are none";
}

std::string SwitchPlanner::problem(const Answer& answer) const {
  const bool has_stages = !answer.holdings.empty() || answer.leaves;
  return has_stages ? "it promises stages where there are none" : "";
}

std::string SwitchPlanner::problem(const SettingsRevision& revision) const {
  if (revision == SettingsRevision{}) return "";
  if (revision.number == 0 || revision.number > switches_max) {
    return "it switches with a number that no switch has";
  }
  return judge_(revision.settings);
}

BallotRange SwitchCouncil::ballots_of_mean(const Decision& decision) {
  const std::uint64_t of_settings = SwitchPlanner::lineage_of(decision.revision);
  const std::uint64_t hash =
      hash_combine(hash_combine(of_settings, decision.step), decision.samples);
  return {first_ballot_of_meetings + ((hash >> (64 - hash_bits_of_mean)) << ballot_bits_of_mean),
          std::uint64_t{1} << ballot_bits_of_mean};
}

SwitchCouncil::SwitchCouncil(PeerId self, std::uint64_t session, Options options,
                             SwitchPlanner planner, const Signer& signer)
    : self_(self),
      layout_hash_(options.layout_hash),
      present_(std::move(options.present)),
      alike_(options.alike),
      planner_(std::move(planner)),
      agreement_(self, session, {.patience = patience, .first_ballot = first_ballot_of_council},
                 signer) {
  agreement_.set_revision(present_);
}

bool SwitchCouncil::is_deciding() const {
  return has_met_ && agreement_.generation() == nullptr && agreement_.last_generation() == nullptr;
}

/// Tells the agreement which peers are present, and what we would answer in a ballot.
void SwitchCouncil::follow(Time now, const Standing& own, const Membership& members) {
  std::vector<PeerId> present = alike_peers(self_, layout_hash_, members);
  if (present != present_peers_) {
    std::erase_if(told_, [&](PeerId peer) { return !std::ranges::binary_search(present, peer); });
    present_peers_ = present;
    tells_after_ = tells_after_min;
    agreement_.set_candidates(now, std::move(present));
  }
  if (is_deciding()) return;
  agreement_.set_version({.step = own.step,
                          .samples = std::min(own.samples, own.step * planner_.samples_max()),
                          .lineage = SwitchPlanner::lineage_of(present_)});
  agreement_.set_ends(own.ends);
  agreement_.set_host(alike_);
  agreement_.set_speed(static_cast<double>(refused_));
}

/// Calls a council. The other peers know nothing of the first council, so we propose at once
/// instead of waiting for our turn. A later council ends the generation of the previous one, so all
/// peers learn of it.
void SwitchCouncil::call(Time now, Effects& out) {
  std::vector<PeerId> before;
  if (!std::exchange(has_met_, true)) {
    std::ranges::copy_if(agreement_.candidates(), std::back_inserter(before),
                         [this](PeerId peer) { return peer < self_; });
  }
  Effects made;
  agreement_.disturb(now, before, made);
  pass_on(made, out);
}

void SwitchCouncil::ask(Time now, std::string settings, const Standing& own,
                        const Membership& members, Effects& out) {
  follow(now, own, members);
  agreement_.set_revision({agreement_.revision().number + 1, std::move(settings)});
  call(now, out);
}

void SwitchCouncil::receive(Time now, PeerId from, const Message& message, const Standing& own,
                            const Membership& members, Effects& out) {
  follow(now, own, members);
  Effects made;
  agreement_.receive(now, from, message, planner_, made);
  has_met_ = has_met_ || agreement_.promised() != GenerationId{};
  pass_on(made, out);
}

void SwitchCouncil::tick(Time now, bool is_free, const Standing& own, const Membership& members,
                         Effects& out) {
  if (!has_met_ && present_.number == 0) return;
  follow(now, own, members);
  const bool is_news = std::ranges::any_of(agreement_.candidates(), [this](PeerId peer) {
    return peer != self_ && !told_.contains(peer);
  });
  if (!is_news || !is_free) {
    tells_again_at_ = never;
  } else if (tells_again_at_ == never) {
    tells_again_at_ = now + tells_after_;
  } else if (now >= tells_again_at_) {
    tells_after_ = std::min(2 * tells_after_, tells_after_max);
    tells_again_at_ = now + tells_after_;
    if (!is_deciding()) call(now, out);
  }
  Effects made;
  agreement_.tick(now, planner_, made);
  pass_on(made, out);
}

Time SwitchCouncil::deadline() const {
  if (!has_met_ && present_.number == 0) return never;
  return is_deciding() ? agreement_.deadline() : std::min(agreement_.deadline(), tells_again_at_);
}

auto SwitchCouncil::take_decision() -> std::optional<Decision> {
  const Generation* generation = agreement_.generation();
  if (generation == nullptr || generation->key() == decided_) return std::nullopt;
  decided_ = generation->key();
  told_ = {generation->order.begin(), generation->order.end()};
  for (const PeerId peer : std::exchange(gone_, {})) told_.erase(peer);
  const auto rank = std::ranges::find(generation->order, self_) - generation->order.begin();
  const auto outcome = static_cast<SwitchPlanner::Outcome>(generation->algorithm);
  return Decision{.revision = generation->revision,
                  .outcome = outcome,
                  .is_late = generation->sources[static_cast<std::size_t>(rank)] != self_,
                  .step = generation->version.step,
                  .samples = generation->version.samples};
}

}  // namespace gv
