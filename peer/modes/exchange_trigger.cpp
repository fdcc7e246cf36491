// Plans the step at which the next exchange is due.
#include "peer/modes/exchange_trigger.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace gv {
namespace {

constexpr double factor_max = 2;
constexpr double periods_max = 64;

}  // namespace

std::string_view to_string(TriggerKind kind) {
  switch (kind) {
    case TriggerKind::steps:
      return "steps";
    case TriggerKind::poisson:
      return "poisson";
    case TriggerKind::idle:
      return "idle";
    case TriggerKind::spread:
      return "spread";
  }
  return "?";
}

ExchangeTrigger::ExchangeTrigger(const TriggerOptions& options, Rng rng)
    : options_(options), rng_(rng), interval_(static_cast<double>(options.period)) {
  check(options.period > 0, "a gossip period has at least one step");
  check(options.kind != TriggerKind::spread || options.spread > 0, "a spread to aim at");
  if (options.staggered) offset_ = rng_.below(options.period);
  plan(0);
}

void ExchangeTrigger::begin_at(std::uint64_t step) { plan(step); }

void ExchangeTrigger::plan(std::uint64_t step) {
  const std::uint64_t period = options_.period;
  switch (options_.kind) {
    case TriggerKind::steps:
      next_ = ((step + offset_) / period + 1) * period - offset_;
      break;
    case TriggerKind::poisson: {
      const double drawn = -std::log(1 - rng_.uniform()) * static_cast<double>(period);
      next_ = step + std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::lround(drawn)));
      break;
    }
    case TriggerKind::idle:
      next_ = step + std::max<std::uint64_t>(1, period / 2);
      break;
    case TriggerKind::spread:
      next_ = step + static_cast<std::uint64_t>(std::lround(interval_));
      break;
  }
}

bool ExchangeTrigger::fires(std::uint64_t step, bool busy) {
  if (step < next_) return false;
  plan(step);
  return !busy || options_.kind != TriggerKind::idle;
}

void ExchangeTrigger::set_period(std::uint64_t period) {
  check(period > 0, "a gossip period has at least one step");
  options_.period = period;
  offset_ %= period;
}

void ExchangeTrigger::learn(double distance) {
  if (options_.kind != TriggerKind::spread) return;
  const double factor = distance > 0 ? options_.spread / distance : factor_max;
  interval_ *= std::clamp(factor, 1 / factor_max, factor_max);
  interval_ = std::clamp(interval_, 1.0, periods_max * static_cast<double>(options_.period));
}

}  // namespace gv
