// Runs gossip training: barrier, download, local steps, exchanges, lingering and leaving.
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

/// How long a peer that leaves or ends waits for the exchange under way to settle.
constexpr Duration exchange_settle_max = std::chrono::seconds(1);

/// Peers that know us say hello within this time after our start.
constexpr Duration hellos_last = std::chrono::seconds(2);

/// How often an idle peer that still has chunks to pass on offers an exchange.
constexpr Duration chunks_offered_every = std::chrono::milliseconds(100);

/// Number of attempts to draw a partner that is not resting. Up to half of the peers may be
/// resting.
constexpr int draws_max = 8;

/// Returns the exchange's options, with the layout and size of the model filled in.
PairExchange::Options exchange_options(const CourseOptions& course, const GossipOptions& options) {
  PairExchange::Options exchange = options.exchange;
  exchange.layout_hash = course.layout_hash;
  exchange.elements = course.elements;
  // A population's models have different settings and so different norms, so no norm is refused.
  // The clip limits the influence of a large model, and a copied model is judged by its loss.
  if (options.population.is_on()) exchange.norm_cap = 0;
  return exchange;
}

}  // namespace

GossipMode::GossipMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                       GossipOptions options, const Signer& signer, Rng rng)
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
               .norm_cap = exchange_options(course, options_).norm_cap}),
      review_draws_(rng_.fork("review")),
      server_({.layout_hash = course.layout_hash}),
      population_(options_.population, rng_),
      finale_(self, session, course, options_.mean, signer, rng_),
      trigger_({.kind = options_.trigger,
                .period = options_.period_steps,
                .spread = options_.target_spread,
                .staggered = options_.pairing == PairingKind::uniform},
               rng_.fork("trigger")) {
  check(!problem_with_pairs(options_.topology), "the topology does not run as pairs");
  check(options_.pairing == PairingKind::matching || is_graph(options_.topology.kind),
        "rounds that differ have no neighbours to draw from");
  check(!options_.centre_rests || options_.topology.kind == TopologyKind::star,
        "only a star has a centre");
  course_.set_learning_rate(options_.peak_learning_rate);
}

ModeReport GossipMode::report(const Membership& members) const {
  using enum ReportMetric::Kind;
  const auto peers = static_cast<double>(members.view().size());
  // Any two of n models are sqrt(2n/(n-1)) times as far from each other as each is from the mean.
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
                                {"models_fetched", counts_.models_fetched}}}},
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
  if (finale_.is_on()) finale_.work().add_to(members, report);
  return report;
}

void GossipMode::start(Time now, std::uint64_t step, bool joins_others) {
  course_.start(now, step, joins_others);
  step_ = step;
  meets_until_ = now + hellos_last;
  finale_.work().begin(now);
  trigger_.begin_at(step);
}

void GossipMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                         Effects& out) {
  const TransferId* transfer = transfer_of(message);
  const bool is_of_exchange = transfer != nullptr && transfer->kind == TransferKind::exchange;
  if (finale_.mean() != nullptr && !is_of_exchange) {
    finale_.mean()->receive(now, from, message, members, out);
  } else if (members.view().contains(from)) {
    // Exchanges and downloads use the same messages. The kind of the transfer decides which of the
    // two a message belongs to.
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
  if (finale_.mean() != nullptr && block.id.kind != TransferKind::exchange) {
    finale_.mean()->receive_block(now, from, block, out);
  } else if (block.id.kind == TransferKind::state) {
    fetch_.receive_block(now, from, block, fetch_values_, out);
  } else if (block.id.kind == TransferKind::exchange) {
    exchange_.receive_block(now, from, block, out);
  }
  collect();
}

std::span<std::byte> GossipMode::place(PeerId from, const TransferId& id, std::uint64_t offset,
                                       std::size_t bytes) {
  if (finale_.mean() == nullptr) return {};
  return finale_.mean()->place(from, id, offset, bytes);
}

void GossipMode::refuse(Time now, PeerId peer, Effects& out) {
  if (finale_.mean() != nullptr) finale_.mean()->refuse(now, peer, out);
}

void GossipMode::gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) {
  if (finale_.mean() != nullptr) finale_.mean()->gradient_ready(now, job, begin, out);
}

void GossipMode::lane_lost(Time now, PeerId peer, Effects& out) {
  if (finale_.mean() != nullptr) finale_.mean()->lane_lost(now, peer, out);
  exchange_.lane_lost(now, peer, out);
  fetch_.lane_lost(now, peer, out);
  server_.lane_lost(peer, out);
  collect();
}

