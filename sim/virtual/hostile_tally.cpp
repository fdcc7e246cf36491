// Counts the messages in jobs that mix.
#include "sim/virtual/hostile_tally.hpp"

#include "peer/modes/mixing.hpp"

namespace gv {

/// The counts for messages to `hearer` from the peer with this rank in the generation of `hearer`.
Belief& HostileTally::belief(const Simulator& world, PeerNumber hearer, std::size_t rank) {
  const std::vector<PeerId>& ranks = world.peer(hearer).node->as<MixingMode>()->ranks();
  const bool hostile = rank < ranks.size() && hostile_.contains(number_of(ranks[rank]));
  return hostile ? of_hostile_ : of_honest_;
}

void HostileTally::on_job(const Simulator& world, PeerNumber peer, const Job& job) {
  const auto* mix = first_of<task::MixRound>(job.tasks);
  if (mix == nullptr || hostile_.contains(peer)) return;
  for (const MixMessage& message : mix->arrived) ++belief(world, peer, message.from).heard;
}

void HostileTally::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  const auto* mixing = first_of<result::Mixing>(done.results);
  if (mixing == nullptr || hostile_.contains(peer)) return;
  refused_ += mixing->refused;
  for (const std::size_t rank : mixing->held_back) ++belief(world, peer, rank).held_back;
}

}  // namespace gv
