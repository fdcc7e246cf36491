// A deterministic network of peers that exchange models. It can lose and repeat messages and break
// lanes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/rng.hpp"
#include "consensus/gossip/pair_exchange.hpp"
#include "tests/consensus/downloads.hpp"
#include "tests/facts.hpp"

namespace gv {

constexpr PeerId peer(std::size_t index) { return static_cast<PeerId>(index + 1); }
constexpr std::size_t index_of(PeerId id) { return static_cast<std::size_t>(id) - 1; }

/// A peer with its model and its two protocols, exchange and download.
struct Endpoint {
  Endpoint(std::size_t index, PairExchange::Options options)
      : exchange(peer(index), 100 + index, options),
        fetch(peer(index), 100 + index,
              {.layout_hash = options.layout_hash, .elements = options.elements}) {}

  PairExchange exchange;
  Downloads fetch;
  std::vector<float> model;
  ConservationChecksum checksum{};
  std::vector<Force> forces;  ///< The forces in the order in which the peer applied them.
  std::optional<DownloadedModel> fetched;
  std::vector<Fact> facts;
  bool dead = false;

  template <class F>
  std::size_t count(Reason reason = Reason::none) const {
    return count_of<F>(facts, reason);
  }
};

class ExchangeNetwork {
 public:
  /// Decides whether a message arrives.
  using Filter = std::function<bool(PeerId from, PeerId to, const Message&)>;

  ExchangeNetwork(std::size_t peers, PairExchange::Options options, std::size_t block_bytes = 64)
      : block_bytes_(block_bytes) {
    for (std::size_t i = 0; i < peers; ++i) {
      endpoints_.push_back(std::make_unique<Endpoint>(i, options));
    }
  }

  Endpoint& at(std::size_t index) { return *endpoints_[index]; }
  std::size_t size() const { return endpoints_.size(); }
  Time now() const { return now_; }

  /// Gives a peer a model, and makes the peer offer it with coefficient `alpha`.
  void load(std::size_t index, std::vector<float> model, float alpha = 0.5f) {
    at(index).model = std::move(model);
    snap(index, alpha);
  }
  void snap(std::size_t index, float alpha = 0.5f) {
    Endpoint& own = at(index);
    const auto snapshot = std::make_shared<const Snapshot>(
        Snapshot{.values = own.model, .checksum = own.checksum, .step = 5});
    own.exchange.set_snapshot(snapshot, alpha);
  }

  bool start(std::size_t from, std::size_t to) {
    return feed(from, [&](Endpoint& own, Effects& out) {
      return own.exchange.start(now_, peer(to), 0, out);
    });
  }
  void want(std::size_t who, std::vector<PeerId> candidates) {
    feed(who, [&](Endpoint& own, Effects& out) {
      own.fetch.want(now_, std::move(candidates), out);
      return true;
    });
  }
  void inject(std::size_t from, std::size_t to, Message message) {
    queue_.push_back({from, to, std::move(message)});
  }

  /// Delivers everything in flight, without letting time pass.
  void deliver() {
    for (int turn = 0; turn < 100000 && (!queue_.empty() || !streams_.empty()); ++turn) {
      if (!queue_.empty()) {
        const Item item = std::move(queue_.front());
        queue_.pop_front();
        if (filter && !filter(peer(item.from), peer(item.to), item.message)) continue;
        receive(item.from, item.to, item.message);
        if (repeat_all) receive(item.from, item.to, item.message);
      } else {
        next_block();
      }
    }
  }

  /// Advances time by `by`. Ticks peers at their deadlines, and delivers messages in between.
  void advance(Duration by) {
    const Time end = now_ + by;
    deliver();
    for (int turn = 0; turn < 10000; ++turn) {
      Time next = never;
      for (const auto& own : endpoints_) {
        if (own->dead) continue;
        next = std::min({next, own->exchange.deadline(), own->fetch.deadline()});
      }
      if (next > end) break;
      now_ = std::max(now_, next);
      for (std::size_t i = 0; i < size(); ++i) {
        feed(i, [&](Endpoint& own, Effects& out) {
          own.exchange.tick(now_, out);
          own.fetch.tick(now_, out);
          return true;
        });
      }
      deliver();
    }
    now_ = end;
  }

  /// Breaks the lane. One end notices, then `between` runs, then the other end notices.
  void break_lane(
      std::size_t a, std::size_t b, const std::function<void()>& between = [] {}) {
    lose_streams(a, b);
    for (const auto& [self, other] : {std::pair{a, b}, std::pair{b, a}}) {
      feed(self, [&, other = other](Endpoint& own, Effects& out) {
        own.exchange.lane_lost(now_, peer(other), out);
        own.fetch.lane_lost(now_, peer(other), out);
        return true;
      });
      if (self == a) between();
    }
  }

