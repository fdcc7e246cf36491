// Downloads a state that several peers have, without trusting any single one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "consensus/transfer/model_review.hpp"
#include "consensus/transfer/state_download.hpp"

namespace gv {

/// The version that identifies a state sent by `source`. If `is_common` is true, every peer at
/// `version` has the same bits, and the result is `version` itself.
ModelVersion travels_as(const ModelVersion& version, PeerId source, std::uint64_t session,
                        bool is_common);

/// Downloads a state from one peer, and asks other holders how far their own states are from the
/// downloaded one (ModelReview). If the review finds the state wrong, another holder becomes the
/// source, until each has been tried once. A state that only its source holds is believed. But if
/// the download contains bytes from an earlier source, the last source is asked whether the
/// complete download equals its own state. A source whose state is refused is not accused, because
/// the peers that judged it may have lied. Pure. The caller owns the memory of the state and passes
/// it in.
class ReviewedDownload {
 public:
  struct Options {
    StateDownload::Options download;
    /// Number of floats that reviews compare, from the beginning of the state.
    std::size_t compared = 0;
  };

  /// A requested download.
  struct Wanted {
    std::uint64_t session = 0;  ///< Key of the generation.
    ModelVersion version;
    bool is_common = false;       ///< True if all peers that have the state have the same bits.
    PeerId source{};              ///< The first peer to download from.
    std::vector<PeerId> holders;  ///< Other peers that have the state.
  };

  ReviewedDownload(PeerId self, const Options& options, const Rng& draws);

  /// Starts a download. Reuses bytes of the same version that an earlier download received.
  void want(Time now, Wanted wanted, Effects& out);
  /// Gives up the download and sends no message, because the session is over.
  void stop();

  /// Handles messages about the download and its review, and ignores all others. `memory` is as in
  /// StateDownload.
  void receive(Time now, PeerId from, const Message& message, std::span<const float> memory,
               Effects& out);
  void receive_block(Time now, PeerId from, const Block& block, std::span<float> memory,
                     Effects& out);
  void tick(Time now, Effects& out);
  Time deadline() const;

  /// True between want() and the end of the review.
  bool is_under_way() const { return is_wanted_; }
  /// The peer that is sending the state, or whose state is under review.
  std::optional<PeerId> source() const;
  /// Once a review has confirmed the state, returns the state's source. Later calls return nullopt.
  std::optional<PeerId> take() { return std::exchange(confirmed_, std::nullopt); }
  /// True if another peer has confirmed that the state reported by take() equals its own or is
  /// close enough to it.
  bool has_witness() const { return has_witness_; }
  /// True if no source had a state that others confirm; cleared by want().
  bool failed() const { return failed_; }
  std::uint64_t received() const { return download_.received(); }

 private:
  void ask_next(Time now, Effects& out);
  void review(Time now, std::span<const float> memory, Effects& out);
  void settle(Time now, Effects& out);

  PeerId self_;
  Options options_;
  StateDownload download_;
  ModelReview review_;
  Rng draws_;
  TransferNumbers reviews_;
  Wanted wanted_;
  bool is_wanted_ = false;
  std::vector<PeerId> untried_;  ///< Holders from which we have not downloaded.
  PeerId source_{};
  bool has_others_ = false;  ///< True if peers other than the source review the download.
  bool is_mixed_ = false;    ///< True if bytes of an earlier source may be part of the download.
  std::optional<PeerId> confirmed_;
  bool has_witness_ = false;
  bool failed_ = false;
};

}  // namespace gv
