// The learning rate as a function of the step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/spec.hpp"

namespace gv {

/// The learning rate of step `step` (from 0) of `steps_total`. The peak is spec.learning_rate,
/// times batch / reference_batch if the linear scaling rule (Goyal 2017) is on. Warm-up rises as
/// (step + 1) / warmup_steps. The cosine (Loshchilov 2017) falls from the end of warm-up to
/// final_fraction of the peak at the last step. With growing_batch (Smith 2018), the batch grows at
/// the first `batch_growths` steps of `step_at`, and the rate falls only at the other steps of
/// `step_at`.
double learning_rate(const ScheduleSpec& spec, std::size_t batch, std::uint64_t step,
                     std::uint64_t steps_total);

/// Like learning_rate(), but the rate falls by `position` (0 to `steps_total`) in place of `step`.
/// The two differ if the schedule follows the swarm's progress. Warm-up counts our own steps. A
/// slow peer may still be warming up while the swarm's rate falls; both factors then apply.
double learning_rate_at(const ScheduleSpec& spec, std::size_t batch, std::uint64_t step,
                        double position, std::uint64_t steps_total);

}  // namespace gv
