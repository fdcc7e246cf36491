// Peers whose links are calls through one loop, and whose lanes are real.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "net/bulk_lanes.hpp"
#include "net/pair_token.hpp"
#include "tests/facts.hpp"

namespace gv {

inline PeerId peer(std::size_t n) { return PeerId{100 + n}; }

/// Zeros, which no cipher would leave unchanged.
inline std::shared_ptr<std::vector<std::byte>> zeros(std::size_t size) {
  return std::make_shared<std::vector<std::byte>>(size);
}

/// Peers with links between some of them. A link here is a call through the loop.
class LinkedPeers {
 public:
  struct Side {
    std::unique_ptr<BulkLanes> lanes;
    std::size_t received = 0;  ///< Number of bytes received in blocks.
    std::vector<Message> messages;
    std::vector<Fact> facts;
    std::vector<PeerId> refused;
    std::function<void(PeerId)> on_lost = [](PeerId) {};
    std::vector<PeerId> relays;
    std::set<PeerId> dialled_directly;  ///< Peers that asked for a relay and were dialled instead.
    std::set<PeerId> can_be_dialled;
    std::vector<std::pair<PeerId, RelayStep>> steps;  ///< Relay steps that arrived here, by sender.
    KeyPair keys = generate_key_pair();
  };

  /// Only the peers in `listening` can be dialled.
  LinkedPeers(std::size_t peers, const std::set<std::size_t>& listening, Duration patience = {})
      : sides_(peers), patience_(patience) {
    char pattern[] = "/tmp/grapevine-relay-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    for (std::size_t i = 0; i < peers; ++i) {
      sides_[i].lanes = std::make_unique<BulkLanes>(
          io_,
          BulkLanes::Options{.listen_host = listening.contains(i) ? "127.0.0.1" : "",
                             .lent = nullptr,
                             .security = BulkLanes::Security::tls,
                             .socket_folder = folder_,
                             .self = peer(i),
                             .relay_patience = patience_},
          callbacks(i));
    }
  }
  ~LinkedPeers() {
    sides_.clear();
    std::filesystem::remove_all(folder_);
  }

  Side& operator[](std::size_t i) { return sides_[i]; }
  asio::io_context& io() { return io_; }
  void link(std::size_t a, std::size_t b) { links_.insert({std::min(a, b), std::max(a, b)}); }
  void agree(std::string value) { agreement_ = std::move(value); }

  template <class Condition>
  bool until(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(std::chrono::milliseconds(50));
    }
    return true;
  }

  void send(std::size_t from, std::size_t to, std::size_t bytes) {
    auto block = zeros(bytes);
    sides_[from].lanes->send(
        {peer(to), TransferId{peer(from), 1, ++sent_}, {block, std::span(*block)}, 0});
  }
  bool says_refuse(std::size_t i) {
    return std::ranges::any_of(sides_[i].steps, [](const auto& step) {
      return step.second.kind == RelayStep::Kind::refuse;
    });
  }

 private:
  std::size_t number(PeerId id) const { return static_cast<std::size_t>(id) - 100; }
  bool is_linked(std::size_t a, PeerId b) const {
    return links_.contains({std::min(a, number(b)), std::max(a, number(b))});
  }

  BulkLanes::Callbacks callbacks(std::size_t i) {
    return {.block = [this, i](PeerId,
                               const Block& block) { sides_[i].received += block.bytes.size(); },
            .place = {},
            .message = [this, i](const Envelope& e) { sides_[i].messages.push_back(e.message); },
            .lost = [this, i](PeerId from) { sides_[i].on_lost(from); },
            .refused = [this, i](PeerId from) { sides_[i].refused.push_back(from); },
            .fact = [this, i](Fact fact) { sides_[i].facts.push_back(std::move(fact)); },
            .send_invite =
                [this, i](PeerId to, const LaneInvite& invite) {
                  if (!is_linked(i, to)) return false;
                  asio::post(io_, [this, i, to, invite] {
                    sides_[number(to)].lanes->receive_invite(peer(i), invite);
                  });
                  return true;
                },
            .send_relay =
                [this, i](PeerId to, const RelayStep& step) {
                  if (!is_linked(i, to)) return false;
                  asio::post(io_, [this, i, to, step] {
                    sides_[number(to)].steps.emplace_back(peer(i), step);
                    sides_[number(to)].lanes->receive_relay(peer(i), step);
                  });
                  return true;
                },
            .is_linked = [this, i](PeerId to) { return is_linked(i, to); },
            .relays = [this, i](PeerId) { return sides_[i].relays; },
            .dial_directly =
                [this, i](PeerId to) {
                  return sides_[i].can_be_dialled.contains(to) &&
                         sides_[i].dialled_directly.insert(to).second;
                },
            .pair_token =
                [this, i](PeerId other, std::uint64_t stream) {
                  return pair_token(sides_[i].keys, sides_[number(other)].keys.public_key, stream,
                                    {{"model", i == 0 ? agreement_ : "mlp"}});
                }};
  }

  std::filesystem::path folder_;
  asio::io_context io_;
  std::vector<Side> sides_;
  Duration patience_;
  std::set<std::pair<std::size_t, std::size_t>> links_;
  std::string agreement_ = "mlp";
  std::uint64_t sent_ = 0;
};

inline bool has_opened(LinkedPeers::Side& side) { return count_of<LaneOpened>(side.facts) > 0; }

inline bool has_opened(LinkedPeers::Side& side, PeerId to) {
  return std::ranges::any_of(side.facts, [to](const Fact& fact) {
    const auto* opened = std::get_if<LaneOpened>(&fact);
    return opened != nullptr && opened->peer == to;
  });
}

}  // namespace gv