void GossipMode::lane_refused(Time now, PeerId peer, Effects& out) {
  if (finale_.mean() != nullptr) finale_.mean()->lane_refused(now, peer, out);
  exchange_.lane_refused(now, peer, out);
  server_.forget(peer);
  fetch_.lane_refused(now, peer, out);
  collect();
}

void GossipMode::peer_gone(Time now, PeerId peer, Effects& out) {
  if (finale_.mean() != nullptr) finale_.mean()->peer_gone(now, peer, out);
  exchange_.peer_gone(now, peer, out);
  server_.forget(peer);
  fetch_.peer_gone(now, peer, out);
  review_.peer_gone(peer);
  sketched_.erase(peer);
  tried_.erase(peer);
  std::erase(sources_, peer);
  collect();
}

/// Takes over the results of exchanges and downloads.
void GossipMode::collect() {
  for (Force& force : exchange_.take_forces()) {
    if (force.partner == owed_) owed_.reset();
    last_distance_ = force.distance;
    trigger_.learn(force.distance);
    finale_.work().force_came(step_ - std::min(step_, force.step));
    if (Ledger* ledger = finale_.work().ledger()) ledger->kept(force.step);
    forces_.push_back(std::move(force));
  }
  // Our model is the common mean, or soon will be, so forces no longer apply.
  if (finale_.mean() != nullptr) counts_.forces_dropped += std::exchange(forces_, {}).size();
  // Nearby peers would keep us busy every time a distant one asks, so we call the distant peer
  // back.
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
  if (finale_.mean() != nullptr) {
    finale_.mean()->complete(now, std::move(done), members, out);
    return;
  }
  course_.job_done(done);
  step_ = done.step;
  const auto* steps = first_of<task::TakeSteps>(done.job.tasks);
  const bool has_trained = steps != nullptr && !steps->rests;
  if (finale_.is_on()) {
    finale_.work().count(now, has_trained ? done.steps_run : 0, batch_growth(done.job));
    Ledger* ledger = finale_.work().ledger();
    if (ledger != nullptr && has_trained) ledger->made(now, done.steps_run, step_);
    const bool has_verdict = finale_.work().learn_from(done, out);
    if (finale_.work().is_news() || has_verdict) {
      members.set_progress(progress());
      members.announce(out);
    }
  }
  // Count the download only now: until the job is done, our step belongs to our own model.
  if (first_of<task::AdoptModel>(done.job.tasks) != nullptr) ++counts_.models_fetched;
  if (done.steps_run > 0 && has_trained) {
    const double busy = seconds(done.busy);
    const double weight = steps_per_second_ == 0 ? 1 : recent_weight;
    const bool is_pure = first_of<result::Measured>(done.results) == nullptr;
    if (busy > 0 && is_pure) {
      steps_per_second_ +=
          weight * (static_cast<double>(done.steps_run) / busy - steps_per_second_);
    }
    course_.learn_from(done.score);
  }
  if (const auto* validation = first_of<result::Validation>(done.results)) {
    population_.learn_from(*validation);
    if (population_.own().period > 0) trigger_.set_period(period());
  }
  population_.tell(out);
  if (course_.is_last_job_asked()) return;
  auto* taken = first_of<task::TakeSnapshot>(done.job.tasks);
  if (taken != nullptr && course_.phase() == Phase::joining) first_model_ = taken->snapshot;
  const bool offers =
      course_.phase() == Phase::training || (course_.phase() == Phase::done && !finale_.is_on());
  if (course_.winds_down()) return;
  if (taken != nullptr && offers && !finale_.is_ending() && !fetched_ && !course_.is_leaving()) {
    has_snapshot_ = true;
    // The job's snapshot does not contain the forces that arrived during the job.
    exchange_.set_snapshot(std::move(taken->snapshot), alpha(), forces_);
    whole_state_.reset();
    first_model_.reset();
  }
  if (course_.phase() == Phase::training && step_ >= course_.steps())
    course_.become_done(now, *this, members, out);
  if (course_.phase() == Phase::training && !course_.is_leaving() &&
      trigger_.fires(step_, exchange_.in_flight()) && !rests(members)) {
    begin_exchange(now, members, out);
    collect();
  }
  if (course_.phase() == Phase::training && !course_.is_leaving() && done.steps_run > 0 &&
      population_.is_due(step_)) {
    look_for_better(now, members, out);
  }
}

std::uint64_t GossipMode::period() const {
  const double own = std::min(population_.own().period, period_max);
  return own >= 1 ? static_cast<std::uint64_t>(own) : options_.period_steps;
}

