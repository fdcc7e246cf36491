// Asks other peers how far a downloaded model is from theirs, so that no source is believed alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/sketch.hpp"

namespace gv {

/// Reviews one downloaded model at a time, where the models of peers are close but not equal. The
/// seed of the sketches is drawn after the download, so its source cannot know the directions. A
/// model is sound if the nearest witness's model is within `tolerance` times the spread. The spread
/// is the largest distance that witnesses report or that their models have from each other. Cost: a
/// message to each witness and its answer, one round trip. Pure.
///
/// Without witnesses the source is believed. A single witness can lie as well as the source can:
/// the model is then refused, and the next source fares no better.
class ModelReview {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    double tolerance = 4;    ///< Times the spread.
    double norm_cap = 10;    ///< Times the largest norm of the witnesses' models; 0: off.
    std::size_t asked = 4;   ///< Witnesses asked.
    std::size_t needed = 2;  ///< Answers that are enough.
    Duration again_after = std::chrono::milliseconds(500);  ///< Unanswered requests are sent again.
    /// After this long the answers received decide; without any, the model is refused.
    Duration patience = std::chrono::seconds(2);
  };

  explicit ModelReview(const Options& options) : options_(options) {}

  /// Begins to review the model that the transfer `id` has brought. `witnesses` are peers other
  /// than its source, in random order. `seed` is random, and no other peer can have known it.
  void begin(Time now, const TransferId& id, std::span<const float> model,
             const std::vector<PeerId>& witnesses, std::uint64_t seed, Effects& out);
  /// Drops the review because the model is no longer wanted.
  void stop() { review_.reset(); }

  /// Handles SketchReply and Refuse about the review; ignores the rest.
  void receive(PeerId from, const Message& message);
  void peer_gone(PeerId peer);
  void tick(Time now, Effects& out);
  Time deadline() const;

  bool is_under_way() const { return review_.has_value(); }
  struct Verdict {
    Reason problem = Reason::none;      ///< What is wrong with the model; none: it is sound.
    std::optional<std::uint64_t> step;  ///< The most steps that a witness has; empty: no answer.
  };
  /// The verdict, once there is one. Taking it ends the review.
  std::optional<Verdict> take(Time now);

  /// Number of witnesses kept.
  std::size_t held() const { return review_ ? review_->witnesses.size() : 0; }

 private:
  struct Witness {
    PeerId peer{};
    std::optional<SketchReply> answer;
  };
  struct Review {
    SketchRequest request;
    SketchValues sketch{};
    std::vector<Witness> witnesses;  ///< Without those that cannot answer.
    bool has_witnesses = false;      ///< The review began with at least one.
    Time again_at{};
    Time until{};
  };

  void ask(Effects& out) const;
  std::size_t answers() const;
  Verdict verdict() const;
  Reason problem_with(const std::vector<const SketchReply*>& replies) const;

  Options options_;
  std::optional<Review> review_;
};

}  // namespace gv
