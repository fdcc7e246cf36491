// When a peer's next exchange is due.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/rng.hpp"

namespace gv {

enum class TriggerKind : std::uint8_t {
  steps,    ///< Every so many steps: all peers count the same rounds.
  poisson,  ///< After a number of steps that is drawn, so many in the mean.
  idle,     ///< With the next half of so many steps, if none is under way then.
  spread,   ///< So often that models stay as far apart as is wanted (Kong et al. 2021).
};

inline constexpr std::array trigger_kinds = {TriggerKind::steps, TriggerKind::poisson,
                                             TriggerKind::idle, TriggerKind::spread};

/// The name people write, as "poisson".
std::string_view to_string(TriggerKind kind);

struct TriggerOptions {
  TriggerKind kind = TriggerKind::steps;
  std::uint64_t period = 16;  ///< Steps; at least 1. `spread` begins with it.
  double spread = 0;          ///< Distance that two models that meet should have; above 0.
};

/// Counts in local steps, so that it goes with a peer's pace. Pure.
///
/// `spread` goes by what exchanges measure, d for a wanted s: the interval is multiplied by s / d,
/// by no more than 2 and no less than 1/2 at once, and stays between 1 step and 64 periods. Models
/// that step apart from an average at random are sqrt(interval) times as far apart, so it settles.
class ExchangeTrigger {
 public:
  ExchangeTrigger(const TriggerOptions& options, Rng rng);

  /// The model stands at `step`: the next exchange is due later.
  void begin_at(std::uint64_t step);

  /// The step at which the next one is due.
  std::uint64_t next() const { return next_; }

  /// True if one is due at `step`, and then the next one is planned. `busy`: one is under way.
  bool fires(std::uint64_t step, bool busy);

  /// The models of an exchange were so far apart.
  void learn(double distance);

 private:
  void plan(std::uint64_t step);

  TriggerOptions options_;
  Rng rng_;
  double interval_;  ///< Of `spread`.
  std::uint64_t next_ = 0;
};

}  // namespace gv