  /// Loses the data in flight on the lane. Neither side notices yet.
  void lose_streams(std::size_t a, std::size_t b) {
    std::erase_if(streams_, [&](const Stream& stream) {
      return (stream.from == a && stream.to == b) || (stream.from == b && stream.to == a);
    });
  }
  /// Delivers the messages in flight, but no blocks.
  void deliver_messages() {
    while (!queue_.empty()) {
      const Item item = std::move(queue_.front());
      queue_.pop_front();
      receive(item.from, item.to, item.message);
    }
  }

  /// Restarts a peer as if its process had been killed: it forgets everything but its model, and
  /// the other peers are not told.
  void restart(std::size_t index, PairExchange::Options options) {
    const std::vector<float> model = at(index).model;
    endpoints_[index] = std::make_unique<Endpoint>(index, options);
    load(index, model);
  }

  /// Kills the peer and tells the others.
  void kill(std::size_t index) {
    at(index).dead = true;
    std::erase_if(queue_, [&](const Item& item) { return item.from == index || item.to == index; });
    std::erase_if(streams_, [&](const Stream& s) { return s.from == index || s.to == index; });
    for (std::size_t i = 0; i < size(); ++i) {
      feed(i, [&](Endpoint& own, Effects& out) {
        own.exchange.peer_gone(now_, peer(index), out);
        own.fetch.peer_gone(now_, peer(index), out);
        return true;
      });
    }
  }

  template <class Act>
  bool feed(std::size_t index, Act act) {
    Endpoint& own = at(index);
    if (own.dead) return false;
    Effects out;
    const bool result = act(own, out);
    for (Outgoing& outgoing : out.messages) {
      queue_.push_back({index, index_of(outgoing.to), std::move(outgoing.message)});
    }
    for (const Cancel& cancel : out.cancels) {
      std::erase_if(streams_, [&](const Stream& stream) {
        return stream.from == index && stream.to == index_of(cancel.to) &&
               stream.transfer.id == cancel.id;
      });
    }
    for (Transfer& transfer : out.transfers) {
      std::erase_if(streams_, [&](const Stream& stream) {
        return stream.from == index && stream.transfer.id == transfer.id;
      });
      streams_.push_back({index, index_of(transfer.to), std::move(transfer)});
    }
    for (Force& force : own.exchange.take_forces()) {
      for (std::size_t i = 0; i < own.model.size(); ++i) {
        own.model[i] += force.scale * (*force.values)[i];
      }
      for (std::size_t i = 0; i < force.checksum.size(); ++i) own.checksum[i] += force.checksum[i];
      own.forces.push_back(std::move(force));
    }
    if (auto model = own.fetch.take_model()) own.fetched = std::move(model);
    for (Fact& fact : out.facts) own.facts.push_back(std::move(fact));
    return result;
  }

  Filter filter;            ///< Without a filter every message arrives.
  bool repeat_all = false;  ///< True if every message is delivered twice.
  /// Called before each block is delivered. It may break lanes or kill peers.
  std::function<void(std::size_t from, std::size_t to, std::uint64_t offset)> before_block;
  std::uint64_t bytes_delivered = 0;

 private:
  struct Item {
    std::size_t from, to;
    Message message;
  };
  struct Stream {
    std::size_t from, to;
    Transfer transfer;
  };

  void receive(std::size_t from, std::size_t to, const Message& message) {
    feed(to, [&](Endpoint& own, Effects& out) {
      const TransferId* transfer = transfer_of(message);
      if (transfer != nullptr && transfer->kind == TransferKind::state) {
        own.fetch.receive(now_, peer(from), message, own.exchange.snapshot(), out);
      } else {
        own.exchange.receive(now_, peer(from), message, out);
      }
      return true;
    });
  }

  void next_block() {
    Stream stream = streams_.front();
    streams_.erase(streams_.begin());
    const std::uint64_t offset = stream.transfer.offset;
    if (offset >= stream.transfer.payload.bytes.size() || at(stream.from).dead) return;
    if (before_block) {
      const auto hook = before_block;
      streams_.insert(streams_.begin(), stream);
      hook(stream.from, stream.to, offset);
      const bool gone = streams_.empty() || streams_.front().from != stream.from ||
                        streams_.front().transfer.id != stream.transfer.id;
      if (gone || at(stream.from).dead) return;
      streams_.erase(streams_.begin());
    }
    const auto bytes = stream.transfer.payload.bytes.subspan(offset);
    const auto block = bytes.first(std::min(block_bytes_, bytes.size()));
    bytes_delivered += block.size();
    stream.transfer.offset += block.size();
    streams_.push_back(stream);  // Lanes deliver blocks in turn.
    feed(stream.to, [&](Endpoint& own, Effects& out) {
      const Block piece{stream.transfer.id, offset, block};
      if (piece.id.kind == TransferKind::state) {
        own.fetch.receive_block(now_, peer(stream.from), piece, out);
      } else {
        own.exchange.receive_block(now_, peer(stream.from), piece, out);
      }
      return true;
    });
  }

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::deque<Item> queue_;
  std::vector<Stream> streams_;
  std::size_t block_bytes_;
  Time now_{};
};

}  // namespace gv
