// The keys of gossip and of a population that gossips.
#include <string>
#include <utility>
#include <vector>

#include "peer/config/setting_sections.hpp"

namespace gv::settings {
namespace {

bool has_degree(const Config& c) {
  const TopologyKind kind = c.gossip.topology.kind;
  if (c.run.mode != ModeKind::gossip) return false;
  return kind == TopologyKind::random_regular || kind == TopologyKind::base_k;
}

}  // namespace

void append_gossip(Settings& every) {
  const Section<Config> gossip{"gossip"};
  Settings all;
  all.push_back(agreed(
      gossip.choice<>("pairing", GV_FIELD(gossip.pairing),
                      std::vector<std::pair<std::string, PairingKind>>{
                          {"matching", PairingKind::matching}, {"uniform", PairingKind::uniform}},
                      "who meets whom: drawn pairs, or anybody at random")));
  all.push_back(agreed(gossip.choice<>(
      "topology", GV_FIELD(gossip.topology.kind), named_choices(topology_kinds),
      "among whom partners are drawn; complete = all. `grapevine topology` shows each")));
  all.push_back(agreed(gossip.whole("period_steps", GV_FIELD(gossip.period_steps), {1, 1e9},
                                    "local steps between two exchanges")));
  all.push_back(gossip.choice<>(
      "trigger", GV_FIELD(gossip.trigger), named_choices(trigger_kinds),
      "when one begins: after period_steps; after period_steps in the mean, drawn; when none is "
      "under "
      "way; or so often that models stay target_spread apart. Other than steps with uniform "
      "pairs"));
  all.push_back(
      agreed(gossip.number("alpha", GV_FIELD(gossip.alpha), {0, 1},
                           "elastic coefficient: 0.5 averages the pair, 0 is no gossip; above 0.5 "
                           "models can run apart where an exchange takes long")));
  all.push_back(agreed(gossip.choice<>(
      "alpha_schedule", GV_FIELD(gossip.alpha_with_learning_rate),
      std::vector<std::pair<std::string, bool>>{{"constant", false}, {"with_learning_rate", true}},
      "whether the force falls with the learning rate")));
  all.push_back(agreed(gossip.choice<>(
      "codec", GV_FIELD(gossip.exchange.codec),
      std::vector<std::pair<std::string, Codec>>{
          {"identity", Codec::identity}, {"fp16", Codec::fp16}, {"bf16", Codec::bf16}},
      "how numbers travel: 4, 2 or 2 bytes each")));
  all.push_back(gossip.number("clip_radius", GV_FIELD(gossip.exchange.clip_radius), {0, 1e9},
                              "longest difference an exchange believes, longer ones are cut; "
                              "0 = any"));
  all.push_back(gossip.number("clip_factor", GV_FIELD(gossip.exchange.clip_factor), {0, 1e9},
                              "without a radius: cut at this many times the median of recent "
                              "differences; 0 = never"));
  all.push_back(gossip.number("norm_cap", GV_FIELD(gossip.exchange.norm_cap), {0, 1e12},
                              "a model with a norm this many times ours is refused; 0 = any"));
  all.push_back(gossip.duration("answer_deadline_s", GV_FIELD(gossip.exchange.answer_deadline),
                                {0.01, 3600}, "how long an offer waits for its answer"));
  all.push_back(gossip.duration("progress_deadline_s", GV_FIELD(gossip.exchange.progress_deadline),
                                {0.01, 3600}, "longest pause inside an exchange"));
  all.push_back(gossip.duration("quarantine_s", GV_FIELD(gossip.exchange.quarantine), {0, 1e6},
                                "how long a peer that sent unsound models is left alone"));
  all.push_back(gossip.whole("offences_max", GV_FIELD(gossip.exchange.offences_max), {1, 1000},
                             "unsound models before that"));
  all.push_back(gossip.whole("catch_up_periods", GV_FIELD(gossip.catch_up_periods), {1, 1e9},
                             "a peer this far behind on joining or waking fetches a model"));
  for (Setting<Config>& setting : all) {
    every.push_back(only_with(
        "run.mode", "run.mode = \"gossip\"",
        [](const Config& c) { return c.run.mode == ModeKind::gossip; }, std::move(setting)));
  }
  every.push_back(only_with(
      "gossip.trigger", "trigger = \"spread\"",
      [](const Config& c) {
        return c.run.mode == ModeKind::gossip && c.gossip.trigger == TriggerKind::spread;
      },
      gossip.number("target_spread", GV_FIELD(gossip.target_spread), {0, 1e12},
                    "distance that two models that meet should have, as spread in status")));
  every.push_back(agreed(only_with(
      "gossip.topology", "topology = \"random_regular\" or \"base_k\"", has_degree,
      gossip.whole("topology_degree", GV_FIELD(gossip.topology.degree), {0, 4095},
                   "random_regular: neighbours of each peer, 0 = 4; base_k: partners in one round, "
                   "of which pairs allow 1, 0 = 1"))));
}

void append_population(Settings& all) {
  const Section<Config> population{"population"};
  all.push_back(agreed(population.whole(
      "every_steps", GV_FIELD(gossip.population.every_steps), {0, 1e9},
      "local steps between two validations, after each of which one of the worst peers may copy "
      "one of the best; 0 = no population")));
  const auto add = [&all](Setting<Config> setting) {
    all.push_back(only_with(
        "population.every_steps", "every_steps above 0",
        [](const Config& c) { return c.gossip.population.is_on(); }, std::move(setting)));
  };
  add(population.number("held_out", GV_FIELD(gossip.population.held_out), {0, 0.5, true},
                        "part of its own samples that a peer does not train on and is judged by"));
  add(population.number("spread", GV_FIELD(gossip.population.spread), {1, 1000},
                        "learning rates begin up to this many times above or below "
                        "train.learning_rate, drawn for each peer; so does 1 - momentum"));
}

}  // namespace gv::settings
