// Accepts or refuses requests, and sends each state from the right offset on.
#include "consensus/transfer/state_server.hpp"

#include <algorithm>
#include <variant>

#include "base/state_hash.hpp"
#include "consensus/transfer/reassembly.hpp"

namespace gv {
namespace {

/// Bytes per second of a 1 Mbit/s link. A download gets the time that such a link needs for its
/// state.
constexpr double slowest_bytes_per_second = 125'000;

}  // namespace

bool StateServer::ask(Time now, PeerId from, const StateRequest& request, bool is_there,
                      Effects& out) {
  const std::pair key{from, request.id.stage};
  const auto known = served_.find(key);
  if (known != served_.end() && known->second.request.id == request.id) {
    // With `waits`, a peer asks again if it missed our acceptance. Otherwise, peers never ask twice
    // with the same id.
    if (options_.waits && known->second.state) {
      accept(from, known->second, options_.layout_hash, out);
    }
    return false;
  }
  Reason reason = Reason::none;
  if (request.id.kind != TransferKind::state || request.id.owner != from) {
    reason = Reason::stale;
  } else if (request.layout_hash != options_.layout_hash) {
    reason = Reason::unknown_layout;
  } else if (!is_there && !options_.waits) {
    reason = Reason::not_ready;
  } else if (known == served_.end() && served_.size() >= options_.served_max) {
    reason = Reason::busy;
  }
  if (reason != Reason::none) {
    out.tell(FetchRefused{.peer = from, .reason = reason});
    out.send(from, Refuse{request.id, reason});
    return false;
  }
  if (known != served_.end() && known->second.state) {
    out.cancels.push_back({from, known->second.request.id});
  }
  served_[key] = {
      .request = request, .state = {}, .asked = {}, .until = now + options_.serve_deadline};
  return true;
}

/// How long the download may take from now on.
Duration StateServer::time_for(const Served& served) const {
  const std::size_t bytes = served.state ? served.state->payload.bytes.size() : 0;
  return options_.serve_deadline +
         from_seconds(static_cast<double>(bytes) / slowest_bytes_per_second);
}

/// The offset from which to send. It is 0 if the bytes that the peer has are of another version.
std::uint64_t StateServer::offset_of(const StateRequest& request, const State& state) {
  const Reassembly blocks(state.payload.bytes.size(), sizeof(float));
  const bool goes_on = request.version == state.version && blocks.can_resume_at(request.offset);
  return goes_on ? request.offset : 0;
}

void StateServer::accept(PeerId to, const Served& served, std::uint64_t layout_hash, Effects& out) {
  out.send(to, TransferAccepted{.id = served.request.id,
                                .layout_hash = layout_hash,
                                .elements = served.state->payload.bytes.size() / sizeof(float),
                                .version = served.state->version,
                                .offset = offset_of(served.request, *served.state)});
}

void StateServer::send(PeerId to, Served& served, const State& state, Effects& out) const {
  const Duration before = time_for(served);
  served.state = state;
  served.until += time_for(served) - before;
  out.tell(ModelServed{.peer = to, .step = state.version.step});
  accept(to, served, options_.layout_hash, out);
  out.transfers.push_back({to, served.request.id, state.payload, offset_of(served.request, state)});
}

std::size_t StateServer::provide(std::uint32_t stage, const State& state, Effects& out) {
  std::size_t sent = 0;
  for (auto& [key, served] : served_) {
    if (key.second != stage || served.state) continue;
    send(key.first, served, state, out);
    ++sent;
  }
  return sent;
}

StateServer::Served* StateServer::find(PeerId from, const TransferId& id) {
  const auto found = served_.find({from, id.stage});
  return found != served_.end() && found->second.request.id == id ? &found->second : nullptr;
}

void StateServer::receive(Time now, PeerId from, const Message& message, Effects& out) {
  const TransferId* id = transfer_of(message);
  if (id == nullptr || id->kind != TransferKind::state || id->owner != from) return;
  const auto* resume = std::get_if<Resume>(&message);
  Served* served = find(from, *id);
  if (served == nullptr) {
    // Without this answer, the peer would wait for blocks that never come.
    if (resume != nullptr) out.send(from, Abort{*id, Reason::stale});
    return;
  }
  if (std::holds_alternative<Ready>(message) || std::holds_alternative<Abort>(message)) {
    // Ready is only the peer's claim that it has the state. Without the cancel, a hostile peer
    // could make the lane hold one state after another.
    out.cancels.push_back({from, *id});
    served_.erase({from, id->stage});
  } else if (resume != nullptr) {
    if (!served->state) return;
    const Payload& payload = served->state->payload;
    const Reassembly blocks(payload.bytes.size(), sizeof(float));
    if (!blocks.can_resume_at(resume->offset)) return;
    // Only a download that makes progress gets more time.
    if (resume->offset > served->furthest) {
      served->furthest = resume->offset;
      served->until = now + time_for(*served);
    }
    served->asked = resume->offset;
    out.transfers.push_back({from, *id, payload, resume->offset});
  }
}

/// Sends again from the offset at which the peer last asked to resume. The peer may have noticed
/// the loss before us, and our answer to its Resume may have been lost with the lane.
void StateServer::lane_lost(PeerId peer, Effects& out) {
  for (const auto& [key, served] : served_) {
    if (key.first != peer || !served.asked) continue;
    out.transfers.push_back({peer, served.request.id, served.state->payload, *served.asked});
  }
}

void StateServer::forget(PeerId peer) {
  std::erase_if(served_, [&](const auto& entry) { return entry.first.first == peer; });
}

void StateServer::tick(Time now, Effects& out) {
  std::erase_if(served_, [&](const auto& entry) {
    const auto& [key, served] = entry;
    if (now < served.until) return false;
    if (served.state) out.cancels.push_back({key.first, served.request.id});
    return true;
  });
}

Time StateServer::deadline() const {
  Time earliest = never;
  for (const auto& [key, served] : served_) earliest = std::min(earliest, served.until);
  return earliest;
}

bool StateServer::is_waited_for() const {
  return std::ranges::any_of(served_, [](const auto& entry) { return !entry.second.state; });
}

bool StateServer::waits(PeerId peer) const {
  return std::ranges::any_of(
      served_, [&](const auto& entry) { return entry.first.first == peer && !entry.second.state; });
}

bool operator==(const StateServer& a, const StateServer& b) { return equal_states(a, b); }

}  // namespace gv
