// Requests sketches from witnesses and judges a model by their answers.
#include "consensus/transfer/model_review.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

namespace gv {
namespace {

/// The median of the values or, if their number is even, the larger of the middle two.
double middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, at);
  return *at;
}

}  // namespace

void ModelReview::begin(Time now, const TransferId& id, std::span<const float> model,
                        std::optional<double> our_norm, std::uint64_t seed, Time meets_until) {
  review_ = Review{.request = {.id = id, .seed = seed, .layout_hash = options_.layout_hash},
                   .sketch = sketch_of(model, seed),
                   .our_norm = our_norm,
                   .witnesses = {},
                   .unasked = {},
                   .met = {},
                   .not_ready = {},
                   .meets_until = meets_until,
                   .again_at = now + options_.again_after,
                   .until = now + options_.patience};
}

void ModelReview::meet(const std::vector<PeerId>& witnesses, Effects& out) {
  for (const PeerId peer : witnesses) {
    if (review_->met.insert(peer).second) review_->unasked.push_back(peer);
  }
  if (is_alone()) return;
  for (const PeerId peer : next_witnesses()) out.send(peer, review_->request);
}

/// Adds unasked witnesses to the asked ones, as many as this round allows, and returns them.
std::vector<PeerId> ModelReview::next_witnesses() {
  // With compares_bits, a witness that contradicts the source may be hostile, so each answer allows
  // one more witness.
  const std::size_t contrary = options_.compares_bits ? answers() : 0;
  const std::size_t wanted = options_.asked * review_->round + contrary;
  std::vector<PeerId> next;
  while (review_->witnesses.size() < wanted && !review_->unasked.empty()) {
    next.push_back(review_->unasked.front());
    review_->witnesses.push_back({next.back(), {}});
    review_->unasked.erase(review_->unasked.begin());
  }
  return next;
}

/// Asks the witnesses that have not answered, and new ones if this round allows more.
void ModelReview::ask(Effects& out) {
  if (is_alone()) return;
  next_witnesses();
  for (const Witness& witness : review_->witnesses) {
    if (!witness.answer) out.send(witness.peer, review_->request);
  }
}

/// Drops a witness unless it has answered.
void ModelReview::drop(PeerId peer) {
  std::erase_if(review_->witnesses,
                [&](const Witness& known) { return known.peer == peer && !known.answer; });
  std::erase(review_->unasked, peer);
  std::erase(review_->not_ready, peer);
}

void ModelReview::receive(PeerId from, const Message& message) {
  const TransferId* id = transfer_of(message);
  if (!review_ || id == nullptr || *id != review_->request.id) return;
  const auto witness = std::ranges::find(review_->witnesses, from, &Witness::peer);
  if (witness == review_->witnesses.end()) return;
  if (const auto* answer = std::get_if<SketchReply>(&message)) {
    if (!witness->answer && !is_decided()) witness->answer = *answer;
  } else if (const auto* refuse = std::get_if<Refuse>(&message)) {
    const bool begins = refuse->reason == Reason::not_ready && !witness->answer;
    drop(from);
    if (begins) review_->not_ready.push_back(from);
  }
}

void ModelReview::peer_gone(PeerId peer) {
  if (review_) drop(peer);
}

void ModelReview::tick(Time now, Effects& out) {
  if (!review_) return;
  const bool is_silent = now >= review_->until && answers() == 0 && witnesses() > 0;
  if (is_silent && review_->round < options_.rounds) {
    ++review_->round;
    review_->until = now + options_.patience;
  }
  if (now < review_->again_at) return;
  review_->again_at = now + options_.again_after;
  // If no other witness is left, those that had no model yet are asked again.
  if (is_alone()) {
    std::ranges::move(std::exchange(review_->not_ready, {}), std::back_inserter(review_->unasked));
  }
  ask(out);
}

Time ModelReview::deadline() const {
  if (!review_) return never;
  const Time next = std::min(review_->again_at, review_->until);
  return is_alone() ? std::min(next, review_->meets_until) : next;
}

