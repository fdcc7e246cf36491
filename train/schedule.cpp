// Schedules of the learning rate, with warm-up.
#include "train/schedule.hpp"

#include <algorithm>

#include "base/portable_math.hpp"

namespace gv {

double learning_rate(const ScheduleSpec& spec, std::size_t batch, std::uint64_t step,
                     std::uint64_t steps_total) {
  return learning_rate_at(spec, batch, step, static_cast<double>(step), steps_total);
}

double learning_rate_at(const ScheduleSpec& spec, std::size_t batch, std::uint64_t step,
                        double position, std::uint64_t steps_total) {
  double rate = spec.learning_rate;
  if (spec.reference_batch > 0) {
    rate *= static_cast<double>(batch) / static_cast<double>(spec.reference_batch);
  }
  if (step < spec.warmup_steps) {
    rate = rate * static_cast<double>(step + 1) / static_cast<double>(spec.warmup_steps);
  }
  switch (spec.kind) {
    case ScheduleKind::constant:
      return rate;
    case ScheduleKind::step:
      for (const std::size_t at : spec.step_at) {
        if (position >= static_cast<double>(at)) rate *= spec.step_factor;
      }
      return rate;
    case ScheduleKind::growing_batch:
      for (std::size_t i = spec.batch_growths; i < spec.step_at.size(); ++i) {
        if (position < static_cast<double>(spec.step_at[i])) break;
        rate /= static_cast<double>(spec.batch_factor);
      }
      return rate;
    case ScheduleKind::cosine: {
      // The last step is steps_total - 1. The span is at least 1, even if no steps are left after
      // warm-up.
      const std::uint64_t span =
          steps_total > spec.warmup_steps + 1 ? steps_total - 1 - spec.warmup_steps : 1;
      const double progress = std::clamp(
          (position - static_cast<double>(spec.warmup_steps)) / static_cast<double>(span), 0.0,
          1.0);
      const double fall = (1 + cosine_of_half_turns(progress)) / 2;
      return rate * (spec.final_fraction + (1 - spec.final_fraction) * fall);
    }
  }
  return rate;
}

}  // namespace gv