float GossipMode::alpha() const {
  const double own = std::min(population_.own().alpha, alpha_max);
  if (own > 0) return static_cast<float>(own);
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

/// True if the member has a model for this run and may give it to others.
bool GossipMode::has_model(const Member* member) const {
  if (member == nullptr || member->layout_hash != course_.options().layout_hash) return false;
  const Phase phase = member->progress.phase;
  return phase == Phase::training || (phase == Phase::done && !finale_.is_on());
}

bool GossipMode::is_usable(const Member* member) const {
  return has_model(member) && member->state == MemberState::alive;
}

/// Draws the peer to copy from, in the same way as a partner for an exchange.
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

void GossipMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!course().is_running()) return;
  exchange_.tick(now, out);
  if (tick_finale(now, members, out, jobs)) return;
  if (course_.winds_down()) {
    if (course_.jobs_under_way() == 0) next_job(now, members, out, jobs);
    return;
  }
  server_.tick(now, out);
  add_sources(now, members, out);
  fetch_.tick(now, out);
  collect();
  review_download(now, members, out);
  catch_up(now, members, out);
  const bool joins = course_.phase() == Phase::joining && !course_.is_leaving() && !is_fetching();
  waits_for_mean_ =
      joins && finale_.is_on() && step_ == 0 && finale_.has_ended_for_a_third(members);
  if (joins && !waits_for_mean_) {
    const View& view = members.view();
    const bool somebody_trains = std::ranges::any_of(view.peers(), [&](PeerId peer) {
      const Member* member = members.find(peer);
      return peer != self_ && member != nullptr && member->progress.phase != Phase::joining;
    });
    if (somebody_trains || course_.is_barrier_open(now, view.size())) {
      if (should_fetch(members)) {
        fetch_from(now, take_candidates(members), out);
      } else {
        tried_.clear();
        finale_.work().train(now);
        finale_.work().hear(now, members);
        course_.become_training(now, view.size(), *this, members, out);
        if (step_ >= course_.steps()) course_.enter(now, Phase::done, *this, members, out);
      }
    }
  }
  course_.end_lingering(now);
  // If the source of the copy is lost, we keep our own model.
  if (!is_fetching()) population_.give_up();
  if (course_.jobs_under_way() == 0) next_job(now, members, out, jobs);
  look_after_leases(now, members, out);
}

/// Tells the others which chunks we have taken. If we are idle or help another peer, asks which
/// chunks they have left. If we are idle and some chunks have reached no model except ours, offers
/// an exchange.
void GossipMode::look_after_leases(Time now, Membership& members, Effects& out) {
  Ledger* ledger = finale_.work().ledger();
  if (ledger == nullptr || course_.phase() != Phase::training || course_.is_leaving()) return;
  // If no other peer can get our model, no exchange can make our chunks safer, so they count as
  // kept.
  if (options_.alpha == 0 || members.view().size() < 2) ledger->kept(step_);
  const SnapshotPtr& snapshot = exchange_.snapshot();
  if (ledger->is_idle() && ledger->has_unkept() && snapshot && snapshot->step >= step_ &&
      !exchange_.in_flight() && now >= offers_chunks_at_) {
    offers_chunks_at_ = now + chunks_offered_every;
    const auto partner = uniform_choice(members.view(), rng_);
    if (partner && is_usable(members.find(*partner))) {
      exchange_.start(now, *partner, step_ / options_.period_steps, out);
    }
  }
  if (!ledger->is_news()) return;
  members.set_progress(progress());
  members.report(ledger->is_idle() || ledger->helps(), out);
}

/// Stops training once the swarm's budget is used up, and then computes the common mean. Returns
/// true if the mean has begun and no other work is left.
bool GossipMode::tick_finale(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!finale_.is_on()) return false;
  const bool is_due = course_.phase() == Phase::training && !finale_.is_ending() &&
                      !course_.is_leaving() && finale_.is_due(now, false, members, out);
  if (finale_.ends(is_due, step_, course_, members, out)) {
    settle_until_ = now + exchange_settle_max;
    exchange_.stop(now, out);
    has_snapshot_ = false;
    give_up_download();
  }
  if (finale_.is_ending() && now >= settle_until_) exchange_.give_up(out);
  return finale_.follow(now, is_still(), *this, course_, members, out, jobs);
}

/// Adds steps to the job. If the swarm has a common budget, adds the swarm's schedule too.
void GossipMode::add_steps(Time now, std::uint64_t steps, Job& job) {
  task::TakeSteps take{.count = steps};
  if (finale_.is_on()) {
    SwarmWork& work = finale_.work();
    const Ledger* ledger = work.ledger();
    const double progress = work.progress(now);
    const std::uint64_t growth = work.batch_growth();
    const std::uint64_t samples = steps * work.options().batch * growth;
    job.add(task::FollowSwarm{progress, work.factor(), work.note(samples), growth});
    if (ledger != nullptr) take.from = ledger->under_way()->first_step * work.options().batch;
  }
  job.add(take);
}

