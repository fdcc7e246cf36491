// The course of gossip training: barrier, download, local steps, exchanges, linger, leave.
#include "peer/modes/gossip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"

namespace gv {
namespace {

/// How long a leaving peer waits for an exchange in flight to settle.
constexpr Duration settle_max = std::chrono::seconds(1);

/// A sketch takes a pass over the model, so each peer gets at most one in this time.
constexpr Duration sketch_period = std::chrono::milliseconds(250);

/// In this time after our start the peers that we know of say hello.
constexpr Duration meeting = std::chrono::seconds(2);

/// Number of draws for a partner that is not resting. Half of the peers may rest.
constexpr int draws_max = 8;

/// The exchange's options, with the layout and size of the model.
PairExchange::Options exchange_options(const CourseOptions& course, const GossipOptions& options) {
  PairExchange::Options exchange = options.exchange;
  exchange.layout_hash = course.layout_hash;
  exchange.elements = course.elements;
  return exchange;
}

}  // namespace

GossipMode::GossipMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                       GossipOptions options, Rng rng)
    : self_(self),
      course_(self, course),
      options_(std::move(options)),
      rng_(rng.fork("gossip")),
      session_(session),
      exchange_(self, session, exchange_options(course, options_)),
      fetch_(self, session,
             {.layout_hash = course.layout_hash,
              .elements = course.elements + options_.population.rest_elements()}),
      reviews_{.session = session, .last = reviews_from},
      review_({.layout_hash = course.layout_hash,
               .norm_cap = static_cast<double>(options_.exchange.norm_cap)}),
      review_draws_(rng_.fork("review")),
      server_({.layout_hash = course.layout_hash}),
      population_(options_.population, rng_),
      trigger_({.kind = options_.trigger,
                .period = options_.period_steps,
                .spread = options_.target_spread,
                .staggered = options_.pairing == PairingKind::uniform},
               rng_.fork("trigger")) {
  check(!problem_with_pairs(options_.topology), "the topology does not run as pairs");
  check(options_.pairing == PairingKind::matching || is_graph(options_.topology.kind),
        "rounds that differ have no neighbours to draw from");
  course_.set_learning_rate(options_.peak_learning_rate);
}

ModeReport GossipMode::report(const Membership& members) const {
  using enum ReportMetric::Kind;
  const auto peers = static_cast<double>(members.view().size());
  // Two models of n are sqrt(2n/(n-1)) times as far from each other as each from the mean.
  const double spread = last_distance_ * std::sqrt((peers - 1) / (2 * peers));
  const PairExchange::Counts& all = exchange_.counts();
  ModeReport report{
      .sections = {{.name = "", .figures = {{"spread", spread}}},
                   {.name = "exchanges",
                    .figures = {{"initiated", all.initiated},
                                {"committed", all.committed},
                                {"refused", all.refused},
                                {"refusals", all.refusals},
                                {"aborted", all.aborted},
                                {"undecided", all.undecided}}},
                   {.name = "gossip",
                    .figures = {{"triggers", counts_.triggers},
                                {"idle_rounds", counts_.idle_rounds},
                                {"missed_rounds", counts_.missed_rounds},
                                {"forces_applied", counts_.forces_applied},
                                {"models_fetched", counts_.models_fetched},
                                {"saves", course_.saves().written},
                                {"save_failures", course_.saves().failed}}}},
      .metrics = {{"spread", gauge, "Estimated consensus distance.", spread},
                  {"exchanges_committed_total", counter, "Pair exchanges committed.",
                   static_cast<double>(all.committed)},
                  {"exchanges_refused_total", counter, "Own offers refused.",
                   static_cast<double>(all.refused)},
                  {"exchanges_aborted_total", counter, "Pair exchanges given up.",
                   static_cast<double>(all.aborted)},
                  {"exchanges_undecided_total", counter, "Exchanges dropped without a commit.",
                   static_cast<double>(all.undecided)},
                  {"models_fetched_total", counter, "Whole models downloaded.",
                   static_cast<double>(counts_.models_fetched)}},
      .columns = {{"exchanges", std::to_string(all.committed)},
                  {"refused", std::to_string(all.refused)},
                  {"spread", fmt::format("{:.3g}", spread)}},
      .line = fmt::format("exchanges {}  spread {:.3g}", all.committed, spread),
      .details = {
          fmt::format("spread {:.3g}  exchanges {} committed  {} refused  {} aborted  {} undecided",
                      spread, all.committed, all.refused, all.aborted, all.undecided)}};
  if (population_.is_on()) population_.add_to(report);
  return report;
}

