// The common end of a swarm's budget: all peers stop together and become the mean of their models.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "peer/modes/allreduce_options.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/mode_report.hpp"
#include "peer/modes/swarm_work.hpp"

namespace gv {

struct FinaleOptions {
  SwarmWorkOptions work;
  AllReduceOptions mean;  ///< How the mean is computed: `averages_models` is set.
};

/// Follows the swarm's budget, and ends it. Once the budget is used up, a peer holds still until
/// all live peers do, or for ten seconds. Then a collective of mode `allreduce` computes the mean
/// of their models, so all peers end with the same bits, even if some die meanwhile. A peer that
/// was late or joins later downloads the mean; while a known one is missing, the others stay for it
/// as long as they linger. A mode owns one and gives it all messages, blocks and jobs while mean()
/// is not null. Pure.
class Finale {
 public:
  Finale(PeerId self, std::uint64_t session, const CourseOptions& course, FinaleOptions options,
         const Signer& signer, const Rng& draws);

  /// False if each peer has a budget of its own: then nothing below is called.
  bool is_on() const { return work_.is_on(); }
  SwarmWork& work() { return work_; }
  const SwarmWork& work() const { return work_; }
  /// The step of the common mean: above the number of steps that all peers make together.
  std::uint64_t last_step() const;

  /// True if training has to end: the budget is used up, or more than a third of the live
  /// peers say so.
  bool is_due(Time now, const Membership& members);
  /// True if more than a third of the live peers say that training has ended.
  bool has_ended_for_a_third(const Membership& members) const;
  /// True if more than a third of the live peers say that they have the mean already.
  bool is_done_elsewhere(const Membership& members) const;
  /// We begin no step and no exchange from now on. `step` is that of our model, nullopt if it is
  /// only the first one, which must not enter the mean.
  void hold_still(std::optional<std::uint64_t> step);
  bool is_ending() const { return is_ending_; }
  /// No job of ours and no exchange is under way any more.
  void become_still(Time now) { still_since_ = now; }
  /// True if the mean may begin, as far as the other peers are concerned.
  bool are_others_ready(Time now, const Membership& members);
  /// Begins the mean, after become_still().
  void begin(Time now);

  /// Computes the mean; null before begin().
  Mode* mean() { return mean_.get(); }
  const Mode* mean() const { return mean_.get(); }
  /// When other peers are waited for no longer.
  Time deadline() const;

  void add_to(ModeReport& report) const;

 private:
  PeerId self_;
  std::uint64_t session_;
  CourseOptions course_;
  AllReduceOptions options_;
  const Signer* signer_;
  Rng draws_;
  SwarmWork work_;
  std::optional<Time> heard_;  ///< When we last added up what others report.
  bool is_ending_ = false;
  std::optional<Time> still_since_;
  bool has_waited_ = false;            ///< Long enough for peers that train on.
  std::optional<std::uint64_t> step_;  ///< As in hold_still().
  std::unique_ptr<Mode> mean_;
};

}  // namespace gv
