// Transfers whole states within a generation, from peers that have the newest to those that do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <set>

#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/reassembly.hpp"
#include "peer/modes/vector_pool.hpp"

namespace gv {

/// A state that has arrived completely.
struct ArrivedState {
  VectorPool::Vector values;
  ModelVersion version;
  PeerId from{};
};

/// Both ends of the transfer of a state. The generation says which peer sends to which; the peer
/// that lacks the state asks. Pure.
class StateTransfer {
 public:
  /// `memory` as in AllReduceOptions.
  StateTransfer(PeerId self, std::uint64_t layout_hash, std::size_t elements,
                std::pmr::memory_resource* memory);

  /// The generation has begun, and `source` has to send us its state.
  void fetch(Time now, const Generation& generation, PeerId source, Effects& out);
  /// Gives up everything under way, since its generation is over.
  void leave_generation();

  /// We lack the state, or it has arrived and was not taken yet.
  bool is_fetching() const { return fetching_; }
  bool fetches_from(PeerId peer) const { return fetching_ && peer == source_; }
  /// Takes a block, if it is of the state we wait for.
  void receive(Time now, PeerId from, const Block& block);
  /// The state, once it is complete.
  std::optional<ArrivedState> take();

  /// True if this message asks us for a state in that generation, and the generation makes us its
  /// source.
  bool is_asked(const Generation& generation, PeerId from, const StateRequest& fetch) const;
  void owe(PeerId to) { owed_.insert(to); }
  bool owes(PeerId to) const { return owed_.contains(to); }
  bool owes_any() const { return !owed_.empty(); }
  /// Every peer of the generation has the state.
  void forget_debts() { owed_.clear(); }
  /// A vector for a job to copy the state into, which is then at `version`.
  VectorPool::Vector blank(const ModelVersion& version);
  /// Sends the copied state to all peers that are owed it, if the generation still starts from it.
  /// Returns how many.
  std::size_t send(const Generation& generation, const VectorPool::Vector& state, Effects& out);

  /// Asks again where needed. Returns the source if it has begun and stopped sending.
  std::optional<PeerId> tick(Time now, Effects& out);
  Time deadline() const;

 private:
  bool is_incomplete() const;
  void ask(Effects& out) const;

  PeerId self_;
  std::uint64_t layout_hash_;
  VectorPool states_;
  std::uint64_t generation_key_ = 0;
  bool fetching_ = false;
  PeerId source_{};
  ModelVersion coming_version_;
  VectorPool::Vector incoming_;
  Reassembly blocks_;
  Time progress_at_{};
  int idle_checks_ = 0;
  std::set<PeerId> owed_;
  ModelVersion taken_;  ///< Version of the state that a job copied last.
};

}  // namespace gv
