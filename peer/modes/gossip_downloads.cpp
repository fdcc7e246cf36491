// Downloads models in mode `gossip`, for newcomers and for peers that fell behind.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/magnitude.hpp"
#include "peer/modes/gossip.hpp"

namespace gv {
namespace {

/// Each peer gets at most one sketch within this time, because making one takes a pass over the
/// model.
constexpr Duration sketch_period = std::chrono::milliseconds(250);

/// How long a peer that woke up watches whether it is far behind. The first messages that it reads
/// are as old as its sleep, and say nothing about the steps that the others have made since.
constexpr Duration lag_watched_for = std::chrono::seconds(10);

}  // namespace

void GossipMode::receive_about_state(Time now, PeerId from, const Message& message, Effects& out) {
  fetch_.receive(now, from, message, fetch_values_, out);
  server_.receive(now, from, message, out);
  review_.receive(from, message);
  if (const auto* asked = std::get_if<SketchRequest>(&message)) answer(now, from, *asked, out);
  const auto* request = std::get_if<StateRequest>(&message);
  // Our model has no stages. A peer that asks for a stage would occupy a download slot that others
  // need.
  if (request == nullptr || request->id.stage != 0) return;
  const bool is_there = exchange_.snapshot() != nullptr;
  if (server_.ask(now, from, *request, is_there, out)) server_.provide(0, own_state(), out);
}

/// Returns our state for a newcomer. Uses the exchange's snapshot, so that newcomers need no
/// separate copy of the model. The snapshot is copied only if it holds more than the parameters,
/// and only once, however many newcomers ask. The version is unique, because all peers' models
/// differ.
StateServer::State GossipMode::own_state() {
  const SnapshotPtr& snapshot = exchange_.snapshot();
  StateServer::State state{
      .version = version_of_own({.step = snapshot->step, .samples = 0, .lineage = ++states_served_},
                                self_, session_),
      .payload = {snapshot, std::as_bytes(std::span(snapshot->values))}};
  if (!snapshot->rest.empty()) {
    if (!whole_state_) {
      auto whole = std::make_shared<std::vector<float>>(snapshot->values);
      whole->insert(whole->end(), snapshot->rest.begin(), snapshot->rest.end());
      whole_state_ = std::move(whole);
    }
    state.payload = {whole_state_, std::as_bytes(std::span(*whole_state_))};
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

/// True if a model is being downloaded, or waits to be reviewed or adopted.
bool GossipMode::is_fetching() const {
  return fetch_.is_waiting() || doubtful_.has_value() || fetched_.has_value();
}

std::size_t GossipMode::held_max(std::size_t others) {
  // A download passes through three phases: the transfer, the review by peers other than the
  // source, and the model's wait for a job. Each phase ends before the next download begins.
  const std::size_t witnesses = others - std::min<std::size_t>(others, 1);
  const std::size_t fetching = std::max({others, ModelReview::held_max(witnesses), std::size_t{1}});
  // Each peer may be in three tables: as a source, as a receiver of our sketch, and in `tried_`.
  constexpr std::size_t tables = 3;
  return PairExchange::held_max(others) + StateServer::Options{}.served_max + fetching +
         tables * others;
}

void GossipMode::give_up_download() {
  fetch_.stop();
  review_.stop();
  doubtful_.reset();
  fetched_.reset();
  whole_state_.reset();
}

/// Returns the peers that can compare their models with that of `source`, in random order.
std::vector<PeerId> GossipMode::witnesses_of(PeerId source, const Membership& members) {
  std::vector<PeerId> witnesses;
  for (const PeerId peer : members.view().peers()) {
    if (peer != self_ && peer != source && is_usable(members.find(peer))) witnesses.push_back(peer);
  }
  review_draws_.shuffle(std::span(witnesses));
  return witnesses;
}

/// Accepts a downloaded model if it is near the models of other peers. Limits its step to the
/// largest step of a witness.
void GossipMode::review_download(Time now, const Membership& members, Effects& out) {
  if (!doubtful_) return;
  const PeerId source = doubtful_->source;
  if (!review_.is_under_way()) {
    const SnapshotPtr& own = exchange_.snapshot() ? exchange_.snapshot() : first_model_;
    if (!own) return;  // The job under way will copy our own model.
    const std::span values = std::span(doubtful_->values).first(course_.options().elements);
    // If no third peer can join the swarm, there can be no witness, so the review does not wait.
    const Time until = members.admits_third(source) ? meets_until_ : now;
    double norm = norm_of(own->values);
    // A model without any steps may be near zero, so its norm says little about trained models. In
    // that case, assume weights of about 1.
    if (step_ == 0) norm = std::max(norm, std::sqrt(static_cast<double>(values.size())));
    review_.begin(now, reviews_.next_state(self_), values, norm, review_draws_.next(), until);
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
  // If a model has an ordinary norm but is far from others, its source may only have been cut off
  // from them, so we do not blame the source. If there are few witnesses, they may have lied.
  if (verdict->blames_source) exchange_.blame(now, source, verdict->problem, out);
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
    return;  // The peer will ask again.
  }
  if (problem != Reason::none) {
    out.send(from, Refuse{request.id, problem});
    return;
  }
  sketched_[from] = now;
  out.send(from, SketchReply{.id = request.id,
                             .step = snapshot->step,
                             .spread = static_cast<float>(exchange_.spread()),
                             .values = sketch_of(snapshot->values, request.seed)});
}

bool GossipMode::should_fetch(const Membership& members) const {
  const std::uint64_t lag = options_.catch_up_periods * options_.period_steps;
  return std::ranges::any_of(members.view().peers(), [&](PeerId peer) {
    const Member* member = members.find(peer);
    return peer != self_ && has_model(member) && member->progress.step > step_ + lag &&
           !tried_.contains(peer);
  });
}

/// Returns the peers that have made more steps than we have and were not asked for their model,
/// most steps first. Marks them as asked.
std::vector<PeerId> GossipMode::take_candidates(const Membership& members) {
  std::vector<const Member*> ahead;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    if (peer != self_ && has_model(member) && member->progress.step > step_ &&
        !tried_.contains(peer)) {
      ahead.push_back(member);
    }
  }
  std::ranges::stable_sort(ahead, std::ranges::greater{},
                           [](const Member* member) { return member->progress.step; });
  std::vector<PeerId> candidates;
  for (const Member* member : ahead) candidates.push_back(member->id);
  tried_.insert(candidates.begin(), candidates.end());
  return candidates;
}

/// Adds sources to the download under way. A newcomer begins a download with the first peer that it
/// meets, which may die, so peers that it meets later become sources as well.
void GossipMode::add_sources(Time now, const Membership& members, Effects& out) {
  if (course_.phase() != Phase::joining || !fetch_.is_waiting()) return;
  std::vector<PeerId> met = take_candidates(members);
  std::erase_if(met, [&](PeerId peer) { return exchange_.is_quarantined(now, peer); });
  sources_.insert(sources_.end(), met.begin(), met.end());
  fetch_.add(now, met, out);
}

void GossipMode::woke_up(Time now, Membership& members, Effects& out) {
  if (Ledger* ledger = finale_.work().ledger()) ledger->give_up_leases();
  if (course_.phase() == Phase::joining) return;
  tried_.clear();
  watches_lag_until_ = now + lag_watched_for;
  catch_up(now, members, out);
}

/// Downloads a model if we woke up a moment ago and are too far behind.
void GossipMode::catch_up(Time now, const Membership& members, Effects& out) {
  if (now >= watches_lag_until_) return;
  // At the end our last job may still be running. We would then wait for a download that is never
  // reviewed or adopted, instead of waiting for the others.
  const bool has_ended =
      finale_.is_ending() || (finale_.is_on() && course_.phase() != Phase::training);
  if (has_ended || course_.is_leaving() || is_fetching() || !should_fetch(members)) return;
  watches_lag_until_ = {};
  out.tell(CatchingUp{.step = step_});
  fetch_from(now, take_candidates(members), out);
}

/// True if a finished download may be adopted now.
bool GossipMode::may_adopt() {
  if (!fetched_) return false;
  const bool trains = course_.phase() == Phase::training && !course_.is_leaving();
  if (population_.is_copying() && !trains) {  // Training is over, so copying is useless.
    fetched_.reset();
    population_.give_up();
    return false;
  }
  // Exchanges use the model that we are about to give up. The exchange under way may end, but no
  // other may begin.
  exchange_.set_snapshot(nullptr, 0);
  whole_state_.reset();
  has_snapshot_ = false;
  return !exchange_.in_flight();
}

/// Makes the job adopt the download. Returns false if the download contains invalid values or is no
/// longer needed.
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
  // The forces were meant for our previous model.
  counts_.forces_dropped += forces_.size();
  forces_.clear();
  trigger_.begin_at(model.step);
  if (Ledger* ledger = finale_.work().ledger()) ledger->lose();
  job.add(task::AdoptModel{std::move(model)});
  // The download has been reviewed, so our first model is no longer needed. The job will make a
  // snapshot of the model that it adopts.
  first_model_.reset();
  if (course_.phase() == Phase::joining) {
    finale_.work().train(now);
    course_.enter(now, Phase::training, *this, members, out);
  }
  return true;
}

}  // namespace gv
