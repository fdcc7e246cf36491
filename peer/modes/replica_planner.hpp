// Plans generations in which each peer has a complete model: order, algorithm and shares.
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

/// The largest number of peers that may sum directly. Direct sums need a lane between every two
/// peers. Among 30 peers whose links lost a twentieth of all messages, some lane was always
/// missing.
inline constexpr std::size_t direct_max = 16;

/// Makes plans for peers that each have a complete model, or that first download the newest one.
class ReplicaPlanner final : public GenerationPlanner {
 public:
  struct Options {
    std::uint32_t batch = 1;       ///< Samples of each peer in an operation.
    std::uint32_t batch_max = 1;   ///< The largest number of samples that one peer can compute.
    std::uint32_t batch_min = 1;   ///< The smallest share of samples that our plans give a peer.
    std::uint64_t growth_max = 1;  ///< The largest factor by which batches can grow.
    std::size_t elements = 0;      ///< Number of floats in the vectors that are summed.
    /// If empty, plans use the algorithm with the shortest predicted time.
    std::optional<ReduceAlgorithm> algorithm;
    /// True if sums use `direct`, in which each block comes from a single peer or is the mean of
    /// all. There are two exceptions: when two peers both report that they cannot reach each other,
    /// and when there are more than `direct_max` peers.
    bool names_senders = false;
    /// If not 0, each peer has its own model. A peer that is fewer than this many steps behind the
    /// newest version continues from its own model.
    std::uint64_t own_models_within = 0;
    /// Returns why peers cannot switch to these settings, or an empty text if they can. Pure. If
    /// this function is null, the mode cannot switch.
    std::function<std::string(const SettingsRevision&)> revision_problem;
  };

  explicit ReplicaPlanner(const Options& options) : options_(options) {}

  /// Sets the recent duration of an operation in seconds; 0 if it is not known yet.
  void set_operation_seconds(double seconds) { operation_seconds_ = seconds; }
  /// Sets the step from which versions are final, because the run is over for peers that have them.
  /// A plan takes the newest final version that more than a third of all peers have, if there is
  /// one. If more than a third have our version, it may be replaced only by a newer version that
  /// more than a third have as well; otherwise any newer version may replace it. So no hostile peer
  /// can replace the others' model by a model that no other peer has, and peers that ended in small
  /// groups agree on one model. A peer whose run is not over accepts a version older than its own
  /// only if more than a third have that version.
  void set_final_step(std::uint64_t step) { final_step_ = step; }
  /// Notes that at least `peers` peers, including ourselves, have our version.
  void note_sharers(const ModelVersion& own, std::size_t peers);
  /// Sets the hosts and links that plans assume.
  void set_site(const ReduceSite& site) { site_ = site; }

  std::optional<Generation> plan(const Answers& answers, const Generation* last) const override;
  std::uint64_t samples_max() const override;
  /// The samples of the version with which this process begins at `step`. `counted` is the number
  /// in its checkpoint, which other peers must be able to believe; 0: not known.
  std::uint64_t samples_at(std::uint64_t step, std::uint64_t counted) const;
  std::string problem(const Generation& generation) const override;
  std::string problem(const Answer& answer) const override;
  std::string problem(const SettingsRevision& revision) const override;
  std::string problem_of_sources(const Generation& start, PeerId self,
                                 const Answer& own) const override;
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
  ModelVersion shared_;      ///< The version last passed to note_sharers().
  std::size_t sharers_ = 0;  ///< The number of peers known to have `shared_`.
  ReduceSite site_;
};

}  // namespace gv
