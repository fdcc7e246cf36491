// The keys of mixing rounds. Pipelines whose stages mix use most of them too.
#include "consensus/topology/hosts.hpp"
#include "peer/config/setting_builders.hpp"

namespace gv::settings {
namespace {

/// Returns text such as `key = "x", "y" or "z"`, which lists the choices that use
/// MixRule::momentum.
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

/// Adds the keys for the choice of neighbours and their weights.
void RoundKeys::append_neighbours() const {
  shared.choice(
      "topology", GV_FIELD(mixing.rule.topology.kind), named_choices(topology_kinds),
      "graph that determines the neighbours of each peer; `grapevine topology` shows each kind");
  shared.with("topology", {"random_regular", "base_k"})
      .add("topology_degree", GV_FIELD(mixing.rule.topology.degree), {0, 4095},
           "random_regular: neighbours of each peer, 0 = 4; base_k: partners in one round, 0 = 1");
  shared.with("topology", {"moshpit"})
      .add("dimensions", GV_FIELD(mixing.rule.topology.dimensions), {1, 16},
           "dimensions of the grid");
  shared.with("topology", {"hosts"})
      .add("hosts_every", GV_FIELD(mixing.rule.topology.hosts_every), {hosts_every_min, 1e6},
           "one round in this many is between hosts, and the others are within hosts");
  shared.add("lazy", GV_FIELD(mixing.rule.topology.lazy),
             "every peer keeps half of its own model in every round");
  shared.choice("partners", GV_FIELD(mixing.rule.partners), named_choices(partner_kinds),
                "which neighbours a peer mixes with in a round: neighbours = all; pull, push, both "
                "= one that each peer draws, to receive from it, to send to it, or both; pairs = "
                "one, by a random matching");
}

/// Adds the keys for the content and encoding of a round's messages.
void RoundKeys::append_messages() const {
  mixing.choice("kind", GV_FIELD(mixing.rule.kind), named_choices(mix_kinds),
                "how a peer uses the messages that it receives; docs/algorithms explains each");
  mixing.choice("order", GV_FIELD(mixing.rule.order), named_choices(mix_orders),
                "adapt_then_combine = send the result of the local steps; combine_then_adapt = "
                "send first, and make the steps while messages travel");
  mixing.add("period_steps", GV_FIELD(mixing.period_steps), {1, 1e6}, "local steps in a round");
  shared.add("gamma", GV_FIELD(mixing.rule.gamma), {least_positive, 10},
             "fraction of the way towards the neighbours that a model moves in a round");
  shared.add("alpha", GV_FIELD(mixing.rule.alpha), {0, 1},
             "weight of each neighbour; 0 = as the topology says");
  shared.choice("codec", GV_FIELD(mixing.rule.codec.kind), named_choices(codec_kinds),
                "encoding of the numbers in messages");
  shared.with("codec", {"top_k", "random_k"})
      .add("codec_fraction", GV_FIELD(mixing.rule.codec.fraction), {0, 1, true},
           "fraction of the numbers that is sent");
  shared.with("codec", {"qsgd"})
      .add("codec_levels", GV_FIELD(mixing.rule.codec.levels), {1, 127},
           "number of magnitudes, besides 0, to which numbers are rounded");
  mixing.choice(
      "memory", GV_FIELD(mixing.rule.memory), named_choices(mix_memories),
      "what a peer remembers of earlier messages, so that the codec may leave something out");
}

/// Adds the keys for guards against hostile neighbours.
void RoundKeys::append_guard() const {
  shared.choice("guard", GV_FIELD(mixing.rule.guard.kind), named_choices(guard_kinds),
                "protection against hostile models of neighbours");
  const Keys guarded = shared.only_with("mixing.guard", "a guard", [](const Config& c) {
    return c.mixing.rule.guard.kind != GuardKind::none;
  });
  guarded.add("guard_radius", GV_FIELD(mixing.rule.guard.radius), {0, 1e9},
              "radius of clips; 0 = computed from the distances of the neighbours");
  guarded.add("guard_hostile", GV_FIELD(mixing.rule.guard.hostile), {-1, 1000},
              "number of neighbours that may be hostile; -1 = the largest number below half");
}

/// Adds the keys for corrections that help when data differ between peers.
void RoundKeys::append_corrections() const {
  mixing.choice("correction", GV_FIELD(mixing.rule.correction), named_choices(mix_corrections),
                "replacement for plain momentum that helps if data differ between peers");
  mixing
      .only_with(
          "mixing.kind",
          with_momentum("kind", mix_kinds) + ", or " + with_momentum("correction", mix_corrections),
          [](const Config& c) {
            return traits_of(c.mixing.rule.kind).has_momentum ||
                   traits_of(c.mixing.rule.correction).has_momentum;
          })
      .add("momentum", GV_FIELD(mixing.rule.momentum), {0, 0.9999},
           "momentum of the rule or correction");
  mixing.with("correction", {"quasi_global"})
      .add("smoothing", GV_FIELD(mixing.rule.smoothing), {0, 0.9999},
           "fraction of the momentum of the correction that a round keeps");
}

/// Adds the keys for staleness, weights of old messages, and pieces of the model.
void RoundKeys::append_pace() const {
  mixing.add("staleness", GV_FIELD(mixing.rule.staleness), {-1, 128},
             "number of the last rounds whose messages from neighbours may be missing when a peer "
             "begins a round; -1 = it never waits");
  mixing.add("weigh_by_age", GV_FIELD(mixing.rule.weigh_by_age),
             "true = the weight of a message is multiplied by 1 / (1 + its age in rounds)");
  mixing.add("weigh_by_samples", GV_FIELD(mixing.rule.weigh_by_samples),
             "true = each peer counts in proportion to the samples of its shard; only with kind = "
             "\"push_sum\"");
  shared.add("fragments", GV_FIELD(mixing.rule.fragments), {1, 4096},
             "number of pieces that the model is cut into; each round concerns one of them");
  mixing
      .only_with("mixing.fragments", "fragments above 1",
                 [](const Config& c) { return c.mixing.rule.fragments > 1; })
      .choice("fragment_order", GV_FIELD(mixing.rule.fragment_order),
              named_choices(fragment_orders),
              "which piece a round concerns: in_turn = the next one, the same at all peers; "
              "largest = the one that changed most at each peer; own = the piece that is the "
              "peer's own, the only one that it trains");
  mixing.with("topology", {"star", "tree"})
      .add("centre_rests", GV_FIELD(mixing.rule.centre_rests),
           "true = the centre only mixes and does not train");
}

/// Adds the keys for the outer step, and for stragglers.
void RoundKeys::append_outer() const {
  mixing.choice("outer", GV_FIELD(mixing.rule.outer), named_choices(mix_outers),
                "what peers do after the mixing of every outer_every-th round");
  const Keys slowmo = mixing.with("outer", {"slowmo"});
  slowmo.add("outer_every", GV_FIELD(mixing.rule.outer_every), {1, 1e6},
             "rounds between two outer steps");
  slowmo.add("outer_momentum", GV_FIELD(mixing.rule.outer_momentum), {0, 0.9999},
             "momentum of the outer step");
  mixing
      .only_with("mixing.outer", "outer = \"slowmo\" or kind = \"noloco\"",
                 [](const Config& c) {
                   const MixRule& rule = c.mixing.rule;
                   return rule.outer == MixOuter::slowmo || rule.kind == MixKind::noloco;
                 })
      .add("outer_learning_rate", GV_FIELD(mixing.rule.outer_learning_rate), {least_positive, 100},
           "learning rate of the outer step");
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
          "a peer that is this many rounds behind downloads a model");
}

}  // namespace gv::settings
