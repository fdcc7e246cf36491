// A hostile member of a virtual swarm: sends any message and any block under its own id.
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

/// All problems with a scenario's saboteurs in a swarm of `peers`: fewer than a third may be any,
/// and they are named by number. `place` is the file's name.
Problems problems_with_saboteurs(const Scenario& scenario, std::size_t peers,
                                 const std::string& place);

/// A block on its own, as any program could put it on a lane.
struct LooseBlock {
  Duration after{};  ///< It leaves this much later.
  PeerId to{};
  TransferId id;
  std::uint64_t offset = 0;
  Payload payload;
};

/// What a saboteur sends.
struct Deeds {
  std::vector<Outgoing> messages;
  std::vector<Transfer> transfers;
  std::vector<LooseBlock> blocks;
};

/// Stands between a real node and its links. Its manners are drawn once: how often it meddles with
/// what its node sends, in which ways, whom it spares, and how often it sends something unasked.
/// So some saboteurs are deep in a protocol before they lie, and others babble. Links are
/// authenticated, so it speaks under its own id only; and it sends nothing that a receiver's
/// network would refuse by itself.
class Saboteur {
 public:
  /// `loudest` bounds the finite values that it makes up in blocks.
  Saboteur(PeerId self, std::vector<PeerId> peers, float loudest, Rng rng);

  /// Its node hears this. What a saboteur knows comes back in what it makes up.
  void hear(const Message& message);
  void hear(const TransferId& id) { any_.learn(id); }

  /// Adds what leaves in place of what its node wants to send.
  void send(Outgoing outgoing, Deeds& deeds);
  void send(Transfer transfer, Deeds& deeds);

  /// Adds something unasked, and what it held back before.
  void act(Deeds& deeds);
  /// Time until it acts again.
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
  std::optional<PeerId> only_;           ///< It harms this peer alone.
  std::optional<std::uint64_t> claims_;  ///< The step that it says it is at.
  std::deque<Message> memory_;           ///< The newest messages that it sent or heard.
  std::deque<Transfer> transfers_;       ///< The newest transfers that it sent.
  std::deque<Outgoing> held_;            ///< Messages that leave later, in any order.
};

}  // namespace gv
