// Prints plans in which peers share layers.
#include "cli/split_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/split_report_settings.hpp"

namespace gv {
namespace {

double milliseconds(double seconds) { return 1e3 * seconds; }
double megabytes(double bytes) { return 1e-6 * bytes; }

std::size_t stage_of(const SplitPlan& plan, std::size_t layer) {
  std::size_t stage = 0;
  while (plan.stages[stage].last <= layer) ++stage;
  return stage;
}

/// The numbers of parts into which a layer's samples, model and image are divided.
struct Parts {
  std::size_t samples = 1;
  std::size_t model = 1;
  std::size_t space = 1;
};

/// True if a group of peers shares the layer in a run. Only layers with units can be shared.
bool is_sliced(const SplitReport& report, const SplitPlan& plan, std::size_t layer) {
  const SplitState& state = plan.layers[layer].state;
  return state.kind == SplitKind::slices && state.ways > 1 &&
         !report.pieces[layer].costs.units.empty();
}

Parts parts_of(const SplitReport& report, const SplitPlan& plan, std::size_t layer) {
  const SplitState& state = plan.layers[layer].state;
  const bool is_shared = is_sliced(report, plan, layer);
  const bool has_strips = is_shared && report.pieces[layer].costs.units.front().has_strips;
  const bool by_model = state.kind == SplitKind::model || (is_shared && !has_strips);
  const bool by_rows = state.kind == SplitKind::rows || has_strips;
  return {.samples = plan.groups[state.group].size() / state.ways,
          .model = by_model ? state.ways : 1,
          .space = by_rows ? state.ways : 1};
}

std::string layers_of(const ModelPiece& piece) {
  return piece.end - piece.first == 1 ? std::to_string(piece.first)
                                      : fmt::format("{}-{}", piece.first, piece.end - 1);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

const char* meaning_of(const SplitReport& report, const SplitPlan& plan, std::size_t layer) {
  const SplitState& state = plan.layers[layer].state;
  switch (state.kind) {
    case SplitKind::samples:
      return "samples";
    case SplitKind::factors:
      return "samples, sums as factors";
    case SplitKind::model:
      return "of the layer";
    case SplitKind::rows:
      return "rows";
    case SplitKind::slices:
      return is_sliced(report, plan, layer) ? "slices"
             : state.ways > 1               ? "all of it"
                                            : "micro-batches";
  }
  return "";
}

/// The peers that compute layer `i`, each with its number of samples, micro-batches, grains, rows
/// or slices. For example "desk 32, tower 32".
std::string carriers_of(const SplitReport& report, const SplitPlan& plan, std::size_t i) {
  const PlannedLayer& layer = plan.layers[i];
  const SplitGroup& group = plan.groups[layer.state.group];
  std::vector<std::string> texts;
  for (std::size_t p = 0; p < group.size(); ++p) {
    const SplitShare& share = layer.shares[p];
    const std::string& name = report.question.site.peers[group.peers[p]].name;
    const bool by_slices = layer.state.kind == SplitKind::slices;
    if (layer.state.ways == 1) {
      const std::size_t own = by_slices ? share.micro_batches : share.samples;
      texts.push_back(fmt::format("{} {}", name, own));
    } else if (by_slices && !is_sliced(report, plan, i)) {
      texts.push_back(name);
    } else {
      texts.push_back(fmt::format("{} {}-{}", name, share.begin, share.end - 1));
    }
  }
  return fmt::format("{}: {}", meaning_of(report, plan, i), fmt::join(texts, ", "));
}

/// The names of the plan's working peers or, if `that_work` is false, of its idle peers.
std::string names_of(const SplitReport& report, const SplitPlan& plan, bool that_work) {
  std::vector<std::string> names;
  const std::vector<SplitPeer>& peers = report.question.site.peers;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (plan.uses(i) == that_work) names.push_back(peers[i].name);
  }
  return joined(names);
}

std::string rate_of(const SplitReport& report, const SplitPlan& plan) {
  return fmt::format("{:.2f} ms a step, {:.0f} samples/s", milliseconds(plan.seconds),
                     static_cast<double>(report.question.samples) / plan.seconds);
}

std::string table_of(const SplitReport& report, const SplitPlan& plan) {
  std::size_t width = 4;
  for (const ModelPiece& piece : report.pieces) width = std::max(width, piece.costs.name.size());
  width = std::min<std::size_t>(width, 40);
  std::string text =
      fmt::format("{:>6}  {:<{}}  {:>24}  {:>8}  {:>9}  {:>7}  {:>7}\n", "layers", "kind", width,
                  "samples model space stage", "compute", "exchange", "sum", "MB sent");
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const PlannedLayer& layer = plan.layers[i];
    const Parts parts = parts_of(report, plan, i);
    text += fmt::format(
        "{:>6}  {:<{}.{}}  {:>7} {:>5} {:>5} {:>5}  {:>8.2f}  {:>9.2f}  {:>7.2f}  "
        "{:>7.2f}  {}\n",
        layers_of(report.pieces[i]), report.pieces[i].costs.name, width, width, parts.samples,
        parts.model, parts.space, stage_of(plan, i), milliseconds(layer.cost.compute_s),
        milliseconds(layer.cost.activations_s), milliseconds(layer.cost.weights_s),
        megabytes(layer.cost.bytes), carriers_of(report, plan, i));
  }
  if (plan.stages.size() == 1 && plan.group > 0) {
    text += fmt::format("Micro-batches: {}.\n", plan.micro_batches);
  } else if (plan.stages.size() > 1) {
    text += fmt::format("{} micro-batches; the busiest stage waits {:.2f} ms for the others.\n",
                        plan.micro_batches, milliseconds(plan.waiting_s));
  }
  std::vector<std::string> memory;
  for (std::size_t i = 0; i < plan.memory_bytes.size(); ++i) {
    if (!plan.uses(i)) continue;
    memory.push_back(fmt::format("{} {:.1f} MB", report.question.site.peers[i].name,
                                 megabytes(plan.memory_bytes[i])));
  }
  return text + fmt::format("Memory: {}.\n", fmt::join(memory, ", "));
}

/// Why `best` is faster than `other`: the times of the busiest stages, term by term.
std::string difference(const SplitPlan& best, const SplitPlan& other) {
  const SplitCost a = best.cost();
  const SplitCost b = other.cost();
  std::vector<std::string> terms;
  const auto add = [&](const char* name, double more) {
    if (std::abs(milliseconds(more)) >= 0.005) {
      terms.push_back(fmt::format("{} {:+.2f} ms", name, milliseconds(more)));
    }
  };
  add("computing", b.compute_s - a.compute_s);
  add("exchanges", b.activations_s - a.activations_s);
  add("sums", b.weights_s - a.weights_s);
  add("waiting", other.waiting_s - best.waiting_s);
  return terms.empty() ? "no term differs" : fmt::format("{}", fmt::join(terms, ", "));
}

/// How `other` divides the layers that `best` divides differently.
std::string changes(const SplitReport& report, const SplitPlan& best, const SplitPlan& other) {
  std::string text;
  if (other.micro_batches != best.micro_batches) {
    text = fmt::format("  micro-batches: {}\n", other.micro_batches);
  }
  for (std::size_t i = 0; i < best.layers.size(); ++i) {
    const std::string was = carriers_of(report, best, i);
    const std::string is = carriers_of(report, other, i);
    if (was == is && stage_of(best, i) == stage_of(other, i)) continue;
    text +=
        fmt::format("  layers {}: {}{}\n", layers_of(report.pieces[i]), is,
                    other.stages.size() > 1 ? fmt::format("; stage {}", stage_of(other, i)) : "");
  }
  return text;
}

std::string compared(const SplitReport& report) {
  std::string text = "\nWhat this version can run:\n";
  const bool has_pins = !report.question.pins.empty();
  const auto line = [&](const char* name, const std::vector<SplitPlan>& plans) {
    text += fmt::format("  {:<12}  ", name);
    if (plans.empty()) {
      text += has_pins ? "no plan fits and keeps the pins\n" : "no plan fits\n";
      return;
    }
    text += fmt::format("{}, on {}\n", rate_of(report, plans.front()),
                        names_of(report, plans.front(), true));
    text += fmt::format("  {:<12}  against the best: {}\n", "",
                        difference(report.best.front(), plans.front()));
  };
  line("samples only", report.samples);
  line("stages", report.stages);
  line("groups", report.groups);
  return text;
}

/// The fastest plan that can be run; null if there is none.
const SplitPlan* runnable(const SplitReport& report) {
  const SplitPlan* found = nullptr;
  for (const auto* plans : {&report.samples, &report.stages, &report.groups}) {
    if (plans->empty()) continue;
    if (found == nullptr || plans->front().seconds < found->seconds) found = &plans->front();
  }
  return found;
}

nlohmann::json json_of(const SplitReport& report, const SplitPlan& plan) {
  nlohmann::json layers = nlohmann::json::array();
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const PlannedLayer& layer = plan.layers[i];
    const Parts parts = parts_of(report, plan, i);
    const SplitGroup& group = plan.groups[layer.state.group];
    nlohmann::json peers = nlohmann::json::array();
    for (std::size_t p = 0; p < group.size(); ++p) {
      const SplitShare& share = layer.shares[p];
      nlohmann::json part{{"peer", report.question.site.peers[group.peers[p]].name},
                          {"samples", share.samples}};
      if (layer.state.kind == SplitKind::slices) part["micro_batches"] = share.micro_batches;
      if (share.begin < share.end && layer.state.ways > 1) part["range"] = {share.begin, share.end};
      peers.push_back(std::move(part));
    }
    layers.push_back({{"first", report.pieces[i].first},
                      {"end", report.pieces[i].end},
                      {"kind", report.pieces[i].costs.name},
                      {"shared_by", std::string(to_string(layer.state.kind))},
                      {"samples", parts.samples},
                      {"model", parts.model},
                      {"space", parts.space},
                      {"stage", stage_of(plan, i)},
                      {"compute_s", layer.cost.compute_s},
                      {"exchange_s", layer.cost.activations_s},
                      {"sum_s", layer.cost.weights_s},
                      {"bytes", layer.cost.bytes},
                      {"peers", std::move(peers)}});
  }
  nlohmann::json memory = nlohmann::json::object();
  for (std::size_t i = 0; i < plan.memory_bytes.size(); ++i) {
    memory[report.question.site.peers[i].name] = plan.memory_bytes[i];
  }
  return {{"seconds", plan.seconds},
          {"bytes", plan.bytes()},
          {"micro_batches", plan.micro_batches},
          {"group", plan.group},
          {"waiting_s", plan.waiting_s},
          {"can_run", can_run(report, plan)},
          {"layers", std::move(layers)},
          {"memory_bytes", std::move(memory)}};
}

}  // namespace

