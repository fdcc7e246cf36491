// Which combinations in a rule make no sense, and why.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "consensus/mixing/mix_rule.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"

namespace gv {
namespace {

/// The most noise that a codec without memory may add: its expected squares over the model's.
constexpr double noise_max = 0.1;

/// Whether pairs of such a graph are drawn independently in each round.
bool has_drawn_pairs(TopologyKind kind) {
  return is_graph(kind) && kind != TopologyKind::hypercube && kind != TopologyKind::complete;
}

/// Whether all rounds are alike and their weights symmetric.
bool is_static(const MixRule& rule) {
  return is_graph(rule.topology.kind) && rule.partners == Partners::neighbours;
}

bool is_symmetric(const MixRule& rule, std::size_t peers) {
  if (rule.partners == Partners::pull || rule.partners == Partners::push) return false;
  return rule.partners != Partners::neighbours || traits_of(rule.topology, peers).symmetric;
}

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

/// Checks a rule, subject by subject, for choices that do not fit together.
struct RuleCheck {
  const MixRule& rule;
  std::size_t peers;
  Problems problems = {};
  bool averages = rule.kind == MixKind::average;
  bool directed = !is_symmetric(rule, peers);
  bool lossy = rule.codec.kind != CodecKind::identity;
  bool remembers_neighbours = traits_of(rule).keeps_copies;
  std::string kind = quoted(to_string(rule.kind));

  void refuse(std::string place, std::string reason, std::string remedy) {
    problems.push_back({std::move(place), std::move(reason), std::move(remedy)});
  }

