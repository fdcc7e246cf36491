// States of single parts of stages: fetched when a generation begins, kept for neighbours, sent to
// peers that lack one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/reassembly.hpp"
#include "consensus/transfer/reviewed_download.hpp"
#include "consensus/transfer/sketch_server.hpp"
#include "consensus/transfer/state_server.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/modes/stage_audit.hpp"
#include "peer/modes/vector_pool.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// Keeps states that are not being trained: our own at the last copying point, our neighbours', and
/// those that we hand over in a generation. Also runs both ends of their transfers. The other
/// carriers that already have a stage's state confirm what the source has sent; if they do not, one
/// of them becomes the source. If the source of a state dies, the next generation may name another,
/// and the transfer continues from there if that peer has the same bits. Pure.
///
/// A run is not complete while a copy of an earlier one is being sent. So when all peers have
/// finished a run, earlier copies have arrived, and older ones are useless.
class StageStates {
 public:
  StageStates(PeerId self, std::uint64_t layout_hash, const PipelineOptions& options,
              const Rng& draws);

  // ---- States kept ----

  /// Keeps the state of a stage, our own or a neighbour's, at a copying point.
  void keep(std::uint32_t stage, const ModelVersion& version, StageValues values);
  /// Keeps our state of a stage until the next settle(), while a generation begins from another
  /// version: all have to come back if some peer does not get its state.
  void keep_until_run(std::uint32_t stage, const ModelVersion& version, StageValues values);
  /// Call when a run is finished and all copies of this point have arrived. Drops older ones.
  void settle(const ModelVersion& version);
  /// Drops the state of a stage that we have at this version.
  void drop(std::uint32_t stage, const ModelVersion& version);
  /// Null if the state is not kept.
  StageValues find(std::uint32_t stage, const ModelVersion& version) const;
  std::vector<StageHolding> holdings() const;
  /// Memory for a state of this stage, with any values. Within a generation it is used again once
  /// all have let go of it, since new memory takes longer than copying a state.
  StageValues blank(std::uint32_t stage);

  // ---- At the beginning of a generation ----

  void enter(const Generation& generation);
  /// Gives up all transfers under way because their generation is over.
  void leave();
  /// Has copies made of all our parts that a peer downloads from another carrier, since it may ask
  /// us whether they are alike.
  void prepare_reviews();
  /// Has copies made of our parts that are compared in this generation (StageAudit).
  void begin_audit(Effects& out);
  /// Requests this stage's state from `source`.
  void fetch(Time now, std::uint32_t stage, PeerId source, Effects& out);
  bool is_fetching() const;
  /// The fetched states by stage, once all have arrived.
  std::map<std::uint32_t, StageValues> take();
  bool fetches_from(PeerId peer) const;
  /// Stages whose state, or a sketch of it, others are waiting for, and which a job has to copy
  /// first. Each is returned once.
  std::vector<std::uint32_t> take_to_copy() { return std::exchange(to_copy_, {}); }
  /// Takes that copy, and sends it, or sketches of it, to peers that have already asked.
  void hand_over(std::uint32_t stage, StageValues values, Effects& out);
  /// Handles the messages about states.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  void receive(PeerId from, const Audit& audit, Effects& out) { audit_.receive(from, audit, out); }
  /// Our stages of which most carriers have other values, and which we have to download; each is
  /// returned once.
  std::vector<std::uint32_t> take_odd() { return audit_.take_odd(); }
  /// Call when the peer has received all states that we owed it.
  void taken_over(PeerId peer);
  bool owes() const { return !owed_.empty(); }

  // ---- Copies for neighbours ----

  /// Sends the stage's state after run `operation` to `to`, which keeps the copy.
  void send_copy(std::uint32_t stage, std::uint64_t operation, const StageValues& values, PeerId to,
                 Effects& out) const;
  /// Expects a copy of the stage at that version from `from`.
  void expect_copy(std::uint32_t stage, const ModelVersion& version, PeerId from);
  bool expects_copies() const { return !expected_.empty(); }

