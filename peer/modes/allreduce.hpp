// Mode `allreduce`: all peers step on the exact mean gradient, and survive the loss of any peer.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "consensus/generation/link_survey.hpp"
#include "consensus/generation/model_audit.hpp"
#include "peer/modes/agreed_end.hpp"
#include "peer/modes/allreduce_options.hpp"
#include "peer/modes/array_lengths.hpp"
#include "peer/modes/collective.hpp"
#include "peer/modes/generations.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/noise_scale.hpp"
#include "peer/modes/replica_planner.hpp"
#include "peer/modes/state_transfer.hpp"
#include "peer/modes/swarm_work.hpp"

namespace gv {

/// Totals since this peer started.
struct AllReduceCounts {
  std::uint64_t operations = 0;   ///< Collectives that we have finished.
  std::uint64_t generations = 0;  ///< Generations that we have entered.
  std::uint64_t losses = 0;  ///< Times that we continued after losing peers. The loss of several
                             ///< peers at once counts once.
  std::uint64_t states_sent = 0;
  std::uint64_t states_adopted = 0;
  std::uint64_t reduced_bytes = 0;  ///< Bytes sent for collectives.
};

/// Synchronous data-parallel training without a leader. A collective is one optimiser step: it sums
/// the gradients of all peers in buckets while the backward pass still runs, and every peer applies
/// the mean over all samples. With local steps, a collective covers several of them: it sums the
/// resulting changes of the common model, and every peer makes the same outer step with their mean.
/// If a peer is lost, the generation ends. The others agree on the next one and repeat the
/// collective from their unchanged gradients. A peer that lacks the others' state downloads it.
/// With a budget for the whole swarm, progress and the end follow from the agreed version, and all
/// peers end with the same model.
///
/// Without a model (AllReduceOptions::averages_arrays), a collective is one call of each peer's
/// program, and the mean replaces the program's array. A peer that lacks a mean then downloads only
/// the mean of the call under way, and a newcomer begins with the others' next call.
class AllReduceMode final : public Mode {
 public:
  /// `session` distinguishes this process from earlier ones of the same peer.
  AllReduceMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                const AllReduceOptions& options, const Signer& signer, const Rng& draws);

