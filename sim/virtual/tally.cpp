// Adds up the facts and jobs of a virtual run.
#include "sim/virtual/tally.hpp"

#include <fmt/format.h>

#include <cmath>

namespace gv {

void Tally::on_effects(const Simulator&, PeerNumber, const NodeEffects& effects) {
  for (const Fact& fact : effects.facts) {
    counts_.add(fact);
    const auto* committed = std::get_if<ExchangeCommitted>(&fact);
    if (committed == nullptr) {
      const FactText text = describe(fact);
      if (text.reason == Reason::none) continue;
      ++by_reason_[fmt::format("{} {}", text.info.name, to_string(text.reason))];
    } else {
      steps_apart_ += std::abs(committed->steps_apart);
      seconds_ += committed->seconds;
    }
  }
}

void Tally::on_job_done(const Simulator&, PeerNumber peer, const JobDone& done) {
  const auto* applied = first_of<task::ApplyUpdate>(done.job.tasks);
  const auto* loaded = first_of<task::LoadState>(done.job.tasks);
  const bool is_common_end = (applied != nullptr && applied->becomes_model_at) ||
                             (loaded != nullptr && loaded->model_only);
  if (is_common_end) return;
  steps_ += done.steps_run;
  step_of_[peer] = done.step;
}

void Tally::on_fault_event(const Simulator&, const FaultEvent& fault_event) {
  if (fault_event.begins) ++injected_[std::string(to_string(fault_event.rule.kind))];
}

double Tally::staleness() const {
  const auto committed = static_cast<double>(count<ExchangeCommitted>());
  return committed > 0 ? steps_apart_ / committed : 0;
}

double Tally::exchange_seconds() const {
  const auto committed = static_cast<double>(count<ExchangeCommitted>());
  return committed > 0 ? seconds_ / committed : 0;
}

}  // namespace gv
