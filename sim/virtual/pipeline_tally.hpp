// How busy the peers of a virtual pipeline are, and the duration of its runs.
#pragma once

#include <cstdint>
#include <map>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Counts from the end of the first run, when all peers are in step.
class PipelineTally : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;

  /// Runs finished by at least one peer. A run repeated after a rollback counts once.
  std::uint64_t runs() const { return newest_; }
  /// Mean seconds of a run; 0 before there are two.
  double seconds_each() const;
  /// The mean fraction of that time in which a peer was idle, over the peers that ever computed.
  double bubble() const;

 private:
  std::uint64_t newest_ = 0;
  Time first_{};  ///< End of the first run.
  Time last_{};   ///< End of the newest run.
  std::map<PeerNumber, double> busy_s_;
  std::map<PeerNumber, double> busy_by_last_s_;  ///< Busy time up to the end of the newest run.
};

/// The bubble of a schedule over one chain with equal stages and free links.
double free_bubble(const PipelineOptions& options, std::size_t micro_batches);

}  // namespace gv
