// The keys of gossip, and of a population that gossips.
#include "peer/config/setting_builders.hpp"

namespace gv::settings {

void append_gossip(Settings& all) {
  const Keys own = Keys{all, "gossip"}.with("run.mode", {"gossip"});
  const Keys gossip = own.agreed();
  gossip.choice("pairing", GV_FIELD(gossip.pairing),
                {{"matching", PairingKind::matching}, {"uniform", PairingKind::uniform}},
                "who meets whom: drawn pairs, or anybody at random");
  gossip.choice("topology", GV_FIELD(gossip.topology.kind), named_choices(topology_kinds),
                "among whom partners are drawn; complete = all. `grapevine topology` shows each");
  gossip.with("topology", {"star"})
      .add("centre_rests", GV_FIELD(gossip.centre_rests),
           "the centre only answers the exchanges of the others and does not train");
  gossip.add("period_steps", GV_FIELD(gossip.period_steps), {1, 1e9},
             "local steps between two exchanges");
  own.choice(
      "trigger", GV_FIELD(gossip.trigger), named_choices(trigger_kinds),
      "when one begins: after period_steps; after period_steps in the mean, drawn; when none is "
      "under way; or so often that models stay target_spread apart. Other than steps with uniform "
      "pairs");
  gossip.add("alpha", GV_FIELD(gossip.alpha), {0, 1},
             "elastic coefficient: 0.5 averages the pair, 0 is no gossip; above 0.5 models can run "
             "apart where an exchange takes long");
  gossip.choice("alpha_schedule", GV_FIELD(gossip.alpha_with_learning_rate),
                {{"constant", false}, {"with_learning_rate", true}},
                "whether the force falls with the learning rate");
  gossip.choice("codec", GV_FIELD(gossip.codec), named_codecs(exchange_codecs),
                "how numbers travel: 4, 2 or 2 bytes each; qsgd8 and top_k send about 1 byte each "
                "or the largest alone, of the difference to what both partners remember: one model "
                "for each partner");
  gossip.with("codec", {"top_k"})
      .add("codec_fraction", GV_FIELD(gossip.codec_fraction), {0, 1, true},
           "the part of the numbers that travels");
  own.add("clip_radius", GV_FIELD(gossip.clip_radius), {0, 1e9},
          "longest difference an exchange believes, longer ones are cut; 0 = any");
  own.add("clip_factor", GV_FIELD(gossip.clip_factor), {0, 1e9},
          "without a radius: cut at this many times the median of recent differences; 0 = never");
  own.add(
      "norm_cap", GV_FIELD(gossip.norm_cap), {0, 1e12},
      "a model with a norm this many times ours is refused, at the common end as well; 0 = any, as "
      "in a population");
  own.add("answer_deadline_s", GV_FIELD(gossip.answer_deadline), {0.01, 3600},
          "how long an offer waits for its answer");
  own.add("progress_deadline_s", GV_FIELD(gossip.progress_deadline), {0.01, 3600},
          "longest pause inside an exchange");
  own.add("quarantine_s", GV_FIELD(gossip.quarantine), {0, 1e6},
          "how long a peer that sent unsound models is left alone");
  own.add("offences_max", GV_FIELD(gossip.offences_max), {1, 1000}, "unsound models before that");
  own.add("catch_up_periods", GV_FIELD(gossip.catch_up_periods), {1, 1e9},
          "a peer this far behind on joining or waking fetches a model");
  const Keys swarm = own.with("run.budget", {"swarm"}).agreed();
  swarm.choice(
      "weigh", GV_FIELD(gossip.weighs_by_data), {{"by_data", true}, {"none", false}},
      "whether a peer's updates are longer where its share of the steps is smaller than that of "
      "the data, so that all samples count alike");
  swarm.add("weigh_max", GV_FIELD(gossip.weigh_max), {1, 100}, "at most this many times longer");
  own.with("trigger", {"spread"})
      .add("target_spread", GV_FIELD(gossip.target_spread), {0, 1e12},
           "distance that two models that meet should have, as spread in status");
  gossip.with("topology", {"random_regular", "base_k"})
      .add("topology_degree", GV_FIELD(gossip.topology.degree), {0, 4095},
           "random_regular: neighbours of each peer, 0 = 4; base_k: partners in one round, of "
           "which pairs allow 1, 0 = 1");
}

void append_population(Settings& all) {
  const Keys population{all, "population"};
  population.agreed().add(
      "every_steps", GV_FIELD(population.every_steps), {0, 1e9},
      "local steps between two validations, after each of which one of the worst peers may copy "
      "one of the best; 0 = no population");
  const Keys on = population.only_with("population.every_steps", "every_steps above 0",
                                       [](const Config& c) { return c.population.is_on(); });
  on.add("held_out", GV_FIELD(population.held_out), {0, 0.5, true},
         "part of its own samples that a peer does not train on and is judged by");
  on.add("spread", GV_FIELD(population.spread), {1, 1000},
         "learning rates begin up to this many times above or below train.learning_rate, drawn "
         "for each peer; so does 1 - momentum");
  const Keys agreed = on.agreed();
  agreed.add("vary_weight_decay", GV_FIELD(population.vary_weight_decay),
             "peers also differ in the weight decay, which must be above 0");
  agreed.add("vary_batch", GV_FIELD(population.vary_batch),
             "peers also differ in the batch; the budget is in steps, whatever their batch is");
  agreed.add("vary_alpha", GV_FIELD(population.vary_alpha),
             "peers also differ in gossip.alpha; of two that meet the smaller counts");
  agreed.add("vary_period", GV_FIELD(population.vary_period),
             "peers also differ in gossip.period_steps; only with pairing = \"uniform\"");
  on.choice("select", GV_FIELD(population.select), named_choices(selection_names),
            "which settings live on: one of the worst fifth copies one of the best and varies its "
            "settings; one of the worse half copies one of the better as it is; or each peer keeps "
            "its own, and the best is found at the end");
}

}  // namespace gv::settings
