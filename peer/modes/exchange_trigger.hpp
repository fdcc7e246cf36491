// Decides when a peer's next exchange is due.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/rng.hpp"

namespace gv {

enum class TriggerKind : std::uint8_t {
  steps,    ///< Every `period` steps: all peers count the same rounds.
  poisson,  ///< After a random number of steps with mean `period`.
  idle,     ///< Every half `period`, unless an exchange is under way.
  spread,   ///< As often as needed to keep models a wanted distance apart (Kong et al. 2021).
};

inline constexpr std::array trigger_kinds = {TriggerKind::steps, TriggerKind::poisson,
                                             TriggerKind::idle, TriggerKind::spread};

/// The name in configs, for example "poisson".
std::string_view to_string(TriggerKind kind);

struct TriggerOptions {
  TriggerKind kind = TriggerKind::steps;
  std::uint64_t period = 16;  ///< Period in steps; at least 1. `spread` starts with it.
  double spread = 0;          ///< Desired distance of two models when they are exchanged; above 0.
  /// `steps`: count periods from a random step instead of 0. For peers that may offer to any other:
  /// if peers of equal pace offered at the same moment, they would always find each other busy.
  bool staggered = false;
};

/// Counts local steps, so it follows a peer's own pace. Pure.
///
/// `spread` adapts the interval to the distance d that exchanges measure, for a desired distance s:
/// it multiplies the interval by s / d, by between 1/2 and 2 each time, within 1 step and 64
/// periods. The distance of models that drift apart at random grows like sqrt(interval), so the
/// interval settles.
class ExchangeTrigger {
 public:
  ExchangeTrigger(const TriggerOptions& options, Rng rng);

  /// Begins at `step`. The next exchange is due after that step.
  void begin_at(std::uint64_t step);

  /// The step at which the next exchange is due.
  std::uint64_t next() const { return next_; }

  /// True if an exchange is due at `step`; then also plans the next one. `busy`: one is under way.
  bool fires(std::uint64_t step, bool busy);

  /// Sets the period from the next exchange on; at least 1.
  void set_period(std::uint64_t period);

  /// Notes the distance of the two models in an exchange.
  void learn(double distance);

 private:
  void plan(std::uint64_t step);

  TriggerOptions options_;
  Rng rng_;
  double interval_;           ///< Steps; changes for `spread` only.
  std::uint64_t offset_ = 0;  ///< Steps by which our periods begin early; less than one period.
  std::uint64_t next_ = 0;
};

}  // namespace gv
