// Requests states, changes sources, and decides which bytes may be kept when the source changes.
#include "consensus/transfer/state_download.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/rng.hpp"
#include "base/state_hash.hpp"

namespace gv {

ModelVersion version_of_own(const ModelVersion& version, PeerId source, std::uint64_t session) {
  ModelVersion own = version;
  own.lineage =
      hash_combine(hash_combine(own.lineage, static_cast<std::uint64_t>(source)), session);
  return own;
}

bool StateDownload::is_from_source(PeerId from, const TransferId& id) const {
  return wanted_ && wanted_->source == from && wanted_->id == id;
}

void StateDownload::start_over() {
  blocks_ = Reassembly(options_.elements * sizeof(float), sizeof(float), options_.block_least);
  version_ = expected_;
}

void StateDownload::want(Time now, std::vector<PeerId> sources,
                         const std::optional<ModelVersion>& version, Effects& out) {
  if (wanted_) return;
  failed_ = false;
  arrival_.reset();
  expected_ = version;
  const bool goes_on = version && version_ == version && !blocks_.is_whole();
  if (!goes_on) start_over();
  wanted_.emplace(Wanted{.sources = std::move(sources)});
  ask_next(now, out);
}

void StateDownload::add(Time now, const std::vector<PeerId>& sources, Effects& out) {
  if (!wanted_ || sources.empty()) return;
  const bool is_pausing = !wanted_->source;
  if (is_pausing) wanted_->next = wanted_->sources.size();
  wanted_->sources.insert(wanted_->sources.end(), sources.begin(), sources.end());
  if (is_pausing) ask_next(now, out);
}

void StateDownload::stop() {
  drop_unproved();
  wanted_.reset();
}

/// Drops the received bytes if the source has not named their version yet. Blocks may arrive before
/// the version.
void StateDownload::drop_unproved() {
  if (wanted_ && wanted_->begun && !wanted_->accepted) start_over();
}

void StateDownload::ask(Time now, Effects& out) {
  wanted_->deadline = now + options_.answer_deadline;
  out.send(*wanted_->source, StateRequest{.id = wanted_->id,
                                          .layout_hash = options_.layout_hash,
                                          .version = version_.value_or(ModelVersion{}),
                                          .offset = blocks_.received()});
}

void StateDownload::ask_next(Time now, Effects& out) {
  Wanted& mine = *wanted_;
  drop_unproved();
  mine.begun = false;
  mine.source.reset();
  if (mine.next == mine.sources.size()) {
    mine.next = 0;
    if (++mine.rounds >= options_.rounds_max || mine.sources.empty()) {
      wanted_.reset();
      failed_ = true;
      out.tell(FetchFailed{});
      return;
    }
    mine.deadline = now + options_.retry_after;
    return;
  }
  // Bytes of an unknown version cannot be used with another source.
  if (!version_) start_over();
  mine.source = mine.sources[mine.next++];
  mine.id = numbers_.next_state(self_, options_.stage);
  mine.accepted = false;
  mine.resumes = 0;
  out.tell(FetchAsked{.peer = *mine.source});
  ask(now, out);
}

void StateDownload::change_source(Time now, Reason reason, Effects& out) {
  out.tell(FetchSourceLost{
      .peer = *wanted_->source, .reason = reason, .bytes_received = blocks_.received()});
  out.send(*wanted_->source, Abort{wanted_->id, reason});
  ask_next(now, out);
}

void StateDownload::resume(Time now, Reason reason, Effects& out) {
  if (++wanted_->resumes > options_.resumes_max || !wanted_->accepted) {
    change_source(now, reason, out);
    return;
  }
  wanted_->deadline = now + options_.progress_deadline;
  out.send(*wanted_->source, Resume{wanted_->id, blocks_.received()});
}

void StateDownload::accept(Time now, const TransferAccepted& accepted, Effects& out) {
  if (wanted_->accepted) return;
  const auto& [id, layout_hash, elements, version, offset] = accepted;
  if (layout_hash != options_.layout_hash || elements != options_.elements) {
    return change_source(now, Reason::unknown_layout, out);
  }
  if (expected_ && version != *expected_) return change_source(now, Reason::stale, out);
  if (wanted_->begun) {
    // Blocks of this source that arrived before this message were added to those that we had. If
    // the versions differ, the new and the old blocks do not fit together.
    const bool is_mixed = version_ && *version_ != version;
    if (is_mixed) start_over();
    if (is_mixed) return change_source(now, Reason::stale, out);
  } else if (offset == 0) {
    start_over();
  } else if (version_ != version || offset != blocks_.received()) {
    return change_source(now, Reason::bad_length, out);
  }
  version_ = version;
  wanted_->accepted = true;
  if (offset > 0) {
    out.tell(FetchResumed{.peer = *wanted_->source, .bytes_received = offset});
  }
  wanted_->deadline = now + options_.progress_deadline;
}

void StateDownload::receive(Time now, PeerId from, const Message& message,
                            std::span<const float> memory, Effects& out) {
  const TransferId* id = transfer_of(message);
  if (id == nullptr || id->kind != TransferKind::state || id->owner != self_) return;
  const auto* accepted = std::get_if<TransferAccepted>(&message);
  if (!is_from_source(from, *id)) {
    // This peer still serves a download that we have given up.
    if (accepted != nullptr) out.send(from, Abort{*id, Reason::stale});
    return;
  }
  if (accepted != nullptr) {
    accept(now, *accepted, out);
    finish_if_whole(now, memory, out);
  } else if (const auto* refusal = std::get_if<Refuse>(&message)) {
    out.tell(FetchSourceLost{
        .peer = *wanted_->source, .reason = refusal->reason, .bytes_received = std::nullopt});
    ask_next(now, out);
  } else if (std::holds_alternative<Abort>(message)) {
    ask_next(now, out);
  }
}

void StateDownload::receive_block(Time now, PeerId from, const Block& block,
                                  std::span<float> memory, Effects& out) {
  if (!is_from_source(from, block.id)) return;
  check(memory.size() == options_.elements, "the memory has room for the state");
  const bool is_first = !wanted_->begun && !wanted_->accepted;
  // The source begins at 0, so its version differs from that of the bytes that we hold.
  if (is_first && block.offset == 0) start_over();
  const BlockFit fit = blocks_.take(block, std::as_writable_bytes(memory));
  if (fit == BlockFit::bad_length) change_source(now, Reason::bad_length, out);
  if (fit != BlockFit::next) return;
  if (!wanted_->begun) {
    wanted_->begun_at = now;
    wanted_->begun_from = block.offset;
  }
  wanted_->begun = true;
  wanted_->deadline = now + options_.progress_deadline;
  if (is_too_slow(now)) {
    ++wanted_->slow;
    return change_source(now, Reason::timed_out, out);
  }
  finish_if_whole(now, memory, out);
}

/// True if the current source is to be replaced, because at its pace so far all that it has to send
/// would take too long.
bool StateDownload::is_too_slow(Time now) const {
  const Wanted& mine = *wanted_;
  const Duration took = now - mine.begun_at;
  const bool may_change = mine.next < mine.sources.size() && mine.slow < slow_max;
  if (!may_change || blocks_.is_whole() || took < judged_after) return false;
  const auto came = static_cast<double>(blocks_.received() - mine.begun_from);
  const auto all = static_cast<double>(blocks_.total() - mine.begun_from);
  return seconds(took) * all > seconds(slow_after) * came;
}

void StateDownload::finish_if_whole(Time now, std::span<const float> memory, Effects& out) {
  if (!wanted_ || !wanted_->accepted || !blocks_.is_whole()) return;
  if (!is_finite(memory)) {
    out.tell(
        ModelRefused{.peer = *wanted_->source, .reason = Reason::not_finite, .norm = std::nullopt});
    start_over();
    change_source(now, Reason::not_finite, out);
    return;
  }
  out.tell(ModelFetched{.peer = *wanted_->source,
                        .step = version_->step,
                        .bytes = options_.elements * sizeof(float)});
  out.send(*wanted_->source, Ready{wanted_->id});
  arrival_ = Arrival{*wanted_->source, *version_};
  wanted_.reset();
}

std::optional<StateDownload::Arrival> StateDownload::take() {
  return std::exchange(arrival_, std::nullopt);
}

void StateDownload::lane_lost(Time now, PeerId peer, Effects& out) {
  if (source() == peer) resume(now, Reason::unreachable, out);
}

void StateDownload::lane_refused(Time now, PeerId peer, Effects& out) {
  if (source() == peer) change_source(now, Reason::unreachable, out);
}

void StateDownload::peer_gone(Time now, PeerId peer, Effects& out) {
  if (!wanted_) return;
  // A peer that is gone is not tried again in a later round.
  const bool is_source = source() == peer;
  const auto found = std::ranges::find(wanted_->sources, peer);
  if (found != wanted_->sources.end()) {
    const auto index = static_cast<std::size_t>(found - wanted_->sources.begin());
    wanted_->sources.erase(found);
    if (index < wanted_->next) --wanted_->next;
  }
  if (is_source) change_source(now, Reason::peer_gone, out);
}

void StateDownload::tick(Time now, Effects& out) {
  if (!wanted_ || now < wanted_->deadline) return;
  if (!wanted_->source) {
    ask_next(now, out);
  } else if (options_.waits_for_answer && !wanted_->accepted) {
    ask(now, out);
  } else {
    resume(now, Reason::timed_out, out);
  }
}

bool operator==(const StateDownload& a, const StateDownload& b) { return equal_states(a, b); }

}  // namespace gv
