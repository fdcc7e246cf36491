// The keys of mode `pipeline`: the cut of the model, the order of work, and how replicas agree.
#include "peer/config/setting_builders.hpp"
#include "train/learner/group_place.hpp"

namespace gv::settings {
namespace {

/// Adds the keys that determine where the model is cut.
void append_cut(const Keys& pipeline) {
  pipeline.add("stages", GV_FIELD(pipeline.stages), {1, 256},
               "number of stages into which the model is cut, by the estimated cost of its layers");
  pipeline.add("ends", GV_FIELD(pipeline.ends), {1, 1e6},
               "where to cut instead: for each stage the number of the layer after its last one, "
               "counted from 0; empty = by cost");
  pipeline
      .only_with("pipeline.ends", "run.mode = \"pipeline\" and ends = []",
                 [](const Config& c) { return c.pipeline.ends.empty(); })
      .add("memory_mb", GV_FIELD(pipeline.memory_mb), {0, 1e9},
           "the model is cut so that no stage is estimated to need more than this many megabytes "
           "at a peer, or at a member of a full group; 0 = no limit");
}

/// Adds the keys for the schedule and its micro-batches.
void append_order(const Keys& pipeline) {
  pipeline.choice("schedule", GV_FIELD(pipeline.schedule), named_choices(pipeline_kinds),
                  "order of the passes in a pipeline run; docs/pipeline.md explains each");
  pipeline.add("micro_batches", GV_FIELD(pipeline.micro_batches), {1, 4096},
               "micro-batches of train.batch samples each in a pipeline run of all peers, which is "
               "one step");
  pipeline
      .only_with("pipeline.schedule", "run.mode = \"pipeline\" and schedule = \"2bw\"",
                 [](const Config& c) { return c.pipeline.schedule == PipelineKind::two_bw; })
      .add("accumulate", GV_FIELD(pipeline.accumulate), {0, 4096},
           "micro-batches of one replica between two updates; at least as many as there are "
           "stages; 0 = exactly as many");
  pipeline
      .only_with("pipeline.schedule",
                 "run.mode = \"pipeline\" and schedule = \"1f1b\", \"zero-bubble\", \"chimera\" or "
                 "\"2bw\"",
                 [](const Config& c) { return can_go_ahead(c.pipeline.schedule); })
      .add("ahead", GV_FIELD(pipeline.ahead), {0, 64},
           "transfers that take up to as long as this many passes are hidden behind computing; "
           "each stage keeps this many more micro-batches for every stage after it, with 2bw no "
           "more than accumulate");
}

/// Adds the keys that determine how the peers that carry a stage share work and agree.
void append_replicas(const Keys& pipeline) {
  pipeline.add("group", GV_FIELD(pipeline.group), {1, static_cast<double>(slices_of_stage)},
               "largest number of peers that carry a stage together: each holds some heads and "
               "some units of dense layers, and computes these for every micro-batch; 1 = each "
               "peer computes whole micro-batches");
  pipeline.choice(
      "plan", GV_FIELD(pipeline.plan), named_choices(stage_plan_kinds),
      "how stages change hands: steady = one peer at a time moves to the slowest stage; auto = all "
      "peers change to the stages and groups with the shortest predicted step");
  pipeline.add("pins", GV_FIELD(pipeline.pins), {0, 255},
               "stages that certain peers carry whenever they take part, by the names of the "
               "peers, as { desk = 0, laptop = 2 }; at most micro_batches times group peers can be "
               "pinned to one stage; the other peers share the remaining work");
  pipeline.choice("router", GV_FIELD(pipeline.router), named_choices(router_kinds),
                  "which replica of a stage takes which micro-batch: fixed = each in its turn; "
                  "random = at random; throughput = in proportion to its speed");
  pipeline.choice(
      "consensus", GV_FIELD(pipeline.consensus), named_choices(stage_consensuses),
      "how replicas of a stage agree: allreduce = they sum their gradients; gossip = they average "
      "parameters in pairs; mixing = they mix parameters as [mixing] says");
  pipeline
      .only_with("pipeline.consensus", "run.mode = \"pipeline\" and consensus = \"gossip\"",
                 [](const Config& c) { return c.pipeline.consensus == StageConsensus::gossip; })
      .add("mix_alpha", GV_FIELD(pipeline.mix_alpha), {least_positive, 0.5},
           "how far the two replicas of a pair move towards each other; 0.5 = to their mean");
  pipeline
      .only_with("pipeline.consensus",
                 "run.mode = \"pipeline\" and consensus = \"gossip\" or \"mixing\"",
                 [](const Config& c) { return c.pipeline.consensus != StageConsensus::allreduce; })
      .add("mix_every", GV_FIELD(pipeline.mix_every), {1, 1e6},
           "pipeline runs between two averagings");
}

/// Adds the keys for the memory of the backward pass, and for copies of stages in case peers die.
void append_safety(const Keys& pipeline) {
  pipeline.add("recompute", GV_FIELD(pipeline.recompute),
               "true = a stage keeps only its inputs and computes the other activations again: "
               "less memory, a third more work");
  pipeline.add("copy_every", GV_FIELD(pipeline.copy_every), {0, 1e6},
               "a neighbour keeps a copy of each stage, in case all carriers of the stage die; "
               "this many pipeline runs are between two copies; 0 = no copies");
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
