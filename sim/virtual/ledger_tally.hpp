// How often peers trained on each step of a virtual run's leased data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Counts the steps of all peers, including steps whose models were lost. Stays empty if no peer
/// takes chunks.
class LedgerTally : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;

  /// Number of samples in all passes over the data; 0 if no peer takes chunks.
  std::uint64_t samples() const { return steps_ * batch_; }
  /// Number of samples that were trained on at least once.
  std::uint64_t trained() const;
  /// Number of times that a sample was trained on again, summed over all samples.
  std::uint64_t again() const;
  /// One line of text with the numbers of all samples, and of those trained on, trained on again,
  /// and never trained on.
  std::string text() const;

 private:
  std::uint64_t steps_ = 0;  ///< Number of steps in all passes.
  std::uint64_t batch_ = 0;
  std::vector<std::uint32_t> times_;  ///< How often each step was made.
};

}  // namespace gv
