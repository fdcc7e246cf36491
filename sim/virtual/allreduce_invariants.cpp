// The checkers for lockstep. Names in quotes are those of docs/simulator.md.
#include "sim/virtual/allreduce_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/fingerprint.hpp"

namespace gv {
namespace {

/// So many of a peer's newest gradients are known: one, but for those who stood still meanwhile.
constexpr std::size_t gradients_kept = 16;

}  // namespace

void RingInvariants::fail(const Simulator& world, std::string invariant, std::string what) {
  if (violation_) return;
  violation_ = {std::move(invariant), std::move(what), world.now(), false};
}

RingInvariants::PeerRecord& RingInvariants::record(PeerNumber peer) {
  if (records_.size() <= peer) records_.resize(peer + 1);
  return records_[peer];
}

RingInvariants::Sample RingInvariants::sample(const Simulator& world,
                                              std::span<const float> values) {
  const std::size_t elements = world.options().node.course.elements;
  Sample some{};
  for (std::size_t i = 0; i < some.size(); ++i) some[i] = values[i * elements / some.size()];
  return some;
}

void RingInvariants::on_effects(const Simulator& world, PeerNumber peer,
                                const NodeEffects& effects) {
  const RingMode* ring = world.peer(peer).node->ring();
  if (ring == nullptr) return;
  PeerRecord& mine = record(peer);
  for (const Outgoing& outgoing : effects.messages) {
    const auto* confirm = std::get_if<Confirm>(&outgoing.message);
    if (confirm == nullptr) continue;
    // "stands still": whoever has answered a ballot does not move on before it is decided.
    const bool older = confirm->ballot < mine.answered;
    const bool moved = confirm->ballot == mine.answered && confirm->standing != mine.standing;
    if (older || moved) {
      fail(world, "stands still",
           fmt::format("peer-{} answers {}", peer, older ? "an older ballot" : "twice unlike"));
    }
    mine.answered = confirm->ballot;
  }
  for (const Event& event : effects.events) {
    // "equal standings are equal bits", as peers find out themselves.
    if (event.name == "models_differ") {
      fail(world, "equal standings are equal bits",
           fmt::format("peer-{} finds that models differ", peer));
    }
    // "sums whole", likewise.
    if (event.name != "sum_refused") continue;
    fail(world, "sums whole", fmt::format("peer-{} refuses a sum: {}", peer, event.detail));
  }
  if (!effects.jobs.empty()) mine.job_standing = ring->agreement().standing();
}

void RingInvariants::on_job(const Simulator& world, PeerNumber peer, const Job& job) {
  if (world.peer(peer).node->ring() == nullptr) return;
  if (job.update) check_sum(world, peer, *job.update);
  record(peer).gradient = job.gradient ? job.gradient->values : nullptr;
}

/// "sums whole": what is applied is the mean of the gradients of all in the epoch, each computed
/// on the model that the operation went on from.
void RingInvariants::check_sum(const Simulator& world, PeerNumber peer,
                               std::span<const float> sum) {
  const auto parent = parents_.find(record(peer).job_standing.history);
  if (parent == parents_.end()) {
    fail(world, "sums whole", fmt::format("peer-{} applies what nobody has finished", peer));
    return;
  }
  const Epoch& epoch = epochs_.at(parent->second.epoch);
  std::array<double, Sample{}.size()> mean{};
  std::array<double, Sample{}.size()> size{};
  double samples = 0;
  for (const std::uint32_t share : epoch.shares) samples += share;
  for (std::size_t i = 0; i < epoch.order.size(); ++i) {
    const auto& known = record(number_of(epoch.order[i])).gradients;
    const auto its =
        std::ranges::find(known, parent->second.history, &std::pair<std::uint64_t, Sample>::first);
    if (its == known.end()) return;  // We have stood still for long and apply it only now.
    for (std::size_t k = 0; k < mean.size(); ++k) {
      const double part = epoch.shares[i] / samples * static_cast<double>(its->second[k]);
      mean[k] += part;
      size[k] += std::abs(part);
    }
  }
  ++sums_;
  const Sample applied = sample(world, sum);
  for (std::size_t k = 0; k < mean.size(); ++k) {
    if (std::abs(static_cast<double>(applied[k]) - mean[k]) <= 1e-5 * size[k]) continue;
    fail(world, "sums whole",
         fmt::format("peer-{} applies {:.9g} where the mean of {} gradients is {:.9g}", peer,
                     applied[k], epoch.order.size(), mean[k]));
    return;
  }
}

void RingInvariants::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  if (world.peer(peer).node->ring() == nullptr) return;
  PeerRecord& mine = record(peer);
  const Workload& work = *world.peer(peer).work;
  // "equal standings are equal bits".
  const Standing& standing = mine.job_standing;
  if (done.step != standing.operation) {
    fail(world, "equal standings are equal bits",
         fmt::format("peer-{} has made {} steps and stands at {}", peer, done.step,
                     standing.operation));
  }
  const std::uint64_t hash = fingerprint(work.parameters());
  if (models_.try_emplace(standing.history, hash).first->second != hash) {
    fail(world, "equal standings are equal bits",
         fmt::format("peer-{}'s model after operation {} is not that of others", peer,
                     standing.operation));
  }
  if (!mine.gradient) return;
  mine.gradients.emplace_front(standing.history, sample(world, *mine.gradient));
  if (mine.gradients.size() > gradients_kept) mine.gradients.pop_back();
  mine.gradient.reset();
}

