// The keys of mode `pipeline`: the cut of the model, the order of work, and how replicas agree.
#include "peer/config/setting_builders.hpp"
#include "train/learner/group_place.hpp"

namespace gv::settings {
namespace {

/// Keys for where the model is cut.
void append_cut(const Keys& pipeline) {
  pipeline.add("stages", GV_FIELD(pipeline.stages), {1, 256},
               "the model is cut into this many, by what its layers are estimated to cost");
  pipeline.add("ends", GV_FIELD(pipeline.ends), {1, 1e6},
               "cut here instead: one past the last layer of each stage, the first layer being 0; "
               "empty = by cost");
  pipeline
      .only_with("pipeline.ends", "run.mode = \"pipeline\" and ends = []",
                 [](const Config& c) { return c.pipeline.ends.empty(); })
      .add(
          "memory_mb", GV_FIELD(pipeline.memory_mb), {0, 1e9},
          "cut so that no stage is estimated to need more megabytes of a peer, or of a member of a "
          "full group; 0 = without limit");
}

/// Keys for the schedule and its micro-batches.
void append_order(const Keys& pipeline) {
  pipeline.choice("schedule", GV_FIELD(pipeline.schedule), named_choices(pipeline_kinds),
                  "who computes what in which order in a run: docs/pipeline.md");
  pipeline.add("micro_batches", GV_FIELD(pipeline.micro_batches), {1, 4096},
               "of train.batch samples each, in a run of everybody, which is one step");
  pipeline
      .only_with("pipeline.schedule", "run.mode = \"pipeline\" and schedule = \"2bw\"",
                 [](const Config& c) { return c.pipeline.schedule == PipelineKind::two_bw; })
      .add("accumulate", GV_FIELD(pipeline.accumulate), {0, 4096},
           "micro-batches of one replica between two updates; at least as many as there are "
           "stages; 0 = as many");
  pipeline
      .only_with("pipeline.schedule",
                 "run.mode = \"pipeline\" and schedule = \"1f1b\", \"zero-bubble\", \"chimera\" or "
                 "\"2bw\"",
                 [](const Config& c) { return can_go_ahead(c.pipeline.schedule); })
      .add("ahead", GV_FIELD(pipeline.ahead), {0, 64},
           "transfers that take as long as this many passes are hidden behind computing; each "
           "stage keeps this many micro-batches more for every stage behind it, with 2bw no more "
           "than accumulate");
}

/// Keys for how the carriers of a stage share work and agree.
void append_replicas(const Keys& pipeline) {
  pipeline.add(
      "group", GV_FIELD(pipeline.group), {1, static_cast<double>(slices_of_stage)},
      "peers that carry a stage together at most: each holds some heads, and some units of dense "
      "layers, and computes these of every micro-batch; 1 = each computes whole micro-batches");
  pipeline.choice("plan", GV_FIELD(pipeline.plan), named_choices(stage_plan_kinds),
                  "how peers get other stages: one at a time moves to the slowest stage, or all "
                  "take up the stages and groups with the shortest predicted step");
  pipeline.add("pins", GV_FIELD(pipeline.pins), {0, 255},
               "stages that certain peers carry whenever they take part, as { desk = 0, laptop = 2 "
               "} with the names of the peers; at most micro_batches times group peers can be "
               "pinned to a stage, and all others share out what is left");
  pipeline.choice("router", GV_FIELD(pipeline.router), named_choices(router_kinds),
                  "which replica of a stage takes which micro-batch: in turns, at random, or as "
                  "many as its speed allows");
  pipeline.choice("consensus", GV_FIELD(pipeline.consensus), named_choices(stage_consensuses),
                  "how replicas of a stage agree: by summing their gradients, by averaging "
                  "parameters in pairs, or by mixing them as [mixing] says");
  pipeline
      .only_with("pipeline.consensus", "run.mode = \"pipeline\" and consensus = \"gossip\"",
                 [](const Config& c) { return c.pipeline.consensus == StageConsensus::gossip; })
      .add("mix_alpha", GV_FIELD(pipeline.mix_alpha), {least_positive, 0.5},
           "how far each of a pair goes towards the other; 0.5 = to the mean");
  pipeline
      .only_with("pipeline.consensus",
                 "run.mode = \"pipeline\" and consensus = \"gossip\" or \"mixing\"",
                 [](const Config& c) { return c.pipeline.consensus != StageConsensus::allreduce; })
      .add("mix_every", GV_FIELD(pipeline.mix_every), {1, 1e6}, "runs between two averagings");
}

/// Keys for memory in the backward pass, and for copies in case carriers die.
void append_safety(const Keys& pipeline) {
  pipeline.add("recompute", GV_FIELD(pipeline.recompute),
               "keep only what comes into a stage and compute the rest again: less memory, a third "
               "more work");
  pipeline.add("copy_every", GV_FIELD(pipeline.copy_every), {0, 1e6},
               "runs between two copies of each stage that a neighbour keeps, in case all its "
               "carriers die; 0 = none");
}

}  // namespace

void append_pipeline(Settings& all) {
  const Keys pipeline = Keys{all, "pipeline"}.with("run.mode", {"pipeline"}).agreed();
  append_cut(pipeline);
  append_order(pipeline);
  append_replicas(pipeline);
  append_safety(pipeline);
}

}  // namespace gv::settings
