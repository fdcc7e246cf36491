// The keys of rounds of mixing, of which those of pipelines that mix use most.
#include <string_view>
#include <utility>

#include "peer/config/setting_sections.hpp"

namespace gv::settings {
namespace {

bool makes_rounds(const Config& c) { return c.run.mode == ModeKind::mixing; }
/// Built from the choices of [mixing] that stages have as well.
bool mixes(const Config& c) { return makes_rounds(c) || mixes_stages(c); }

/// Appends the keys of the section, one subject after another.
struct RoundKeys {
  Settings& all;
  Section<Config> rounds{"mixing"};

  void add_with(std::string_view key, std::string_view words, bool (*has_effect)(const Config&),
                Setting<Config> setting) {
    all.push_back(agreed(only_with(key, words, has_effect, std::move(setting))));
  }
  /// For mode `mixing` alone.
  void add(Setting<Config> setting) {
    add_with("run.mode", "run.mode = \"mixing\"", makes_rounds, std::move(setting));
  }
  /// For mode `mixing` and for stages that mix.
  void add_shared(Setting<Config> setting) {
    add_with("run.mode", "run.mode = \"mixing\" or pipeline.consensus = \"mixing\"", mixes,
             std::move(setting));
  }

  void append_neighbours();
  void append_messages();
  void append_guard();
  void append_corrections();
  void append_pace();
  void append_outer();
};

/// Choice of neighbours, and their weights.
void RoundKeys::append_neighbours() {
  add_shared(rounds.choice<>("topology", GV_FIELD(mixing.rule.topology.kind),
                             named_choices(topology_kinds),
                             "who is whose neighbour; `grapevine topology` shows each"));
  add_with(
      "mixing.topology", "topology = \"random_regular\" or \"base_k\"",
      [](const Config& c) {
        const TopologyKind kind = c.mixing.rule.topology.kind;
        return mixes(c) && (kind == TopologyKind::random_regular || kind == TopologyKind::base_k);
      },
      rounds.whole("topology_degree", GV_FIELD(mixing.rule.topology.degree), {0, 4095},
                   "random_regular: neighbours of each peer, 0 = 4; base_k: partners in one round, "
                   "0 = 1"));
  add_with(
      "mixing.topology", "topology = \"moshpit\"",
      [](const Config& c) {
        return mixes(c) && c.mixing.rule.topology.kind == TopologyKind::moshpit;
      },
      rounds.whole("dimensions", GV_FIELD(mixing.rule.topology.dimensions), {1, 16},
                   "of the grid"));
  add_shared(rounds.flag("lazy", GV_FIELD(mixing.rule.topology.lazy),
                         "keep half of one's own model in every round"));
  add_shared(
      rounds.choice<>("partners", GV_FIELD(mixing.rule.partners), named_choices(partner_kinds),
                      "who of the neighbours counts: all; one that each draws and hears, which "
                      "hears it, or both; or one by drawn pairs"));
}

/// Content and encoding of a round's messages.
void RoundKeys::append_messages() {
  add(rounds.choice<>("kind", GV_FIELD(mixing.rule.kind), named_choices(mix_kinds),
                      "what is made of messages: docs/algorithms"));
  add(rounds.choice<>("order", GV_FIELD(mixing.rule.order), named_choices(mix_orders),
                      "send what local steps come to, or send first and step meanwhile"));
  add(rounds.whole("period_steps", GV_FIELD(mixing.period), {1, 1e6}, "local steps of a round"));
  add_shared(rounds.number("gamma", GV_FIELD(mixing.rule.gamma), {0, 10, true},
                           "how much of the way to the neighbours is gone"));
  add_shared(rounds.number("alpha", GV_FIELD(mixing.rule.alpha), {0, 1},
                           "weight of each neighbour; 0 = as the topology says"));
  add_shared(rounds.choice<>("codec", GV_FIELD(mixing.rule.codec.kind), named_choices(lossy_kinds),
                             "how numbers travel"));
  add_with(
      "mixing.codec", "codec = \"top_k\" or \"random_k\"",
      [](const Config& c) {
        const LossyKind kind = c.mixing.rule.codec.kind;
        return mixes(c) && (kind == LossyKind::top_k || kind == LossyKind::random_k);
      },
      rounds.number("codec_fraction", GV_FIELD(mixing.rule.codec.fraction), {0, 1, true},
                    "the part of all numbers that travels"));
  add_with(
      "mixing.codec", "codec = \"qsgd\"",
      [](const Config& c) { return mixes(c) && c.mixing.rule.codec.kind == LossyKind::qsgd; },
      rounds.whole("codec_levels", GV_FIELD(mixing.rule.codec.levels), {1, 127},
                   "sizes a number is rounded to, beside 0"));
  add(rounds.choice<>("memory", GV_FIELD(mixing.rule.memory), named_choices(mix_memories),
                      "what is kept of earlier messages, so that a codec may leave something out"));
}

/// Guards against hostile neighbours.
void RoundKeys::append_guard() {
  add_shared(rounds.choice<>("guard", GV_FIELD(mixing.rule.guard.kind), named_choices(guard_kinds),
                             "what neighbours are believed"));
  const auto add_guarded = [&](Setting<Config> setting) {
    add_with(
        "mixing.guard", "a guard",
        [](const Config& c) { return mixes(c) && c.mixing.rule.guard.kind != GuardKind::none; },
        std::move(setting));
  };
  add_guarded(rounds.number("guard_radius", GV_FIELD(mixing.rule.guard.radius), {0, 1e9},
                            "of clips; 0 = by the distances of neighbours"));
  add_guarded(rounds.whole("guard_hostile", GV_FIELD(mixing.rule.guard.hostile), {-1, 1000},
                           "this many of the neighbours may be hostile; -1 = fewer than half"));
}

/// Corrections for unlike data.
void RoundKeys::append_corrections() {
  add(rounds.choice<>("correction", GV_FIELD(mixing.rule.correction),
                      named_choices(mix_corrections), "what is done about unlike data"));
  add_with(
      "mixing.kind", "kind = \"noloco\", or correction = \"quasi_global\" or \"decentlam\"",
      [](const Config& c) {
        const MixRule& rule = c.mixing.rule;
        return makes_rounds(c) &&
               (rule.kind == MixKind::noloco || rule.correction == MixCorrection::quasi_global ||
                rule.correction == MixCorrection::decentlam);
      },
      rounds.number("momentum", GV_FIELD(mixing.rule.momentum), {0, 0.9999}, "of these"));
  add_with(
      "mixing.correction", "correction = \"quasi_global\"",
      [](const Config& c) {
        return makes_rounds(c) && c.mixing.rule.correction == MixCorrection::quasi_global;
      },
      rounds.number("smoothing", GV_FIELD(mixing.rule.smoothing), {0, 0.9999},
                    "share of its momentum that a round keeps"));
}

/// Staleness, weights of old messages, and pieces of the model.
void RoundKeys::append_pace() {
  add(rounds.whole(
      "staleness", GV_FIELD(mixing.rule.staleness), {-1, 1e6},
      "begin a round without what neighbours sent in this many last rounds; -1 = never "
      "wait"));
  add(rounds.flag("weigh_by_age", GV_FIELD(mixing.rule.weigh_by_age),
                  "a message counts 1 / (1 + its age in rounds)"));
  add(rounds.flag("weigh_by_samples", GV_FIELD(mixing.rule.weigh_by_samples),
                  "peers count by the samples of their shards; only push_sum can"));
  add_shared(rounds.whole("fragments", GV_FIELD(mixing.rule.fragments), {1, 4096},
                          "a round is about one of this many pieces of the model"));
  add_with(
      "mixing.fragments", "fragments above 1",
      [](const Config& c) { return makes_rounds(c) && c.mixing.rule.fragments > 1; },
      rounds.choice<>("fragment_order", GV_FIELD(mixing.rule.fragment_order),
                      named_choices(fragment_orders),
                      "which one: the next at all peers, or at each that which changed most"));
  add_with(
      "mixing.topology", "topology = \"star\"",
      [](const Config& c) {
        return makes_rounds(c) && c.mixing.rule.topology.kind == TopologyKind::star;
      },
      rounds.flag("centre_rests", GV_FIELD(mixing.rule.centre_rests),
                  "the centre only mixes and does not train"));
}

/// Steps after several rounds, and measures for stragglers.
void RoundKeys::append_outer() {
  add(rounds.choice<>("outer", GV_FIELD(mixing.rule.outer), named_choices(mix_outers),
                      "what follows mixing every outer_rounds rounds"));
  const auto add_outer = [&](Setting<Config> setting) {
    add_with(
        "mixing.outer", "outer = \"slowmo\"",
        [](const Config& c) { return makes_rounds(c) && c.mixing.rule.outer == MixOuter::slowmo; },
        std::move(setting));
  };
  add_outer(rounds.whole("outer_every", GV_FIELD(mixing.rule.outer_every), {1, 1e6},
                         "rounds between two outer steps"));
  add_outer(rounds.number("outer_momentum", GV_FIELD(mixing.rule.outer_momentum), {0, 0.9999},
                          "of the outer step"));
  add_with(
      "mixing.outer", "outer = \"slowmo\" or kind = \"noloco\"",
      [](const Config& c) {
        return makes_rounds(c) &&
               (c.mixing.rule.outer == MixOuter::slowmo || c.mixing.rule.kind == MixKind::noloco);
      },
      rounds.number("outer_learning_rate", GV_FIELD(mixing.rule.outer_learning_rate),
                    {0, 100, true}, "of the outer step"));
  all.push_back(
      only_with("run.mode", "run.mode = \"mixing\"", makes_rounds,
                rounds.whole("catch_up_rounds", GV_FIELD(mixing.catch_up_rounds), {1, 1e9},
                             "a peer that is this many rounds behind is sent a model")));
}

}  // namespace

void append_mixing(Settings& all) {
  RoundKeys keys{.all = all};
  keys.append_neighbours();
  keys.append_messages();
  keys.append_guard();
  keys.append_corrections();
  keys.append_pace();
  keys.append_outer();
}

}  // namespace gv::settings
