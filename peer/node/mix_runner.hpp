// Runs rounds of mixing as jobs on a replica.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "consensus/mixing/mixer.hpp"
#include "peer/node/mix_job.hpp"
#include "peer/node/mix_outbox.hpp"

namespace gv {

/// Does mix jobs on a replica's live parameters. Pure.
class MixRunner {
 public:
  /// Its access to the replica. The parameters must not move.
  struct Host {
    std::span<float> parameters;
    std::function<void(std::uint64_t step)> go_on_at;
    /// Makes the job's steps and returns the learning rate of the last. Each gradient first passes
    /// through `direct`, if there is one.
    std::function<double(const std::function<void(std::span<float>)>& direct)> take_steps;
  };

  /// `samples`: samples of the replica's shard.
  MixRunner(const MixRule& rule, std::size_t elements, std::uint64_t seed, double samples)
      : seed_(seed), samples_(samples), mixer_(rule, elements, seed, samples) {}

  /// Does the fields up to `place`.
  void begin(const MixJob& job, const Host& host);
  /// Does the rest. `steps`: the job's; `ready` is called once messages are in the outbox.
  void run(MixJob& job, std::uint64_t step, std::uint64_t steps, const Host& host,
           const std::function<void()>& ready);

  const Mixer<float>& mixer() const { return mixer_; }
  Mixer<float>& mixer() { return mixer_; }

 private:
  std::uint64_t seed_;
  double samples_;
  Mixer<float> mixer_;
};

}  // namespace gv
