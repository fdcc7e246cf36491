// The keys of mode `pipeline`: the cut of a model, the order of work, and how replicas agree.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/config/setting_sections.hpp"

namespace gv::settings {
namespace {

/// Appends the keys of the section, one subject after another.
struct PipelineKeys {
  Settings& all;
  Section<Config> pipeline{"pipeline"};

  void add_with(std::string_view key, std::string_view words, bool (*has_effect)(const Config&),
                Setting<Config> setting) {
    all.push_back(agreed(only_with(key, words, has_effect, std::move(setting))));
  }
  void add(Setting<Config> setting) {
    add_with(
        "run.mode", "run.mode = \"pipeline\"",
        [](const Config& c) { return c.run.mode == ModeKind::pipeline; }, std::move(setting));
  }

  void append_cut();
  void append_order();
  void append_replicas();
  void append_safety();
};

/// Where the model is cut.
void PipelineKeys::append_cut() {
  add(pipeline.whole("stages", GV_FIELD(pipeline.stages), {1, 256},
                     "the model is cut into this many, by what its layers are estimated to cost"));
  add(pipeline.wholes("ends", GV_FIELD(pipeline.ends), {1, 1e6},
                      "cut here instead: one past the last layer of each stage, the first layer "
                      "being 0; empty = by cost"));
  add_with(
      "pipeline.ends", "run.mode = \"pipeline\" and ends = []",
      [](const Config& c) { return c.run.mode == ModeKind::pipeline && c.pipeline.ends.empty(); },
      pipeline.number("memory_mb", GV_FIELD(pipeline.memory_mb), {0, 1e9},
                      "cut so that no stage is estimated to need more megabytes of a peer; 0 = "
                      "without limit"));
}

/// Schedule and routes.
void PipelineKeys::append_order() {
  std::vector<std::pair<std::string, PipelineKind>> kinds;
  for (const PipelineKind kind : pipeline_kinds) kinds.emplace_back(to_string(kind), kind);
  add(pipeline.choice<>("schedule", GV_FIELD(pipeline.mode.kind), std::move(kinds),
                        "who computes what in which order in a run: docs/pipeline.md"));
  add(pipeline.whole("micro_batches", GV_FIELD(pipeline.mode.micro_batches), {1, 4096},
                     "of train.batch samples each, in a run of everybody, which is one step"));
  add_with(
      "pipeline.schedule", "run.mode = \"pipeline\" and schedule = \"2bw\"",
      [](const Config& c) {
        return c.run.mode == ModeKind::pipeline && c.pipeline.mode.kind == PipelineKind::two_bw;
      },
      pipeline.whole("accumulate", GV_FIELD(pipeline.mode.accumulate), {0, 4096},
                     "micro-batches of one replica between two updates; at least as many as there "
                     "are stages; 0 = as many"));
  add_with(
      "pipeline.schedule",
      "run.mode = \"pipeline\" and schedule = \"1f1b\", \"zero-bubble\", \"chimera\" or \"2bw\"",
      [](const Config& c) {
        return c.run.mode == ModeKind::pipeline && can_go_ahead(c.pipeline.mode.kind);
      },
      pipeline.whole(
          "ahead", GV_FIELD(pipeline.mode.ahead), {0, 64},
          "transfers that take as long as this many passes are hidden behind computing; "
          "each stage keeps this many micro-batches more for every stage behind it, with "
          "2bw no more than accumulate"));
}

/// How replicas of a stage share work and agree.
void PipelineKeys::append_replicas() {
  add(pipeline.choice<>(
      "router", GV_FIELD(pipeline.mode.router),
      std::vector<std::pair<std::string, RouterKind>>{{"fixed", RouterKind::fixed},
                                                      {"random", RouterKind::random},
                                                      {"throughput", RouterKind::throughput}},
      "which replica of a stage takes which micro-batch: in turns, at random, or "
      "as many as its speed allows"));
  add(pipeline.choice<>("consensus", GV_FIELD(pipeline.mode.consensus),
                        named_choices(stage_consensuses),
                        "how replicas of a stage agree: by summing their gradients, by averaging "
                        "parameters in pairs, or by mixing them as [mixing] says"));
  const auto gossips = [](const Config& c) {
    return c.run.mode == ModeKind::pipeline && c.pipeline.mode.consensus == StageConsensus::gossip;
  };
  constexpr std::string_view gossips_words = "run.mode = \"pipeline\" and consensus = \"gossip\"";
  add_with("pipeline.consensus", gossips_words, gossips,
           pipeline.number("mix_alpha", GV_FIELD(pipeline.mode.mix_alpha), {0, 0.5, true},
                           "how far each of a pair goes towards the other; 0.5 = to the mean"));
  add_with(
      "pipeline.consensus", "run.mode = \"pipeline\" and consensus = \"gossip\" or \"mixing\"",
      [](const Config& c) {
        return c.run.mode == ModeKind::pipeline &&
               c.pipeline.mode.consensus != StageConsensus::allreduce;
      },
      pipeline.whole("mix_every", GV_FIELD(pipeline.mode.mix_every), {1, 1e6},
                     "runs between two averagings"));
}

/// Memory for the backward pass, and copies in case carriers die.
void PipelineKeys::append_safety() {
  add(pipeline.flag("recompute", GV_FIELD(pipeline.recompute),
                    "keep only what comes into a stage and compute the rest again: less memory, a "
                    "third more work"));
  add(pipeline.whole("copy_every", GV_FIELD(pipeline.mode.copy_every), {0, 1e6},
                     "runs between two copies of each stage that a neighbour keeps, in case all "
                     "its carriers die; 0 = none"));
}

}  // namespace

void append_pipeline(Settings& all) {
  PipelineKeys keys{.all = all};
  keys.append_cut();
  keys.append_order();
  keys.append_replicas();
  keys.append_safety();
}

}  // namespace gv::settings
