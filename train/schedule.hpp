// The learning rate as a function of the step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/spec.hpp"

namespace gv {

/// The learning rate of step `step` (from 0) of `steps_total`. The peak is learning_rate, times
/// batch / reference_batch if the linear scaling rule (Goyal 2017) is on. Warm-up rises as (step +
/// 1) / warmup_steps. The cosine (Loshchilov 2017) falls from the end of warm-up to final_fraction
/// of the peak at the last step. If the batch grows instead (Smith 2018), the rate falls only at
/// those steps at which the batch does not grow.
double learning_rate(const ScheduleSpec& spec, std::size_t batch, std::uint64_t step,
                     std::uint64_t steps_total);

/// The same, but after warm-up the schedule is at `position`, also counted in steps of
/// `steps_total`: if the swarm's progress decides, it differs from the peer's own step.
double learning_rate_at(const ScheduleSpec& spec, std::size_t batch, std::uint64_t step,
                        double position, std::uint64_t steps_total);

}  // namespace gv
