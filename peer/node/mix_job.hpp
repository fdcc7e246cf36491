// What a job asks of the rule by which a replica mixes with its neighbours.
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

/// A replica's place among others from here on.
struct MixPlace {
  std::size_t rank = 0;
  std::vector<PeerId> order;  ///< Who has which rank.
  std::uint64_t key = 0;      ///< Of the generation.
  std::uint64_t step = 0;     ///< Where everybody in it begins.
};

/// A message of another, whole.
struct MixParcel {
  std::size_t from = 0;  ///< Rank.
  std::uint64_t round = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes;
};

/// Messages of a round. Whoever computes writes them before it says that they are ready.
struct MixOutbox {
  std::vector<MixMessage> messages;
  bool sound = true;  ///< Of finite values; else there are none.
};

/// As the mixer takes them; they have to outlive what is returned.
std::vector<MixArrival> arrivals(const std::vector<MixParcel>& parcels);

/// In the order of the fields. Where a rule sends first, a round may also come as two jobs, so that
/// its messages can leave before its steps are made: the first without steps, the second with them
/// and without an outbox.
struct MixJob {
  std::vector<MixParcel>
      left_over;                ///< Of the generation before `place`: nobody mixes these any more.
  bool unsent = false;          ///< Our own last messages in it were sent to nobody.
  bool forget = false;          ///< The model is another's now.
  std::optional<MixRule> rule;  ///< Go by this one, with nothing kept of the last.
  std::optional<MixPlace> place;
  std::optional<std::uint64_t> ends;  ///< Mix in this round,
  std::vector<MixParcel> arrived;     ///< with these.
  /// Begin this one: the job's steps, and its messages.
  std::optional<std::uint64_t> begins;
  bool rests = false;                 ///< The steps are counted and not made.
  std::shared_ptr<MixOutbox> outbox;  ///< Null: its messages are made already.
  std::size_t refused = 0;  ///< Comes back: of those that arrived, how many were of no use,
  std::vector<std::size_t> held_back;  ///< and whose the guard took in part or not at all.
};

/// Carries such jobs out on a replica's live parameters. Pure.
class MixRunner {
 public:
  /// What it needs of the replica. The parameters stay where they are.
  struct Host {
    std::span<float> parameters;
    std::function<void(std::uint64_t step)> go_on_at;
    /// Makes the job's steps; each gradient passes through the function first, if there is one.
    /// Returns the learning rate of the last.
    std::function<double(const std::function<void(std::span<float>)>& direct)> take_steps;
  };

  /// `samples` are those of its shard.
  MixRunner(const MixRule& rule, std::size_t elements, std::uint64_t seed, double samples)
      : seed_(seed), samples_(samples), mixer_(rule, elements, seed, samples) {}

  /// The fields up to the place.
  void begin(const MixJob& job, const Host& host);
  /// The rest. `steps` are the job's; `ready` is called once messages are in the outbox.
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
