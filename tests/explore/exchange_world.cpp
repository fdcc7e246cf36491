// The moves of two peers that exchange models, and the laws that they must obey.
#include "tests/explore/exchange_world.hpp"

#include <algorithm>
#include <memory>

namespace gv::explore {
namespace {

constexpr std::size_t block_bytes = sizeof(float);
constexpr std::array<std::array<float, 2>, 2> first_models{{{1, -3}, {5, 9}}};

}  // namespace

ExchangeWorld::ExchangeWorld(const ExchangeBound& bound)
    : bound_(&bound), faults_(bound.faults), starts_left_(bound.starts) {
  for (std::size_t number = 0; number < 2; ++number) {
    PairExchange exchange(id_of(number), number + 1,
                          {.elements = elements,
                           .clip_factor = 0,
                           .answer_deadline = std::chrono::seconds(4),
                           .progress_deadline = std::chrono::seconds(4),
                           .block_least = block_bytes});
    const auto& model = first_models[number];
    exchange.set_snapshot(
        std::make_shared<const Snapshot>(Snapshot{
            .values = {model[0], model[1]}, .checksum = {static_cast<std::int64_t>(8 * number)}}),
        0.5f);
    peers_[number] = {std::move(exchange), {}, {model[0], model[1]}, {}};
  }
}

template <class Call>
void ExchangeWorld::feed(std::size_t number, Call call) {
  Peer& peer = peers_[number];
  Effects out;
  call(*peer.exchange, peer.now, out);
  wire_.add(number, out);
  for (std::size_t other = 0; other < 2; ++other) {
    if (!peers_[other].exchange) wire_.cut(other);
  }
  for (const Force& force : peer.exchange->take_forces()) {
    Values added{};
    for (std::size_t i = 0; i < elements; ++i) {
      added[i] = static_cast<double>(force.scale) * static_cast<double>((*force.values)[i]);
      peer.model[i] += added[i];
    }
    const bool is_new = peer.forces.emplace(force.exchange, added).second;
    if (!is_new) broken_ = "an exchange is added twice at one peer";
  }
  peer.exchange->take_turned_away();
  check_laws();
}

void ExchangeWorld::check_laws() {
  for (const Peer& peer : peers_) {
    for (const auto& [id, force] : peer.forces) check_exchange(id);
  }
  Values sum{};
  Values first{};
  for (std::size_t number = 0; number < 2; ++number) {
    for (std::size_t i = 0; i < elements; ++i) {
      sum[i] += peers_[number].model[i];
      first[i] += static_cast<double>(first_models[number][i]);
    }
  }
  const bool is_even = std::ranges::equal(
      peers_[0].forces, peers_[1].forces, {}, [](const auto& entry) { return entry.first; },
      [](const auto& entry) { return entry.first; });
  if (is_even && sum != first) broken_ = "the sum of the models has changed";
}

/// Checks that both peers commit or neither does. There are two exceptions: the responder may still
/// be waiting for the decision, or the exchange may be the one undecidable case, which the
/// responder counts.
void ExchangeWorld::check_exchange(const TransferId& id) {
  const Peer& initiator = peers_[number_of(id.owner)];
  const Peer& responder = peers_[1 - number_of(id.owner)];
  const auto taken = initiator.forces.find(id);
  const auto given = responder.forces.find(id);
  if (taken != initiator.forces.end() && given != responder.forces.end()) {
    for (std::size_t i = 0; i < elements; ++i) {
      if (taken->second[i] != -given->second[i]) broken_ = "two forces do not add up to zero";
    }
  } else if (taken == initiator.forces.end()) {
    broken_ = "the responder has added what the initiator has not";
  } else if (responder.exchange && !responder.exchange->in_flight() &&
             responder.exchange->counts().undecided == 0) {
    broken_ = "the initiator has added what the responder dropped without a count";
  }
}

std::vector<Move> ExchangeWorld::moves() const {
  using Kind = Move::Kind;
  std::vector<Move> moves;
  wire_.add_moves(faults_, moves);
  for (std::size_t number = 0; number < 2; ++number) {
    const Peer& peer = peers_[number];
    if (!peer.exchange) continue;
    if (peer.exchange->deadline() != never) moves.push_back({Kind::timer, number});
    if (faults_.crashes > 0) moves.push_back({Kind::crash, number});
    if (!peers_[1 - number].exchange && !knows_of_crash_) moves.push_back({Kind::learn, number});
    if (starts_left_ > 0) moves.push_back({Kind::act, number});
  }
  return moves;
}

void ExchangeWorld::apply(const Move& move) {
  using Kind = Move::Kind;
  switch (move.kind) {
    case Kind::deliver:
    case Kind::repeat: {
      const Wire::Sent sent = wire_.arrive(move, faults_);
      feed(sent.to, [&](PairExchange& own, Time now, Effects& out) {
        own.receive(now, id_of(sent.from), sent.message, out);
      });
      break;
    }
    case Kind::lose:
      wire_.lose(move, faults_);
      break;
    case Kind::block:
    case Kind::skip:
    case Kind::twice: {
      const auto [stream, block, times] = wire_.arrive(move, block_bytes, faults_);
      for (int time = 0; time < times; ++time) {
        feed(number_of(stream.transfer.to),
             [&, from = stream.from, &block = block](PairExchange& own, Time now, Effects& out) {
               own.receive_block(now, id_of(from), block, out);
             });
      }
      break;
    }
    case Kind::break_lane:
      --faults_.breaks;
      wire_.streams.clear();
      for (std::size_t number = 0; number < 2; ++number) {
        if (!peers_[number].exchange) continue;
        feed(number, [&](PairExchange& own, Time now, Effects& out) {
          own.lane_lost(now, id_of(1 - number), out);
        });
      }
      break;
    case Kind::timer:
      peers_[move.number].now =
          std::max(peers_[move.number].now, peers_[move.number].exchange->deadline());
      feed(move.number, [&](PairExchange& own, Time now, Effects& out) { own.tick(now, out); });
      break;
    case Kind::crash:
      --faults_.crashes;
      peers_[move.number].exchange.reset();
      wire_.cut(move.number);
      break;
    case Kind::learn:
      knows_of_crash_ = true;
      feed(move.number, [&](PairExchange& own, Time now, Effects& out) {
        own.peer_gone(now, id_of(1 - move.number), out);
      });
      break;
    case Kind::act:
      --starts_left_;
      feed(move.number, [&](PairExchange& own, Time now, Effects& out) {
        own.start(now, id_of(1 - move.number), 0, out);
      });
  }
}

std::uint64_t ExchangeWorld::hash() const {
  StateHash hash(Time{});
  for (const Peer& peer : peers_) {
    StateHash own(peer.now, std::chrono::minutes(2));
    own.add(peer.exchange, peer.model, peer.forces);
    hash.add(own.value());
  }
  hash.add(wire_, faults_, starts_left_, knows_of_crash_);
  return hash.value();
}

std::string ExchangeWorld::text(const Move& move) const {
  if (move.kind != Move::Kind::act) return wire_.text(move);
  return std::to_string(move.number) + " begins an exchange";
}

}  // namespace gv::explore
