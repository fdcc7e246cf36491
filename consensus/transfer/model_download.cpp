// The asking and the serving side of model downloads.
#include "consensus/transfer/model_download.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "consensus/transfer/reassembly.hpp"

namespace gv {
namespace {

constexpr int resumes_max =
    3;  ///< Broken lanes one download survives before the source is changed.

/// A download served to another peer.
struct Served {
  TransferId id;
  Payload payload;
  Time until{};
  std::optional<std::uint64_t> asked;  ///< The offset that we were last asked to resume at.
};

/// The snapshot as one payload; this takes a copy if it has more than the values.
Payload payload_of(const SnapshotPtr& snapshot) {
  if (snapshot->rest.empty()) return {snapshot, std::as_bytes(std::span(snapshot->values))};
  auto whole = std::make_shared<std::vector<float>>(snapshot->values);
  whole->insert(whole->end(), snapshot->rest.begin(), snapshot->rest.end());
  return {whole, std::as_bytes(std::span(*whole))};
}

/// The download under way.
struct Wanted {
  std::vector<PeerId> candidates;
  std::size_t next = 0;  ///< Index of the candidate after the current one.
  int rounds = 0;
  std::optional<PeerId> source;  ///< Empty: pausing before the next round.
  TransferId id;
  bool coming = false;
  std::uint64_t step = 0;
  Reassembly blocks;
  int resumes = 0;
  std::vector<float> values;
  Time deadline = never;
};

}  // namespace

struct ModelDownload::State {
  PeerId self;
  TransferNumbers& numbers;
  Options options;
  std::map<PeerId, Served> served;
  std::optional<Wanted> wanted;
  std::optional<DownloadedModel> arrived;  ///< Not taken yet.
  bool failed = false;

  std::uint64_t bytes() const { return options.elements * sizeof(float); }
  bool is_source(PeerId peer) const { return wanted && wanted->source == peer; }
  void ask_next(Time now, Effects& out);
  void change_source(Time now, Reason reason, Effects& out);
  void resume(Time now, Reason reason, Effects& out);
  void finish(Time now, Effects& out);