void RingInvariants::on_state(const Simulator&, PeerNumber peer, PeerState state) {
  if (state != PeerState::down && state != PeerState::ended) return;
  auto gradients = std::move(record(peer).gradients);  // They may be in sums of others.
  record(peer) = PeerRecord{.gradients = std::move(gradients)};
}

/// The peer is in an epoch that it was not in before.
void RingInvariants::check_epoch(const Simulator& world, PeerNumber peer, const Epoch& epoch) {
  PeerRecord& mine = record(peer);
  // "one epoch of a name".
  const Epoch& known = epochs_.try_emplace(epoch.key(), epoch).first->second;
  const bool same = known.id == epoch.id && known.order == epoch.order &&
                    known.sources == epoch.sources && known.shares == epoch.shares &&
                    known.standing == epoch.standing && known.algorithm == epoch.algorithm &&
                    known.slowest_from == epoch.slowest_from && known.slowest == epoch.slowest;
  if (!same || !epoch.contains(id_of(peer))) {
    fail(world, "one epoch of a name",
         fmt::format("peer-{} is in another epoch of the same name than others", peer));
  }
  if (mine.left.contains(epoch.key())) {
    fail(world, "one epoch of a name",
         fmt::format("peer-{} begins an epoch again that was over", peer));
  }
}

void RingInvariants::after(const Simulator& world, PeerNumber peer) {
  const VirtualPeer& acted = world.peer(peer);
  if (!acted.node || acted.node->ring() == nullptr) return;
  const RingAgreement& agreement = acted.node->ring()->agreement();
  PeerRecord& mine = record(peer);
  const Epoch* epoch = agreement.epoch();
  const std::uint64_t key = epoch != nullptr ? epoch->key() : 0;
  if (epoch != nullptr && epoch->id < mine.answered) {
    fail(world, "stands still",
         fmt::format("peer-{} works in an epoch although it answered a later ballot", peer));
  }
  // What it finished now it finished where it was, or at once where it is.
  const std::uint64_t was_in = mine.epoch;
  if (key != mine.epoch) {
    if (mine.epoch != 0) mine.left.insert(mine.epoch);
    mine.epoch = key;
    if (epoch != nullptr) check_epoch(world, peer, *epoch);
  }
  const Standing standing = agreement.standing();
  const Standing before = std::exchange(mine.standing, standing);
  if (!std::exchange(mine.seen, true) || standing == before) return;
  const bool at_once = was_in == 0 || standing.history == after_operation(before, key, 0).history;
  const std::uint64_t worked_in = at_once ? key : was_in;
  if (worked_in == 0) {
    fail(world, "stands still",
         fmt::format("peer-{} moves from operation {} to {} in no epoch", peer, before.operation,
                     standing.operation));
    return;
  }
  const Epoch& in = epochs_.at(worked_in);
  if (standing == in.standing) {  // It was sent the state, which is never an older one.
    if (standing.samples < before.samples) {
      fail(world, "one result of an operation",
           fmt::format("peer-{} gives up {} samples for {}", peer, before.samples,
                       standing.samples));
    }
    return;
  }
  // "one result of an operation".
  const Node::Options& node = world.options().node;
  const std::uint64_t steps = node.ring.local.steps_at(before.operation, node.course.steps);
  if (standing.operation != before.operation + steps || standing.samples <= before.samples) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} goes from operation {} to {}", peer, before.operation,
                     standing.operation));
  }
  const auto result = results_.try_emplace({worked_in, standing.operation}, standing).first->second;
  if (result != standing) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} finishes operation {} unlike others in its epoch", peer,
                     before.operation));
  }
  parents_.try_emplace(standing.history, Parent{before.history, worked_in});
}

}  // namespace gv
