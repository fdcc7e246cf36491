// Switches modes: from a decision through the mean of the models to the new mode.
#include "peer/modes/switchable_mode.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <utility>
#include <variant>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "peer/modes/allreduce.hpp"
#include "peer/modes/finale.hpp"

namespace gv {
namespace {

/// Shortest time that peers get to answer in a ballot about a mean. Peers that are not blamed get
/// four times as long, because some end their work later than others.
constexpr Duration meeting_patience = std::chrono::milliseconds(2500);

/// The number of low bits in a mean's lineage that come from the agreement. The bits above them
/// hold the number of models in the mean.
constexpr int lineage_bits = 48;

SwitchPlanner planner_of(const NodeOptions& options) {
  const auto& read = options.read_switch;
  return {[read](std::string_view settings) -> std::string {
            if (!read) return "its mode cannot switch";
            const Problems problems = read(settings).problems;
            if (problems.empty()) return "";
            return "it switches to settings that cannot be used: " + to_string(problems.front());
          },
          [read](std::string_view settings) { return read(settings).mode != ModeKind::gossip; }};
}

/// Returns the revision with a number that counts only mode switches. The number is 0 if the mode
/// was never switched.
SettingsRevision switched_by(const SettingsRevision& kept) {
  const std::uint64_t number = kept.number >> algorithm_bits;
  return {number, number > 0 ? kept.settings : std::string()};
}

}  // namespace

SwitchableMode::SwitchableMode(PeerId self, std::uint64_t session, NodeOptions options,
                               const Signer& signer, const Rng& draws)
    : self_(self),
      session_(session),
      options_(std::move(options)),
      signer_(&signer),
      draws_(draws),
      present_(switched_by(options_.revision)),
      kept_(options_.revision),
      kind_(options_.mode),
      council_(self, session,
               {.layout_hash = options_.course.layout_hash,
                .present = present_,
                .alike = options_.alike},
               planner_of(options_), signer) {
  NodeOptions first = this->options();
  first.mixing.tells_rule = false;
  kind_ = first.mode;
  made_ = make_mode(self, session, std::move(first), signer, draws);
}

/// The options of the mode to which a revision switches.
NodeOptions SwitchableMode::options_after(const SettingsRevision& revision) const {
  SwitchedMode switched = options_.read_switch(revision.settings);
  check(switched.problems.empty(), "a switch is judged before it is made");
  NodeOptions next = options_;
  next.mode = switched.mode;
  next.gossip = std::move(switched.gossip);
  next.allreduce = std::move(switched.allreduce);
  next.mixing.revision = revision;
  next.mixing.tells_rule = true;
  next.course.work.weigh_max = switched.weigh_max;
  if (next.course.work.budget == 0) next.course.steps = switched.steps;
  const std::uint64_t first = ballots_of_mode(switched_by(revision)).first;
  next.allreduce.agreement.first_ballot = next.mixing.agreement.first_ballot = first;
  return next;
}

Mode& SwitchableMode::active() { return meeting_ ? *meeting_ : *made_.mode; }

void SwitchableMode::start(Time now, std::uint64_t step, bool joins_others) {
  since_ = step;
  made_.mode->start(now, step, joins_others);
}

/// True if we vote on switches. A peer that is leaving does not vote.
bool SwitchableMode::takes_part() const {
  const Course& own = mode().course();
  return options_.read_switch && own.is_running() && !own.is_leaving();
}

SwitchCouncil::Standing SwitchableMode::standing() const {
  const SwarmWork* work = swarm_work();
  return {.step = step(),
          .samples = work != nullptr ? work->counted() : step() * options_.mixing.batch,
          .ends = mode().course().is_ending()};
}

// ---- Inputs ----

void SwitchableMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                             Effects& out) {
  const GenerationId* ballot = ballot_of(message);
  if (ballot == nullptr || !Agreement::handles(message)) {
    if (refuse_request(from, message, members, out)) return;
    const TransferId* transfer = transfer_of(message);
    // Messages about an exchange always go to the mode, because a partner may not know yet how our
    // last exchange ended.
    const bool is_of_exchange = transfer != nullptr && transfer->kind == TransferKind::exchange;
    Mode& concerned = is_of_exchange ? *made_.mode : active();
    return concerned.receive(now, from, message, members, out);
  }
  receive_in_ballot(now, from, message, ballot->number, members, out);
  const bool may_prove = std::visit(
      []<class M>(const M&) { return IsOneOf<M, std::variant<Install, Decided, Equivocation>>; },
      message);
  if (!may_prove || !takes_part()) return;
  show_proofs(now, *made_.mode, members, out);
  if (meeting_) show_proofs(now, *meeting_, members, out);
}

