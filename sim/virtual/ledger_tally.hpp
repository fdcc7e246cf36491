// How often each step of a virtual run's leased data was trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Counts the steps of all peers, including those whose models are lost. Stays empty if no peer
/// takes chunks.
class LedgerTally : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;

  /// Samples of all passes over the data; 0 if no peer takes chunks.
  std::uint64_t samples() const { return steps_ * batch_; }
  /// Samples that were trained at least once.
  std::uint64_t trained() const;
  /// Trainings beyond the first of each sample.
  std::uint64_t again() const;
  /// These three figures on one line, with the samples that were never trained.
  std::string text() const;

 private:
  std::uint64_t steps_ = 0;  ///< Steps of all passes.
  std::uint64_t batch_ = 0;
  std::vector<std::uint32_t> times_;  ///< How often each step was trained.
};

}  // namespace gv
