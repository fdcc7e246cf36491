// How busy the peers of a virtual pipeline are, and how long its runs take.
#pragma once

#include <cstdint>
#include <map>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Counts from the end of the first run on, when everybody is in step.
class PipelineTally : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;

  /// Made by somebody, those that were taken back and made again only once.
  std::uint64_t runs() const { return newest_; }
  /// Of one run, in the mean; 0 before there are two.
  double seconds_each() const;
  /// The part of that time in which the mean peer computed nothing, of those that ever computed.
  double bubble() const;

 private:
  std::uint64_t newest_ = 0;
  Time first_{};  ///< When the first run was over, and
  Time last_{};   ///< the newest.
  std::map<PeerNumber, double> busy_s_;
  std::map<PeerNumber, double> busy_by_last_s_;  ///< Up to the end of the newest.
};

/// The bubble of a schedule with equal stages and free links over one chain.
double free_bubble(const PipelineOptions& options, std::size_t micro_batches);

}  // namespace gv
