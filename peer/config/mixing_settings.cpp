// The keys of mixing rounds. Pipelines whose stages mix share most of them.
#include "consensus/topology/hosts.hpp"
#include "peer/config/setting_builders.hpp"

namespace gv::settings {
namespace {

/// Text like key = "x", "y" or "z", which lists the choices that use MixRule::momentum.
std::string with_momentum(std::string_view key, const auto& choices) {
  std::vector<std::string_view> names;
  for (const auto choice : choices) {
    if (traits_of(choice).has_momentum) names.push_back(to_string(choice));
  }
  std::string text = std::string(key) + " = ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += "\"" + std::string(names[i]) + "\"";
  }
  return text;
}

/// Appends the keys of the section, grouped by subject.
struct RoundKeys {
  Keys mixing;  ///< For keys of mode `mixing` only.
  Keys shared;  ///< For keys of mode `mixing` and of stages that mix.

  void append_neighbours() const;
  void append_messages() const;
  void append_guard() const;
  void append_corrections() const;
  void append_pace() const;
  void append_outer() const;
};

/// Keys for the choice of neighbours and their weights.
void RoundKeys::append_neighbours() const {
  shared.choice("topology", GV_FIELD(mixing.rule.topology.kind), named_choices(topology_kinds),
                "who is whose neighbour; `grapevine topology` shows each");
  shared.with("topology", {"random_regular", "base_k"})
      .add("topology_degree", GV_FIELD(mixing.rule.topology.degree), {0, 4095},
           "random_regular: neighbours of each peer, 0 = 4; base_k: partners in one round, 0 = 1");
  shared.with("topology", {"moshpit"})
      .add("dimensions", GV_FIELD(mixing.rule.topology.dimensions), {1, 16}, "of the grid");
  shared.with("topology", {"hosts"})
      .add("hosts_every", GV_FIELD(mixing.rule.topology.hosts_every), {hosts_every_min, 1e6},
           "one round in this many is between hosts, the others inside");
  shared.add("lazy", GV_FIELD(mixing.rule.topology.lazy),
             "keep half of one's own model in every round");
  shared.choice("partners", GV_FIELD(mixing.rule.partners), named_choices(partner_kinds),
                "who of the neighbours counts: all; one that each draws and hears, which hears it, "
                "or both; or one by drawn pairs");
}

/// Keys for the content and encoding of a round's messages.
void RoundKeys::append_messages() const {
  mixing.choice("kind", GV_FIELD(mixing.rule.kind), named_choices(mix_kinds),
                "what is made of messages: docs/algorithms");
  mixing.choice("order", GV_FIELD(mixing.rule.order), named_choices(mix_orders),
                "send what local steps come to, or send first and step meanwhile");
  mixing.add("period_steps", GV_FIELD(mixing.period_steps), {1, 1e6}, "local steps of a round");
  shared.add("gamma", GV_FIELD(mixing.rule.gamma), {least_positive, 10},
             "how much of the way to the neighbours is gone");
  shared.add("alpha", GV_FIELD(mixing.rule.alpha), {0, 1},
             "weight of each neighbour; 0 = as the topology says");
  shared.choice("codec", GV_FIELD(mixing.rule.codec.kind), named_choices(codec_kinds),
                "how numbers travel");
  shared.with("codec", {"top_k", "random_k"})
      .add("codec_fraction", GV_FIELD(mixing.rule.codec.fraction), {0, 1, true},
           "the part of all numbers that travels");
  shared.with("codec", {"qsgd"})
      .add("codec_levels", GV_FIELD(mixing.rule.codec.levels), {1, 127},
           "sizes a number is rounded to, beside 0");
  mixing.choice("memory", GV_FIELD(mixing.rule.memory), named_choices(mix_memories),
                "what is kept of earlier messages, so that a codec may leave something out");
}

/// Keys for guards against hostile neighbours.
void RoundKeys::append_guard() const {
  shared.choice("guard", GV_FIELD(mixing.rule.guard.kind), named_choices(guard_kinds),
                "what neighbours are believed");
  const Keys guarded = shared.only_with("mixing.guard", "a guard", [](const Config& c) {
    return c.mixing.rule.guard.kind != GuardKind::none;
  });
  guarded.add("guard_radius", GV_FIELD(mixing.rule.guard.radius), {0, 1e9},
              "of clips; 0 = by the distances of neighbours");
  guarded.add("guard_hostile", GV_FIELD(mixing.rule.guard.hostile), {-1, 1000},
              "this many of the neighbours may be hostile; -1 = fewer than half");
}

/// Keys for the correction of unlike data.
void RoundKeys::append_corrections() const {
  mixing.choice("correction", GV_FIELD(mixing.rule.correction), named_choices(mix_corrections),
                "what is done about unlike data");
  mixing
      .only_with(
          "mixing.kind",
          with_momentum("kind", mix_kinds) + ", or " + with_momentum("correction", mix_corrections),
          [](const Config& c) {
            return traits_of(c.mixing.rule.kind).has_momentum ||
                   traits_of(c.mixing.rule.correction).has_momentum;
          })
      .add("momentum", GV_FIELD(mixing.rule.momentum), {0, 0.9999}, "of these");
  mixing.with("correction", {"quasi_global"})
      .add("smoothing", GV_FIELD(mixing.rule.smoothing), {0, 0.9999},
           "share of its momentum that a round keeps");
}

/// Keys for staleness, weights of old messages, and pieces of the model.
void RoundKeys::append_pace() const {
  mixing.add("staleness", GV_FIELD(mixing.rule.staleness), {-1, 1e6},
             "begin a round without what neighbours sent in this many last rounds; -1 = never "
             "wait");
  mixing.add("weigh_by_age", GV_FIELD(mixing.rule.weigh_by_age),
             "a message counts 1 / (1 + its age in rounds)");
  mixing.add("weigh_by_samples", GV_FIELD(mixing.rule.weigh_by_samples),
             "peers count by the samples of their shards; only push_sum can");
  shared.add("fragments", GV_FIELD(mixing.rule.fragments), {1, 4096},
             "a round is about one of this many pieces of the model");
  mixing
      .only_with("mixing.fragments", "fragments above 1",
                 [](const Config& c) { return c.mixing.rule.fragments > 1; })
      .choice("fragment_order", GV_FIELD(mixing.rule.fragment_order),
              named_choices(fragment_orders),
              "which one: the next at all peers, that which changed most at each, or one that is "
              "each peer's own to train");
  mixing.with("topology", {"star", "tree"})
      .add("centre_rests", GV_FIELD(mixing.rule.centre_rests),
           "the centre only mixes and does not train");
}

/// Keys for the outer step, and for stragglers.
void RoundKeys::append_outer() const {
  mixing.choice("outer", GV_FIELD(mixing.rule.outer), named_choices(mix_outers),
                "what follows mixing every outer_every rounds");
  const Keys slowmo = mixing.with("outer", {"slowmo"});
  slowmo.add("outer_every", GV_FIELD(mixing.rule.outer_every), {1, 1e6},
             "rounds between two outer steps");
  slowmo.add("outer_momentum", GV_FIELD(mixing.rule.outer_momentum), {0, 0.9999},
             "of the outer step");
  mixing
      .only_with("mixing.outer", "outer = \"slowmo\" or kind = \"noloco\"",
                 [](const Config& c) {
                   const MixRule& rule = c.mixing.rule;
                   return rule.outer == MixOuter::slowmo || rule.kind == MixKind::noloco;
                 })
      .add("outer_learning_rate", GV_FIELD(mixing.rule.outer_learning_rate), {least_positive, 100},
           "of the outer step");
}

}  // namespace

void append_mixing(Settings& all) {
  const Keys own = Keys{all, "mixing"}.with("run.mode", {"mixing"});
  const RoundKeys keys{
      own.agreed(),
      Keys{all, "mixing"}.agreed().only_with(
          "run.mode", "run.mode = \"mixing\" or pipeline.consensus = \"mixing\"",
          [](const Config& c) { return c.run.mode == ModeKind::mixing || mixes_stages(c); })};
  keys.append_neighbours();
  keys.append_messages();
  keys.append_guard();
  keys.append_corrections();
  keys.append_pace();
  keys.append_outer();
  own.add("catch_up_rounds", GV_FIELD(mixing.catch_up_rounds), {1, 1e9},
          "a peer that is this many rounds behind is sent a model");
}

}  // namespace gv::settings
