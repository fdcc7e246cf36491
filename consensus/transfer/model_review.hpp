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

/// Within a session, reviews have transfer numbers above this one, and downloads have numbers below
/// it. So their messages cannot be confused.
inline constexpr std::uint64_t reviews_from = std::uint64_t{1} << 32;

/// Reviews one downloaded model at a time, by comparing sketches of it with sketches of the models
/// of other peers, the witnesses. The models of peers must be close to each other. The seed of the
/// sketches is drawn after the download, so the source cannot know their directions in advance. A
/// model is sound if its distance from at least half of the witnesses' models is at most
/// `tolerance` times the spread. Each witness reports how far its model recently was from others. A
/// witness's gap is the distance from its model to the nearest model of another witness. The spread
/// is the larger of two medians: that of the reports and that of the gaps. If no witness reports a
/// distance, the spread is the widest gap. So if peers report distances, one witness in three
/// cannot change the verdict, whatever it answers. Cost: a message to each witness and its answer,
/// one round trip. Pure.
///
/// A witness reports distances from recent exchanges. If it was cut off from the source, the two
/// models may have moved further apart. So if there is only one witness, a distance of up to
/// `share_of_norm` times the norm of its model is accepted too. The distance to an unrelated model
/// of the same norm is about 1.4 times the norm.
///
/// A peer that is gone, or has no model to compare, is not a witness. The next peer is asked
/// instead or, if there is no other, peers that had no model yet are asked again. If there are too
/// few witnesses when the time for the review is up, the source is believed. But the model is
/// refused if the norm of our own model is known and the downloaded model's norm is more than
/// `norm_cap` times as large. The source may be the only other peer, but it may also be a hostile
/// peer that was the first to say hello. A single witness can lie just as the source can. If the
/// two disagree, the model is refused, and the next source is reviewed in the same way.
class ModelReview {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    double tolerance = 4;  ///< Allowed distance from a witness's model, in spreads.
    /// With only one witness, a model is also sound if its distance from the witness's model is at
    /// most this share of that model's norm.
    double share_of_norm = 0.5;
    /// The largest norm of a sound model, as a multiple of the median norm of the witnesses' models
    /// or, without witnesses, of the norm of our own model. 0 means no limit.
    double norm_cap = 10;
    std::size_t asked = 4;   ///< Number of witnesses asked in a round.
    std::size_t needed = 3;  ///< Number of answers that suffice. Later answers are ignored.
    /// With fewer witnesses than this, a model is sound if its norm is within the cap.
    std::size_t quorum = 1;
    /// True if all sound models are equal bit for bit. Then one witness with an equal sketch is
    /// enough, and the model is refused only if no witness has an equal sketch.
    bool compares_bits = false;
    /// True if any model counts as sound when two or more witnesses all have equal models and none
    /// of them reports a distance. Such witnesses may have only just begun.
    bool believes_fresh_witnesses = true;
    /// Pause before unanswered requests are sent again.
    Duration again_after = std::chrono::milliseconds(500);
    /// After this time, the answers received so far decide. If there are none, more witnesses are
    /// asked.
    Duration patience = std::chrono::seconds(2);
    /// Number of rounds without any answer after which the model is refused.
    std::size_t rounds = 5;
  };

  explicit ModelReview(const Options& options) : options_(options) {}

  /// Begins to review `model` under the transfer id `id`. `our_norm` is the norm of our present
  /// model, empty if it is unknown. `seed` must be random and unknown to all other peers. The
  /// review waits for witnesses until `meets_until`.
  void begin(Time now, const TransferId& id, std::span<const float> model,
             std::optional<double> our_norm, std::uint64_t seed, Time meets_until);
  /// Adds the peers in `witnesses` that are new to the review, and asks as many as the round
  /// allows. None of them may be the source.
  void meet(const std::vector<PeerId>& witnesses, Effects& out);
  /// Drops the review because the model is no longer wanted.
  void stop() { review_.reset(); }

  /// Handles SketchReply and Refuse about the review, and ignores all other messages.
  void receive(PeerId from, const Message& message);
  void peer_gone(PeerId peer);
  void tick(Time now, Effects& out);
  Time deadline() const;

  bool is_under_way() const { return review_.has_value(); }
  struct Verdict {
    /// The reason why the model is not sound. Reason::none if it is sound.
    Reason problem = Reason::none;
    std::optional<std::uint64_t> step;  ///< The largest step of a witness; empty if none answered.
    /// True if the model's norm is so large that the source is to blame: it exceeds the cap for
    /// `needed` witnesses, or for our own model. Fewer witnesses may have lied about their norms.
    bool blames_source = false;
  };
  /// Returns the verdict once there is one, and ends the review.
  std::optional<Verdict> take(Time now);

  /// Number of entries kept about witnesses.
  std::size_t held() const {
    if (!review_) return 0;
    return review_->witnesses.size() + review_->unasked.size() + review_->not_ready.size() +
           review_->met.size();
  }
  /// The largest value of held() for a review that has met this many witnesses. Each witness counts
  /// once as met, and at most once as asked, unasked or not ready.
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
    /// The witnesses that were asked, without those that turned out unable to answer.
    std::vector<Witness> witnesses;
    std::vector<PeerId> unasked;    ///< Witnesses not asked yet. The first is asked next.
    std::set<PeerId> met;           ///< All peers that were witnesses at any time.
    std::vector<PeerId> not_ready;  ///< The witnesses that had no model yet when we asked them.
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