void GossipMode::start(Time now, std::uint64_t step, bool joins_others) {
  course_.start(now, step, joins_others);
  step_ = step;
  meets_until_ = now + meeting;
  trigger_.begin_at(step);
}

void GossipMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                         Effects& out) {
  if (members.view().contains(from)) {
    // Both protocols share the messages about a transfer under way.
    const TransferId* transfer = transfer_of(message);
    if (transfer != nullptr && transfer->kind == TransferKind::state) {
      receive_about_state(now, from, message, out);
    } else {
      exchange_.receive(now, from, message, out);
    }
  } else if (const auto* offer = std::get_if<Offer>(&message)) {
    out.send(from, Refuse{offer->id, Reason::unknown_peer});
  }
  collect();
}

void GossipMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  if (block.id.kind == TransferKind::state) {
    fetch_.receive_block(now, from, block, fetch_values_, out);
  } else if (block.id.kind == TransferKind::exchange) {
    exchange_.receive_block(now, from, block, out);
  }
  collect();
}

void GossipMode::receive_about_state(Time now, PeerId from, const Message& message, Effects& out) {
  fetch_.receive(now, from, message, fetch_values_, out);
  server_.receive(from, message, out);
  review_.receive(from, message);
  if (const auto* asked = std::get_if<SketchRequest>(&message)) answer(now, from, *asked, out);
  const auto* request = std::get_if<StateRequest>(&message);
  // A model has no stages; a peer that asks for some would take the places of others.
  if (request == nullptr || request->id.stage != 0) return;
  const bool is_there = exchange_.snapshot() != nullptr;
  if (server_.ask(now, from, *request, is_there, out)) server_.provide(0, own_state(), out);
}

/// The exchange's snapshot, so that no copy of the model is kept for newcomers alone. Its version
/// is unique because all peers' models differ. It is copied only if it has more than the values.
StateServer::State GossipMode::own_state() {
  const SnapshotPtr& snapshot = exchange_.snapshot();
  StateServer::State state{
      .version = version_of_own({.step = snapshot->step, .samples = 0, .lineage = ++states_served_},
                                self_, session_),
      .payload = {snapshot, std::as_bytes(std::span(snapshot->values))}};
  if (!snapshot->rest.empty()) {
    auto whole = std::make_shared<std::vector<float>>(snapshot->values);
    whole->insert(whole->end(), snapshot->rest.begin(), snapshot->rest.end());
    state.payload = {whole, std::as_bytes(std::span(*whole))};
  }
  return state;
}

void GossipMode::fetch_from(Time now, std::vector<PeerId> sources, Effects& out) {
  fetch_values_.resize(course_.options().elements + options_.population.rest_elements());
  std::erase_if(sources, [&](PeerId peer) { return exchange_.is_quarantined(now, peer); });
  sources_ = sources;
  fetch_.want(now, std::move(sources), std::nullopt, out);
  collect();
}

/// True if a model is on its way to us, or waits to be reviewed or adopted.
bool GossipMode::is_fetching() const {
  return fetch_.is_waiting() || doubtful_.has_value() || fetched_.has_value();
}

/// Peers that can say how far their models are from that of `source`, in random order.
std::vector<PeerId> GossipMode::witnesses_of(PeerId source, const Membership& members) {
  std::vector<PeerId> witnesses;
  for (const PeerId peer : members.view().peers()) {
    if (peer != self_ && peer != source && is_usable(members.find(peer))) witnesses.push_back(peer);
  }
  review_draws_.shuffle(std::span(witnesses));
  return witnesses;
}