/// Passes the message to the part of this peer whose ballots include `number`. There is no such
/// part if others are in a mode that we have not begun. Mode `allreduce` holds no ballots about a
/// mean. But a peer that returns in that mode after the others have switched may receive messages
/// of their ballots. If no part of this peer holds the ballot, a proof of equivocation goes to the
/// council. The council outlives all modes, so the signer is excluded for the rest of the run.
void SwitchableMode::receive_in_ballot(Time now, PeerId from, const Message& message,
                                       std::uint64_t number, Membership& members, Effects& out) {
  const bool is_of_mean = number >= first_ballot_of_mean && kind_ != ModeKind::allreduce;
  const bool is_of_council = number >= first_ballot_of_council && number < first_ballot_of_mean;
  if (is_of_mean || kind_ == ModeKind::pipeline || ballots_of_mode(present_).contains(number)) {
    made_.mode->receive(now, from, message, members, out);
  } else if (meeting_ && SwitchCouncil::ballots_of_mean(*target_).contains(number)) {
    meeting_->receive(now, from, message, members, out);
  } else if (is_of_council || std::holds_alternative<Equivocation>(message)) {
    if (!takes_part() || !members.view().contains(from)) return;
    council_.receive(now, from, message, standing(), members, out);
  }
}

void SwitchableMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  Mode& concerned = block.id.kind == TransferKind::exchange ? *made_.mode : active();
  concerned.receive_block(now, from, block, out);
}

std::span<std::byte> SwitchableMode::place(PeerId from, const TransferId& id, std::uint64_t offset,
                                           std::size_t bytes) {
  return active().place(from, id, offset, bytes);
}

void SwitchableMode::lane_lost(Time now, PeerId peer, Effects& out) {
  made_.mode->lane_lost(now, peer, out);
  if (meeting_) meeting_->lane_lost(now, peer, out);
}

void SwitchableMode::lane_refused(Time now, PeerId peer, Effects& out) {
  made_.mode->lane_refused(now, peer, out);
  if (meeting_) meeting_->lane_refused(now, peer, out);
}

void SwitchableMode::peer_gone(Time now, PeerId peer, Effects& out) {
  council_.peer_gone(peer);
  made_.mode->peer_gone(now, peer, out);
  if (meeting_) meeting_->peer_gone(now, peer, out);
}

void SwitchableMode::refuse(Time now, PeerId peer, Effects& out) {
  made_.mode->refuse(now, peer, out);
  if (meeting_) meeting_->refuse(now, peer, out);
}

void SwitchableMode::gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) {
  active().gradient_ready(now, job, begin, out);
}

void SwitchableMode::complete(Time now, JobDone done, Membership& members, Effects& out) {
  replica_at_ = done.step;
  active().complete(now, std::move(done), members, out);
}

void SwitchableMode::woke_up(Time now, Membership& members, Effects& out) {
  if (!target_) made_.mode->woke_up(now, members, out);
}

void SwitchableMode::leave(Time now, Effects& out) {
  // The mean's job under way ends first. The next tick then abandons the mean.
  if (meeting_) is_meeting_void_ = true;
  made_.mode->leave(now, out);
}

// ---- Ticks ----

void SwitchableMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (takes_part()) {
    follow_council(now, members, out);
    // Peers in lockstep wait for a ballot anyway. In gossip they do not wait, so a hostile peer
    // cannot stop the others by calling one ballot after another.
    const bool decides = council_.is_deciding();
    made_.mode->hold_end(decides);
    if (decides && stands_still()) return;
  }
  go_on(now, members, out, jobs);
}

