// Counts how many models honest peers accept from each other and from hostile peers.
#pragma once

#include <cstdint>
#include <map>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Numbers of models that honest peers received in rounds.
struct Belief {
  std::uint64_t heard = 0;
  std::uint64_t held_back = 0;  ///< Models that the guard clipped or left out.
};

/// Counts over all honest peers since the start.
class HostileTally : public Watcher {
 public:
  explicit HostileTally(std::map<std::size_t, HostileRule> hostile)
      : hostile_(std::move(hostile)) {}

  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override;
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) override;

  const Belief& of_hostile() const { return of_hostile_; }
  const Belief& of_honest() const { return of_honest_; }
  /// Number of messages that could not be read, or contained NaN or infinity.
  std::uint64_t refused() const { return refused_; }

 private:
  Belief& belief(const Simulator& world, PeerNumber hearer, std::size_t rank);

  std::map<std::size_t, HostileRule> hostile_;
  Belief of_hostile_;
  Belief of_honest_;
  std::uint64_t refused_ = 0;
};

}  // namespace gv