/// Takes over a download that is near the models of other peers. Its step is believed only up to
/// the largest step of a witness.
void GossipMode::review_download(Time now, const Membership& members, Effects& out) {
  if (!doubtful_) return;
  const PeerId source = doubtful_->source;
  if (!review_.is_under_way()) {
    const SnapshotPtr& own = exchange_.snapshot() ? exchange_.snapshot() : first_model_;
    if (!own) return;  // The job under way copies it.
    const std::span values = std::span(doubtful_->values).first(course_.options().elements);
    review_.begin(now, reviews_.next_state(self_), values, own->values, review_draws_.next(),
                  meets_until_);
  }
  review_.meet(witnesses_of(source, members), out);
  review_.tick(now, out);
  const auto verdict = review_.take(now);
  if (!verdict) return;
  if (verdict->problem == Reason::none) {
    fetched_ = std::exchange(doubtful_, std::nullopt);
    if (verdict->step) fetched_->step = std::min(fetched_->step, *verdict->step);
    return;
  }
  doubtful_.reset();
  out.tell(ModelRefused{.peer = source, .reason = verdict->problem, .norm = std::nullopt});
  // A model of ordinary length that is far from others may be that of a peer that was cut off.
  if (verdict->problem == Reason::norm_exceeded) {
    exchange_.blame(now, source, verdict->problem, out);
  }
  std::vector<PeerId> left = std::exchange(sources_, {});
  std::erase(left, source);
  fetch_from(now, std::move(left), out);
}

/// Sends a sketch of our model to a peer that reviews a download.
void GossipMode::answer(Time now, PeerId from, const SketchRequest& request, Effects& out) {
  const SnapshotPtr& snapshot = exchange_.snapshot();
  const auto last = sketched_.find(from);
  Reason problem = Reason::none;
  if (request.id.owner != from) {
    problem = Reason::stale;
  } else if (request.layout_hash != course_.options().layout_hash) {
    problem = Reason::unknown_layout;
  } else if (!snapshot) {
    problem = Reason::not_ready;
  } else if (last != sketched_.end() && now < last->second + sketch_period) {
    return;  // It asks again.
  }
  if (problem != Reason::none) {
    out.send(from, Refuse{request.id, problem});
    return;
  }
  sketched_[from] = now;
  out.send(from, SketchReply{.id = request.id,
                             .step = snapshot->step,
                             .spread = static_cast<float>(exchange_.widest_recent_distance()),
                             .values = sketch_of(snapshot->values, request.seed)});
}

void GossipMode::lane_lost(Time now, PeerId peer, Effects& out) {
  exchange_.lane_lost(now, peer, out);
  fetch_.lane_lost(now, peer, out);
  server_.lane_lost(peer, out);
  collect();
}

void GossipMode::lane_refused(Time now, PeerId peer, Effects& out) {
  exchange_.lane_refused(now, peer, out);
  server_.forget(peer);
  fetch_.lane_refused(now, peer, out);
  collect();
}

void GossipMode::peer_gone(Time now, PeerId peer, Effects& out) {
  exchange_.peer_gone(now, peer, out);
  server_.forget(peer);
  fetch_.peer_gone(now, peer, out);
  review_.peer_gone(peer);
  sketched_.erase(peer);
  tried_.erase(peer);
  collect();
}

/// Takes over the results of exchanges and downloads.
void GossipMode::collect() {
  for (Force& force : exchange_.take_forces()) {
    if (force.partner == owed_) owed_.reset();
    last_distance_ = force.distance;
    trigger_.learn(force.distance);
    forces_.push_back(std::move(force));
  }
  // A distant peer would always find us busy with nearby ones, so we call back.
  const std::optional<PeerId> turned_away = exchange_.take_turned_away();
  if (!owed_) owed_ = turned_away;
  if (const auto arrival = fetch_.take()) {
    doubtful_ = DownloadedModel{.source = arrival->source,
                                .values = std::exchange(fetch_values_, {}),
                                .step = arrival->version.step};
  }
  if (!fetch_.is_waiting()) fetch_values_ = {};
}

