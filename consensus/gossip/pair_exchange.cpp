// The public interface of the pair exchange. Its two state machines are in pair_exchange_state.cpp.
#include "consensus/gossip/pair_exchange.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.hpp"
#include "base/state_hash.hpp"
#include "consensus/gossip/pair_exchange_state.hpp"

namespace gv {

PairExchange::PairExchange(PeerId self, std::uint64_t session, Options options)
    : state_(State{.self = self, .numbers = {.session = session}, .options = options}) {
  check(options.offences_max > 0, "a peer may offend at least once");
}

PairExchange::PairExchange(const PairExchange& other) = default;
PairExchange::PairExchange(PairExchange&& other) noexcept = default;
PairExchange& PairExchange::operator=(const PairExchange& other) = default;
PairExchange& PairExchange::operator=(PairExchange&& other) noexcept = default;
PairExchange::~PairExchange() = default;
bool PairExchange::operator==(const PairExchange& other) const {
  return equal_states(*state_, *other.state_);
}
void PairExchange::add_to(StateHash& hash) const { hash.add(*state_); }

void PairExchange::set_snapshot(SnapshotPtr snapshot, float alpha, std::span<const Force> since) {
  check(!snapshot || snapshot->values.size() == state_->options.elements,
        "a snapshot has the layout's size");
  state_->snapshot = std::move(snapshot);
  state_->encoding = {};
  state_->since.assign(since.begin(), since.end());
  state_->alpha = alpha;
  if (state_->snapshot) return;
  state_->snapshots.clear();
  state_->differences.clear();
}

const SnapshotPtr& PairExchange::snapshot() const { return state_->snapshot; }

std::shared_ptr<Snapshot> PairExchange::blank_snapshot() { return state_->snapshots.take(); }

bool PairExchange::start(Time now, PeerId partner, std::uint64_t round, Effects& out) {
  State& state = *state_;
  state.withdraw_unanswered(now, out);
  if (state.flight || !state.snapshot || state.is_quarantined(now, partner)) return false;
  if (state.times.is_resting(now, partner)) return false;
  const TransferId id = state.numbers.next_exchange(state.self);
  State::Flight& mine = state.take_off(now, id, partner, true);
  mine.deadline = now + state.options.answer_deadline;
  ++state.counts.initiated;
  out.send(partner, Offer{.id = id,
                          .round = round,
                          .layout_hash = state.options.layout_hash,
                          .elements = state.options.elements,
                          .codec = static_cast<std::uint8_t>(state.options.codec.kind),
                          .alpha = mine.alpha,
                          .clip_radius = mine.clip_radius,
                          .step = mine.snapshot->step,
                          .checksum = mine.snapshot->checksum});
  return true;
}

void PairExchange::receive(Time now, PeerId from, const Message& message, Effects& out) {
  std::visit(
      [&](const auto& known) {
        if constexpr (requires { state_->on(now, from, known, out); }) {
          state_->on(now, from, known, out);
        }
      },
      message);
}

void PairExchange::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  State& state = *state_;
  State::Flight* mine = state.matching(from, block.id);
  const bool receiving = mine != nullptr && (mine->stage == State::Stage::offered ||
                                             mine->stage == State::Stage::receiving);
  if (!receiving) return;
  // After this process has slept, blocks may arrive before the tick that asks for them. The time
  // slept says nothing about how fast models travel, so it must not count.
  if (mine->accepted && now >= mine->deadline) mine->asked_at = now;
  if (state.needs_memory() && !state.begin_code(now, block, out)) return;
  const std::uint64_t begin = mine->blocks.received();
  const BlockFit fit =
      state.needs_memory() ? mine->blocks.take(block, mine->code) : mine->blocks.take(block);
  if (fit == BlockFit::bad_length) {
    state.blame(now, from, Reason::bad_length, out);
    state.abort(Reason::bad_length, true, out);
  }
  // Missing bytes are requested again at the deadline.
  if (fit != BlockFit::next) return;
  if (!state.needs_memory()) state.take_values(block, begin);
  if (mine->accepted) {
    mine->deadline = std::min(now + state.options.progress_deadline, mine->give_up_at);
  }
  if (mine->accepted && mine->blocks.is_whole()) state.whole(now, out);
}

void PairExchange::lane_lost(Time now, PeerId peer, Effects& out) {
  State& state = *state_;
  if (!state.flight || state.flight->partner != peer) return;
  if (state.flight->stage == State::Stage::receiving) state.resume(now, Reason::unreachable, out);
  // Messages travel on lanes too, so our Ready may have been lost with this lane.
  if (state.flight && state.flight->stage == State::Stage::awaiting_word) {
    out.send(peer, Ready{state.flight->id});
  }
  // The partner may have noticed the loss before we did, and asked us to resume. Our answer may
  // have been lost with the lane.
  if (state.flight && state.flight->asked) state.stream(out, *state.flight->asked);
}

void PairExchange::lane_refused(Time now, PeerId peer, Effects& out) {
  State& state = *state_;
  if (!state.flight || state.flight->partner != peer) return;
  // Once we have sent Ready, only the initiator may end the exchange.
  if (state.flight->stage == State::Stage::awaiting_word) return;
  if (state.flight->accepted) state.times.note_aborted(now, peer, state.flight->began);
  state.abort(Reason::unreachable, true, out);
}

void PairExchange::peer_gone(Time, PeerId peer, Effects& out) {
  State& state = *state_;
  if (!state.flight || state.flight->partner != peer) return;
  state.give_up(Reason::peer_gone, false, out);
}

void PairExchange::stop(Time now, Effects& out) {
  set_snapshot(nullptr, 0);
  state_->stops = true;
  if (state_->flight && state_->flight->stage == State::Stage::awaiting_word) {
    state_->ask_for_word(now, out);
  }
}

void PairExchange::give_up(Effects& out) {
  if (state_->flight) state_->give_up(Reason::timed_out, true, out);
}

void PairExchange::tick(Time now, Effects& out) { state_->tick(now, out); }

Time PairExchange::deadline() const { return state_->flight ? state_->flight->deadline : never; }

bool PairExchange::is_resting(Time now, PeerId partner) const {
  return state_->times.is_resting(now, partner);
}

std::vector<Force> PairExchange::take_forces() { return std::exchange(state_->forces, {}); }

std::optional<PeerId> PairExchange::take_turned_away() {
  return std::exchange(state_->turned_away, std::nullopt);
}

void PairExchange::blame(Time now, PeerId peer, Reason reason, Effects& out) {
  state_->blame(now, peer, reason, out);
}

double PairExchange::spread() const { return state_->spread(); }

bool PairExchange::is_quarantined(Time now, PeerId peer) const {
  return state_->is_quarantined(now, peer);
}

bool PairExchange::in_flight() const { return state_->flight.has_value(); }

const PairExchange::Counts& PairExchange::counts() const { return state_->counts; }

std::size_t PairExchange::held() const {
  const State& state = *state_;
  return state.committed.size() + state.settled.size() + state.conduct.size() +
         state.patience.size() + state.distances.size() + state.times.held() +
         state.memories.held();
}

std::size_t PairExchange::held_max(std::size_t others) {
  // Five tables have an entry for each peer: its last commit, its last accepted offer, its conduct,
  // our patience with it, and the end of its rest.
  constexpr std::size_t tables = 5;
  return tables * others + std::min(others, PairMemories::partners_max) + distances_max +
         PartnerTimes::recent_max;
}

}  // namespace gv
