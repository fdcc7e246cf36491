// A hostile member of a virtual swarm, which sends arbitrary messages and blocks under its own id.
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

/// Lists all problems with a scenario's saboteurs in a swarm of `peers` peers. Saboteurs must be
/// fewer than a third of the peers, and named by number. `place` is the scenario's file name.
Problems problems_with_saboteurs(const Scenario& scenario, std::size_t peers,
                                 const std::string& place);

/// A block outside any transfer, as a program could send it on a lane.
struct LooseBlock {
  Duration after{};  ///< Delay before the block is sent.
  PeerId to{};
  TransferId id;
  std::uint64_t offset = 0;
  Payload payload;
};

/// Everything that a saboteur sends in response to one event.
struct Deeds {
  std::vector<Outgoing> messages;
  std::vector<Transfer> transfers;
  std::vector<LooseBlock> blocks;
};

/// Sits between a real node and the node's links. The saboteur's behaviour is drawn once: how often
/// it changes the node's messages and in which ways, which peers it spares, and how often it sends
/// something unsolicited. So some saboteurs get deep into a protocol before they lie, and others
/// send garbage from the start. A saboteur sends only under its own id, because links are
/// authenticated. It sends no message that a receiver's network would refuse.
class Saboteur {
 public:
  /// `loudest` bounds the magnitude of finite values in blocks that the saboteur invents.
  Saboteur(PeerId self, std::vector<PeerId> peers, float loudest, Rng rng);

  /// Learns values from a message or transfer to its node, for reuse in invented messages.
  void hear(const Message& message);
  void hear(const TransferId& id) { any_.learn(id); }

  /// Adds to `deeds` the output that the saboteur sends in place of its node's message or transfer.
  void send(Outgoing outgoing, Deeds& deeds);
  void send(Transfer transfer, Deeds& deeds);

  /// Adds unsolicited messages, and messages that were held back, to `deeds`.
  void act(Deeds& deeds);
  /// Draws the time until the next act().
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
  std::optional<PeerId> only_;  ///< The only peer that the saboteur harms, if there is one.
  /// The false step that the saboteur claims to have reached, if it claims one.
  std::optional<std::uint64_t> claims_;
  std::deque<Message> memory_;      ///< The newest messages that the saboteur sent or received.
  std::deque<Transfer> transfers_;  ///< The newest transfers that the saboteur sent.
  std::deque<Outgoing> held_;       ///< Messages that the saboteur sends later, in any order.
};

}  // namespace gv