void GossipMode::complete(Time now, JobDone done, Membership& members, Effects& out) {
  course_.job_done(done);
  step_ = done.step;
  // Not before, because until the job has ended our step is still that of our own model.
  if (first_of<task::AdoptModel>(done.job.tasks) != nullptr) ++counts_.models_fetched;
  if (done.steps_run > 0) {
    const double busy = seconds(done.busy);
    const double weight = steps_per_second_ == 0 ? 1 : recent_weight;
    if (busy > 0) {
      steps_per_second_ +=
          weight * (static_cast<double>(done.steps_run) / busy - steps_per_second_);
    }
    course_.learn_from(done.score);
  }
  if (const auto* validation = first_of<result::Validation>(done.results)) {
    population_.learn_from(*validation);
  }
  population_.tell(out);
  if (course_.is_last_job_asked()) return;
  auto* taken = first_of<task::TakeSnapshot>(done.job.tasks);
  if (taken != nullptr && course_.phase() == Phase::joining) first_model_ = taken->snapshot;
  if (taken != nullptr && course_.phase() != Phase::joining && !fetched_ && !course_.is_leaving()) {
    has_snapshot_ = true;
    // Forces that came while the job ran are not in its snapshot yet.
    exchange_.set_snapshot(std::move(taken->snapshot), alpha(), forces_);
    first_model_.reset();
  }
  if (course_.phase() == Phase::training && step_ >= course_.steps())
    course_.become_done(now, *this, members, out);
  if (course_.phase() == Phase::training && !course_.is_leaving() &&
      trigger_.fires(step_, exchange_.in_flight())) {
    begin_exchange(now, members, out);
    collect();
  }
  if (course_.phase() == Phase::training && !course_.is_leaving() && done.steps_run > 0 &&
      population_.is_due(step_)) {
    look_for_better(now, members, out);
  }
}

float GossipMode::alpha() const {
  if (!options_.alpha_with_learning_rate || options_.peak_learning_rate <= 0) {
    return static_cast<float>(options_.alpha);
  }
  return static_cast<float>(options_.alpha *
                            std::min(1.0, course_.learning_rate() / options_.peak_learning_rate));
}

void GossipMode::begin_exchange(Time now, Membership& members, Effects& out) {
  ++counts_.triggers;
  const View& view = members.view();
  if (options_.alpha == 0 || view.size() < 2) {
    ++counts_.idle_rounds;
    return;
  }
  const std::uint64_t round = step_ / options_.period_steps;
  tell_if_topology_fits(view, out);
  PeerId partner = self_;
  if (options_.pairing == PairingKind::uniform) {
    for (int draw = 0; draw < draws_max; ++draw) {
      partner = uniform_choice(view, rng_).value_or(self_);
      if (!exchange_.is_resting(now, partner)) break;
    }
    const auto owed = std::exchange(owed_, std::nullopt);
    if (owed && view.contains(*owed)) partner = *owed;
  } else {
    const auto match =
        topology_partner(options_.topology, course_.options().run_seed, round, view, self_);
    if (!match) {
      ++counts_.idle_rounds;
      return;
    }
    const Member* other = members.find(match->partner);
    const bool partner_asks =
        !match->initiates && other != nullptr && other->progress.phase == Phase::training;
    if (partner_asks) {
      ++counts_.idle_rounds;
      return;
    }
    partner = match->partner;
  }
  const Member* member = members.find(partner);
  if (!is_usable(member) || !exchange_.start(now, partner, round, out)) ++counts_.missed_rounds;
}

bool GossipMode::is_usable(const Member* member) const {
  return member != nullptr && member->state == MemberState::alive &&
         member->progress.phase != Phase::joining &&
         member->layout_hash == course_.options().layout_hash;
}

/// Draws a peer in the same way as a partner of an exchange.
std::optional<PeerId> GossipMode::partner_to_copy(const View& view) {
  if (options_.pairing == PairingKind::uniform || is_graph(options_.topology.kind)) {
    return uniform_choice(view, population_.draws());
  }
  const auto match = topology_partner(options_.topology, course_.options().run_seed,
                                      population_.draws().next(), view, self_);
  return match ? std::optional(match->partner) : std::nullopt;
}

