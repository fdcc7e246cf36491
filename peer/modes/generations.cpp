// Follows candidates, ballots, stragglers and newcomers.
#include "peer/modes/generations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "peer/modes/mode.hpp"

namespace gv {

namespace {

bool is_alike(PeerId self, std::uint64_t layout_hash, const Membership& members, PeerId peer) {
  if (peer == self) return true;
  const Member* member = members.find(peer);
  return member != nullptr && member->layout_hash == layout_hash &&
         member->state != MemberState::dead;
}

/// True if alike_peers() equals `these`. Does not build that list, because every tick calls this.
bool are_alike(PeerId self, std::uint64_t layout_hash, const Membership& members,
               const std::vector<PeerId>& these) {
  auto next = these.begin();
  for (const PeerId peer : members.view().peers()) {
    if (!is_alike(self, layout_hash, members, peer)) continue;
    if (next == these.end() || *next != peer) return false;
    ++next;
  }
  return next == these.end();
}

}  // namespace

std::vector<PeerId> alike_peers(PeerId self, std::uint64_t layout_hash, const Membership& members) {
  std::vector<PeerId> present;
  for (const PeerId peer : members.view().peers()) {
    if (is_alike(self, layout_hash, members, peer)) present.push_back(peer);
  }
  return present;
}

bool Generations::set_candidates(Time now, std::uint64_t layout_hash, const Membership& members) {
  if (are_alike(self_, layout_hash, members, present_)) return false;
  present_ = alike_peers(self_, layout_hash, members);
  agreement_.set_candidates(now, present_);
  return true;
}

void Generations::join(Time now, Course& course, Effects& out) {
  if (joined_ || course.is_leaving() || !course.is_barrier_open(now, candidates().size())) return;
  joined_ = true;
  agreement_.disturb(now, {}, out);
}

bool Generations::is_rebalance_due(Time now, Phase phase, bool is_planned, Effects& out) {
  if (current() == nullptr) return false;
  const bool is_done = phase == Phase::done;
  if (is_done && !unites_) {
    rebalance_.rest();
    return false;
  }
  rebalance_due_ =
      rebalance_due_ || rebalance_.newcomers_wait(now, agreement_, candidates(), out) ||
      (!is_done && is_planned && rebalance_.ballot_is_due(*current(), candidates(), operations_)) ||
      (!is_done && current()->revision < agreement_.revision());
  return rebalance_due_;
}

/// Returns the sorted peers of our generation that need nothing more from us. If we have the run's
/// last model, peers that still download it are not among them.
std::vector<PeerId> Generations::settled_peers(const Course& course) const {
  const std::vector<PeerId>& order = current()->order;
  const std::vector<PeerId>& sources = current()->sources;
  const auto rank = std::ranges::find(order, self_) - order.begin();
  const bool gives =
      current()->version.step >= course.steps() && sources[static_cast<std::size_t>(rank)] == self_;
  std::vector<PeerId> settled;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!gives || sources[i] == order[i]) settled.push_back(order[i]);
  }
  std::ranges::sort(settled);
  return settled;
}

/// True if, as far as we know, another peer has a different model. That peer may be present, or
/// dead and able to return.
bool Generations::is_apart(const Course& course, const Membership& members) const {
  if (current() == nullptr) return joined_ && agreement_.last_generation() == nullptr;
  const std::vector<PeerId> settled = settled_peers(course);
  bool found = false;
  members.for_each_other([&](const Member& member) {
    const bool may_come = is_live(member.state) || member.state == MemberState::dead;
    if (found || !may_come || std::ranges::binary_search(settled, member.id)) return;
    found = member.layout_hash == course.options().layout_hash &&
            !agreement_.is_excluded(member.id) && !agreement_.is_left_out(member.id);
  });
  return found;
}

std::optional<std::vector<PeerId>> Generations::find_lost(Time now, bool waiting,
                                                          std::uint64_t progress, Effects& out) {
  if (current() == nullptr) return std::nullopt;
  if (!waiting) {
    stragglers_.rest(now);
    return std::nullopt;
  }
  const auto lost = stragglers_.watch(now, *current(), progress, agreement_.patience(), out);
  if (!lost) return std::nullopt;
  return std::vector<PeerId>(lost->begin(), lost->end());
}

