// Model download: a newcomer, or a peer that fell behind, gets the current model from another peer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Both sides of a model download. The asking side tries candidates in turn: it replaces a source
/// that refuses, stalls, breaks off too often or dies by the next one and starts over there. The
/// serving side streams its newest snapshot to a few peers at a time. Cost: one float32 model one
/// way and three small messages.
class ModelDownload {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    std::uint64_t elements = 0;  ///< Of a snapshot, including its `rest`.
    std::size_t served_max = 4;  ///< Downloads served at a time; further peers are refused.
    int rounds_max = 5;          ///< How often the list of candidates is tried.
    Duration answer_deadline = std::chrono::seconds(2);
    Duration progress_deadline = std::chrono::seconds(5);
    Duration retry_after = std::chrono::seconds(1);      ///< Pause between two rounds.
    Duration serve_deadline = std::chrono::minutes(10);  ///< After it a served download is dropped.
  };

  /// `numbers` is shared with everything else that starts transfers, and outlives this.
  ModelDownload(PeerId self, TransferNumbers& numbers, Options options);
  ~ModelDownload();

  /// Starts a download from the first of `candidates` that accepts. Ignored while one is under way.
  void want(Time now, std::vector<PeerId> candidates, Effects& out);

  /// Handles the messages about states. `snapshot` is sent to a peer that asks now; if null, the
  /// peer is refused. It is held only as long as the download lasts.
  void receive(Time now, PeerId from, const Message& message, const SnapshotPtr& snapshot,
               Effects& out);
  void receive_block(Time now, PeerId from, const Block& block, Effects& out);
  void lane_lost(Time now, PeerId peer, Effects& out);
  void lane_refused(Time now, PeerId peer, Effects& out);
  void peer_gone(Time now, PeerId peer, Effects& out);
  void tick(Time now, Effects& out);
  Time deadline() const;

  /// The model, once it has arrived.
  std::optional<DownloadedModel> take_model();

  /// True while a download of our own is under way.
  bool is_waiting() const;
  /// True if the last download found no source; cleared by want().
  bool failed() const;

  /// Number of entries kept: downloads served, at most `served_max`, and candidates for our own.
  std::size_t held() const;

 private:
  bool owns(PeerId from, const TransferId& id) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gv
