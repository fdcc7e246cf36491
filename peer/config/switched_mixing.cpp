// Reads the mixing options that a settings revision contains, as the config reader would.
#include "peer/config/switched_mixing.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "peer/config/batch_norm_problems.hpp"
#include "peer/config/buffer_problems.hpp"
#include "peer/config/cluster_problems.hpp"
#include "peer/config/config_settings.hpp"
#include "peer/config/switched_mode.hpp"

namespace gv {

SwitchedMixing switched_mixing(const Config& running, std::string_view settings, bool has_buffers) {
  SwitchedMixing switched{.rule = running.mixing.rule, .period = running.mixing.period_steps};
  const bool is_own = settings == settings_of("mixing") && running.run.mode == ModeKind::mixing;
  if (settings.empty() || is_own) return switched;
  std::string text;
  for (const Setting<Config>& setting : config_settings()) {
    const std::string path = setting.path();
    const bool is_defence = path.starts_with("mixing.") && protects(running, path);
    if (!is_defence && path != "run.peers" && path != "train.optimizer" &&
        path != "train.learning_rate") {
      continue;
    }
    // The revision sets this key, which is checked below.
    if (settings.find(path + " ") != std::string_view::npos) continue;
    text += path + " = " + setting.show(running) + "\n";
  }
  bool named = false;
  for (std::string_view rest = settings; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    named = named || line.starts_with("run.algorithm") || line.starts_with("run.mode");
    // The config reader takes these keys, and also reports renamed ones.
    if (line.starts_with("run.algorithm") || line.starts_with("run.mode") ||
        line.starts_with("mixing.") || line.starts_with("rounds.")) {
      continue;
    }
    switched.problems.push_back({.place = std::string(line),
                                 .reason = "cannot be switched while peers run",
                                 .remedy = "run.algorithm and keys of mixing can"});
  }
  if (!switched.problems.empty()) return switched;
  if (!named) text += "run.mode = \"mixing\"\n";
  ParsedConfig parsed = parse_config_text(text.append(settings), "switch");
  switched.problems = std::move(parsed.problems);
  if (switched.problems.empty() && parsed.config.run.mode != ModeKind::mixing) {
    switched.problems.push_back(
        {.place = "run.algorithm",
         .reason = "\"" + parsed.config.run.algorithm + "\" does not work in rounds",
         .remedy = "`grapevine algorithms` shows which do"});
  }
  if (switched.problems.empty() && running.data.partition.kind == PartitionKind::leased &&
      !is_in_step(parsed.config.mixing.rule)) {
    switched.problems.push_back(
        {.place = "mixing.staleness",
         .reason = "peers that mix without waiting do not know what part of leased data is theirs",
         .remedy = "take a rule that waits"});
  }
  if (switched.problems.empty()) {
    Config after = running;
    after.run.mode = ModeKind::mixing;  // The swarm may have started in another mode.
    after.mixing = parsed.config.mixing;
    switched.problems = problems_of_defences(running, after);
    if (switched.problems.empty()) {
      switched.problems = batch_norm_problems(after, after.model.layers);
      std::ranges::move(cluster_problems(after, after.model.layers),
                        std::back_inserter(switched.problems));
    }
    if (switched.problems.empty() && has_buffers) switched.problems = buffer_problems(after);
  }
  switched.rule = parsed.config.mixing.rule;
  switched.period = parsed.config.mixing.period_steps;
  return switched;
}

std::string revision_settings(std::string_view algorithm) {
  return "run.algorithm = \"" + std::string(algorithm) + "\"\n";
}

}  // namespace gv