auto Generations::follow(Time now, const Course& course) -> Change {
  const Generation* generation = current();
  if (generation == nullptr) {
    const bool left = is_in_one();
    if (left) leave();
    return {.left = left};
  }
  if (course.is_leaving() || generation->key() == key_) return {};
  leave();
  ++count_;
  key_ = generation->key();
  order_ = generation->order;
  stragglers_.enter_generation(now);
  rebalance_.enter_generation(now, generation->order.size());
  return {.left = true, .entered = generation};
}

void Generations::move_on(Time now, bool ready, const Mode& mode, Course& course,
                          Membership& members, Effects& out) {
  course.end_lingering(now);
  if (course.phase() == Phase::joining && is_in_one() && ready) {
    stragglers_.begin(now);
    course.become_training(now, order_.size(), mode, members, out);
  }
  if (course.phase() == Phase::done && !course.is_leaving() && step() < course.steps()) {
    course.enter(now, Phase::training, mode, members, out);
  }
  if (course.phase() == Phase::training && step() >= course.steps()) {
    course.become_done(now, mode, members, out);
    if (unites_ && current() != nullptr) {
      // The other peers need a moment to finish the operation that we have just finished.
      rebalance_due_ = false;
      rebalance_.rest();
      rebalance_.enter_generation(now, order_.size());
    }
  }
  const bool unites_now = unites_ && course.phase() == Phase::done;
  course.set_apart(unites_now && (!ready || is_apart(course, members)));
}

Time Generations::deadline(const Course& course, bool waiting, Time own) const {
  if (!course.is_running() || course.is_leaving()) return never;
  if (!joined_) return std::min(course.linger_deadline(), course.barrier_deadline());
  return std::min({course.linger_deadline(), agreement_.deadline(), own,
                   rebalance_due_ ? never : rebalance_.deadline(),
                   stragglers_.deadline(waiting, agreement_.patience())});
}

// ---- Other inputs ----

auto Generations::receive(Time now, PeerId from, const Message& message, bool busy, bool votes,
                          const GenerationPlanner& planner, Effects& out) -> Heard {
  const Generation* generation = current();
  if (agreement_.is_excluded(from)) return Heard::handled;
  if (std::holds_alternative<StatusRequest>(message)) {
    out.send(from,
             StatusReply{.ballot = generation != nullptr ? generation->id : agreement_.promised(),
                         .step = step(),
                         .busy = generation != nullptr && busy});
    agreement_.heard(from);
  } else if (const auto* here = std::get_if<StatusReply>(&message)) {
    agreement_.heard(from);
    if (!stragglers_.is_asking() || generation == nullptr || !generation->contains(from)) {
      return Heard::handled;
    }
    stragglers_.heard(from, here->busy);
    if (here->ballot != generation->id) return Heard::disturbed;
  } else if (!Agreement::handles(message)) {
    return Heard::other;
  } else if (votes || std::holds_alternative<Equivocation>(message)) {
    if (std::holds_alternative<Propose>(message)) joined_ = true;
    agreement_.receive(now, from, message, planner, out);
    const bool ended = generation != nullptr && current() == nullptr;
    if (ended) recoveries_.become_interrupted(now, order_);
    if (agreement_.is_spoilt()) return Heard::disturbed;
  }
  return Heard::handled;
}

bool Generations::refuse(Time now, PeerId peer, const std::string& why, Effects& out) {
  if (agreement_.refuse(now, peer, out)) {
    out.tell(LinkQuarantined{.peer = peer, .why = why, .seconds = seconds(agreement_.refusal())});
  }
  return agreement_.is_spoilt();
}

