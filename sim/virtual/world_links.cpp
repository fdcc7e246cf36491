// Carries messages and blocks between virtual peers, and opens and breaks lanes.

#include "peer/modes/mixing.hpp"
#include "sim/virtual/world.hpp"

namespace gv {
namespace {

/// Time until a connection to a port without a listener is refused.
constexpr Duration refused_after = std::chrono::microseconds(50);
/// In modes with generations, lanes are reliable streams: a lost block is sent again after this
/// time, as in the fault proxy.
constexpr Duration resent_after = std::chrono::milliseconds(200);

/// Approximate bytes of a message on a link. Exact sizes would need the wire format.
std::size_t wire_bytes(const Message& message) {
  constexpr std::size_t head = 64;
  constexpr std::size_t member = 150;
  constexpr std::size_t certificate = 190;
  return std::visit(
      [](const auto& known) -> std::size_t {
        if constexpr (requires { known.revocations; }) {
          return head + certificate * known.certificates.size() +
                 2 * certificate * known.revocations.size();
        } else if constexpr (requires { known.rumors; }) {
          return head + member * known.rumors.size();
        } else if constexpr (requires { known.members; }) {
          return head + member * known.members.size();
        } else {
          return head + sizeof known / 2;
        }
      },
      message);
}

}  // namespace

Link& Simulator::World::link(PeerNumber from, PeerNumber to) {
  WorldLink& known = links[pair_key(from, to)];
  if (known.version == link_version) return known.link;
  known.version = link_version;
  known.link.state = link_faults.between(from, to);
  return known.link;
}

/// Passes a message or block of `bytes` bytes over a link, and counts losses, copies and damage.
Passage Simulator::World::pass(PeerNumber from, PeerNumber to, std::size_t bytes) {
  const Passage passage = link(from, to).pass(now, bytes, link_draws);
  if (passage.copies == 0) ++counts.lost;
  if (passage.copies == 2) ++counts.duplicated;
  if (passage.damaged) ++counts.damaged;
  return passage;
}

void Simulator::World::send(PeerNumber from, PeerNumber to, Message message) {
  if (to >= peers.size() || !is_reachable(to)) {
    ++counts.lost;
    return;
  }
  ++counts.messages;
  const std::size_t bytes = wire_bytes(message);
  counts.control_bytes += bytes;
  const Passage passage = pass(from, to, bytes);
  for (int copy = 0; copy < passage.copies; ++copy) {
    const Time at = passage.arrivals[static_cast<std::size_t>(copy)];
    // The last message to a peer that was just revoked still arrives, but opens no link.
    if (may_talk(from, to)) meet(from, to, at);
    const bool last = copy + 1 == passage.copies;
    queue.push(at, Arrival{from, to, peers[to].incarnation, last ? std::move(message) : message});
  }
}

/// The first message between two processes opens their link, and each process learns of the other.
void Simulator::World::meet(PeerNumber from, PeerNumber to, Time arrival) {
  std::uint32_t& incarnation = machines[from].met[to];
  std::uint32_t& back = machines[to].met[from];
  if (back != peers[from].incarnation + 1) {
    const bool again = std::exchange(back, peers[from].incarnation + 1) != 0;
    queue.push(arrival, Met{to, from, peers[to].incarnation, peers[from].incarnation, again});
  }
  if (incarnation != peers[to].incarnation + 1 && !link(to, from).state.cut) {
    const bool again = std::exchange(incarnation, peers[to].incarnation + 1) != 0;
    queue.push(arrival + link(to, from).state.quality.latency,
               Met{from, to, peers[from].incarnation, peers[to].incarnation, again});
  }
}

/// Sends a transfer. In rounds of mixing, hostile peers' transfers are first delayed and replaced.
void Simulator::World::part_with(PeerNumber from, Transfer transfer) {
  const MixingMode* rounds = hostile.any() ? peers[from].node->as<MixingMode>() : nullptr;
  if (rounds == nullptr || transfer.id.kind != TransferKind::mixing) {
    transmit(from, std::move(transfer));
    return;
  }
  for (Departure& departure : hostile.depart({from, peers[from].incarnation, std::move(transfer)},
                                             rounds->ranks(), rounds->hosts())) {
    const auto sender = static_cast<PeerNumber>(departure.from);
    if (is_for(sender, departure.incarnation)) transmit(sender, std::move(departure.transfer));
  }
}

/// Sends a saboteur's output over the same links as all other messages.
void Simulator::World::commit(PeerNumber from, Deeds deeds) {
  for (Outgoing& outgoing : deeds.messages) {
    sign_own(outgoing.message, id_of(from), signers[from]);
    send(from, number_of(outgoing.to), std::move(outgoing.message));
  }
  for (Transfer& transfer : deeds.transfers) transmit(from, std::move(transfer));
  for (LooseBlock& block : deeds.blocks) {
    const Time at = now + block.after;
    queue.push(at, Thrown{from, peers[from].incarnation, std::move(block)});
  }
}

void Simulator::World::handle(Thrown& event) {
  const PeerNumber to = number_of(event.block.to);
  if (!is_for(event.from, event.incarnation) || !is_reachable(to)) return;
  if (!may_talk(event.from, to)) return;
  machines[event.from].lanes.insert(to);
  machines[to].lanes.insert(event.from);
  const std::size_t bytes = event.block.payload.bytes.size();
  counts.lane_bytes += bytes;
  const Passage passage = pass(event.from, to, bytes);
  for (int copy = 0; copy < passage.copies; ++copy) {
    queue.push(passage.arrivals[static_cast<std::size_t>(copy)],
               BlockArrival{event.from, to, peers[to].incarnation, event.block.id,
                            event.block.offset, event.block.payload});
  }
}

void Simulator::World::handle(Mischief& event) {
  Saboteur& saboteur = saboteurs.at(event.peer);
  queue.push(now + saboteur.pause(), event);
  if (peers[event.peer].state != PeerState::up) return;
  Deeds deeds;
  saboteur.act(deeds);
  mix_event(10, event.peer, deeds.messages.size());
  commit(event.peer, std::move(deeds));
  if (options.scenario.tickets) lie_about_certificates(event.peer);
}

void Simulator::World::transmit(PeerNumber from, Transfer transfer) {
  const PeerNumber to = number_of(transfer.to);
  if (to >= peers.size() || !is_reachable(to) || !may_talk(from, to)) {
    queue.push(now + refused_after, LaneBroken{from, to, peers[from].incarnation});
    return;
  }
  machines[from].lanes.insert(to);
  machines[to].lanes.insert(from);
  Lane& lane = lanes[pair_key(from, to)];
  std::erase_if(lane.streams,
                [&](const Stream& stream) { return stream.transfer.id == transfer.id; });
  counts.superseded += std::erase_if(
      lane.streams, [&](const Stream& stream) { return supersedes(transfer, stream.transfer); });
  const auto place = std::ranges::find_if(lane.streams, [&](const Stream& stream) {
    return !transfer.can_wait && stream.transfer.can_wait;
  });
  lane.streams.insert(place, {std::move(transfer), peers[from].incarnation, peers[to].incarnation});
  if (lane.pumping) return;
  lane.pumping = true;
  pump(from, to);
}

void Simulator::World::pump(PeerNumber from, PeerNumber to) {
  Lane& lane = lanes[pair_key(from, to)];
  while (!lane.streams.empty()) {
    Stream& stream = lane.streams.front();
    Transfer& transfer = stream.transfer;
    const bool over = transfer.offset >= transfer.payload.bytes.size();
    if (over || stream.from_life != peers[from].incarnation ||
        stream.to_life != peers[to].incarnation) {
      lane.streams.pop_front();
      continue;
    }
    const std::size_t bytes = next_block_bytes(transfer.payload.bytes.size() - transfer.offset);
    counts.lane_bytes += bytes;
    const Passage passage = pass(from, to, bytes);
    if (passage.copies == 0 && !passage.damaged && may_have_generations()) {
      queue.push(now + resent_after, Pump{from, to});
      return;
    }
    const Payload block{transfer.payload.owner,
                        transfer.payload.bytes.subspan(transfer.offset, bytes)};
    for (int copy = 0; copy < passage.copies; ++copy) {
      queue.push(passage.arrivals[static_cast<std::size_t>(copy)],
                 BlockArrival{from, to, stream.to_life, transfer.id, transfer.offset, block});
    }
    if (passage.damaged) {
      lane.pumping = false;
      break_lane(from, to);
      return;
    }
    transfer.offset += bytes;
    if (passage.sent > now) {
      queue.push(passage.sent, Pump{from, to});
      return;
    }
  }
  lane.pumping = false;
}

/// Breaks the connection between two peers: transfers in progress are lost, and both peers notice.
void Simulator::World::break_lane(PeerNumber a, PeerNumber b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const auto lane = lanes.find(pair_key(from, to));
    if (lane != lanes.end()) lane->second.streams.clear();
    machines[from].lanes.erase(to);
    if (!is_reachable(from) || link(to, from).state.cut) continue;
    queue.push(now + link(to, from).state.quality.latency,
               LaneBroken{from, to, peers[from].incarnation});
  }
}

}  // namespace gv