void GossipMode::look_for_better(Time now, Membership& members, Effects& out) {
  if (is_fetching()) return;
  const auto partner = partner_to_copy(members.view());
  if (!partner || !is_usable(members.find(*partner))) return;
  if (!population_.is_worth_copying(*partner, members, course_.options().layout_hash)) return;
  population_.begin_copying();
  fetch_from(now, {*partner}, out);
}

std::optional<PeerId> GossipMode::uniform_choice(const View& view, Rng& draws) const {
  if (options_.topology.kind == TopologyKind::complete) return uniform_partner(view, self_, draws);
  const std::vector<PeerId> among =
      topology_neighbours(options_.topology, course_.options().run_seed, view, self_);
  return uniform_partner(View(among), self_, draws);
}

void GossipMode::tell_if_topology_fits(const View& view, Effects& out) {
  const auto problem = problem_of(options_.topology, view.size());
  if (problem.has_value() != topology_fits_) return;
  topology_fits_ = !problem;
  if (problem) {
    out.tell(TopologyUnfit{.peers = view.size()});
  } else {
    out.tell(TopologyFits{.peers = view.size()});
  }
}

bool GossipMode::should_fetch(const Membership& members) const {
  const std::uint64_t lag = options_.catch_up_periods * options_.period_steps;
  return std::ranges::any_of(members.view().peers(), [&](PeerId peer) {
    const Member* member = members.find(peer);
    return peer != self_ && member != nullptr && member->progress.phase != Phase::joining &&
           member->layout_hash == course_.options().layout_hash &&
           member->progress.step > step_ + lag && !tried_.contains(peer);
  });
}

void GossipMode::begin_fetch(Time now, Membership& members, Effects& out) {
  std::vector<const Member*> ahead;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    if (peer != self_ && member != nullptr && member->progress.phase != Phase::joining &&
        member->layout_hash == course_.options().layout_hash && member->progress.step > step_ &&
        !tried_.contains(peer)) {
      ahead.push_back(member);
    }
  }
  std::ranges::stable_sort(ahead, std::ranges::greater{},
                           [](const Member* member) { return member->progress.step; });
  std::vector<PeerId> candidates;
  for (const Member* member : ahead) candidates.push_back(member->id);
  tried_.insert(candidates.begin(), candidates.end());
  fetch_from(now, std::move(candidates), out);
}

void GossipMode::woke_up(Time now, Membership& members, Effects& out) {
  if (course_.phase() == Phase::joining || course_.is_leaving() || is_fetching()) return;
  tried_.clear();
  if (!should_fetch(members)) return;
  out.tell(CatchingUp{.step = step_});
  begin_fetch(now, members, out);
}

void GossipMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!course_.is_running()) return;
  exchange_.tick(now, out);
  server_.tick(now);
  fetch_.tick(now, out);
  collect();
  review_download(now, members, out);
  if (course_.phase() == Phase::joining && !course_.is_leaving() && !is_fetching()) {
    const View& view = members.view();
    const bool somebody_trains = std::ranges::any_of(view.peers(), [&](PeerId peer) {
      const Member* member = members.find(peer);
      return peer != self_ && member != nullptr && member->progress.phase != Phase::joining;
    });
    if (somebody_trains || course_.is_barrier_open(now, view.size())) {
      if (should_fetch(members)) {
        begin_fetch(now, members, out);
      } else {
        tried_.clear();
        course_.become_training(now, view.size(), *this, members, out);
        if (step_ >= course_.steps()) course_.enter(now, Phase::done, *this, members, out);
      }
    }
  }
  course_.end_lingering(now);
  // The source of the copy is lost: go on with our own model.
  if (!is_fetching()) population_.give_up();
  if (course_.jobs_under_way() == 0) next_job(now, members, out, jobs);
}

/// True if a finished download may be taken over now.
bool GossipMode::may_adopt() {
  if (!fetched_ || !population_.is_copying()) return fetched_.has_value();
  if (course_.phase() != Phase::training ||
      course_.is_leaving()) {  // Nothing would be learned with it any more.
    fetched_.reset();
    population_.give_up();
    return false;
  }
  // Exchanges are about the model that we give up. Let the one under way end, and begin no other.
  exchange_.set_snapshot(nullptr, 0);
  has_snapshot_ = false;
  return !exchange_.in_flight();
}