void SwitchableMode::go_on(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (meeting_ && is_meeting_void_) {
    if (meeting_->course().jobs_under_way() > 0) return;
    end_meeting();
  }
  if (meeting_) {
    meeting_->tick(now, members, out, jobs);
    if (!has_met()) return;
    begin_mode(now, members, out);
  }
  made_.mode->tick(now, members, out, jobs);
  if (!target_ || !made_.mode->has_wound_down() || !takes_part()) return;
  if (target_->is_late) {
    begin_mode(now, members, out);
    made_.mode->tick(now, members, out, jobs);
  } else {
    // Announce our progress, because the new mode begins with the sum of all peers' progress.
    members.set_progress(progress());
    members.announce(out);
    begin_meeting(now, members, out);
    meeting_->tick(now, members, out, jobs);
  }
}

Time SwitchableMode::deadline() const {
  // An abandoned mean has no deadline. We only wait for its job.
  const Time of_meeting = meeting_ && !is_meeting_void_ ? meeting_->deadline() : never;
  const Time own = meeting_ ? of_meeting : mode().deadline();
  if (!takes_part()) return own;
  const bool is_held = council_.is_deciding() && stands_still();
  return is_held ? council_.deadline() : std::min(own, council_.deadline());
}

// ---- Switching ----

Problems SwitchableMode::switch_to(Time now, std::string_view settings) {
  if (!options_.read_switch) return made_.mode->switch_to(now, settings);
  const bool names_mode = settings.starts_with("run.") || settings.find("\nrun.") != settings.npos;
  if (!names_mode && kind_ != options_.mode) {
    // Settings that name no mode are meant for the present mode. Add its name, because they would
    // otherwise be read as settings of the config's own mode.
    return switch_to(
        now, "run.mode = \"" + std::string(to_string(kind_)) + "\"\n" + std::string(settings));
  }
  const SwitchedMode switched = options_.read_switch(settings);
  // A run folder keeps one revision. So after a mode switch, a change of the rule has to be another
  // mode switch. Otherwise a restarted peer would not know the mode's own revision.
  const bool stays = switched.mode == kind_ && kind_ == ModeKind::mixing && present_.number == 0;
  if (stays && !target_) return made_.mode->switch_to(now, settings);
  if (!switched.problems.empty()) return switched.problems;
  if (!takes_part() || mode().course().is_ending()) {
    return {
        {.place = "run", .reason = "training is over here", .remedy = "ask a peer that trains"}};
  }
  // A council that only tells newcomers about the present mode does not block another switch.
  const bool decides_another = council_.is_deciding() && council_.heard().number > present_.number;
  if (target_ || asked_ || decides_another || council_.heard().number >= switches_max) {
    return {{.place = "switch",
             .reason = "another switch is under way",
             .remedy = "wait until `grapevine status` shows the new mode"}};
  }
  if (settings.size() > revision_bytes_max) {
    return {{.place = "settings",
             .reason = "longer than " + std::to_string(revision_bytes_max) + " bytes",
             .remedy = "leave out what has its default"}};
  }
  asked_ = settings;
  return {};
}

void SwitchableMode::follow_council(Time now, const Membership& members, Effects& out) {
  if (asked_ && !council_.is_deciding()) {
    council_.ask(now, *std::exchange(asked_, std::nullopt), standing(), members, out);
  }
  // Either a message or the council's tick may have brought a decision.
  if (const auto decision = council_.take_decision()) decide(now, *decision, out);
  // While others end a run, a newcomer can only join them in the mode in which they end it.
  const bool is_free = !target_ && (phase() == Phase::training || mode().course().is_ending());
  council_.tick(now, is_free, standing(), members, out);
  if (const auto decision = council_.take_decision()) decide(now, *decision, out);
}

void SwitchableMode::decide(Time now, const SwitchCouncil::Decision& decision, Effects& out) {
  if (decision.revision.number == 0 || decision.revision == present_) return;
  if (mode().course().is_ending()) return;  // The run ends in its present mode.
  if (decision.outcome != SwitchPlanner::Outcome::switches) return refuse_switch(decision, out);
  const bool was_switching = target_.has_value();
  if (was_switching && decision.revision == target_->revision) {
    const bool is_same = decision.step == target_->step && decision.samples == target_->samples;
    if (decision.is_late || is_same) return;
  }
  target_ = decision;
  // An untrained model must not enter the mean of trained ones.
  target_->is_late |= phase() == Phase::joining && step() == 0 && decision.step > 1;
  if (meeting_) is_meeting_void_ = true;
  if (!was_switching) made_.mode->wind_down(now, out);
}

