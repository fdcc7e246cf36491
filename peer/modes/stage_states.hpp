// States of single stages: fetched when a generation begins, kept for neighbours, sent to who lacks
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/node/stage_job.hpp"

namespace gv {

/// Keeps states that are not worked with: what we were at the last copying point, what neighbours
/// were, and what a generation makes us hand over. And both ends of their transfers. Pure.
///
/// No operation is complete while a copy of an earlier one is on its way. So when one is made by
/// everybody, the copies from before it are where they belong, and older ones are of no use.
class StageStates {
 public:
  StageStates(PeerId self, std::uint64_t layout_hash, const PipelineOptions& options);

  // ---- What is kept ----

  /// The state of a stage at a copying point, our own or a neighbour's.
  void keep(std::uint32_t stage, const ModelVersion& version, StageValues values);
  /// Copies of this point are with everybody: older ones are dropped.
  void settle(const ModelVersion& version);
  /// Null if it is not kept.
  StageValues find(std::uint32_t stage, const ModelVersion& version) const;
  std::vector<StageHolding> holdings() const;
  StageValues blank(std::uint32_t stage) const;

  // ---- At the begin of a generation ----

  void enter(const Generation& generation);
  /// Everything under way belonged to a generation that is over.
  void leave();
  /// We need this stage's state, and `source` sends it.
  void fetch(Time now, std::uint32_t stage, PeerId source, Effects& out);
  bool is_fetching() const;
  /// What was fetched, by stage, once all is there.
  std::map<std::uint32_t, StageValues> take();
  bool fetches_from(PeerId peer) const;
  /// Stages whose state others get from us and that we do not keep: a job has to copy them.
  std::vector<std::uint32_t> to_copy() const;
  /// That copy. Whoever has asked already is answered.
  void hand_over(std::uint32_t stage, StageValues values, Effects& out);
  void receive(PeerId from, const StateRequest& fetch, Effects& out);
  /// The peer has all that it was to get from us.
  void taken_over(PeerId peer);
  bool owes() const { return !owed_.empty(); }

  // ---- Copies for neighbours ----

  /// Sends a copy of that operation's state to a peer that keeps it.
  void send_copy(std::uint32_t stage, std::uint64_t operation, const StageValues& values, PeerId to,
                 Effects& out) const;
  /// `from` is to send us its copy of the stage as it stands there.
  void expect_copy(std::uint32_t stage, const ModelVersion& version, PeerId from);
  bool expects_copies() const { return !expected_.empty(); }

  /// Whether blocks of that session are copies in the generation with that key. What is fetched
  /// comes only to who has asked for it.
  static bool is_copy_of(std::uint64_t generation_key, std::uint64_t session);
  /// True if the block was a piece of a state.
  bool receive(Time now, PeerId from, const Block& block);
  /// Asks again. The source that has begun and sends nothing any more.
  std::optional<PeerId> tick(Time now, Effects& out);
  Time deadline() const;
  std::uint64_t progress() const { return progress_; }
  std::uint64_t sent() const { return sent_; }

 private:
  struct Incoming {
    PeerId source{};
    StageValues values;
    std::size_t bytes = 0;
    Time progress_at{};
    int idle_checks = 0;
  };
  struct Kept {
    ModelVersion version;
    StageValues values;
  };
  struct Expected {
    ModelVersion version;
    PeerId from{};
  };
  /// Stage and operation.
  using CopyName = std::pair<std::uint32_t, std::uint64_t>;

  std::size_t bytes_of(std::uint32_t stage) const;
  bool append(Incoming& incoming, std::uint32_t stage, const Block& block);
  void ask(std::uint32_t stage, const Incoming& incoming, Effects& out) const;
  void send(std::uint32_t stage, PeerId to, const StageValues& values, Effects& out);
  void settle_copies();
  std::uint64_t fetch_key() const;

  PeerId self_;
  std::uint64_t layout_hash_;
  std::vector<StageSize> sizes_;
  std::pmr::memory_resource* memory_;
  std::map<std::uint32_t, std::vector<Kept>> kept_;
  std::uint64_t key_ = 0;
  ModelVersion version_;  ///< Of the generation.
  std::map<std::uint32_t, Incoming> fetched_;
  std::map<std::uint32_t, std::vector<PeerId>> owed_;   ///< By stage: who gets it from us.
  std::map<std::uint32_t, StageValues> handed_over_;    ///< What they get.
  std::map<std::uint32_t, std::vector<PeerId>> asked_;  ///< Before it was there.
  std::map<CopyName, Incoming> copies_;
  std::map<CopyName, Expected> expected_;
  std::uint64_t progress_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace gv
