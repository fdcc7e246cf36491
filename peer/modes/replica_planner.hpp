// Plans generations of peers that each have a whole model: order, algorithm and shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "consensus/allreduce/reduce_choice.hpp"
#include "consensus/generation/planner.hpp"

namespace gv {

/// Every peer takes part with a whole model, or downloads the newest one from a peer that has it.
class ReplicaPlanner final : public GenerationPlanner {
 public:
  struct Options {
    std::uint32_t batch = 1;                   ///< Samples of an operation for each peer.
    std::uint32_t batch_max = 1;               ///< The most samples that one peer can compute.
    std::uint32_t batch_min = 1;               ///< The fewest that a plan of ours gives to one.
    std::uint64_t growth_max = 1;              ///< The factor by which both grow at most.
    std::size_t elements = 0;                  ///< Size of the vectors that are summed.
    std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the algorithm that is predicted to be the
                                               ///< fastest.
    /// Sum by `direct`, in which a block comes from a single peer or is the mean of all.
    /// Exceptions: two peers both report that they cannot reach each other, or there are more than
    /// `link_reports_max` peers.
    bool names_senders = false;
    /// If not 0, peers have their own models: a peer fewer than this many steps behind the newest
    /// version continues from its own.
    std::uint64_t own_models_within = 0;
    /// Returns why a switch to these settings is impossible; empty if it is possible. Pure. Null:
    /// the mode cannot switch.
    std::function<std::string(const SettingsRevision&)> revision_problem;
  };

  explicit ReplicaPlanner(const Options& options) : options_(options) {}

  /// Recent seconds of an operation; 0 = not known yet.
  void set_operation_seconds(double seconds) { operation_seconds_ = seconds; }
  /// Versions from this step on are final: the run is over for the peers that have them. A plan
  /// takes the newest final version that more than a third of all peers have, if there is one. If
  /// that many have ours, we replace it only by a newer one that as many have; otherwise also by
  /// any newer one. So no hostile peer replaces the model of others by one that only it has, and
  /// peers that ended in small groups find one model. A peer whose run is not over takes an older
  /// version than its own only if that many have it.
  void set_final_step(std::uint64_t step) { final_step_ = step; }
  /// At least this many peers, including us, have our version.
  void note_sharers(const ModelVersion& own, std::size_t peers);
  /// Assumptions about the site of all peers.
  void set_site(const ReduceSite& site) { site_ = site; }

  std::optional<Generation> plan(const Answers& answers, const Generation* last) const override;
  std::uint64_t samples_max() const override;
  std::string problem(const Generation& generation) const override;
  std::string problem(const Answer& answer) const override;
  std::string problem(const SettingsRevision& revision) const override;
  bool can_begin(const Generation& start, PeerId self, const Answer& own) const override;

 private:
  ReduceChoice choice(const Answers& answers, const Generation* last) const;
  std::vector<std::uint32_t> shares(const std::vector<PeerId>& order, const Answers& answers,
                                    const Generation* last) const;
  ModelVersion version_of(const Answers& answers) const;
  bool is_shared_by_many(const ModelVersion& version) const;
  bool may_replace(const ModelVersion& own, const ModelVersion& other, bool is_of_many) const;
  bool is_near(const ModelVersion& version, const ModelVersion& newest) const;

  Options options_;
  double operation_seconds_ = 0;
  std::uint64_t final_step_ = std::numeric_limits<std::uint64_t>::max();
  ModelVersion shared_;      ///< The version of note_sharers().
  std::size_t sharers_ = 0;  ///< Number of peers that have this version.
  ReduceSite site_;
};

}  // namespace gv
