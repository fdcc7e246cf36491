// Switches a swarm in mode `mixing` to another rule.
#include <string>
#include <utility>

#include "base/check.hpp"
#include "peer/modes/mixing.hpp"

namespace gv {

/// Adopts the settings revision of the generation, if it is new.
void MixingMode::go_by(const Generation& generation, Effects& out) {
  if (generation.revision == options_.revision) return;
  check(adopt(generation.revision).empty(), "settings are judged before a generation has them");
  switches_ = true;
  ruled_since_ = generation.version.step;
  out.tell(AlgorithmSwitched{.settings = generation.revision.settings,
                             .settings_revision = generation.revision.number,
                             .step = generation.version.step});
}

/// Adopts the rule and the period of a settings revision. If the revision cannot be read, changes
/// nothing and returns the problems.
Problems MixingMode::adopt(const SettingsRevision& revision) {
  if (!options_.read_revision) return Mode::switch_to({}, revision.settings);
  SwitchedMixing switched = options_.read_revision(revision.settings);
  if (!switched.problems.empty()) return std::move(switched.problems);
  options_.rule = std::move(switched.rule);
  options_.period = switched.period;
  options_.revision = revision;
  generations_.agreement().set_in_step(is_in_step(options_.rule));
  return {};
}

/// Proposes new settings to the swarm. After the work under way, all peers begin a generation with
/// them.
Problems MixingMode::switch_to(Time now, std::string_view settings) {
  if (!options_.read_revision) return Mode::switch_to(now, settings);
  if (course_.is_leaving() || finale_.is_ending() || course_.phase() == Phase::done) {
    return {
        {.place = "run", .reason = "training is over here", .remedy = "ask a peer that trains"}};
  }
  if (settings.size() > revision_bytes_max) {
    return {{.place = "settings",
             .reason = "longer than " + std::to_string(revision_bytes_max) + " bytes",
             .remedy = "leave out what has its default"}};
  }
  SwitchedMixing switched = options_.read_revision(settings);
  if (switched.problems.empty()) {
    generations_.agreement().set_revision(
        {generations_.agreement().revision().number + 1, std::string(settings)});
  }
  return std::move(switched.problems);
}

}  // namespace gv