void SwitchableMode::refuse_switch(const SwitchCouncil::Decision& decision, Effects& out) {
  if (decision.revision.number <= refused_) return;
  council_.refuse(decision.revision.number);
  refused_ = decision.revision.number;
  if (decision.outcome == SwitchPlanner::Outcome::refused) {
    // The switch was refused before we came, so no fact is reported. But the peer that asked for
    // the switch must not wait for ever.
    refusal_ = "a peer says that it was refused before";
    return;
  }
  refusal_ = decision.outcome == SwitchPlanner::Outcome::ends
                 ? "training is over at some peers, or about to be"
                 : "not all peers have the same [train] and [run], as peers that wait for each "
                   "other need";
  out.tell(SwitchRefused{.why = refusal_});
}

/// Returns a new session for a mean or a mode. If either is made a second time, its ballot numbers
/// repeat, and only the session distinguishes it from the first.
std::uint64_t SwitchableMode::next_session() { return hash_combine(session_, ++sessions_); }

void SwitchableMode::begin_meeting(Time now, Membership& members, Effects& out) {
  const SettingsRevision& revision = target_->revision;
  CourseOptions course = options_.course;
  // Peers that will make equal steps need equal optimisers, so the optimisers' state is averaged
  // too.
  course.elements = std::max(course.elements, options_.mixing.state_elements);
  course.steps = target_->step;
  course.work = {};
  course.save_every_steps = 0;
  course.wait_for_peers = 1;
  course.wait_max = course.alone_after = {};
  course.tells = false;
  AllReduceOptions mean = options_.gossip.mean;
  mean.state_elements = course.elements;
  mean.averages_models = true;
  mean.ends_run = false;
  mean.batch = 1;
  mean.agreement = {.patience = meeting_patience,
                    .first_ballot = SwitchCouncil::ballots_of_mean(*target_).first};
  meeting_ = std::make_unique<AllReduceMode>(self_, next_session(), course, mean, *signer_,
                                             draws_.fork("meeting").fork(revision.number));
  meeting_->start(now, target_->step - 1, false);
  show_proofs(now, *meeting_, members, out);
}

/// Passes the proofs of equivocation from all parts of this peer to the council and to mode `to`. A
/// peer that one part has excluded for good must not work with another part, or return after a
/// switch.
void SwitchableMode::show_proofs(Time now, Mode& to, Membership& members, Effects& out) {
  std::map<PeerId, Equivocation> proofs = council_.proofs();
  for (const Mode* from : {made_.mode.get(), meeting_.get()}) {
    if (from == nullptr || from->generations() == nullptr) continue;
    const auto& known = from->generations()->agreement().proofs();
    proofs.insert(known.begin(), known.end());
  }
  const auto told = std::ssize(out.facts);
  for (const auto& [peer, proof] : proofs) {
    council_.receive(now, self_, proof, standing(), members, out);
    to.receive(now, self_, proof, members, out);
  }
  // Proofs that we already have are not reported again.
  const auto is_proved = [](const Fact& f) {
    return std::holds_alternative<EquivocationProved>(f);
  };
  out.facts.erase(std::remove_if(out.facts.begin() + told, out.facts.end(), is_proved),
                  out.facts.end());
}

/// True if our model is the mean.
bool SwitchableMode::has_met() const {
  return meeting_->phase() == Phase::done && meeting_->course().jobs_under_way() == 0;
}

void SwitchableMode::end_meeting() {
  // Others can ask for our state only in the generation of the newest ballot that we promised.
  if (meeting_) ended_ballot_ = key_of(meeting_->generations()->agreement().promised());
  meeting_.reset();
  is_meeting_void_ = false;
}

/// Refuses a request for the state of a meeting that has ended here. Otherwise a peer that is still
/// in the meeting would wait for us, instead of asking another peer or calling a ballot without us.
bool SwitchableMode::refuse_request(PeerId from, const Message& message, const Membership& members,
                                    Effects& out) const {
  const bool asks = std::holds_alternative<StateRequest>(message) ||
                    std::holds_alternative<SketchRequest>(message);
  if (ended_ballot_ == 0 || !asks || !members.view().contains(from)) return false;
  const TransferId& id = *transfer_of(message);
  if (id != state_id(from, ended_ballot_, id.number)) return false;
  out.send(from, Refuse{id, Reason::not_ready});
  return true;
}