  void serve(Time now, PeerId from, const StateRequest& fetch, const SnapshotPtr& snapshot,
             Effects& out);
  void on(Time now, PeerId from, const TransferAccepted& coming, Effects& out);
  void on(Time now, PeerId from, const Refuse& refuse, Effects& out);
  void on(Time now, PeerId from, const Abort& abort, Effects& out);
  void on(Time now, PeerId from, const Resume& resume, Effects& out);
  void on(Time now, PeerId from, const Ready& ready, Effects& out);
};

void ModelDownload::State::ask_next(Time now, Effects& out) {
  Wanted& mine = *wanted;
  mine.source.reset();
  if (mine.next == mine.candidates.size()) {
    mine.next = 0;
    if (++mine.rounds >= options.rounds_max || mine.candidates.empty()) {
      wanted.reset();
      failed = true;
      out.tell(FetchFailed{});
      return;
    }
    mine.deadline = now + options.retry_after;
    return;
  }
  mine.source = mine.candidates[mine.next++];
  mine.id = numbers.next_state(self);
  mine.coming = false;
  mine.blocks = Reassembly(bytes(), sizeof(float));
  mine.resumes = 0;
  mine.deadline = now + options.answer_deadline;
  out.tell(FetchAsked{.peer = *mine.source});
  out.send(*mine.source, StateRequest{mine.id, options.layout_hash});
}

void ModelDownload::State::change_source(Time now, Reason reason, Effects& out) {
  out.tell(FetchSourceLost{
      .peer = *wanted->source, .reason = reason, .bytes_received = wanted->blocks.received()});
  out.send(*wanted->source, Abort{wanted->id, reason});
  ask_next(now, out);
}

void ModelDownload::State::resume(Time now, Reason reason, Effects& out) {
  if (++wanted->resumes > resumes_max || !wanted->coming) {
    change_source(now, reason, out);
    return;
  }
  wanted->deadline = now + options.progress_deadline;
  out.send(*wanted->source, Resume{wanted->id, wanted->blocks.received()});
}

void ModelDownload::State::finish(Time now, Effects& out) {
  Wanted& mine = *wanted;
  if (!is_finite(mine.values)) {
    out.tell(ModelRefused{.peer = *mine.source, .reason = Reason::not_finite});
    change_source(now, Reason::not_finite, out);
    return;
  }
  out.tell(ModelFetched{.peer = *mine.source, .step = mine.step, .bytes = bytes()});
  out.send(*mine.source, Ready{mine.id});
  arrived = DownloadedModel{*mine.source, std::move(mine.values), mine.step};
  wanted.reset();
}

void ModelDownload::State::serve(Time now, PeerId from, const StateRequest& fetch,
                                 const SnapshotPtr& snapshot, Effects& out) {
  const auto known = served.find(from);
  if (known != served.end() && known->second.id == fetch.id) return;
  Reason reason = Reason::none;
  if (fetch.id.kind != TransferKind::state || fetch.id.owner != from) {
    reason = Reason::stale;
  } else if (fetch.layout_hash != options.layout_hash) {
    reason = Reason::unknown_layout;
  } else if (!snapshot) {
    reason = Reason::not_ready;
  } else if (known == served.end() && served.size() >= options.served_max) {
    reason = Reason::busy;
  }
  if (reason != Reason::none) {
    out.tell(FetchRefused{.peer = from, .reason = reason});
    out.send(from, Refuse{fetch.id, reason});
    return;
  }
  if (known != served.end()) out.cancels.push_back({from, known->second.id});
  Served& entry = served[from];
  entry = {fetch.id, payload_of(snapshot), now + options.serve_deadline};
  check(entry.payload.bytes.size() == bytes(), "a download has one size");
  out.tell(ModelServed{.peer = from, .step = snapshot->step});
  out.send(from, TransferAccepted{.id = fetch.id,
                                  .layout_hash = options.layout_hash,
                                  .elements = options.elements,
                                  .step = snapshot->step});
  out.transfers.push_back({from, entry.id, entry.payload, 0});
}

void ModelDownload::State::on(Time now, PeerId, const TransferAccepted& coming, Effects& out) {
  if (wanted->coming) return;
  if (coming.layout_hash != options.layout_hash || coming.elements != options.elements) {
    change_source(now, Reason::unknown_layout, out);
    return;
  }
  wanted->coming = true;
  wanted->step = coming.step;
  wanted->deadline = now + options.progress_deadline;
  if (wanted->blocks.is_whole()) finish(now, out);
}

void ModelDownload::State::on(Time now, PeerId, const Refuse& refuse, Effects& out) {
  out.tell(FetchSourceLost{.peer = *wanted->source, .reason = refuse.reason});
  ask_next(now, out);
}

void ModelDownload::State::on(Time now, PeerId from, const Abort& abort, Effects& out) {
  const auto entry = served.find(from);
  if (entry != served.end() && entry->second.id == abort.id) {
    out.cancels.push_back({from, abort.id});
    served.erase(entry);
    return;
  }
  ask_next(now, out);
}

void ModelDownload::State::on(Time, PeerId from, const Resume& request, Effects& out) {
  const auto entry = served.find(from);
  const bool fits =
      entry != served.end() && Reassembly(bytes(), sizeof(float)).can_resume_at(request.offset);
  if (!fits) return;
  entry->second.asked = request.offset;
  out.transfers.push_back({from, request.id, entry->second.payload, request.offset});
}

void ModelDownload::State::on(Time, PeerId from, const Ready&, Effects&) { served.erase(from); }

ModelDownload::ModelDownload(PeerId self, TransferNumbers& numbers, Options options)
    : state_(new State{.self = self, .numbers = numbers, .options = options}) {}

ModelDownload::~ModelDownload() = default;

void ModelDownload::want(Time now, std::vector<PeerId> candidates, Effects& out) {
  if (state_->wanted) return;
  state_->failed = false;
  state_->wanted.emplace(Wanted{.candidates = std::move(candidates)});
  state_->ask_next(now, out);
}

bool ModelDownload::owns(PeerId from, const TransferId& id) const {
  if (state_->is_source(from) && state_->wanted->id == id) return true;
  const auto entry = state_->served.find(from);
  return entry != state_->served.end() && entry->second.id == id;
}

void ModelDownload::receive(Time now, PeerId from, const Message& message,
                            const SnapshotPtr& snapshot, Effects& out) {
  if (const auto* fetch = std::get_if<StateRequest>(&message)) {
    state_->serve(now, from, *fetch, snapshot, out);
    return;
  }
  std::visit(
      [&](const auto& known) {
        if constexpr (requires { state_->on(now, from, known, out); }) {
          if (owns(from, known.id)) {
            state_->on(now, from, known, out);
          } else if (known.id.owner == state_->self) {
            // A source that still serves a download we gave up.
            if constexpr (std::is_same_v<std::decay_t<decltype(known)>, TransferAccepted>) {
              out.send(from, Abort{known.id, Reason::stale});
            }
          }
        }
      },
      message);
}

void ModelDownload::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  State& state = *state_;
  if (!state.is_source(from) || state.wanted->id != block.id) return;
  Wanted& mine = *state.wanted;
  mine.values.resize(state.options.elements);
  const BlockFit fit = mine.blocks.take(block, std::as_writable_bytes(std::span(mine.values)));
  if (fit == BlockFit::bad_length) state.change_source(now, Reason::bad_length, out);
  if (fit != BlockFit::next) return;
  mine.deadline = now + state.options.progress_deadline;
  if (mine.coming && mine.blocks.is_whole()) state.finish(now, out);
}