  void start(Time now, std::uint64_t step, bool joins_others) override;
  void receive(Time now, PeerId from, const Message& message, Membership& members,
               Effects& out) override;
  void receive_block(Time now, PeerId from, const Block& block, Effects& out) override;
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes) override {
    return operation_.place(from, id, offset, bytes);
  }
  void lane_lost(Time now, PeerId peer, Effects& out) override;
  void lane_refused(Time now, PeerId peer, Effects& out) override {
    survey_.lane_refused(peer);
    lane_lost(now, peer, out);
  }
  void peer_gone(Time now, PeerId peer, Effects& out) override;
  void refuse(Time now, PeerId peer, Effects& out) override {
    if (generations_.follow_quarantine(now, peer, out)) disturb(now, {peer}, out);
  }
  void gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) override;
  void complete(Time now, JobDone done, Membership& members, Effects& out) override;
  void tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) override;
  Time deadline() const override;
  void leave(Time now, Effects& out) override;
  void wind_down(Time now, Effects& out) override;
  bool has_wound_down() const override { return !result_ && course_.has_parted(); }

  bool is_settling() const override { return leaving_.has_value(); }
  bool is_idle() const override { return !result_ && !states_.owes_any(); }
  const Course& course() const override { return course_; }
  ModeReport report(const Membership& members) const override;
  const SwarmWork* swarm_work() const override { return work_.is_on() ? &work_ : nullptr; }
  const Generations* generations() const override { return &generations_; }
  std::uint64_t step() const override { return generations_.step(); }
  double steps_per_second() const override { return generations_.steps_per_second(); }
  bool should_busy_poll() const override { return on_one_host_ && operation_.is_waiting(); }
  std::optional<HostPlace> host_place() const override {
    if (!on_one_host_ || operation_.order().empty()) return {};
    return HostPlace{operation_.rank(), operation_.order().size()};
  }

  AllReduceCounts counts() const;
  /// The algorithm that the newest generation uses for sums.
  ReduceAlgorithm algorithm() const { return operation_.algorithm(); }

 private:
  void choose_site(const Membership& members);
  void begin_generation(Time now, const Generation& generation, Effects& out);
  void abandon();
  void disturb(Time now, const std::vector<PeerId>& blamed, Effects& out);
  bool follow_generation(Time now, Effects& out);
  void look_after_generation(Time now, Effects& out);
  void receive_own(Time now, PeerId from, const Message& message, Effects& out);
  bool is_busy() const;
  void follow_budget(Time now);
  bool is_common_end() const;
  /// True if all peers end the run with one model.
  bool ends_together() const {
    return work_.is_on() || (options_.averages_models && options_.ends_run);
  }
  bool is_untouched(Time now) const { return operation_.is_untouched() && now >= settled_at_; }

  bool is_common(const Generation& generation) const;
  StateTransfer transfer_of(std::size_t elements) const;
  void begin_operation(Time now, Effects& out);
  Time quiet_until() const;
  void finish_operations(Time now, Effects& out);
  void go_on(Time now, Effects& out);
  void next_job(Time now, std::vector<Job>& jobs, Effects& out);
  void adopt(Time now, ArrivedState state, Job& job, Effects& out);
  void audited(Time now, std::uint64_t fingerprint, Effects& out);
  void compare(Time now, PeerId from, std::uint64_t operation, std::uint64_t fingerprint,
               Effects& out);
  void leave_at_once(Time now, Effects& out);

  // These functions are used only without a model.

  void begin_calls(Time now, const Generation& generation, PeerId source, Effects& out);
  void miss_call(Time now, Effects& out);
  void adopt_mean(Time now, ArrivedState state, Effects& out);
  void follow_calls(Time now, Effects& out);
  bool has_mean_of_step() const;
  bool waits_for_others(Time now, Effects& out);
  void compare_arrays(Time now, Effects& out);

  /// The mean of the previous call, kept for peers that lack it.
  struct LastMean {
    task::ApplyUpdate sum;
    std::uint64_t step = 0;
  };
  /// The state of a peer that is about to leave and waits for others.
  struct Leaving {
    std::set<PeerId> behind;  ///< Peers that may lack the newest mean.
    Time ask_at{};
    Time until{};
  };

  PeerId self_;
  std::uint64_t session_;
  Course course_;
  SwarmWork work_;
  AgreedEnd end_;
  Generations generations_;
  ReplicaPlanner planner_;
  AllReduceOptions options_;
  Collective operation_;
  Time settled_at_{};         ///< When all peers have presumably received the previous sum.
  bool on_one_host_ = false;  ///< True if all peers of the generation are on this host.
  LinkSurvey survey_;
  Rng draws_;
  StateTransfer states_;
  ModelAudit audit_;
  /// Compares the models of the peers that have the generation's state, while other peers download
  /// it. A newcomer accepts no state about which two peers disagree.
  ModelAudit first_audit_;
  ArrayLengths lengths_;
  std::optional<std::uint64_t> moves_to_;  ///< The step to which the next job sets the replica.
  LastMean last_mean_;
  std::optional<Leaving> leaving_;
  /// Set if the arrays' lengths differ: the time by which all peers know this. Until then no sum is
  /// made, not even among the peers that remain after others have ended.
  std::optional<Time> fails_at_;
  std::uint64_t begun_in_generation_ = 0;    ///< Collectives begun in this generation.
  std::optional<task::ApplyUpdate> result_;  ///< The sum that the next job will apply.
  /// The generation key and step of the next model audit. If `result_` is set, it is applied before
  /// the audit.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> audit_due_;
  /// The audit for which the job under way computes a fingerprint.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> auditing_;
  NoiseScale noise_;
  AllReduceCounts counts_;
};

}  // namespace gv