/// Makes the new mode. It begins at the common step with the mean. A peer that was not in the mean
/// joins as a newcomer.
void SwitchableMode::begin_mode(Time now, Membership& members, Effects& out) {
  const SettingsRevision& revision = target_->revision;
  kept_ = {revision.number << algorithm_bits, revision.settings};
  NodeOptions next = options_after(kept_);
  CourseOptions& course = next.course;
  course.wait_for_peers = 1;
  course.wait_max = course.alone_after = {};
  // An abandoned round may have left the replica a step ahead of the mode.
  std::uint64_t step = replica_at_.value_or(made_.mode->step());
  if (const SwarmWork* work = swarm_work()) {
    course.work.resumed = work->note();
    course.work.own = work->own().samples;
  }
  if (meeting_) {
    const ModelVersion mean = meeting_->generations()->agreement().version();
    const std::uint64_t models = mean.samples - (target_->step - 1);
    step = target_->step;
    if (course.work.budget > 0) {
      std::uint64_t& known = course.work.resumed.samples;
      known = std::max(known, target_->samples);
    }
    // If a partition has produced two means, the one with more models counts as newer.
    course.version = {.step = step,
                      .samples = target_->samples,
                      .lineage = std::min<std::uint64_t>(models, 0xffff) << lineage_bits |
                                 mean.lineage >> (64 - lineage_bits)};
  } else if (step > 0) {
    // The others' model replaces ours. We lose everything that we have learnt since they began the
    // new mode. If none of them is left, the budget goes on from the samples before the switch.
    const std::uint64_t before = std::max<std::uint64_t>(target_->samples, 1) - 1;
    course.version = {.step = step,
                      .samples = std::min(course.work.resumed.samples, before),
                      .lineage = hash_combine(session_, step)};
  }
  if (next.mode != ModeKind::allreduce)
    course.version.reset();  // Equal versions mean equal bits
                             // only in all-reduce.
  kind_ = next.mode;
  MadeMode made = make_mode(self_, next_session(), std::move(next), *signer_,
                            draws_.fork("switch").fork(revision.number));
  made.mode->start(now, step, false);
  show_proofs(now, *made.mode, members, out);
  made_ = std::move(made);
  end_meeting();
  present_ = revision;
  since_ = step;
  target_.reset();
  council_.go_by(present_);
  out.tell(AlgorithmSwitched{
      .settings = present_.settings, .settings_revision = kept_.number, .step = step});
}

// ---- Reports ----

/// Returns the newest revision of the present mode, which may be newer than the one with which the
/// mode was made. Ignores a revision whose number belongs to another switch, because only a hostile
/// peer can have made such a revision.
const SettingsRevision* SwitchableMode::revision() const {
  const SettingsRevision* newest = mode().revision();
  const bool is_of_mode = newest != nullptr && newest->number >> algorithm_bits == present_.number;
  return is_of_mode && newest->number > kept_.number ? newest : &kept_;
}

std::uint64_t SwitchableMode::revision_heard() const {
  const std::uint64_t asked = council_.heard().number + (asked_ ? 1 : 0);
  return std::max(asked << algorithm_bits, mode().revision_heard());
}

ModeReport SwitchableMode::report(const Membership& members) const {
  ModeReport report = mode().report(members);
  if (present_.number == 0 && !target_ && refused_ == 0) return report;
  report.sections.push_back(
      {.name = "switch",
       .figures = {{"mode", std::string(to_string(kind_))},
                   {"settings_revision", kept_.number},
                   {"since", since_},
                   {"together", std::uint64_t{council_.together()}},
                   {"under_way", target_ ? target_->revision.settings : std::string()},
                   {"refused_revision", refused_ << algorithm_bits},
                   {"refused", refusal_}}});
  if (present_.number > 0) {
    report.details.push_back("the swarm has switched to mode " + std::string(to_string(kind_)) +
                             " at step " + std::to_string(since_));
  }
  if (target_) report.details.emplace_back("a switch to another mode is under way");
  return report;
}

}  // namespace gv