/// Limits the steps to one chunk of leased data. Returns 0 if there is no chunk to train on.
std::uint64_t GossipMode::leased_steps(Time now, std::uint64_t steps) {
  Ledger* ledger = finale_.work().ledger();
  if (ledger == nullptr) return steps;
  const bool was_idle = ledger->is_idle();
  const auto part = ledger->next(now, finale_.work().chunks_per_second());
  if (was_idle && part) finale_.work().train(now);  // Our pace does not include idle time.
  return part ? std::min(steps, part->steps) : 0;
}

/// True if we are a centre that rests.
bool GossipMode::rests(const Membership& members) const {
  const std::vector<PeerId>& peers = members.view().peers();
  return options_.centre_rests && peers.size() > 1 && peers.front() == self_;
}

/// The steps that a resting centre counts to catch up with the slowest of the other peers.
std::uint64_t GossipMode::followed_steps(const Membership& members) const {
  std::optional<std::uint64_t> least;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    if (peer == self_ || !has_model(member)) continue;
    least = std::min(least.value_or(member->progress.step), member->progress.step);
  }
  return std::max(std::min(least.value_or(0), course_.steps()), step_) - step_;
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
    if (finale_.is_on()) {
      job.add(task::FollowSwarm{finale_.work().progress(now), 1, finale_.work().note()});
    }
  } else if (course_.winds_down()) {
    if (course_.takes_parting()) job.add(task::PartFromMode{});
  } else if (course_.phase() == Phase::training && !adopts && !finale_.is_ending()) {
    const bool rests = this->rests(members);
    const std::uint64_t steps = rests ? followed_steps(members) : leased_steps(now, job_steps(now));
    const std::uint64_t end = step_ + steps;
    const bool is_last = end >= course_.steps();
    if (rests && steps > 0) job.add(task::TakeSteps{.count = steps, .from = {}, .rests = true});
    if (!rests && steps > 0) add_steps(now, steps, job);
    if (finale_.is_on()) finale_.work().add_measurement(job);
    snapshot = !has_snapshot_ || end >= trigger_.next() || is_last || (rests && moves) ||
               (steps == 0 && exchange_.snapshot() && exchange_.snapshot()->step < step_);
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

std::uint64_t GossipMode::job_steps(Time now) {
  const std::uint64_t to_trigger = std::max(trigger_.next(), step_ + 1) - step_;
  // Run two jobs per period, so that a force enters the model before the next snapshot.
  std::uint64_t steps = std::max<std::uint64_t>(1, period() / 2);
  if (steps_per_second_ > 0) {
    const double affordable = steps_per_second_ * seconds(options_.job_max);
    steps = std::min(steps, std::max<std::uint64_t>(1, static_cast<std::uint64_t>(affordable)));
  }
  if (population_.is_on()) steps = std::min(steps, population_.steps_to_trial(step_));
  if (finale_.is_on() && finale_.work().ledger() == nullptr) {
    steps = std::min(steps, finale_.work().steps_left(now));
  }
  return std::min({steps, to_trigger, course_.steps() - step_});
}

void GossipMode::wind_down(Time, Effects&) {
  course_.wind_down();
  exchange_.set_snapshot(nullptr, 0);
  has_snapshot_ = false;
  give_up_download();
}

void GossipMode::leave(Time now, Effects& out) {
  if (finale_.mean() != nullptr) finale_.mean()->leave(now, out);
  course_.leave();
  settle_until_ = now + exchange_settle_max;
  exchange_.stop(now, out);
}

Time GossipMode::deadline() const {
  if (!course().is_running()) return never;
  if (finale_.mean() != nullptr) return std::min(exchange_.deadline(), finale_.mean()->deadline());
  if (course_.winds_down() && !course_.is_leaving()) return exchange_.deadline();
  Time earliest =
      std::min({exchange_.deadline(), fetch_.deadline(), review_.deadline(), server_.deadline()});
  if (course_.phase() == Phase::joining && !course_.is_leaving() && !is_fetching() &&
      !waits_for_mean_) {
    earliest = std::min(earliest, course_.barrier_deadline());
  }
  // If we leave while a job runs, we wait only until that job ends.
  if (settles()) earliest = std::min(earliest, settle_until_);
  if (course_.is_leaving()) return std::min(earliest, course_.linger_deadline());
  const Ledger* ledger = finale_.work().ledger();
  const bool is_idle = ledger != nullptr && course_.jobs_under_way() == 0 && !finale_.is_ending();
  if (is_idle) earliest = std::min(earliest, ledger->deadline());
  return std::min({earliest, course_.linger_deadline(), finale_.deadline()});
}

}  // namespace gv
