// A job's part in mixing with neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "consensus/mixing/mixer.hpp"

namespace gv {

/// A replica's place among the others in a generation.
struct MixPlace {
  std::size_t rank = 0;
  std::vector<PeerId> order;  ///< Peers by rank.
  std::uint64_t key = 0;      ///< Key of the generation.
  std::uint64_t step = 0;     ///< Step at which all peers in it begin.
};

/// Messages of a round. The worker writes them before it says that they are ready.
struct MixOutbox {
  std::vector<MixMessage> messages;
  bool sound = true;  ///< All values are finite; otherwise there are no messages.
};

/// Done in the order of the fields. Where a rule sends first, a round may come as two jobs, so that
/// its messages leave before its steps are made: the first without steps, the second with them and
/// without an outbox.
struct MixJob {
  std::vector<MixMessage>
      left_over;        ///< Messages of the generation before `place` that are no longer mixed.
  bool unsent = false;  ///< Our last messages in it went to no peer.
  bool forget = false;  ///< The model was replaced by another peer's.
  std::optional<MixRule> rule;  ///< Switch to this rule; keep nothing of the last.
  std::optional<MixPlace> place;
  std::optional<std::uint64_t> ends;  ///< Mix this round; empty: none.
  std::vector<MixMessage> arrived;    ///< Messages to mix.
  /// Begin this round: make the job's steps and its messages.
  std::optional<std::uint64_t> begins;
  bool rests = false;                  ///< Count the steps without making them.
  std::shared_ptr<MixOutbox> outbox;   ///< Where messages go; null: they are made already.
  std::size_t refused = 0;             ///< Result: arrived messages that were of no use.
  std::vector<std::size_t> held_back;  ///< Result: ranks whose messages the guard cut or left out.
};

/// Does such jobs on a replica's live parameters. Pure.
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
