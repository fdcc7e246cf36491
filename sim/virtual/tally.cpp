// Sums over events and jobs.
#include "sim/virtual/tally.hpp"

#include <cmath>

namespace gv {

void Tally::on_effects(const Simulator&, PeerNumber, const NodeEffects& effects) {
  for (const Event& event : effects.events) {
    ++events_[event.name];
    if (event.reason != Reason::none) {
      ++by_reason_[event.name + " " + std::string(to_string(event.reason))];
    }
    if (event.name != "exchange_committed") continue;
    ++committed_;
    for (const auto& [name, value] : event.numbers) {
      if (name == "steps_apart") steps_apart_ += std::abs(value);
      if (name == "seconds") seconds_ += value;
    }
  }
}

void Tally::on_job_done(const Simulator&, PeerNumber, const JobDone& done) {
  steps_ += done.steps_run;
}

void Tally::on_fault_event(const Simulator&, const FaultEvent& fault_event) {
  if (fault_event.begins) ++injected_[std::string(to_string(fault_event.rule.kind))];
}

std::uint64_t Tally::events(const std::string& name) const {
  const auto found = events_.find(name);
  return found == events_.end() ? 0 : found->second;
}

double Tally::staleness() const {
  return committed_ > 0 ? steps_apart_ / static_cast<double>(committed_) : 0;
}

double Tally::exchange_seconds() const {
  return committed_ > 0 ? seconds_ / static_cast<double>(committed_) : 0;
}

}  // namespace gv
