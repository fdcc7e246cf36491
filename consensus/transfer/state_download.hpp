// Downloads a state, of a whole model or of one stage, from the first of some peers that has it.
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

/// Makes `version` differ from that of any other source and session, for states that count as equal
/// at equal steps although their bits differ.
ModelVersion version_of_own(const ModelVersion& version, PeerId source, std::uint64_t session);

/// The requesting side of the download of a state (StateServer is the other). It tries its sources
/// in turn: a source that refuses, stalls, breaks off too often or dies is replaced by the next.
/// The received bytes are kept, together with their version. If the next source holds the same
/// version, the download resumes at the first missing byte; otherwise it starts again, so that two
/// models are never mixed. This also holds from one want() to the next. Cost: one state one way and
/// three small messages. Pure; the caller owns the memory of the state and passes it in.
class StateDownload {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    std::size_t elements = 0;  ///< Floats of the state.
    std::uint32_t stage = 0;   ///< In a pipeline: the stage whose state it is.
    /// Time from the request to its acceptance.
    Duration answer_deadline = std::chrono::seconds(2);
    /// True if a source that has not answered is asked again instead of given up, because it has to
    /// make a copy first.
    bool waits_for_answer = false;
    Duration progress_deadline = std::chrono::seconds(5);  ///< Time between two blocks.
    std::size_t block_least = block_bytes_usual;  ///< Smallest size of a block other than a
                                                  ///< transfer's last.
    int resumes_max = 3;  ///< Number of broken lanes and pauses that a download from one source
                          ///< survives.
    int rounds_max = 5;   ///< How often the list of sources is tried.
    Duration retry_after = std::chrono::seconds(1);  ///< Pause between two rounds.
  };

  /// A state that has arrived completely.
  struct Arrival {
    PeerId source{};  ///< The last source.
    ModelVersion version;
  };

  /// `session` as in state_id().
  StateDownload(PeerId self, std::uint64_t session, const Options& options)
      : self_(self), numbers_{.session = session}, options_(options) {}

  /// Numbers further requests in this session. Must not be called while a download is under way.
  void set_session(std::uint64_t session) {
    if (session != numbers_.session) numbers_ = {.session = session};
  }

  /// Starts a download from the first of `sources` that accepts. If `version` is given, only that
  /// version is accepted, and bytes of it that arrived before are used. Ignored while a download is
  /// under way.
  void want(Time now, std::vector<PeerId> sources, const std::optional<ModelVersion>& version,
            Effects& out);
  /// Adds sources to the download under way, which are tried after the others. Between two rounds
  /// the first of them is asked at once. None of them may be a source already.
  void add(Time now, const std::vector<PeerId>& sources, Effects& out);
  /// Gives up the download without a message because its session is over. Keeps the bytes of a
  /// known version.
  void stop();

  /// Handles TransferAccepted, Refuse and Abort about a state; ignores the rest. `memory` has the
  /// state's elements and must be the same in all calls once a block has arrived.
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
  /// True if the last download found no source; cleared by want().
  bool failed() const { return failed_; }
  /// The current source; empty between rounds and without a download.
  std::optional<PeerId> source() const { return wanted_ ? wanted_->source : std::nullopt; }
  /// Set if the state in `memory` is complete. Returned once.
  std::optional<Arrival> take();
  /// Bytes that have arrived, of version().
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
    std::optional<PeerId> source;  ///< Empty: pausing before the next round.
    TransferId id;
    bool accepted = false;
    bool begun = false;  ///< True once a block of this source has arrived.
    int resumes = 0;
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
  void finish_if_whole(Time now, std::span<const float> memory, Effects& out);

  PeerId self_;
  TransferNumbers numbers_;
  Options options_;
  std::optional<Wanted> wanted_;
  std::optional<ModelVersion> expected_;  ///< The only version that is accepted, if set.
  Reassembly blocks_;
  std::optional<ModelVersion> version_;  ///< Version of the bytes in `blocks_`; empty: unknown yet.
  std::optional<Arrival> arrival_;
  bool failed_ = false;
};

}  // namespace gv