  void check_partners();
  void check_alpha();
  void check_memory();
  void check_codec();
  void check_correction();
  void check_guard();
  void check_kind();
  void check_fragments();
  void check_outer_steps();
};

void RuleCheck::check_partners() {
  if (rule.partners == Partners::pairs) {
    if (const auto misfit = problem_with_pairs(rule.topology)) {
      refuse("partners", misfit->place + ": " + misfit->reason, misfit->remedy);
    }
  } else if (rule.partners != Partners::neighbours && !is_graph(rule.topology.kind)) {
    refuse("partners",
           quoted(to_string(rule.topology.kind)) + " says itself who meets whom in each round",
           "write partners = \"neighbours\", or take a graph as topology = \"complete\"");
  }
  const bool counts_on_all = rule.kind == MixKind::relay_sum || rule.kind == MixKind::downpour;
  if (rule.partners != Partners::neighbours && counts_on_all) {
    refuse("partners", kind + " counts on all neighbours of a round",
           "write partners = \"neighbours\"");
  }
  const bool drawn_pairs = rule.partners == Partners::pairs && has_drawn_pairs(rule.topology.kind);
  if (rule.kind == MixKind::companion && !drawn_pairs) {
    refuse("partners", kind + " is about pairs that are drawn along a graph",
           "write partners = \"pairs\" and a graph as topology = \"ring\"");
  }
}

void RuleCheck::check_alpha() {
  if (rule.alpha > 0 && rule.kind != MixKind::average) {
    refuse("alpha", kind + " has weights of its own", "remove alpha");
  }
  if (rule.alpha > 0 && averages) {
    // If each peer draws a partner, a peer has two on average, and sometimes more.
    const std::size_t degree =
        rule.partners == Partners::both ? 2
        : rule.partners == Partners::neighbours
            ? std::max<std::size_t>(1, traits_of(rule.topology, peers).degree)
            : 1;
    if (rule.alpha * static_cast<double>(degree) > 1) {
      refuse("alpha",
             "times " + std::to_string(degree) +
                 (rule.partners == Partners::both ? " partners in the mean" : " neighbours") +
                 " it is more than 1: forces would overshoot",
             "take at most 1 / neighbours, or 0 for the topology's own weights");
    }
  }
}

void RuleCheck::check_memory() {
  if (rule.memory != MixMemory::none && !averages) {
    refuse("memory", kind + " has no use for it", "write memory = \"none\"");
  }
  if (rule.memory != MixMemory::none && rule.correction != MixCorrection::none) {
    refuse("memory",
           quoted(to_string(rule.memory)) + " and correction = " +
               quoted(to_string(rule.correction)) + " each want to say what a message is",
           "choose one of them");
  }
  if (remembers_neighbours && (!is_static(rule) || directed)) {
    refuse("memory", quoted(to_string(rule.memory)) + " needs the same neighbours in every round",
           "take a topology such as \"ring\", \"torus\" or \"random_regular\"");
  }
  if (remembers_neighbours && rule.staleness > 0) {
    refuse("staleness", "what is remembered of neighbours needs each of their messages in turn",
           "write staleness = 0");
  }
}

void RuleCheck::check_codec() {
  if (rule.memory == MixMemory::none && lossy && averages) {
    const CodecTraits codec = traits_of(rule.codec, 1024);
    if (!codec.unbiased && !codec.lossless && rule.codec.kind != CodecKind::fp16 &&
        rule.codec.kind != CodecKind::bf16) {
      refuse("codec",
             quoted(to_string(rule.codec.kind)) +
                 " always leaves out the same: without memory models drift apart",
             "add memory = \"difference\"");
    }
    if (codec.unbiased && codec.omega > noise_max) {
      refuse("codec",
             quoted(to_string(rule.codec.kind)) +
                 " adds noise as large as the model: without memory models never agree",
             "add memory = \"difference\", or take \"qsgd\" with 127 levels");
    }
  }
  if (lossy && !averages) {
    refuse("codec", kind + " adds messages up, so that what a codec loses is lost for good",
           "write codec = \"identity\"");
  }
}

void RuleCheck::check_correction() {
  if (rule.correction != MixCorrection::none && !averages) {
    refuse("correction", "only \"average\" can be corrected, not " + kind,
           "write kind = \"average\"");
  }
  if (rule.correction != MixCorrection::none && rule.order != MixOrder::adapt_then_combine) {
    refuse("order", quoted(to_string(rule.correction)) + " counts on steps before mixing",
           "write order = \"adapt_then_combine\"");
  }
  const bool exact = rule.correction == MixCorrection::tracking ||
                     rule.correction == MixCorrection::d2 || rule.kind == MixKind::noloco;
  if (exact && (directed || rule.weigh_by_age)) {
    refuse("partners",
           (rule.kind == MixKind::noloco ? kind : quoted(to_string(rule.correction))) +
               " counts on the mean of all models, which one-sided mixing does not keep",
           "take a topology without directions and partners = \"neighbours\"");
  }
  if (rule.correction == MixCorrection::d2 && !rule.topology.lazy) {
    refuse("lazy", "\"d2\" runs apart where an eigenvalue of the weights is below -1/3",
           "write lazy = true");
  }
  if ((rule.correction != MixCorrection::none) && rule.staleness > 0) {
    refuse("staleness", quoted(to_string(rule.correction)) + " counts on rounds in step",
           "write staleness = 0");
  }
}

void RuleCheck::check_guard() {
  if (rule.guard.kind != GuardKind::none) {
    if (!averages || remembers_neighbours || rule.correction != MixCorrection::none) {
      refuse("guard", "only plain averages can be guarded",
             "write guard = \"none\", or kind = \"average\" without memory and correction");
    } else if (is_static(rule)) {
      const auto fewest = traits_of(rule.topology, peers).degree + 1;
      if (const auto problem = problem_of(rule.guard, fewest)) {
        refuse("guard", problem->reason, problem->remedy);
      }
    } else if (rule.guard.kind != GuardKind::self_centred_clip &&
               rule.guard.kind != GuardKind::clip) {
      refuse("guard", quoted(to_string(rule.guard.kind)) + " compares several neighbours",
             "write guard = \"self_centred_clip\", which needs one");
    }
  }
}

void RuleCheck::check_kind() {
  if (rule.kind == MixKind::relay_sum && rule.topology.kind != TopologyKind::tree &&
      rule.topology.kind != TopologyKind::star) {
    refuse("topology", "sums come round again where there are cycles", "write topology = \"tree\"");
  }
  if (rule.kind == MixKind::downpour && rule.topology.kind != TopologyKind::star) {
    refuse("topology", kind + " needs one that all others send to", "write topology = \"star\"");
  }
  if (rule.centre_rests && rule.topology.kind != TopologyKind::star) {
    refuse("centre_rests", "only a star has a centre", "write topology = \"star\"");
  }
  const bool keeps_order = rule.kind == MixKind::relay_sum || rule.kind == MixKind::noloco ||
                           rule.kind == MixKind::companion;
  if (keeps_order && rule.staleness > 0) {
    refuse("staleness", kind + " counts on rounds in step", "write staleness = 0");
  }
  if (rule.order == MixOrder::combine_then_adapt && !averages) {
    refuse("order", kind + " sends what its steps came to", "write order = \"adapt_then_combine\"");
  }
  if (rule.weigh_by_samples && rule.kind != MixKind::push_sum) {
    refuse("weigh_by_samples", "only \"push_sum\" has weights of peers",
           "write kind = \"push_sum\"");
  }
}

void RuleCheck::check_fragments() {
  if (rule.fragments > 1 && rule.staleness > 0) {
    refuse("staleness", "a round is about one piece of the model alone", "write staleness = 0");
  }
  if (rule.fragments > 1 &&
      (!averages || rule.memory != MixMemory::none || rule.correction != MixCorrection::none)) {
    refuse("fragments", "pieces of a model are only averaged",
           "write fragments = 1, or kind = \"average\" without memory and correction");
  }
  if (rule.fragment_order == FragmentOrder::largest) {
    const bool plain = averages && rule.guard.kind == GuardKind::none && !lossy &&
                       rule.memory == MixMemory::none && rule.correction == MixCorrection::none &&
                       rule.order == MixOrder::adapt_then_combine;
    if (!plain) {
      refuse("fragment_order", "pieces that each chooses are only averaged as they are",
             "write fragment_order = \"in_turn\"");
    }
  }
}

void RuleCheck::check_outer_steps() {
  if (rule.outer == MixOuter::slowmo && (!averages || rule.correction != MixCorrection::none)) {
    refuse("outer", "\"slowmo\" follows plain averages", "write outer = \"none\"");
  }
  if (rule.kind == MixKind::noloco && rule.momentum > 0.5 &&
      rule.gamma > (rule.momentum >= 0.9 ? 0.38 : 1.5 - (rule.momentum - 0.5) * 2.8)) {
    refuse("gamma",
           "with momentum " + std::to_string(rule.momentum) +
               " models run apart, however small "
               "the learning rate",
           "write momentum = 0.5, which is stable up to gamma = 1.5");
  }
}

}  // namespace

Problems problems_of(const MixRule& rule, std::size_t peers) {
  if (const auto misfit = problem_of(rule.topology, peers)) {
    return {{"topology", misfit->place + ": " + misfit->reason, misfit->remedy}};
  }
  RuleCheck check{.rule = rule, .peers = peers};
  check.check_partners();
  check.check_alpha();
  check.check_memory();
  check.check_codec();
  check.check_correction();
  check.check_guard();
  check.check_kind();
  check.check_fragments();
  check.check_outer_steps();
  return std::move(check.problems);
}

}  // namespace gv