bool can_run(const SplitReport& report, const SplitPlan& plan) {
  const auto is_as_fast = [&](const SplitPlan& own) {
    return own.seconds <= (1 + 1e-9) * plan.seconds && own.seconds >= (1 - 1e-9) * plan.seconds;
  };
  return std::ranges::any_of(report.samples, is_as_fast) ||
         std::ranges::any_of(report.stages, is_as_fast) ||
         std::ranges::any_of(report.groups, is_as_fast);
}

std::string to_text(const SplitReport& report) {
  const SplitPlan& best = report.best.front();
  double operations = 0;
  for (const ModelPiece& piece : report.pieces) operations += 3 * piece.costs.operations;
  std::string text = fmt::format(
      "{}: a step of {} samples for the {} peers of {}\nEach sample takes {:.4g} GFLOP, forward "
      "and backward. Times are in ms.\n",
      report.config, report.question.samples, report.question.site.peers.size(), report.peers_file,
      1e-9 * operations);
  std::vector<std::string> names;
  for (const SplitPeer& peer : report.question.site.peers) names.push_back(peer.name);
  text += pins_text(report.pins, names);
  const std::string left_out = names_of(report, best, false);
  text += fmt::format("\nBest: {}{}\n{}", rate_of(report, best),
                      left_out.empty() ? "" : ", without " + left_out, table_of(report, best));
  if (report.best.size() > 1) {
    const SplitPlan& second = report.best.back();
    text += fmt::format("\nSecond best: {}. Against the best: {}.\n{}", rate_of(report, second),
                        difference(best, second), changes(report, best, second));
  }
  text += compared(report);
  const SplitPlan* own = runnable(report);
  if (own == nullptr) return text;
  text += can_run(report, best) ? "\nThe best plan can be run.\n"
                                : fmt::format(
                                      "\nThis version cannot run the best plan; the next "
                                      "best takes {:.2f} times as long.\n",
                                      own->seconds / best.seconds);
  const PlannedSettings settings = planned_settings(report, *own);
  text += fmt::format("Start {} with\n\n{}", names_of(report, *own, true), settings.text);
  if (!settings.removed.empty()) {
    text += fmt::format("\nand remove `{}`.\n", fmt::join(settings.removed, "`, `"));
  }
  for (const Problem& problem : settings.problems) {
    text += fmt::format("\nEven so the config is refused: {}.\n", to_string(problem));
  }
  if (own->group == 0 || own->seconds == best.seconds) return text;
  return text + "\nPeers find their stages and slices themselves, at best as planned here:\n" +
         table_of(report, *own);
}

std::string to_json(const SplitReport& report) {
  nlohmann::json document{{"samples", report.question.samples}, {"plans", nlohmann::json::array()}};
  for (const SplitPlan& plan : report.best) document["plans"].push_back(json_of(report, plan));
  if (!report.pins.empty()) document["pins"] = report.pins;
  if (const SplitPlan* own = runnable(report)) {
    document["runnable"] = json_of(report, *own);
    const PlannedSettings settings = planned_settings(report, *own);
    document["settings"] = settings.text;
    document["remove"] = settings.removed;
  }
  return document.dump(2) + "\n";
}

}  // namespace gv