std::size_t ModelReview::answers() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      review_->witnesses, [](const Witness& witness) { return witness.answer.has_value(); }));
}

auto ModelReview::take(Time now) -> std::optional<Verdict> {
  if (!review_) return std::nullopt;
  const Time until = is_alone() ? review_->meets_until : review_->until;
  if (!is_decided() && now < until) return std::nullopt;
  const Verdict found = verdict();
  review_.reset();
  return found;
}

/// True if the sketch from some witness equals the sketch of the model exactly.
bool ModelReview::is_matched() const {
  return std::ranges::any_of(review_->witnesses, [&](const Witness& witness) {
    return witness.answer && witness.answer->values == review_->sketch;
  });
}

/// True if there are enough answers for a verdict.
bool ModelReview::is_decided() const {
  if (is_alone()) return false;
  if (!options_.compares_bits) return answers() >= std::min(options_.needed, witnesses());
  return is_matched() || answers() == witnesses();
}

auto ModelReview::verdict() const -> Verdict {
  Verdict found;
  std::vector<const SketchReply*> replies;
  for (const Witness& witness : review_->witnesses) {
    if (!witness.answer) continue;
    replies.push_back(&*witness.answer);
    found.step = std::max(found.step.value_or(0), witness.answer->step);
  }
  if (!is_alone() && !replies.empty()) {
    found.problem = problem_with(replies);
  } else if (!is_alone() && witnesses() > 0) {
    found.problem = Reason::timed_out;
  } else if (review_->our_norm && is_longer_than(*review_->our_norm)) {
    found.problem = Reason::norm_exceeded;
  }
  found.blames_source = found.problem == Reason::norm_exceeded &&
                        (replies.size() >= options_.needed ||
                         (review_->our_norm.has_value() && is_longer_than(*review_->our_norm)));
  return found;
}

/// True if the model's norm is above the cap. `norm` is the norm of a model that we trust.
bool ModelReview::is_longer_than(double norm) const {
  return options_.norm_cap > 0 &&
         !(norm_of(review_->sketch) <= options_.norm_cap * std::max(norm, 1.0));
}

Reason ModelReview::problem_with(const std::vector<const SketchReply*>& replies) const {
  if (options_.compares_bits) return is_matched() ? Reason::none : Reason::doubtful;
  std::vector<double> distances;
  std::vector<double> norms;
  std::vector<double> reports;
  std::vector<double> gaps;
  for (const SketchReply* reply : replies) {
    distances.push_back(distance_between(review_->sketch, reply->values));
    norms.push_back(norm_of(reply->values));
    reports.push_back(reply->spread);
    double gap = std::numeric_limits<double>::infinity();
    for (const SketchReply* other : replies) {
      if (other != reply) gap = std::min(gap, distance_between(reply->values, other->values));
    }
    gaps.push_back(replies.size() == 1 ? 0 : gap);
  }
  const double norm = middle(std::move(norms));
  if (is_longer_than(norm)) return Reason::norm_exceeded;
  const double widest = std::ranges::max(gaps);
  const bool reports_none = std::ranges::max(reports) == 0;
  const bool are_fresh = replies.size() > 1 && reports_none && widest == 0;
  if (are_fresh && options_.believes_fresh_witnesses) return Reason::none;
  // A witness that copies another's answer could make the median gap zero. So if no witness reports
  // a distance, use the widest gap.
  const double spread =
      std::max(middle(std::move(reports)), reports_none ? widest : middle(std::move(gaps)));
  double allowed = options_.tolerance * spread;
  if (replies.size() == 1) allowed = std::max(allowed, options_.share_of_norm * norm);
  const auto near = static_cast<std::size_t>(
      std::ranges::count_if(distances, [&](double distance) { return distance <= allowed; }));
  return 2 * near >= replies.size() ? Reason::none : Reason::doubtful;
}

}  // namespace gv
