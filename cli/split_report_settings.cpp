// Writes the settings of a plan into its config, and checks the result.
#include "cli/split_report_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/overloaded.hpp"
#include "peer/config/config.hpp"
#include "peer/config/setting_builders.hpp"
#include "peer/config/toml.hpp"

namespace gv {
namespace {

std::string toml_of(const TomlValue& value);

std::string inline_table(const TomlTable& table) {
  std::vector<std::string> entries;
  for (const auto& [key, value] : table) {
    entries.push_back(settings::shown(key) + " = " + toml_of(value));
  }
  return fmt::format("{{ {} }}", fmt::join(entries, ", "));
}

/// The value on one line, as TOML. No setting is a date or another special type, which would become
/// an empty string.
std::string toml_of(const TomlValue& value) {
  return std::visit(Overloaded{[](const TomlOther&) { return std::string("\"\""); },
                               [](const TomlTable& table) { return inline_table(table); },
                               [](const TomlList& list) {
                                 std::vector<std::string> items;
                                 for (const TomlValue& item : list) items.push_back(toml_of(item));
                                 return fmt::format("[{}]", fmt::join(items, ", "));
                               },
                               [](const auto& plain) { return settings::shown(plain); }},
                    value.data);
}

/// The table as the text of a config, with a section for each table in it.
std::string text_of(const TomlTable& root) {
  std::string text;
  for (const auto& [key, value] : root) {
    const auto* table = std::get_if<TomlTable>(&value.data);
    if (table == nullptr) text = key + " = " + toml_of(value) + "\n" + text;
    if (table == nullptr) continue;
    text += "[" + key + "]\n";
    for (const auto& [name, own] : *table) text += name + " = " + toml_of(own) + "\n";
  }
  return text;
}

TomlTable table_of(const std::string& text) {
  Problems problems;
  return read_toml(text, "", problems);
}

void merge(TomlTable& into, const TomlTable& from) {
  for (const auto& [key, value] : from) {
    const auto* table = std::get_if<TomlTable>(&value.data);
    auto* known = into.contains(key) ? std::get_if<TomlTable>(&into[key].data) : nullptr;
    // A table of pins is replaced as a whole.
    if (table != nullptr && known != nullptr && key != "pins") {
      merge(*known, *table);
    } else {
      into[key] = value;
    }
  }
}

/// The value with this name or, for a name like "layers[6]", that item of the list `layers`. Null
/// if there is none.
TomlValue* find(TomlTable& table, const std::string& name) {
  const std::size_t bracket = name.find('[');
  const auto found = table.find(name.substr(0, bracket));
  if (found == table.end() || bracket == std::string::npos) {
    return found == table.end() ? nullptr : &found->second;
  }
  auto* list = std::get_if<TomlList>(&found->second.data);
  const std::size_t item = std::stoul(name.substr(bracket + 1));
  return list == nullptr || item >= list->size() ? nullptr : &(*list)[item];
}

/// Removes the setting, such as "pipeline.memory_mb". Returns false if it is not in the table.
bool erase(TomlTable& table, const std::string& setting) {
  const std::size_t dot = setting.find('.');
  if (dot == std::string::npos) return table.erase(setting) > 0;
  TomlValue* section = find(table, setting.substr(0, dot));
  auto* inner = section == nullptr ? nullptr : std::get_if<TomlTable>(&section->data);
  return inner != nullptr && erase(*inner, setting.substr(dot + 1));
}

/// Removes the file and the line from a place such as "configs/a.toml:12: train.batch".
std::string without_line(const std::string& place) {
  const std::size_t at = place.rfind(": ");
  return at == std::string::npos ? place : place.substr(at + 2);
}

/// The setting that caused the problem. If the place is a layer, the cause is how the layer is
/// split.
std::string setting_of(const Problem& problem) {
  return problem.place.ends_with(']') ? problem.place + ".split" : problem.place;
}

/// True if a stage has replicas of different speeds.
bool has_unlike_replicas(const SplitPlan& plan) {
  return std::ranges::any_of(plan.layers, [&](const PlannedLayer& layer) {
    const SplitGroup& group = plan.groups[layer.state.group];
    return layer.state.ways < group.size() && group.speeds.front() != group.speeds.back();
  });
}

std::string pipeline_settings(const SplitReport& report, const SplitPlan& plan, std::size_t peers) {
  std::vector<std::size_t> ends;
  for (const SplitStage& stage : plan.stages) ends.push_back(report.pieces[stage.last - 1].end);
  std::string text = fmt::format(
      "[run]\nmode = \"pipeline\"\npeers = {}\n[train]\nbatch = {}\n[pipeline]\nends = [{}]\n"
      "micro_batches = {}\n",
      peers, report.question.samples / plan.micro_batches, fmt::join(ends, ", "),
      plan.micro_batches);
  // The config may ask for larger groups than this plan has.
  if (plan.group > 1 || report.group > 1) text += fmt::format("group = {}\n", plan.group);
  // Peers outside the file may be pinned to stages that this plan does not have. Drop those pins.
  NamedPins pins = report.pins;
  std::erase_if(pins, [&](const auto& pin) { return pin.second >= plan.stages.size(); });
  if (!pins.empty()) text += fmt::format("pins = {}\n", settings::shown(pins));
  // Every plan assumes that passes run in the order of these two schedules.
  const bool keeps_order =
      report.schedule == PipelineKind::one_f_one_b || report.schedule == PipelineKind::zero_bubble;
  if (!keeps_order) text += "schedule = \"1f1b\"\n";
  // With the default router, replicas of different speeds would get the same number of
  // micro-batches.
  if (has_unlike_replicas(plan)) text += "router = \"throughput\"\n";
  return text;
}

std::string settings_text(const SplitReport& report, const SplitPlan& plan) {
  std::size_t peers = 0;
  for (std::size_t i = 0; i < report.question.site.peers.size(); ++i) {
    if (plan.uses(i)) ++peers;
  }
  if (plan.group > 0) return pipeline_settings(report, plan, peers);
  const bool factors = std::ranges::any_of(plan.layers, [](const PlannedLayer& layer) {
    return layer.state.kind == SplitKind::factors;
  });
  // Rounded up, because on average every peer takes the same number of samples.
  return fmt::format("[run]\nmode = \"allreduce\"\npeers = {}\n[train]\nbatch = {}\n{}", peers,
                     (report.question.samples + peers - 1) / peers,
                     factors ? "[allreduce]\nsufficient_factors = true\n" : "");
}

/// Why the report's config is refused with these settings written into it.
Problems refusals(const SplitReport& report, const PlannedSettings& settings) {
  TomlTable table = table_of(report.config_text);
  merge(table, table_of(settings.text));
  for (const std::string& setting : settings.removed) erase(table, setting);
  Problems problems = parse_config_text(text_of(table), report.config).problems;
  // Line numbers refer to the merged text and not to the config file, so they are removed.
  for (Problem& problem : problems) problem.place = without_line(problem.place);
  return problems;
}

}  // namespace

PlannedSettings planned_settings(const SplitReport& report, const SplitPlan& plan) {
  PlannedSettings best{.text = settings_text(report, plan), .removed = {}, .problems = {}};
  best.problems = refusals(report, best);
  const TomlTable own = table_of(best.text);
  for (bool improved = true; improved && !best.problems.empty();) {
    improved = false;
    for (const Problem& problem : best.problems) {
      const std::string setting = setting_of(problem);
      TomlTable unchanged = own;
      // A setting of the plan itself must stay.
      if (erase(unchanged, setting)) continue;
      PlannedSettings next = best;
      next.removed.push_back(setting);
      next.problems = refusals(report, next);
      if (next.problems.size() >= best.problems.size()) continue;
      best = std::move(next);
      improved = true;
      break;
    }
  }
  return best;
}

}  // namespace gv
