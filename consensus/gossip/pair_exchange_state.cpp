// The two state machines of a pair exchange and the arithmetic of its force.
#include "consensus/gossip/pair_exchange_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace gv {
namespace {

constexpr int resumes_max = 3;  ///< Number of broken lanes and pauses that one exchange survives.
constexpr int queries_max = 8;  ///< Number of times that the responder asks for Commit before it
                                ///< gives up.
/// An unanswered offer to a new partner gives way to others after the answer deadline divided by
/// this.
constexpr int patience_part = 8;
constexpr std::size_t distances_min = 5;  ///< The fewest distances from which a typical one can be
                                          ///< computed.
/// With fewer partners, a single one could decide the median over partners.
constexpr std::size_t partners_min = 3;

/// The middle value, or the upper one of two middle values. `values` must not be empty.
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

bool PairExchange::State::is_quarantined(Time now, PeerId peer) const {
  const auto found = conduct.find(peer);
  return found != conduct.end() && now < found->second.quarantined_until;
}

/// The median distance over partners. Every partner counts once, with its last distance, or with
/// its largest if `widest`. So a partner that exchanges often, or whose model is far away, does not
/// determine the result. Returns nullopt if too few partners are known.
std::optional<double> PairExchange::State::median_of_partners(bool widest) const {
  std::map<PeerId, double> of_partners;
  for (const auto& [partner, distance] : distances) {
    double& known = of_partners[partner];
    known = widest ? std::max(known, distance) : distance;
  }
  if (of_partners.size() < partners_min) return std::nullopt;
  std::vector<double> values;
  for (const auto& [partner, distance] : of_partners) values.push_back(distance);
  return median_of(std::move(values));
}

/// See PairExchange::spread().
double PairExchange::State::spread() const {
  if (const auto usual = median_of_partners(true)) return *usual;
  double widest = 0;
  for (const auto& [partner, distance] : distances) widest = std::max(widest, distance);
  return widest;
}

/// The clip radius that we propose.
float PairExchange::State::radius() const {
  if (options.clip_radius > 0) return options.clip_radius;
  if (options.clip_factor <= 0 || distances.size() < distances_min) return 0;
  std::vector<double> all;
  for (const auto& [partner, distance] : distances) all.push_back(distance);
  const double usual = median_of_partners(false).value_or(median_of(std::move(all)));
  return options.clip_factor * static_cast<float>(usual);
}

/// Records the distance of an exchange. If too many are kept, drops the oldest distance of the
/// partner that has the most. So a partner that exchanges often does not push out the distances of
/// others.
void PairExchange::State::note_distance(PeerId partner, double distance) {
  distances.emplace_back(partner, distance);
  if (distances.size() <= distances_max) return;
  const auto count_of = [&](const auto& entry) {
    return std::ranges::count_if(distances,
                                 [&](const auto& other) { return other.first == entry.first; });
  };
  // If several partners have the most, the first entry found is the oldest.
  distances.erase(std::ranges::max_element(distances, {}, count_of));
}

void PairExchange::State::freshen_snapshot() {
  if (since.empty()) return;
  // If nothing else holds the snapshot, it is changed in place. Otherwise it is copied, so that the
  // other holders keep it unchanged.
  auto fresh = snapshots.sole(snapshot);
  if (!fresh) {
    fresh = snapshots.take();
    *fresh = *snapshot;
  }
  for (const Force& force : since) {
    const std::vector<float>& values = *force.values;
    for (std::size_t i = 0; i < values.size(); ++i) fresh->values[i] += force.scale * values[i];
    add(fresh->checksum, force.checksum);
  }
  since.clear();
  snapshot = std::move(fresh);
  encoding = {};
}

std::shared_ptr<std::vector<float>> PairExchange::State::blank_difference() {
  // Without a snapshot to offer, no buffer is kept for later exchanges.
  auto difference = snapshot ? differences.take() : std::make_shared<std::vector<float>>();
  difference->resize(options.elements);
  return difference;
}

Payload PairExchange::State::encoded(PeerId partner, const TransferId& id) {
  if (options.codec == Codec::identity) {
    return {snapshot, std::as_bytes(std::span(snapshot->values))};
  }
  const std::uint64_t key = memories.key_of(partner);
  const bool is_theirs = key == 0 || encoding.partner == partner;
  if (encoding.payload.owner && encoding.key == key && is_theirs) return encoding.payload;
  auto bytes = std::make_shared<std::vector<std::byte>>(needs_memory() ? 0 : payload_bytes());
  if (needs_memory()) {
    const Rng draws =
        Rng(id.number).fork(id.session).fork(static_cast<std::uint64_t>(self)).fork("rounding");
    *bytes = memories.encode(options.codec, partner, snapshot->values, draws);
  } else {
    encode_each(options.codec, snapshot->values, *bytes);
  }
  encoding = {{bytes, std::span<const std::byte>(*bytes)}, partner, key};
  return encoding.payload;
}

auto PairExchange::State::take_off(Time now, TransferId id, PeerId partner, bool initiator)
    -> Flight& {
  freshen_snapshot();
  flight.emplace(Flight{
      .id = id,
      .partner = partner,
      .initiator = initiator,
      .snapshot = snapshot,
      .payload = encoded(partner, id),
      .alpha = alpha,
      .clip_radius = radius(),
      .blocks =
          Reassembly(payload_bytes(), std::max<std::size_t>(1, bytes_per_element(options.codec)),
                     options.block_least),
      .began = now,
      .give_up_at = times.give_up_at(now, partner)});
  return *flight;
}

/// Withdraws our offer if it has stayed unanswered for too long. The partner may be slow, or dead
/// and not yet detected, so the offer must not keep us from other exchanges.
void PairExchange::State::withdraw_unanswered(Time now, Effects& out) {
  const bool unanswered = flight && flight->stage == Stage::offered && !flight->accepted;
  if (!unanswered) return;
  Duration& patience = patience_with(flight->partner);
  if (now < flight->began + patience) return;
  // The partner may merely be far away, so our next offer gives it more time.
  patience = std::min(2 * patience, options.answer_deadline);
  abort(Reason::timed_out, true, out);
}

/// How long `partner` may take to answer before our offer gives way to others.
Duration& PairExchange::State::patience_with(PeerId partner) {
  return patience.try_emplace(partner, options.answer_deadline / patience_part).first->second;
}

/// Notes that our offer was answered. From now on the partner of `flight` gets twice the time that
/// this answer took.
void PairExchange::State::note_answer(Time now) {
  const Duration least = options.answer_deadline / patience_part;
  patience_with(flight->partner) =
      std::clamp(2 * (now - flight->began), least, options.answer_deadline);
}

auto PairExchange::State::matching(PeerId from, const TransferId& id) -> Flight* {
  return flight && flight->id == id && flight->partner == from ? &*flight : nullptr;
}

void PairExchange::State::settle(const TransferId& id) {
  settled[id.owner] = {id.session, id.number};
}

/// Tells a partner how one of our exchanges ended. A committed exchange stays committed. It is
/// enough to remember the last one with each partner, because a partner that waits for Commit takes
/// part in no later exchange.
void PairExchange::State::tell_outcome(PeerId to, const TransferId& id, Effects& out) const {
  const auto last = committed.find(to);
  if (last != committed.end() && last->second == id) {
    out.send(to, Commit{id});
  } else {
    // We do not know the outcome of exchanges that an earlier process of ours began.
    const bool ours = id.session == numbers.session;
    out.send(to, Abort{id, ours ? Reason::stale : Reason::unknown_transfer});
  }
}

void PairExchange::State::stream(Effects& out, std::uint64_t offset) {
  out.transfers.push_back({flight->partner, flight->id, flight->payload, offset});
}

void PairExchange::State::refuse(PeerId to, TransferId id, Reason reason, Effects& out) {
  ++counts.refusals;
  if (reason == Reason::busy && !turned_away) turned_away = to;
  out.tell(OfferRefused{.peer = to, .reason = reason});
  out.send(to, Refuse{id, reason});
}

void PairExchange::State::abort(Reason reason, bool tell, Effects& out) {
  ++counts.aborted;
  out.tell(ExchangeAborted{.peer = flight->partner, .reason = reason});
  if (tell) out.send(flight->partner, Abort{flight->id, reason});
  end(out);
}

void PairExchange::State::drop_undecided(Reason reason, Effects& out) {
  ++counts.undecided;
  memories.forget(flight->partner);
  out.tell(ExchangeUndecided{.peer = flight->partner, .reason = reason});
  end(out);
}

void PairExchange::State::give_up(Reason reason, bool tell, Effects& out) {
  if (flight->stage == Stage::awaiting_word) {
    drop_undecided(reason, out);
  } else {
    abort(reason, tell, out);
  }
}

/// Time until we next ask for Commit. A peer that is about to end asks more often, because little
/// time is left, and the question or the answer may be lost.
Duration PairExchange::State::until_query(Duration usual) const {
  return stops ? options.answer_deadline / queries_max : usual;
}

void PairExchange::State::ask_for_word(Time now, Effects& out) {
  out.send(flight->partner, Query{flight->id});
  flight->deadline = now + until_query(options.answer_deadline);
}

/// Returns the reason why an offer cannot be accepted, or Reason::none if it can.
Reason PairExchange::State::judge(Time now, PeerId from, const Offer& offer) const {
  const auto last = settled.find(from);
  const bool stale = last != settled.end() && last->second.session == offer.id.session &&
                     offer.id.number <= last->second.number;
  if (offer.id.owner != from || stale) return Reason::stale;
  if (offer.layout_hash != options.layout_hash || offer.elements != options.elements) {
    return Reason::unknown_layout;
  }
  if (offer.codec != static_cast<std::uint8_t>(options.codec.kind)) return Reason::unknown_codec;
  const bool sound = offer.alpha >= 0 && offer.alpha <= 1 && std::isfinite(offer.clip_radius);
  if (!sound) return Reason::not_finite;
  if (is_quarantined(now, from)) return Reason::quarantined;
  if (!snapshot) return Reason::not_ready;
  if (times.is_resting(now, from)) return Reason::resting;
  return Reason::none;
}

void PairExchange::State::on(Time now, PeerId from, const Offer& offer, Effects& out) {
  if (matching(from, offer.id)) return;
  const Reason reason = judge(now, from, offer);
  if (reason != Reason::none) {
    refuse(from, offer.id, reason, out);
    return;
  }
  withdraw_unanswered(now, out);
  if (flight) {
    // If two peers make offers to each other at the same time, the offer of the smaller id wins.
    const bool crossed = flight->partner == from && flight->stage == Stage::offered;
    if (!crossed || self < from) {
      if (!crossed) refuse(from, offer.id, Reason::busy, out);
      return;
    }
    // Our offer gives way. The partner has not refused it, so the offer is not counted.
    --counts.initiated;
    end(out);
  }
  settle(offer.id);
  Flight& mine = take_off(now, offer.id, from, false);
  mine.stage = Stage::receiving;
  mine.accepted = true;
  mine.asked_at = now;
  mine.deadline = now + options.progress_deadline;
  mine.partner_checksum = offer.checksum;
  mine.partner_step = offer.step;
  out.send(from, Accept{.id = offer.id,
                        .alpha = mine.alpha,
                        .clip_radius = mine.clip_radius,
                        .step = snapshot->step,
                        .checksum = snapshot->checksum});
  mine.alpha = std::min(mine.alpha, offer.alpha);
  mine.clip_radius = smaller_radius(mine.clip_radius, offer.clip_radius);
  stream(out, 0);
  if (mine.blocks.is_whole()) whole(now, out);
}

void PairExchange::State::on(Time now, PeerId from, const Accept& accept, Effects& out) {
  Flight* mine = matching(from, accept.id);
  if (mine == nullptr || !mine->initiator) {
    // The partner accepted an exchange of ours that is over, so we tell it how the exchange ended.
    if (accept.id.owner == self) tell_outcome(from, accept.id, out);
    return;
  }
  if (mine->accepted) return;
  if (!(accept.alpha >= 0 && accept.alpha <= 1) || !std::isfinite(accept.clip_radius)) {
    abort(Reason::not_finite, true, out);
    return;
  }
  note_answer(now);
  mine->accepted = true;
  mine->asked_at = now;
  mine->deadline = now + options.progress_deadline;
  mine->alpha = std::min(mine->alpha, accept.alpha);
  mine->clip_radius = smaller_radius(mine->clip_radius, accept.clip_radius);
  mine->partner_checksum = accept.checksum;
  mine->partner_step = accept.step;
  if (mine->stage == Stage::offered) mine->stage = Stage::receiving;
  stream(out, 0);
  // The last block may have arrived before this message, because it came on another connection.
  if (mine->blocks.is_whole()) whole(now, out);
}

void PairExchange::State::on(Time now, PeerId from, const Refuse& refusal, Effects& out) {
  Flight* mine = matching(from, refusal.id);
  if (mine == nullptr || !mine->initiator || mine->accepted) return;
  note_answer(now);
  ++counts.refused;
  out.tell(ExchangeRefused{.peer = from, .reason = refusal.reason});
  end(out);
}

void PairExchange::State::on(Time now, PeerId from, const Ready& word, Effects& out) {
  Flight* mine = matching(from, word.id);
  if (mine != nullptr && mine->initiator && mine->accepted) {
    mine->ready = true;
    if (mine->stage == Stage::awaiting_ready) commit(now, out);
    return;
  }
  if (word.id.owner != self || mine != nullptr) return;
  tell_outcome(from, word.id, out);
}

void PairExchange::State::on(Time now, PeerId from, const Commit& word, Effects& out) {
  Flight* mine = matching(from, word.id);
  if (mine != nullptr && !mine->initiator && mine->stage == Stage::awaiting_word) commit(now, out);
}

/// A partner that asks for Commit holds our whole model. If we did not know this, its Ready was
/// lost.
void PairExchange::State::on(Time now, PeerId from, const Query& query, Effects& out) {
  on(now, from, Ready{query.id}, out);
}

void PairExchange::State::on(Time now, PeerId from, const Abort& word, Effects& out) {
  const Flight* mine = matching(from, word.id);
  if (mine == nullptr) return;
  if (mine->stage == Stage::awaiting_word && word.reason == Reason::unknown_transfer) {
    drop_undecided(word.reason, out);
  } else {
    // The partner may have found that our two memories differ.
    if (word.reason == Reason::stale) memories.forget(from);
    if (mine->accepted) times.note_aborted(now, from, mine->began);
    abort(word.reason, false, out);
  }
}

void PairExchange::State::on(Time, PeerId from, const Resume& request, Effects& out) {
  Flight* mine = matching(from, request.id);
  if (mine == nullptr) {
    // Either the message that ended the exchange was lost, or an earlier process of ours began it.
    if (request.id.owner == self) {
      tell_outcome(from, request.id, out);
    } else {
      out.send(from, Abort{request.id, Reason::stale});
    }
    return;
  }
  if (!mine->accepted) return;
  if (!mine->blocks.can_resume_at(request.offset)) return;
  mine->asked = request.offset;
  stream(out, request.offset);
}

/// Begins to receive the partner's code, whose length follows from the key in its first block.
/// Returns false if no code has begun yet.
bool PairExchange::State::begin_code(Time now, const Block& block, Effects& out) {
  Flight& mine = *flight;
  if (mine.their_key) return true;
  if (block.offset != 0) return false;
  const auto refuse_length = [&] {
    blame(now, mine.partner, Reason::bad_length, out);
    abort(Reason::bad_length, true, out);
    return false;
  };
  if (block.bytes.size() < PairMemories::key_bytes) return refuse_length();
  const std::uint64_t key = PairMemories::key_in(block.bytes);
  if (!mine.blocks.end_at(PairMemories::code_bytes(options.codec, key, options.elements))) {
    return refuse_length();
  }
  mine.their_key = key;
  mine.code.resize(mine.blocks.total());
  return true;
}

/// Takes values that are encoded one by one, from byte `begin` on.
void PairExchange::State::take_values(const Block& block, std::uint64_t begin) {
  Flight& mine = *flight;
  const std::size_t width = bytes_per_element(options.codec);
  if (!mine.difference.values) mine.difference.values = blank_difference();
  const std::span<float> difference(*mine.difference.values);
  std::array<float, 4096> their_scratch;
  std::array<float, 4096> our_scratch;
  const std::size_t count = block.bytes.size() / width;
  const auto own_bytes = mine.payload.bytes.subspan(begin, block.bytes.size());
  for (std::size_t at = 0; at < count; at += their_scratch.size()) {
    const std::size_t part = std::min(their_scratch.size(), count - at);
    const auto piece = [&](std::span<const std::byte> bytes) {
      return bytes.subspan(at * width, part * width);
    };
    mine.comparison.add(decoded(options.codec, piece(block.bytes), their_scratch),
                        decoded(options.codec, piece(own_bytes), our_scratch),
                        difference.subspan(begin / width + at, part));
  }
  mine.difference.come = begin / width + count;
}

/// Called when both codes have arrived. Computes the difference and the mean of both models as both
/// peers decode them. The mean of two floats does not depend on their order, so both peers get the
/// same bits. Returns false if the exchange has ended instead.
bool PairExchange::State::decode_models(Time now, Effects& out) {
  Flight& mine = *flight;
  if (mine.their_key != memories.key_of(mine.partner)) {
    // One of the peers has lost its memory, or has completed an exchange that the other has not.
    memories.forget(mine.partner);
    abort(Reason::stale, true, out);
    return false;
  }
  std::vector<float> theirs(options.elements);
  std::vector<float> ours(options.elements);
  if (!memories.decode(options.codec, mine.partner, mine.payload.bytes, ours)) {
    // Our own model is not finite; the partner has done nothing wrong.
    abort(Reason::not_finite, true, out);
    return false;
  }
  if (!memories.decode(options.codec, mine.partner, mine.code, theirs)) {
    offend(now, Reason::not_finite, out);
    return false;
  }
  mine.difference.values = blank_difference();
  mine.comparison.add(theirs, ours, *mine.difference.values);
  mine.difference.come = options.elements;
  mine.middle.resize(options.elements);
  std::ranges::transform(theirs, ours, mine.middle.begin(),
                         [](float a, float b) { return 0.5F * a + 0.5F * b; });
  return true;
}

/// Called when the partner's whole snapshot has arrived. Judges it, then sends Ready or commits.
void PairExchange::State::whole(Time now, Effects& out) {
  Flight& mine = *flight;
  check(mine.accepted, "an exchange is whole after it was accepted");
  if (needs_memory() && options.elements > 0 && !decode_models(now, out)) return;
  const double norm = mine.comparison.their_norm();
  // Two finite models may be so far apart that their difference is infinite. If our own model is
  // not finite, the partner has done nothing wrong, and will refuse our model.
  const bool too_far =
      std::isfinite(mine.comparison.our_norm()) && !std::isfinite(mine.comparison.distance());
  if (!std::isfinite(norm) || too_far) {
    offend(now, Reason::not_finite, out);
    return;
  }
  if (options.norm_cap > 0 && norm > options.norm_cap * std::max(mine.comparison.our_norm(), 1.0)) {
    offend(now, Reason::norm_exceeded, out);
    return;
  }
  if (!mine.initiator) {
    mine.stage = Stage::awaiting_word;
    mine.deadline = now + until_query(options.progress_deadline);
    out.send(mine.partner, Ready{mine.id});
    return;
  }
  mine.stage = Stage::awaiting_ready;
  // Our own model may travel more slowly than the partner's, and only the partner sees when our
  // model arrives. We wait at least four times as long as the partner's model took. The time before
  // we had to ask again does not count. Otherwise a hostile partner could make us wait longer by
  // being silent at first.
  const Duration wait = std::max(2 * options.progress_deadline, 4 * (now - mine.asked_at));
  mine.deadline = std::min(now + wait, mine.give_up_at);
  if (mine.ready) commit(now, out);
}

void PairExchange::State::offend(Time now, Reason reason, Effects& out) {
  const PeerId partner = flight->partner;
  out.tell(
      ModelRefused{.peer = partner, .reason = reason, .norm = flight->comparison.their_norm()});
  blame(now, partner, reason, out);
  abort(reason, true, out);
}

void PairExchange::State::blame(Time now, PeerId peer, Reason reason, Effects& out) {
  Conduct& theirs = conduct[peer];
  if (++theirs.offences < options.offences_max) return;
  theirs = {.offences = 0, .quarantined_until = now + options.quarantine};
  out.tell(PeerQuarantined{.peer = peer, .reason = reason, .seconds = seconds(options.quarantine)});
}

void PairExchange::State::commit(Time now, Effects& out) {
  Flight& mine = *flight;
  const double distance = mine.comparison.distance();
  const double clip = clip_factor(mine.clip_radius, distance);
  const double strength = mine.alpha * clip;
  // If the layout has no elements, no block has created the difference.
  if (!mine.difference.values) mine.difference.values = blank_difference();
  Force force{.values = std::move(mine.difference.values),
              .scale = static_cast<float>(strength),
              .exchange = mine.id,
              .partner = mine.partner,
              .distance = distance,
              .step = mine.snapshot->step};
  for (std::size_t lane = 0; lane < force.checksum.size(); ++lane) {
    // Truncation towards zero is an odd function, so the two sides' integers cancel exactly. The
    // result is clamped because a partner's integers may have any value.
    const double difference = static_cast<double>(mine.partner_checksum[lane]) -
                              static_cast<double>(mine.snapshot->checksum[lane]);
    force.checksum[lane] =
        static_cast<std::int64_t>(std::clamp(strength * difference, -0x1p53, 0x1p53));
  }
  if (snapshot) since.push_back(force);
  forces.push_back(std::move(force));
  if (needs_memory()) memories.keep(mine.partner, mine.id, std::move(mine.middle));
  // If the force is zero, the distance must not affect later clip radii either.
  if (strength > 0) note_distance(mine.partner, distance);
  ++counts.committed;
  out.tell(ExchangeCommitted{.peer = mine.partner,
                             .distance = distance,
                             .clip = clip,
                             .steps_apart = static_cast<double>(mine.partner_step) -
                                            static_cast<double>(mine.snapshot->step),
                             .seconds = seconds(now - mine.began)});
  if (mine.initiator) {
    committed[mine.partner] = mine.id;
    out.send(mine.partner, Commit{mine.id});
  }
  times.note(now, mine.partner, mine.began);
  // An honest partner holds our whole model by now, so there is nothing to cancel. But we have only
  // the partner's word for this, and a hostile partner could make the lane hold one model after
  // another.
  out.cancels.push_back({mine.partner, mine.id});
  flight.reset();
}

void PairExchange::State::resume(Time now, Reason otherwise, Effects& out) {
  Flight& mine = *flight;
  if (++mine.resumes > resumes_max || now >= mine.give_up_at) {
    times.note_unanswered(now, mine.partner, mine.began);
    abort(otherwise, true, out);
    return;
  }
  mine.asked_at = now;
  mine.deadline = std::min(now + options.progress_deadline, mine.give_up_at);
  out.tell(ExchangeResumed{
      .peer = mine.partner, .reason = otherwise, .bytes_received = mine.blocks.received()});
  out.send(mine.partner, Resume{mine.id, mine.blocks.received()});
}

void PairExchange::State::tick(Time now, Effects& out) {
  std::erase_if(conduct, [&](const auto& entry) {
    const Time until = entry.second.quarantined_until;
    return until != Time{} && now >= until;
  });
  if (!flight || now < flight->deadline) return;
  switch (flight->stage) {
    case Stage::offered:
      abort(Reason::timed_out, true, out);
      break;
    case Stage::receiving:
      resume(now, Reason::timed_out, out);
      break;
    case Stage::awaiting_ready:
      times.note_unanswered(now, flight->partner, flight->began);
      abort(Reason::timed_out, true, out);
      break;
    case Stage::awaiting_word:
      if (++flight->queries > queries_max) {
        // The partner is alive, or we would have dropped the exchange earlier. If it is hostile, it
        // would hold us up again, so we exchange nothing with it for a while.
        times.note_hanging(now, flight->partner, flight->began);
        drop_undecided(Reason::timed_out, out);
      } else {
        ask_for_word(now, out);
      }
      break;
  }
}

}  // namespace gv
