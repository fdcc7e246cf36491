// Downloads the state of a whole model or of one stage, from the first of several peers that has
// it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/reassembly.hpp"

namespace gv {

/// Returns `version`, changed so that it differs for every source and session. This is for states
/// that count as equal at equal steps although their bits differ.
ModelVersion version_of_own(const ModelVersion& version, PeerId source, std::uint64_t session);

/// The requesting side of a state's download (StateServer is the serving side). It tries its
/// sources in turn: a source that refuses, stalls, breaks off too often or dies is replaced by the
/// next. The received bytes are kept, together with their version. If the next source holds the
/// same version, the download resumes at the first missing byte. Otherwise, it starts again, so
/// that two models are never mixed. The same rule applies when want() starts another download. A
/// source that sends so slowly that the download would take very long is replaced, too, but only a
/// few times: if all sources are slow, our own link is, and each change may cost us what has
/// arrived. Cost: one state sent one way, and three small messages. Pure. The caller owns the
/// memory of the state and passes it in.
class StateDownload {
 public:
  /// A source with which the download would take longer than this is replaced by the next one of
  /// the list, if there is one.
  static constexpr Duration slow_after = std::chrono::minutes(10);
  /// The time after which the pace of a source is known.
  static constexpr Duration judged_after = std::chrono::seconds(30);
  /// Number of sources that one download replaces because they are slow.
  static constexpr int slow_max = 3;

  struct Options {
    std::uint64_t layout_hash = 0;
    std::size_t elements = 0;  ///< Number of floats in the state.
    std::uint32_t stage = 0;   ///< The stage whose state is downloaded, in a pipeline.
    /// The longest time from the request to its acceptance.
    Duration answer_deadline = std::chrono::seconds(2);
    /// True if a source that has not answered is asked again instead of being given up, because it
    /// may have to copy its state first.
    bool waits_for_answer = false;
    Duration progress_deadline = std::chrono::seconds(5);  ///< The longest time between two blocks.
    /// Smallest size in bytes of a block, except for a transfer's last block.
    std::size_t block_least = block_bytes_usual;
    int resumes_max = 3;  ///< Number of broken lanes and pauses tolerated from one source.
    int rounds_max = 5;   ///< Number of times that the list of sources is tried.
    /// Pause before the list of sources is tried again.
    Duration retry_after = std::chrono::seconds(1);
  };

  /// A state that has arrived completely.
  struct Arrival {
    PeerId source{};  ///< The source from which the last bytes came.
    ModelVersion version;
  };

  /// `session` is as in state_id().
  StateDownload(PeerId self, std::uint64_t session, const Options& options)
      : self_(self), numbers_{.session = session}, options_(options) {}

  /// From now on, numbers requests within this session. Must not be called while a download is
  /// under way.
  void set_session(std::uint64_t session) {
    if (session != numbers_.session) numbers_ = {.session = session};
  }

  /// Starts a download from the first of `sources` that accepts. If `version` is given, only that
  /// version is accepted, and its bytes that arrived earlier are reused. Ignored while a download
  /// is under way.
  void want(Time now, std::vector<PeerId> sources, const std::optional<ModelVersion>& version,
            Effects& out);
  /// Adds sources to the download under way, to be tried after the others. In the pause between two
  /// rounds, the first new source is asked at once. No peer in `sources` may be a source already.
  void add(Time now, const std::vector<PeerId>& sources, Effects& out);
  /// Gives up the download and sends no message, because the session is over. Keeps the bytes of a
  /// known version.
  void stop();

  /// Handles TransferAccepted, Refuse and Abort about a state, and ignores all other messages.
  /// `memory` has the state's elements and must be the same in all calls once a block has arrived.
  void receive(Time now, PeerId from, const Message& message, std::span<const float> memory,
               Effects& out);
  void receive_block(Time now, PeerId from, const Block& block, std::span<float> memory,
                     Effects& out);
  void lane_lost(Time now, PeerId peer, Effects& out);
  void lane_refused(Time now, PeerId peer, Effects& out);
  void peer_gone(Time now, PeerId peer, Effects& out);
  void tick(Time now, Effects& out);
  Time deadline() const { return wanted_ ? wanted_->deadline : never; }

  /// True while a download is under way.
  bool is_waiting() const { return wanted_.has_value(); }
  /// True if the last download failed with every source. want() clears it.
  bool failed() const { return failed_; }
  /// The current source. Empty between rounds and while there is no download.
  std::optional<PeerId> source() const { return wanted_ ? wanted_->source : std::nullopt; }
  /// Returns the arrival once the state in `memory` is complete. Later calls return nullopt.
  std::optional<Arrival> take();
  /// Number of bytes of version() that have arrived.
  std::uint64_t received() const { return blocks_.received(); }
  const std::optional<ModelVersion>& version() const { return version_; }
  /// Number of sources kept.
  std::size_t held() const { return wanted_ ? wanted_->sources.size() : 0; }

  friend class Fields;
  static constexpr std::size_t field_count = 9;
  friend bool operator==(const StateDownload& a, const StateDownload& b);

 private:
  /// The download under way.
  struct Wanted {
    std::vector<PeerId> sources;
    std::size_t next = 0;  ///< Index of the source after the current one.
    int rounds = 0;
    std::optional<PeerId> source;  ///< Empty during the pause before the next round.
    TransferId id;
    bool accepted = false;
    bool begun = false;  ///< True once a block from the current source has arrived.
    int resumes = 0;
    int slow = 0;                  ///< Number of sources replaced because they were slow.
    Time begun_at{};               ///< When the first block from the current source arrived.
    std::uint64_t begun_from = 0;  ///< The offset of that block.
    Time deadline = never;
  };

  bool is_from_source(PeerId from, const TransferId& id) const;
  void start_over();
  void drop_unproved();
  void ask(Time now, Effects& out);
  void ask_next(Time now, Effects& out);
  void change_source(Time now, Reason reason, Effects& out);
  void resume(Time now, Reason reason, Effects& out);
  void accept(Time now, const TransferAccepted& accepted, Effects& out);
  bool is_too_slow(Time now) const;
  void finish_if_whole(Time now, std::span<const float> memory, Effects& out);

  PeerId self_;
  TransferNumbers numbers_;
  Options options_;
  std::optional<Wanted> wanted_;
  std::optional<ModelVersion> expected_;  ///< If set, the only version that is accepted.
  Reassembly blocks_;
  std::optional<ModelVersion> version_;  ///< Version of the bytes in `blocks_`; empty if unknown.
  std::optional<Arrival> arrival_;
  bool failed_ = false;
};

}  // namespace gv
