// Decides when a peer's next exchange is due.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/rng.hpp"

namespace gv {

enum class TriggerKind : std::uint8_t {
  steps,    ///< Every `period` steps, so that all peers number their rounds alike.
  poisson,  ///< After a random number of steps with mean `period`.
  idle,     ///< Every half `period`, unless an exchange is under way.
  spread,   ///< As often as needed to keep a desired distance between models (Kong et al. 2021).
};

inline constexpr std::array trigger_kinds = {TriggerKind::steps, TriggerKind::poisson,
                                             TriggerKind::idle, TriggerKind::spread};

/// The trigger's name in configs, for example "poisson".
std::string_view to_string(TriggerKind kind);

struct TriggerOptions {
  TriggerKind kind = TriggerKind::steps;
  /// Steps between exchanges; at least 1. For `spread`, the first interval.
  std::uint64_t period = 16;
  /// For `spread`: the desired distance between the two models in an exchange; above 0.
  double spread = 0;
  /// Only for `steps`: counts periods from a random step instead of from 0. Meant for peers that
  /// may offer an exchange to any other peer. Without this option, peers of equal pace would all
  /// offer at the same moment, and find each other busy every time.
  bool staggered = false;
};

/// Decides when an exchange is due by counting local steps, so it follows the peer's own pace.
/// Pure.
///
/// `spread` adapts the interval between exchanges. If an exchange measures the distance d, and the
/// desired distance is s, the interval is multiplied by s / d, limited to [1/2, 2]. The interval
/// stays between 1 step and 64 periods. Models that drift apart at random have a distance that
/// grows like sqrt(interval), so the interval settles.
class ExchangeTrigger {
 public:
  ExchangeTrigger(const TriggerOptions& options, Rng rng);

  /// Starts at `step`. The next exchange is due after that step.
  void begin_at(std::uint64_t step);

  /// The step at which the next exchange is due.
  std::uint64_t next() const { return next_; }

  /// Returns true if an exchange is due at `step`, and then plans the next one. `busy` means that
  /// an exchange is under way.
  bool fires(std::uint64_t step, bool busy);

  /// Sets the period from the next exchange on; `period` is at least 1.
  void set_period(std::uint64_t period);

  /// Call with the distance that an exchange has measured between its two models.
  void learn(double distance);

 private:
  void plan(std::uint64_t step);

  TriggerOptions options_;
  Rng rng_;
  double interval_;  ///< The current interval in steps; only `spread` changes it.
  /// Our periods begin this many steps before multiples of a period; less than one period.
  std::uint64_t offset_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace gv
