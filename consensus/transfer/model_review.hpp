// Asks other peers how far a downloaded model is from theirs, so that no single source is trusted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/sketch.hpp"

namespace gv {

/// Reviews have larger numbers than all downloads in their session, so that their messages are not
/// confused.
inline constexpr std::uint64_t reviews_from = std::uint64_t{1} << 32;

/// Reviews one downloaded model at a time, if the models of peers are close to each other. The seed
/// of the sketches is drawn after the download, so its source cannot know the directions. A model
/// is sound if at least half of the witnesses' models are within `tolerance` times the spread. Each
/// witness reports its recent distance from others, and its model has a gap to the nearest model of
/// another witness. The spread is the larger of two medians, that of the reports and that of the
/// gaps; if no witness reports a distance, it is the widest gap. So if peers report distances, any
/// answer of one witness in three changes nothing. Cost: a message to each witness and its answer,
/// one round trip. Pure.
///
/// The report of a single witness is about recent exchanges, but if it was cut off from the source,
/// their models may have moved further apart. So with one witness, a distance of `share_of_norm`
/// times the norm of its model is sound too. An unrelated model of that norm is about 1.4 times as
/// far away.
///
/// A peer that is gone, or has no model to compare, is not a witness; the next one in order is
/// asked instead, or the first again if there is no other. If there are too few witnesses by the
/// time that a review is given, the source is believed within `norm_cap` times the norm of our own
/// model, if that is known: the source may be the only other peer, but a hostile one may also only
/// have been the first to say hello. A single witness can lie as well as the source. If they
/// disagree, the model is refused, and the next source is treated in the same way.
class ModelReview {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    double tolerance = 4;        ///< A multiple of the spread.
    double share_of_norm = 0.5;  ///< A multiple of the norm of a single witness's model.
    /// A multiple of the median norm of the witnesses' models, or of ours without witnesses; 0:
    /// off.
    double norm_cap = 10;
    std::size_t asked = 4;   ///< Witnesses asked in a round.
    std::size_t needed = 3;  ///< Number of answers that is enough; later ones are ignored.
    std::size_t quorum = 1;  ///< With fewer witnesses than this, any model is sound.
    /// True if all sound models are equal, bit for bit. Then one witness with an equal sketch is
    /// enough, and the model is doubtful only if no witness has one.
    bool compares_bits = false;
    /// True if any model is sound when two or more witnesses' models are equal and none reports a
    /// distance: they may have only just begun.
    bool believes_fresh_witnesses = true;
    Duration again_after = std::chrono::milliseconds(500);  ///< Unanswered requests are sent again.
    /// After this time the received answers decide. Without any, more witnesses are asked.
    Duration patience = std::chrono::seconds(2);
    std::size_t rounds = 5;  ///< After this many rounds without any answer the model is refused.
  };

  explicit ModelReview(const Options& options) : options_(options) {}

  /// Begins to review the model of the transfer `id`. `our_norm` is the norm of our present model;
  /// empty: not known. `seed` is random and unknown to all other peers. The review waits for
  /// witnesses until `meets_until`.
  void begin(Time now, const TransferId& id, std::span<const float> model,
             std::optional<double> our_norm, std::uint64_t seed, Time meets_until);
  /// Adds these peers as witnesses if they are new to the review. None of them may be the source.
  /// Orders them at random.
  void meet(const std::vector<PeerId>& witnesses, Effects& out);
  /// Drops the review because the model is no longer wanted.
  void stop() { review_.reset(); }

  /// Handles SketchReply and Refuse about the review; ignores the rest.
  void receive(PeerId from, const Message& message);
  void peer_gone(PeerId peer);
  void tick(Time now, Effects& out);
  Time deadline() const;

  bool is_under_way() const { return review_.has_value(); }
  struct Verdict {
    Reason problem = Reason::none;      ///< What is wrong with the model; none: the model is sound.
    std::optional<std::uint64_t> step;  ///< The most steps that a witness has; empty: no answer.
  };
  /// The verdict, once there is one. Taking it ends the review.
  std::optional<Verdict> take(Time now);

  /// Number of entries kept about witnesses.
  std::size_t held() const {
    if (!review_) return 0;
    return review_->witnesses.size() + review_->unasked.size() + review_->not_ready.size() +
           review_->met.size();
  }
  /// The most that held() returns if the review met this many witnesses: all of them were met, and
  /// each is at most one of asked, unasked and not ready.
  static constexpr std::size_t held_max(std::size_t witnesses) { return 2 * witnesses; }

 private:
  struct Witness {
    PeerId peer{};
    std::optional<SketchReply> answer;
  };
  struct Review {
    SketchRequest request;
    SketchValues sketch{};
    std::optional<double> our_norm;
    std::vector<Witness> witnesses;  ///< The asked witnesses, without those that cannot answer.
    std::vector<PeerId> unasked;     ///< The first is asked next.
    std::set<PeerId> met;            ///< All peers that were witnesses at any time.
    std::vector<PeerId> not_ready;   ///< The witnesses that had no model yet when we asked them.
    std::size_t round = 1;
    Time meets_until{};
    Time again_at{};
    Time until{};
  };

  std::vector<PeerId> next_witnesses();
  void ask(Effects& out);
  void drop(PeerId peer);
  std::size_t answers() const;
  std::size_t witnesses() const { return review_->witnesses.size() + review_->unasked.size(); }
  bool is_matched() const;
  bool is_decided() const;
  bool is_alone() const { return witnesses() < options_.quorum; }
  Verdict verdict() const;
  bool is_longer_than(double norm) const;
  Reason problem_with(const std::vector<const SketchReply*>& replies) const;

  Options options_;
  std::optional<Review> review_;
};

}  // namespace gv
