// A hostile member of a virtual swarm, which sends any message and any block under its own id.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/problems.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "consensus/message/effects.hpp"
#include "sim/scenario.hpp"
#include "sim/virtual/any_message.hpp"

namespace gv {

/// Returns all problems with a scenario's saboteurs in a swarm of `peers`. They must be fewer than
/// a third and named by number. `place` is the file's name.
Problems problems_with_saboteurs(const Scenario& scenario, std::size_t peers,
                                 const std::string& place);

/// A block outside of a transfer, as any program could send it on a lane.
struct LooseBlock {
  Duration after{};  ///< Delay before it is sent.
  PeerId to{};
  TransferId id;
  std::uint64_t offset = 0;
  Payload payload;
};

/// The output of a saboteur.
struct Deeds {
  std::vector<Outgoing> messages;
  std::vector<Transfer> transfers;
  std::vector<LooseBlock> blocks;
};

/// Stands between a real node and its links. Its behaviour is drawn once: how often and in which
/// ways it changes the node's messages, which peers it spares, and how often it sends something
/// unasked. So some saboteurs get deep into a protocol before they lie, and others send garbage
/// from the start. It sends only under its own id, because links are authenticated, and sends
/// nothing that a receiver's network would refuse.
class Saboteur {
 public:
  /// `loudest` bounds the finite values in blocks that it invents.
  Saboteur(PeerId self, std::vector<PeerId> peers, float loudest, Rng rng);

  /// Learns from a message to its node. Made-up messages reuse what it has learnt.
  void hear(const Message& message);
  void hear(const TransferId& id) { any_.learn(id); }

  /// Adds to `deeds` the messages that the peer really sends instead of its node's message.
  void send(Outgoing outgoing, Deeds& deeds);
  void send(Transfer transfer, Deeds& deeds);

  /// Adds unasked messages, and messages that it held back.
  void act(Deeds& deeds);
  /// Draws the time until it acts again.
  Duration pause();

 private:
  enum class Way { lose, change, replace, repeat, hold_back, count };
  enum class BlockWay {
    lose,
    poison,
    cut,
    lengthen,
    misname,
    shift,
    repeat,
    dribble,
    stale,
    count
  };

  template <class Any>
  using Weights = std::array<double, static_cast<std::size_t>(Any::count)>;
  template <class Any>
  Any choose(const Weights<Any>& weights);
  template <class Any>
  Weights<Any> draw_weights();

  Rng& rng() { return any_.rng(); }
  bool meddles_with(PeerId to);
  PeerId victim();
  void say(PeerId to, Message message, Deeds& deeds);
  void misplace(const Transfer& transfer, Deeds& deeds);
  void dribble(const Transfer& transfer, Deeds& deeds);
  Payload poisoned(const Payload& payload);
  Payload noise(std::size_t bytes);
  float loud();

  PeerId self_;
  std::vector<PeerId> others_;
  float loudest_;
  AnyMessage any_;
  double meddles_ = 0;
  Weights<Way> ways_{};
  Weights<BlockWay> block_ways_{};
  double pause_s_ = 0;
  std::optional<PeerId> only_;           ///< If set, it harms only this peer.
  std::optional<std::uint64_t> claims_;  ///< If set, it claims to be at this step.
  std::deque<Message> memory_;           ///< The newest messages that it sent or received.
  std::deque<Transfer> transfers_;       ///< The newest transfers that it sent.
  std::deque<Outgoing> held_;            ///< Messages that leave later, in any order.
};

}  // namespace gv