  /// Takes a block of a requested state, or of a copy for us to keep. A copy must be of an existing
  /// part and come from the part's first carrier. Returns false if the block is not useful now.
  bool receive(Time now, PeerId from, const Block& block, Effects& out);
  /// Repeats requests where needed. Returns a source that has stopped sending, or whose copy is not
  /// finite.
  std::optional<PeerId> tick(Time now, Effects& out);
  Time deadline() const;
  std::uint64_t progress() const { return progress_; }
  std::uint64_t sent() const { return sent_; }

 private:
  /// A state that we have requested.
  struct Fetched {
    ReviewedDownload download;
    StageValues values;    ///< The values received so far.
    PeerId source{};       ///< The source that the generation names.
    ModelVersion version;  ///< The version under which that source sends the state.
    bool is_whole = false;
  };
  /// A copy for us to keep.
  struct Copy {
    PeerId source{};
    StageValues values;
    Reassembly blocks;
  };
  struct Kept {
    ModelVersion version;
    StageValues values;
    bool is_until_run = false;  ///< True if it is dropped once a run is finished.
  };
  struct Expected {
    ModelVersion version;
    PeerId from{};
  };
  /// Stage and run.
  using CopyName = std::pair<std::uint32_t, std::uint64_t>;

  Fetched begun(std::uint32_t stage);
  bool may_ask(PeerId from, std::uint32_t stage) const;
  bool has_ready(std::uint32_t stage);
  void ask(Time now, PeerId from, const StateRequest& request, Effects& out);
  void ask(PeerId from, const SketchRequest& request, Effects& out);
  void send(std::uint32_t stage, Effects& out);
  void tell(std::uint32_t stage, Effects& out);
  std::size_t compared(std::uint32_t stage) const;
  bool receive_fetched(Time now, PeerId from, const Block& block, Effects& out);
  bool receive_copy(PeerId from, const Block& block);
  void settle_copies();

  PeerId self_;
  std::uint64_t layout_hash_;
  std::vector<PartSize> sizes_;  ///< Sizes by part.
  std::pmr::memory_resource* memory_;
  std::map<std::size_t, VectorPool> pools_;  ///< Pools by the size of their vectors.
  Rng draws_;
  std::map<std::uint32_t, std::vector<Kept>> kept_;
  std::uint64_t key_ = 0;
  ModelVersion version_;  ///< Version at which the generation begins.
  bool is_common_;        ///< True if all carriers of a stage at one version have the same bits.
  std::map<std::uint32_t, Fetched> fetched_;  ///< Downloads by stage.
  std::map<std::uint32_t, Fetched> partial_;  ///< Parts of states from generations that ended.
  std::map<std::uint32_t, std::vector<PeerId>> holders_;  ///< For each stage, the carriers that
                                                          ///< have it.
  std::set<std::pair<std::uint32_t, PeerId>> lacking_;  ///< Pairs of a stage and a carrier without
                                                        ///< it.
  StateServer server_;
  SketchServer sketches_;
  StageAudit audit_;
  std::set<std::uint32_t> asked_;       ///< Stages that are copied or to be copied.
  std::vector<std::uint32_t> to_copy_;  ///< Stages in `asked_` that no job has been asked to copy
                                        ///< yet.
  std::map<std::uint32_t, std::vector<PeerId>> owed_;  ///< For each stage, the peers that get it
                                                       ///< from us.
  std::map<std::uint32_t, StageValues> handed_over_;   ///< The states that these peers get.
  std::map<CopyName, Copy> copies_;
  std::map<std::uint32_t, std::uint64_t> newest_copies_;  ///< For each stage, the run of the newest
                                                          ///< copy kept in this generation.
  std::map<CopyName, Expected> expected_;
  std::optional<PeerId> unsound_from_;  ///< The sender of a copy with values that are not finite.
  std::uint64_t progress_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace gv
