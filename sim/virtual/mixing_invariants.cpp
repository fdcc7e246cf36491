// The checkers for mode `mixing`. Names in quotes are from docs/simulator.md.
#include "sim/virtual/mixing_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gv {
namespace {

/// Number of newest generations that are kept. The sides of a partition have separate generations,
/// and one side may begin many while the other stays in one.
constexpr std::size_t keys_kept = 256;

}  // namespace

MixingInvariants::GenerationRecord& MixingInvariants::record(std::uint64_t key) {
  if (generations_.contains(key)) return generations_[key];
  keys_.push_back(key);
  if (keys_.size() > keys_kept) {
    generations_.erase(keys_.front());
    keys_.pop_front();
  }
  return generations_[key];
}

void MixingInvariants::on_effects(const Simulator& world, PeerNumber peer,
                                  const NodeEffects& effects) {
  const auto& node = world.peer(peer).node;
  const MixingMode* rounds = node ? node->as<MixingMode>() : nullptr;
  if (rounds == nullptr || world.is_hostile(peer)) return;
  // Use the transfer's own fields, because the generation may have ended at the same moment.
  for (const Transfer& transfer : effects.transfers) {
    if (transfer.id.kind != TransferKind::mixing) continue;
    record(transfer.id.session).sent[{peer, number_of(transfer.to), transfer.id.number}] =
        transfer.payload;
  }
  if (rounds->generations()->agreement().generation() == nullptr) return;
  for (const Job& job : effects.jobs) {
    if (const auto* mix = first_of<task::MixRound>(job.tasks)) {
      check_mixing(world, peer, *rounds, *mix);
    }
  }
}

void MixingInvariants::check_mixing(const Simulator& world, PeerNumber peer,
                                    const MixingMode& rounds, const task::MixRound& mix) {
  const std::vector<PeerId>& ranks = rounds.ranks();
  GenerationRecord& generation = record(rounds.generations()->agreement().generation()->key());
  for (const MixMessage& message : mix.arrived) {
    // "messages as they were sent": a peer mixes each message once, and only in the generation in
    // which it was sent.
    const PeerNumber from = number_of(ranks.at(message.from));
    if (world.is_hostile(from)) continue;
    const auto sent = generation.sent.find({from, peer, message.round});
    if (sent == generation.sent.end() || !std::ranges::equal(sent->second.bytes, *message.bytes)) {
      fail(world, "messages as they were sent",
           fmt::format("peer-{} mixes a message of round {} that peer-{} did not send it in this "
                       "generation, or not once more",
                       peer, message.round, from));
      return;
    }
    generation.sent.erase(sent);
    ++mixed_;
  }
  // "whole rounds": a rule without staleness must wait for all in-neighbours.
  const MixRule& rule = rounds.options().rule;
  if (rule.staleness > 0) return;
  if (!generation.plan)
    generation.plan.emplace(rule, ranks.size(), world.options().node.course.run_seed,
                            rounds.hosts());
  const auto rank = std::ranges::find(ranks, id_of(peer)) - ranks.begin();
  for (const Share& share : generation.plan->turn(static_cast<std::size_t>(rank), mix.round).in) {
    const bool came = std::ranges::any_of(mix.arrived, [&](const MixMessage& message) {
      return message.from == share.from && message.round == mix.round;
    });
    if (came) continue;
    fail(world, "whole rounds",
         fmt::format("peer-{} mixes in round {} without what peer-{} sends", peer, mix.round,
                     number_of(ranks.at(share.from))));
  }
}

}  // namespace gv
