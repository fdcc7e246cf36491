// The keys of gossip, and of a population that gossips.
#include "peer/config/setting_builders.hpp"

namespace gv::settings {

void append_gossip(Settings& all) {
  const Keys own = Keys{all, "gossip"}.with("run.mode", {"gossip"});
  const Keys gossip = own.agreed();
  gossip.choice("pairing", GV_FIELD(gossip.pairing),
                {{"matching", PairingKind::matching}, {"uniform", PairingKind::uniform}},
                "how peers find partners: matching = all peers in pairs drawn together; uniform = "
                "each peer with a partner of its own choice, at random");
  gossip.choice("topology", GV_FIELD(gossip.topology.kind), named_choices(topology_kinds),
                "graph whose neighbours may be partners; complete = all peers. `grapevine "
                "topology` shows each");
  gossip.with("topology", {"star"})
      .add("centre_rests", GV_FIELD(gossip.centre_rests),
           "the centre only answers the exchanges of the others and does not train");
  gossip.add("period_steps", GV_FIELD(gossip.period_steps), {1, 1e9},
             "local steps between two exchanges");
  own.choice("trigger", GV_FIELD(gossip.trigger), named_choices(trigger_kinds),
             "when an exchange begins: steps = after period_steps; poisson = after a random number "
             "of steps with that mean; idle = when no exchange is under way; spread = so often "
             "that models stay target_spread apart. All but steps need pairing = \"uniform\"");
  gossip.add("alpha", GV_FIELD(gossip.alpha), {0, 1},
             "elastic coefficient: 0.5 averages the pair, 0 is no gossip; above 0.5 models can "
             "diverge if an exchange takes long");
  gossip.choice("alpha_schedule", GV_FIELD(gossip.alpha_with_learning_rate),
                {{"constant", false}, {"with_learning_rate", true}},
                "whether alpha falls with the learning rate");
  gossip.choice("codec", GV_FIELD(gossip.codec), named_codecs(exchange_codecs),
                "encoding of numbers: identity, fp16 and bf16 take 4, 2 and 2 bytes each; qsgd8 "
                "and top_k encode the difference to a model that both partners remember, in about "
                "1 byte each or only the largest numbers, and keep one model for each partner");
  gossip.with("codec", {"top_k"})
      .add("codec_fraction", GV_FIELD(gossip.codec_fraction), {0, 1, true},
           "fraction of the numbers that is sent");
  own.add("clip_radius", GV_FIELD(gossip.clip_radius), {0, 1e9},
          "longest difference that an exchange applies; longer ones are clipped; 0 = no limit");
  own.add("clip_factor", GV_FIELD(gossip.clip_factor), {0, 1e9},
          "without clip_radius: differences are clipped at this many times the median of recent "
          "ones; 0 = never");
  own.add("norm_cap", GV_FIELD(gossip.norm_cap), {0, 1e12},
          "a model whose norm is more than this many times the receiver's is refused, also in the "
          "common mean at the end; 0 = no limit, as in a population");
  own.add("answer_deadline_s", GV_FIELD(gossip.answer_deadline), {0.01, 3600},
          "how long an offer waits for its answer");
  own.add("progress_deadline_s", GV_FIELD(gossip.progress_deadline), {0.01, 3600},
          "longest pause between two blocks of an exchange");
  own.add("quarantine_s", GV_FIELD(gossip.quarantine), {0, 1e6},
          "how long a peer that sent models that fail these checks is left alone");
  own.add("offences_max", GV_FIELD(gossip.offences_max), {1, 1000},
          "number of models that fail these checks after which their sender is left alone");
  own.add("catch_up_periods", GV_FIELD(gossip.catch_up_periods), {1, 1e9},
          "a peer that is this many periods behind when it joins or wakes downloads a model");
  const Keys swarm = own.with("run.budget", {"swarm"}).agreed();
  swarm.choice("weigh", GV_FIELD(gossip.weighs_by_data), {{"by_data", true}, {"none", false}},
               "by_data = a peer's updates are longer if its share of the steps is smaller than "
               "its share of the data, so that all samples count alike; none = they are not");
  swarm.add("weigh_max", GV_FIELD(gossip.weigh_max), {1, 100},
            "a peer's updates become at most this many times longer");
  own.with("trigger", {"spread"})
      .add("target_spread", GV_FIELD(gossip.target_spread), {0, 1e12},
           "distance that the models of two partners should have when they meet, measured as "
           "spread in status");
  gossip.with("topology", {"random_regular", "base_k"})
      .add("topology_degree", GV_FIELD(gossip.topology.degree), {0, 4095},
           "random_regular: neighbours of each peer, 0 = 4; base_k: partners in one round, where "
           "only 1 is possible because exchanges are in pairs, 0 = 1");
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
         "fraction of a peer's own samples on which it does not train and by which it is judged");
  on.add("spread", GV_FIELD(population.spread), {1, 1000},
         "each peer's learning rate begins up to this many times above or below "
         "train.learning_rate, at random; 1 - momentum likewise");
  const Keys agreed = on.agreed();
  agreed.add("vary_weight_decay", GV_FIELD(population.vary_weight_decay),
             "peers also differ in the weight decay, which must be above 0");
  agreed.add("vary_batch", GV_FIELD(population.vary_batch),
             "peers also differ in the batch; the budget counts steps, whatever their batch");
  agreed.add("vary_alpha", GV_FIELD(population.vary_alpha),
             "peers also differ in gossip.alpha; in an exchange the smaller of the two counts");
  agreed.add("vary_period", GV_FIELD(population.vary_period),
             "peers also differ in gossip.period_steps; only with pairing = \"uniform\"");
  on.choice(
      "select", GV_FIELD(population.select), named_choices(selection_names),
      "which settings survive: truncation = one of the worst fifth copies one of the best and "
      "varies its settings; halving = one of the worse half copies one of the better half without "
      "variation; none = each peer keeps its own settings, and the best are found at the end");
}

}  // namespace gv::settings
