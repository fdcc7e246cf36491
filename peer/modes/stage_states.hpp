// States of single parts of stages: fetched when a generation begins, kept for neighbours, and sent
// to peers that lack one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

/// Keeps states that are not being trained: our own states at the last copying point, those of our
/// neighbours, and those that we hand over in a generation. Also runs both ends of the transfers.
/// When a source has sent a stage's state, the other carriers that already have the state confirm
/// it. If they do not, one of them becomes the source. If a source dies, the next generation may
/// name another source, and the transfer continues if the new source has the same bits. Pure.
///
/// A run is not complete while a copy from an earlier run is being sent. So when all peers have
/// finished a run, earlier copies have arrived, and still older copies are no longer needed.
class StageStates {
 public:
  StageStates(PeerId self, std::uint64_t layout_hash, const PipelineOptions& options,
              const Rng& draws);

  // ---- States kept ----

  /// Keeps the state of a stage at a copying point. The state is our own or a neighbour's.
  void keep(std::uint32_t stage, const ModelVersion& version, StageValues values);
  /// Keeps our state of a stage until the next settle(). Call when a generation begins from another
  /// version. If some peer then cannot get its state, all peers return to the old version.
  void keep_until_run(std::uint32_t stage, const ModelVersion& version, StageValues values);
  /// Call when a run is finished, and all copies made at the copying point `version` have arrived.
  /// Drops older copies.
  void settle(const ModelVersion& version);
  /// Drops our state of a stage at this version.
  void drop(std::uint32_t stage, const ModelVersion& version);
  /// Returns the kept state of the stage at this version; null if there is none.
  StageValues find(std::uint32_t stage, const ModelVersion& version) const;
  std::vector<StageHolding> holdings() const;
  /// Returns memory for a state of this stage; its contents are arbitrary. Within a generation the
  /// memory is reused once it has no other owner, because allocating memory takes longer than
  /// copying a state.
  StageValues blank(std::uint32_t stage);

  // ---- At the beginning of a generation ----

  void enter(const Generation& generation);
  /// Gives up all transfers under way because their generation is over.
  void leave();
  /// Requests copies of all our parts that some peer downloads from another carrier, because that
  /// peer may ask us to confirm what it has received.
  void prepare_reviews();
  /// Requests copies of those of our parts that this generation compares (see StageAudit).
  void begin_audit(Effects& out);
  /// Requests this stage's state from `source`.
  void fetch(Time now, std::uint32_t stage, PeerId source, Effects& out);
  bool is_fetching() const;
  /// Returns the fetched states by stage. Call it once all have arrived.
  std::map<std::uint32_t, StageValues> take();
  bool fetches_from(PeerId peer) const;
  /// Returns the stages that a job has to copy first, because other peers wait for their states or
  /// for sketches of them. Returns each stage once.
  std::vector<std::uint32_t> take_to_copy() { return std::exchange(to_copy_, {}); }
  /// Takes a copy of our state that a job has made. Sends the state, or sketches of it, to peers
  /// that have already asked.
  void hand_over(std::uint32_t stage, StageValues values, Effects& out);
  /// Handles messages about states.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  void receive(PeerId from, const Audit& audit, Effects& out) { audit_.receive(from, audit, out); }
  /// Returns those of our stages whose states differ from most other carriers' states, so that we
  /// have to download them. Returns each stage once.
  std::vector<std::uint32_t> take_odd() { return audit_.take_odd(); }
  /// Call when the peer has received all states that it needed from us.
  void taken_over(PeerId peer);
  bool owes() const { return !owed_.empty(); }

  // ---- Copies for neighbours ----

  /// Sends the state of the stage after run `operation` to the peer `to`, which will keep the copy.
  void send_copy(std::uint32_t stage, std::uint64_t operation, const StageValues& values, PeerId to,
                 Effects& out) const;
  /// Expects a copy of the stage at that version from the peer `from`.
  void expect_copy(std::uint32_t stage, const ModelVersion& version, PeerId from);
  bool expects_copies() const { return !expected_.empty(); }

  /// Takes a block of a state that we have requested, or of a copy that we have to keep. A copy
  /// must be of an existing part, and must come from that part's first carrier. Returns false if
  /// the block is not useful now.
  bool receive(Time now, PeerId from, const Block& block, Effects& out);
  /// Repeats requests where needed. Returns a source, if any, that has stopped sending, or whose
  /// copy contains values that are not finite.
  std::optional<PeerId> tick(Time now, Effects& out);
  Time deadline() const;
  std::uint64_t progress() const { return progress_; }
  std::uint64_t sent() const { return sent_; }

 private:
  /// A state that we have requested.
  struct Fetched {
    ReviewedDownload download;
    StageValues values;    ///< The values received so far.
    PeerId source{};       ///< The source named by the generation.
    ModelVersion version;  ///< The version under which the source sends the state.
    bool is_whole = false;
  };
  /// A copy that we have to keep.
  struct Copy {
    PeerId source{};
    StageValues values;
    Reassembly blocks;
  };
  struct Kept {
    ModelVersion version;
    StageValues values;
    bool is_until_run = false;  ///< True if the state has to be dropped when a run is finished.
  };
  struct Expected {
    ModelVersion version;
    PeerId from{};
  };
  /// A copy's stage, and the run after which it was made.
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
  std::vector<PartSize> sizes_;  ///< The sizes of each part.
  VectorPools pools_;
  Rng draws_;
  std::map<std::uint32_t, std::vector<Kept>> kept_;
  std::uint64_t key_ = 0;
  ModelVersion version_;  ///< The version at which the generation begins.
  bool is_common_;        ///< True if all carriers of a stage at one version have the same bits.
  std::map<std::uint32_t, Fetched> fetched_;  ///< The download of each stage.
  /// The sources of downloads in this generation that FetchAsked has named.
  std::set<PeerId> reported_sources_;
  /// Incomplete downloads from generations that have ended.
  std::map<std::uint32_t, Fetched> partial_;
  std::map<std::uint32_t, std::vector<PeerId>> holders_;  ///< For each stage, the carriers that
                                                          ///< have its state.
  /// Pairs of a stage and a carrier that lacks its state.
  std::set<std::pair<std::uint32_t, PeerId>> lacking_;
  StateServer server_;
  SketchServer sketches_;
  StageAudit audit_;
  std::set<std::uint32_t> asked_;       ///< Stages that are being copied, or have to be copied.
  std::vector<std::uint32_t> to_copy_;  ///< Stages in `asked_` that no job has been asked to copy.
  /// For each stage, the peers to which we have to send its state.
  std::map<std::uint32_t, std::vector<PeerId>> owed_;
  /// The states that the peers in `owed_` get, by stage.
  std::map<std::uint32_t, StageValues> handed_over_;
  std::map<CopyName, Copy> copies_;
  /// For each stage, the run after which the newest kept copy was made.
  std::map<std::uint32_t, std::uint64_t> newest_copies_;
  std::map<CopyName, Expected> expected_;
  std::optional<PeerId> unsound_from_;  ///< The sender of a copy with values that are not finite.
  std::uint64_t progress_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace gv
