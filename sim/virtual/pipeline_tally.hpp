// How busy the peers of a virtual pipeline are, and how long its runs take.
#pragma once

#include <cstdint>
#include <map>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Measures from the end of the first run, when all peers have begun to work.
class PipelineTally : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;

  /// Number of runs that at least one peer has finished. A run that is repeated after a rollback
  /// counts once.
  std::uint64_t runs() const { return newest_; }
  /// Mean seconds from the end of one run to the end of the next; 0 before the end of the second
  /// run.
  double seconds_each() const;
  /// The mean fraction of the measured time in which a peer was idle, over the peers that have
  /// computed.
  double bubble() const;

 private:
  std::uint64_t newest_ = 0;
  Time first_{};  ///< End of the first run.
  Time last_{};   ///< End of the newest run.
  std::map<PeerNumber, double> busy_s_;
  std::map<PeerNumber, double> busy_by_last_s_;  ///< Busy time up to the end of the newest run.
};

/// The bubble (mean idle fraction) of a schedule over one chain, if stages take their planned times
/// and links take no time.
double free_bubble(const PipelineOptions& options, std::size_t micro_batches);

}  // namespace gv