void ModelDownload::lane_lost(Time now, PeerId peer, Effects& out) {
  if (state_->is_source(peer)) state_->resume(now, Reason::unreachable, out);
  // The other side may have noticed sooner, and its request may have been answered on this lane.
  const auto entry = state_->served.find(peer);
  if (entry != state_->served.end() && entry->second.asked) {
    const Served& own = entry->second;
    out.transfers.push_back({peer, own.id, own.payload, *own.asked});
  }
}

void ModelDownload::lane_refused(Time now, PeerId peer, Effects& out) {
  state_->served.erase(peer);
  if (state_->is_source(peer)) state_->change_source(now, Reason::unreachable, out);
}

void ModelDownload::peer_gone(Time now, PeerId peer, Effects& out) {
  state_->served.erase(peer);
  if (!state_->wanted) return;
  // A peer that is gone is not tried in another round.
  Wanted& mine = *state_->wanted;
  const bool source = state_->is_source(peer);
  for (std::size_t i = 0; i < mine.candidates.size(); ++i) {
    if (mine.candidates[i] != peer) continue;
    mine.candidates.erase(mine.candidates.begin() + static_cast<std::ptrdiff_t>(i));
    if (i < mine.next) --mine.next;
    break;
  }
  if (source) state_->change_source(now, Reason::peer_gone, out);
}

void ModelDownload::tick(Time now, Effects& out) {
  State& state = *state_;
  std::erase_if(state.served, [&](const auto& entry) { return now >= entry.second.until; });
  if (!state.wanted || now < state.wanted->deadline) return;
  if (!state.wanted->source) {
    state.ask_next(now, out);
  } else {
    state.resume(now, Reason::timed_out, out);
  }
}

Time ModelDownload::deadline() const {
  Time earliest = state_->wanted ? state_->wanted->deadline : never;
  for (const auto& [peer, entry] : state_->served) earliest = std::min(earliest, entry.until);
  return earliest;
}

std::optional<DownloadedModel> ModelDownload::take_model() {
  return std::exchange(state_->arrived, std::nullopt);
}

bool ModelDownload::is_waiting() const { return state_->wanted.has_value(); }

bool ModelDownload::failed() const { return state_->failed; }

std::size_t ModelDownload::held() const {
  return state_->served.size() + (state_->wanted ? state_->wanted->candidates.size() : 0);
}

}  // namespace gv