/// Makes the job begin with the download; false if it is no longer wanted.
bool GossipMode::adopt(Time now, Job& job, Membership& members, Effects& out) {
  DownloadedModel model = *std::move(fetched_);
  fetched_.reset();
  const bool sound = population_.is_copying()
                         ? population_.take_over(model, step_)
                         : !population_.is_on() || tail_of(model.values).has_value();
  if (!sound) {
    out.tell(ModelRefused{.peer = model.source, .reason = Reason::not_finite});
    return false;
  }
  if (model.step < step_ && course_.phase() != Phase::joining) return false;
  // The forces were meant for the model that we are about to give up.
  counts_.forces_dropped += forces_.size();
  forces_.clear();
  trigger_.begin_at(model.step);
  job.add(task::AdoptModel{std::move(model)});
  if (course_.phase() == Phase::joining) {
    course_.enter(now, Phase::training, *this, members, out);
  }
  return true;
}

void GossipMode::next_job(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (course_.is_leaving() && exchange_.in_flight() && now < settle_until_) return;
  Job job;
  const bool adopts = may_adopt() && adopt(now, job, members, out);
  std::vector<Force> forces = std::exchange(forces_, {});
  const bool moves = !forces.empty();
  counts_.forces_applied += forces.size();
  if (moves) job.add(task::AddForces{std::move(forces)});
  bool snapshot = adopts;
  bool validates = adopts && population_.is_on();
  bool saves = false;
  if (course_.is_leaving()) {
    saves = true;
    course_.make_next_job_last();
  } else if (course_.phase() == Phase::training && !adopts) {
    const std::uint64_t steps = job_steps();
    const std::uint64_t end = step_ + steps;
    const bool is_last = end >= course_.steps();
    if (steps > 0) job.add(task::TakeSteps{steps});
    snapshot = !has_snapshot_ || end >= trigger_.next() || is_last;
    saves = course_.is_save_due(end);
    validates = population_.is_due(end) || (population_.is_on() && is_last);
  } else if (course_.phase() == Phase::done) {
    snapshot = !has_snapshot_ || moves;
  } else if (course_.phase() == Phase::joining && is_fetching()) {
    snapshot = snapshot || !first_model_;
  }
  if (job.tasks.empty() && !saves && !snapshot) return;
  if (validates) job.add(task::Validate{});
  if (snapshot) job.add(task::TakeSnapshot{exchange_.blank_snapshot(), population_.is_on()});
  if (saves) job.add(task::Save{});
  ++counts_.jobs;
  course_.post(std::move(job), jobs);
}

std::uint64_t GossipMode::job_steps() const {
  const std::uint64_t to_trigger = std::max(trigger_.next(), step_ + 1) - step_;
  // Two jobs a period, so that a force is in the model before the next snapshot is taken of it.
  std::uint64_t steps = std::max<std::uint64_t>(1, options_.period_steps / 2);
  if (steps_per_second_ > 0) {
    const double affordable = steps_per_second_ * seconds(options_.job_max);
    steps = std::min(steps, std::max<std::uint64_t>(1, static_cast<std::uint64_t>(affordable)));
  }
  if (population_.is_on()) steps = std::min(steps, population_.steps_to_trial(step_));
  return std::min({steps, to_trigger, course_.steps() - step_});
}

void GossipMode::leave(Time now, Effects&) {
  course_.leave();
  settle_until_ = now + settle_max;
  exchange_.set_snapshot(nullptr, 0);
}

Time GossipMode::deadline() const {
  if (!course_.is_running()) return never;
  Time earliest =
      std::min({exchange_.deadline(), fetch_.deadline(), review_.deadline(), server_.deadline()});
  if (course_.phase() == Phase::joining && !course_.is_leaving() && !is_fetching()) {
    earliest = std::min(earliest, course_.barrier_deadline());
  }
  // While a job runs, we wait only for its end.
  if (course_.is_leaving() && !course_.is_last_job_asked() && course_.jobs_under_way() == 0)
    earliest = std::min(earliest, settle_until_);
  return std::min(earliest, course_.linger_deadline());
}

}  // namespace gv
