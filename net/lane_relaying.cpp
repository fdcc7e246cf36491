// Lanes that a third peer relays to peers that cannot be dialled directly.
#include <algorithm>
#include <utility>

#include "net/bulk_lanes_impl.hpp"

namespace gv {
namespace {

/// Failures to reach a peer count as unrelated if they are further apart than this.
constexpr auto failures_apart = std::chrono::minutes(2);
/// Pause between two requests to relays. It doubles each time that all relays have been asked in
/// vain.
constexpr auto ask_pause = std::chrono::seconds(2);
constexpr std::size_t doublings_max = 4;
/// Pause between two offers that we follow. It bounds the number of dials that offers can cause.
constexpr auto offer_pause = std::chrono::seconds(1);
/// Most offers from one relay that we follow at the same time. Further ones are refused, because
/// all lanes share the limit on dials under way.
constexpr std::ptrdiff_t offers_at_once = 16;
/// While offers from one relay are paused for this many other peers, no offer from that relay is
/// followed.
constexpr std::ptrdiff_t pauses_max = 8;
/// Offers that led to no lane are forgotten this long after the pause that followed them.
constexpr auto vain_remembered = std::chrono::minutes(2);
/// A relayed lane is replaced by a direct one once it has been quiet for this long.
constexpr auto quiet = std::chrono::milliseconds(200);
/// A relayed lane that is never quiet is replaced after this time, between two records.
constexpr auto gives_way_within = std::chrono::seconds(10);

}  // namespace

/// Records that a peer was not reached. Returns true if it has been unreachable for so long that a
/// relay should be asked.
bool BulkLanes::Impl::is_out_of_reach(PeerId peer) {
  const auto now = Clock::now();
  const auto [found, is_first] = detours.try_emplace(peer);
  Detour& detour = found->second;
  if (is_first || now - detour.last_failed > failures_apart) detour.first_failed = now;
  detour.last_failed = now;
  return now - detour.first_failed >= options.relay_patience;
}

/// Asks the next possible relay for a lane to `peer`. Returns false if there is none.
bool BulkLanes::Impl::ask_relay(PeerId peer) {
  if (!callbacks.send_relay || !callbacks.relays) return false;
  const auto now = Clock::now();
  const std::vector<PeerId> relays = callbacks.relays(peer);
  if (relays.empty()) return false;
  Detour& detour = detours[peer];
  if (now < detour.next_ask) return true;
  const std::size_t turns = std::min(detour.asked / relays.size(), doublings_max);
  detour.next_ask = now + ask_pause * (1 << turns);
  const PeerId relay = relays[detour.asked++ % relays.size()];
  detour.last_asked = relay;
  return callbacks.send_relay(relay, {.kind = RelayStep::Kind::ask, .other = peer});
}

/// Asks the next relay, because the last one cannot reach the peer either or has no room.
void BulkLanes::Impl::refused_by_relay(PeerId peer) {
  const auto found = detours.find(peer);
  if (found == detours.end()) return;
  const std::size_t relays = callbacks.relays ? callbacks.relays(peer).size() : 0;
  const bool all_were_asked = relays == 0 || found->second.asked % relays == 0;
  if (all_were_asked) return;
  found->second.next_ask = Clock::now();
  ask_relay(peer);
}

/// True if an offer should not be followed. A hostile relay can make offers that no peer has asked
/// for, and a hostile peer can ask for itself and never dial the relay. Therefore, if an offer that
/// we did not request leads to no lane, further offers from this relay for the same peer are
/// ignored for a while. If this happens with many peers, all offers from the relay are ignored.
/// Only a few offers are followed at once, and a peer with a link needs no relay unless its direct
/// lanes fail.
bool BulkLanes::Impl::is_unwanted(PeerId relay, PeerId other) const {
  const auto now = Clock::now();
  const auto detour = detours.find(other);
  if (detour != detours.end() && detour->second.last_asked == relay) return false;
  const auto pauses = [now](const auto& item) { return now < item.second.not_before; };
  const auto own = vain_offers.find({relay, other});
  if (own != vain_offers.end() && pauses(*own)) return true;
  const auto paused = std::ranges::count_if(
      vain_offers, [&](const auto& item) { return item.first.first == relay && pauses(item); });
  if (paused >= pauses_max) return true;
  const auto followed = std::ranges::count_if(lanes, [relay](const auto& item) {
    return item.second.state == Lane::State::dialling && item.second.relay == relay;
  });
  if (followed >= offers_at_once) return true;
  const bool has_asked_another = detour != detours.end() && detour->second.asked > 0;
  if (has_asked_another || !callbacks.is_linked || !callbacks.is_linked(other)) return false;
  const auto move = moves.find(other);
  return move == moves.end() || !move->second.refused || now - *move->second.refused > blocked_for;
}

/// Records that a relay's offer led to no lane with another peer, unless we asked for the offer.
/// Further offers from the relay for this peer are then ignored for a time that doubles with each
/// failure.
void BulkLanes::Impl::offer_was_vain(PeerId relay, PeerId other) {
  const auto detour = detours.find(other);
  if (detour != detours.end() && detour->second.last_asked == relay) return;
  const auto now = Clock::now();
  std::erase_if(vain_offers,
                [now](const auto& item) { return now - item.second.not_before > vain_remembered; });
  VainOffers& vain = vain_offers[{relay, other}];
  vain.not_before = now + offer_pause * (1 << std::min(vain.in_a_row, doublings_max));
  ++vain.in_a_row;
}

/// Handles a relay's offer to connect us with another peer if we dial the relay.
void BulkLanes::Impl::meet(PeerId relay, const RelayStep& step) {
  const PeerId other = step.other;
  if (other == relay || other == options.self || !callbacks.pair_token) return;
  const auto token = callbacks.pair_token(other, step.stream);
  if (!token) return;
  const auto now = Clock::now();
  auto found = lanes.find(other);
  const bool is_dialling =
      found != lanes.end() && found->second.state == Lane::State::dialling && found->second.relay;
  // If the two ends asked different relays, each end gets both offers, and takes the one from the
  // relay with the smaller id.
  const bool is_better = is_dialling && relay < *found->second.relay;
  if (now < detours[other].next_offer && !is_better) return;
  const bool is_open = found != lanes.end() && found->second.state == Lane::State::open;
  // An offer from the relay of an open lane means that this lane has ended at the relay. Offers
  // from other relays are ignored.
  if (is_open && found->second.relay != relay) return;
  const bool is_unsound =
      is_taken(step.stream) || is_taken(relay_lane(step.stream, options.self, other));
  const bool is_refused =
      is_unsound || (!is_open && (is_unwanted(relay, other) ||
                                  (callbacks.dial_directly && callbacks.dial_directly(other))));
  if (is_refused) {
    callbacks.send_relay(relay, {.kind = RelayStep::Kind::refuse, .other = other});
    return;
  }
  if (found == lanes.end()) {
    if (!make_room()) return;
    found = lanes.emplace(other, Lane{.peer = other}).first;
  }
  detours[other].next_offer = now + offer_pause;
  Lane& lane = found->second;
  if (is_open) {
    retired.add(lane.connection);
    lane.connection.reset();
    lane.reset_stream();
  } else if (lane.state != Lane::State::none) {
    if (lane.relay == relay) offer_was_vain(relay, other);
    give_up(lane);
  }
  meet_at(relay, step, *token, lane);
  if (!is_open) return;
  callbacks.fact(LaneLost{.peer = other, .why = "the partner lost it first"});
  callbacks.lost(other);
}

/// Dials the relay to open this lane through it.
void BulkLanes::Impl::meet_at(PeerId relay, const RelayStep& step, const LaneToken& token,
                              Lane& lane) {
  const PeerId other = lane.peer;
  lane.state = Lane::State::dialling;
  lane.id = step.stream;
  lane.relay = relay;
  lane.gives_way.reset();
  lane.progress = Clock::now();
  const LaneInvite way{.lane = relay_lane(step.stream, options.self, other),
                       .token = step.token,
                       .address = step.address};
  doors.expect(step.stream, token, LaneHandshake::Use::behind_relay, other);
  doors.expect(way.lane, step.token, LaneHandshake::Use::relay, relay);
  doors.dial_through(way, step.stream, other, options.self < other,
                     [this, other, stream = step.stream](ConnectionPtr connection) {
                       const auto lane_of = lanes.find(other);
                       if (connection) {
                         detours.erase(other);
                         opened(other, stream, std::move(connection));
                       } else if (lane_of != lanes.end() && lane_of->second.id == stream) {
                         refused(other);
                       }
                     });
}

void BulkLanes::receive_relay(PeerId from, const RelayStep& step) {
  switch (step.kind) {
    case RelayStep::Kind::ask:
      if (impl_->callbacks.send_relay) impl_->relaying.asked(from, step.other);
      break;
    case RelayStep::Kind::offer:
      impl_->meet(from, step);
      break;
    case RelayStep::Kind::refuse:
      impl_->relaying.refused(from, step.other);
      impl_->refused_by_relay(step.other);
      break;
  }
}

/// True while no direct lane to the peer is tried, because an earlier one could not be opened.
bool BulkLanes::Impl::is_blocked(PeerId peer) const {
  const auto found = moves.find(peer);
  return found != moves.end() && Clock::now() < found->second.not_before;
}

bool BulkLanes::Impl::can_give_way(const Lane& lane) const {
  if (!lane.relay || !lane.gives_way || lane.is_busy()) return false;
  const auto now = Clock::now();
  return now - lane.progress > quiet || now - *lane.gives_way > gives_way_within;
}

/// Ends a relayed lane. Transfers under way continue over the next lane, as after a loss.
void BulkLanes::Impl::move_lane(PeerId peer) {
  const auto found = lanes.find(peer);
  // The loss of another lane may have ended this one, or given it something to send.
  if (found == lanes.end() || !can_give_way(found->second)) return;
  retired.add(found->second.connection);
  lanes.erase(found);
  moves[peer].is_under_way = true;
  callbacks.fact(LaneLost{.peer = peer, .why = "it was relayed, and a direct one seems possible"});
  callbacks.lost(peer);
}

void BulkLanes::prefer_direct(PeerId peer) {
  const auto found = impl_->lanes.find(peer);
  const bool is_relayed = found != impl_->lanes.end() && relay_of(peer).has_value();
  if (!is_relayed || found->second.gives_way || impl_->is_blocked(peer)) return;
  found->second.gives_way = Impl::Clock::now();
}

void BulkLanes::reach(PeerId peer) {
  if (!impl_->lanes.contains(peer) && impl_->is_out_of_reach(peer)) impl_->ask_relay(peer);
}

void BulkLanes::reached(PeerId peer) { impl_->detours.erase(peer); }

std::optional<PeerId> BulkLanes::relay_of(PeerId peer) const {
  const auto found = impl_->lanes.find(peer);
  const bool is_open =
      found != impl_->lanes.end() && found->second.state == Impl::Lane::State::open;
  return is_open ? found->second.relay : std::nullopt;
}

}  // namespace gv
