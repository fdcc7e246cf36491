// Carries whole states within a generation: from those who have the newest to those who do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <set>

#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/vector_pool.hpp"

namespace gv {

/// A state that came, whole.
struct ArrivedState {
  VectorPool::Vector values;
  ModelVersion version;
  PeerId from{};
};

/// Both ends of the transfer of a state. A generation says who sends it to whom; who lacks it asks.
/// Pure.
class StateTransfer {
 public:
  /// `memory` as in AllReduceOptions.
  StateTransfer(PeerId self, std::uint64_t layout_hash, std::size_t elements,
                std::pmr::memory_resource* memory);

  /// The generation has begun, and `source` has to send us its state.
  void fetch(Time now, const Generation& generation, PeerId source, Effects& out);
  /// Everything under way belonged to a generation that is over.
  void leave_generation();

  /// We lack the state, or it came and was not taken yet.
  bool is_fetching() const { return fetching_; }
  bool fetches_from(PeerId peer) const { return fetching_ && peer == source_; }
  /// A block of the state we wait for, or not.
  void receive(Time now, PeerId from, const Block& block);
  /// The state, once it is whole.
  std::optional<ArrivedState> take();

  /// True if this word asks us for a state in that generation, and we are to send one.
  bool is_asked(const Generation& generation, PeerId from, const StateRequest& fetch) const;
  void owe(PeerId to) { owed_.insert(to); }
  bool owes(PeerId to) const { return owed_.contains(to); }
  bool owes_any() const { return !owed_.empty(); }
  /// Everybody in the generation has had it.
  void forget_debts() { owed_.clear(); }
  /// Where a job has to copy the state, which stands there then.
  VectorPool::Vector blank(const ModelVersion& version);
  /// Sends what a job has copied to all who are owed it, if it is still what the generation goes on
  /// from. How many that were.
  std::size_t send(const Generation& generation, const VectorPool::Vector& state, Effects& out);

  /// Asks again. The source, when it has begun and sends nothing any more.
  std::optional<PeerId> tick(Time now, Effects& out);
  Time deadline() const;

  /// The block belongs to some state: no piece of an operation has this number.
  static bool concerns(const Block& block);

 private:
  bool is_incomplete() const;
  void ask(Effects& out) const;

  PeerId self_;
  std::uint64_t layout_hash_;
  VectorPool states_;
  std::size_t total_bytes_;
  std::uint64_t generation_key_ = 0;
  bool fetching_ = false;
  PeerId source_{};
  ModelVersion coming_version_;
  VectorPool::Vector incoming_;
  std::size_t incoming_bytes_ = 0;
  Time progress_at_{};
  int idle_checks_ = 0;
  std::set<PeerId> owed_;
  ModelVersion taken_;  ///< Of the state that was last asked of a job.
};

}  // namespace gv