double Generations::norm_cap_of(Time now, const ArrivedState& state) const {
  // A refusal counts for three times as long as it lasts, because refused peers come back one by
  // one.
  const auto counts = [&](const auto& refused) {
    return now < refused.second + 3 * agreement_.refusal() &&
           std::ranges::binary_search(present_, refused.first);
  };
  const auto longer = static_cast<std::size_t>(std::ranges::count_if(longer_, counts));
  return longer >= 2 && 3 * longer > present_.size() ? 0 : state.norm_cap();
}

void Generations::adopt(const ArrivedState& state) {
  replaced_ = {.source = state.from, .version = agreement_.version()};
  agreement_.set_version(state.version);
}

std::optional<PeerId> Generations::reject_state(Time now, const JobDone& done, Effects& out) {
  const auto* refused = first_of<result::StateRefused>(done.results);
  if (refused == nullptr || !replaced_) return std::nullopt;
  const Replaced replaced = *std::exchange(replaced_, std::nullopt);
  agreement_.set_version(replaced.version);
  if (refused->why == Reason::norm_exceeded) longer_[replaced.source] = now;
  out.tell(ModelRefused{.peer = replaced.source, .reason = refused->why, .norm = refused->norm});
  static_cast<void>(refuse(now, replaced.source,
                           refused->why == Reason::norm_exceeded
                               ? "its model is far longer than ours"
                               : "no optimiser can have made its state",
                           out));
  return replaced.source;
}

bool Generations::is_disturbed_by(Time now, PeerId gone, Phase phase) {
  std::erase(present_, gone);
  agreement_.set_candidates(now, present_);
  return current() == nullptr || (current()->contains(gone) && phase != Phase::done);
}

bool Generations::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  if (!joined_ || agreement_.last_generation() != nullptr) return false;
  if (current() != nullptr) {
    recoveries_.become_interrupted(now, order_);
    out.tell(GenerationEnded{.peer = blamed.empty() ? std::optional<PeerId>() : blamed.front()});
  } else if (std::ranges::any_of(blamed, [this](PeerId peer) {
               return std::ranges::find(order_, peer) != order_.end();
             })) {
    // The generation had already ended for another reason, and now one of its peers is lost too.
    recoveries_.become_interrupted(now, order_);
  }
  end(now, blamed, out);
  return true;
}

void Generations::end(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  agreement_.disturb(now, blamed, out);
  leave();
}

void Generations::leave() {
  key_ = 0;
  rebalance_due_ = false;
  stragglers_.leave_generation();
  rebalance_.rest();
}

void Generations::leave_for_good(Time now, Phase phase, Effects& out) {
  if (phase == Phase::done) {
    leave();
  } else {
    end(now, {}, out);
  }
}

// ---- Operations ----

void Generations::operation_done(Time now, std::uint64_t from_step, std::uint64_t steps,
                                 Effects& out) {
  ++operations_;
  stragglers_.operation_done(now, operations_ > 1 && !recoveries_.is_interrupted());
  rebalance_.operation_done(now);
  if (operation_seconds() > 0) {
    steps_per_second_ = static_cast<double>(steps) / operation_seconds();
  }
  recoveries_.become_resumed(now, order_, from_step, out);
}

// ---- Reports ----

std::string to_line(const Recovery& recovery, const Membership& members) {
  return fmt::format("lost {}: {:.2f} s later operation {} is made by the other {}",
                     fmt::join(names_of(recovery.lost, members), ", "), recovery.seconds,
                     recovery.operation, recovery.peers);
}

void Generations::add_to(ReportSection& section, const Membership& members) const {
  const Recovery& last = recoveries_.last();
  const bool any = !last.lost.empty();
  section.figures.insert(section.figures.end(),
                         {{"interruption", any ? to_line(last, members) : std::string()},
                          {"resumed_at", any ? last.operation : std::uint64_t{0}}});
}

void Generations::add_to(std::vector<ReportMetric>& metrics) const {
  using enum ReportMetric::Kind;
  metrics.push_back({"generations_total", counter, "Agreements on the peers that work together.",
                     static_cast<double>(count_)});
  metrics.push_back({"losses_total", counter, "Times the others went on without lost peers.",
                     static_cast<double>(recoveries_.losses())});
}

}  // namespace gv
