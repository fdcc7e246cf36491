// Runs rounds of mixing as jobs.
#include "peer/node/mix_runner.hpp"

namespace gv {

void MixRunner::begin(const MixJob& job, const Host& host) {
  if (job.place) mixer_.close_generation(job.left_over, job.unsent);
  if (job.rule) mixer_ = Mixer<float>(*job.rule, host.parameters.size(), seed_, samples_);
  if (job.forget) mixer_.forget();
  if (!job.place) return;
  host.go_on_at(job.place->step);
  mixer_.begin_generation(job.place->rank, job.place->order, job.place->key, host.parameters);
}

void MixRunner::run(MixJob& job, std::uint64_t step, std::uint64_t steps, const Host& host,
                    const std::function<void()>& ready) {
  const std::span<float> x = host.parameters;
  if (job.ends) {
    job.refused = mixer_.mix(*job.ends, x, job.arrived);
    job.held_back = mixer_.held_back();
    job.arrived.clear();
  }
  if (!job.begins) return;
  const std::uint64_t round = *job.begins;
  const auto send = [&] {
    job.outbox->messages = mixer_.messages(round, x);
    job.outbox->sound = mixer_.is_sound();
    if (ready) ready();
  };
  const bool sends_first = mixer_.rule().order == MixOrder::combine_then_adapt;
  const bool opened = !job.outbox;
  if (!opened) mixer_.begin_round(round, x);
  if (!opened && sends_first) send();
  if (!opened && sends_first && steps == 0) return;
  double learning_rate = 0;
  if (job.rests) {
    host.go_on_at(step + steps);
  } else if (mixer_.directs()) {
    learning_rate = host.take_steps([this](std::span<float> gradient) { mixer_.direct(gradient); });
  } else {
    learning_rate = host.take_steps({});
  }
  mixer_.end_steps(x, learning_rate, steps);
  if (!sends_first) send();
}

}  // namespace gv
