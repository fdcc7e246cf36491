// Names, traits, and which combinations make no sense and why.
#include "consensus/mixing/mix_rule.hpp"

#include <algorithm>
#include <string>

#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"

namespace gv {
namespace {

/// Of a codec without memory: the expected squares it adds, as a part of those of the model.
constexpr double noise_max = 0.1;

/// Pairs of such a graph are drawn anew in each round, and do not follow each other.
bool has_drawn_pairs(TopologyKind kind) {
  return is_graph(kind) && kind != TopologyKind::hypercube && kind != TopologyKind::complete;
}

/// Rounds are alike, and what i takes of j is what j takes of i.
bool is_static(const MixRule& rule) {
  return is_graph(rule.topology.kind) && rule.partners == Partners::neighbours;
}

bool is_symmetric(const MixRule& rule, std::size_t peers) {
  if (rule.partners == Partners::pull || rule.partners == Partners::push) return false;
  return rule.partners != Partners::neighbours || traits_of(rule.topology, peers).symmetric;
}

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

}  // namespace

std::string_view to_string(MixKind kind) {
  switch (kind) {
    case MixKind::average:
      return "average";
    case MixKind::push_sum:
      return "push_sum";
    case MixKind::relay_sum:
      return "relay_sum";
    case MixKind::companion:
      return "companion";
    case MixKind::noloco:
      return "noloco";
    case MixKind::downpour:
      return "downpour";
  }
  return "";
}

std::string_view to_string(MixMemory memory) {
  switch (memory) {
    case MixMemory::none:
      return "none";
    case MixMemory::difference:
      return "difference";
    case MixMemory::replicated_difference:
      return "replicated_difference";
    case MixMemory::error_feedback:
      return "error_feedback";
  }
  return "";
}

std::string_view to_string(MixCorrection correction) {
  switch (correction) {
    case MixCorrection::none:
      return "none";
    case MixCorrection::quasi_global:
      return "quasi_global";
    case MixCorrection::decentlam:
      return "decentlam";
    case MixCorrection::tracking:
      return "tracking";
    case MixCorrection::d2:
      return "d2";
  }
  return "";
}

std::string_view to_string(MixOrder order) {
  return order == MixOrder::adapt_then_combine ? "adapt_then_combine" : "combine_then_adapt";
}

std::string_view to_string(Partners partners) {
  switch (partners) {
    case Partners::neighbours:
      return "neighbours";
    case Partners::pull:
      return "pull";
    case Partners::push:
      return "push";
    case Partners::both:
      return "both";
    case Partners::pairs:
      return "pairs";
  }
  return "";
}

std::string_view to_string(MixOuter outer) { return outer == MixOuter::none ? "none" : "slowmo"; }

std::string_view to_string(FragmentOrder order) {
  return order == FragmentOrder::in_turn ? "in_turn" : "largest";
}

MixTraits traits_of(const MixRule& rule) {
  const bool one_sided = rule.partners == Partners::pull || rule.partners == Partners::push;
  const bool guarded = rule.guard.kind != GuardKind::none;
  const bool clipped = rule.guard.kind == GuardKind::self_centred_clip && rule.guard.radius > 0;
  MixTraits traits;
  switch (rule.kind) {
    case MixKind::average:
      // A fixed radius clips both ends of an edge alike.
      traits.conserves_mean = !one_sided && (!guarded || clipped) && !rule.weigh_by_age;
      traits.keeps_equal = true;
      traits.vectors = 1;
      break;
    case MixKind::push_sum:
      // Of the numerators; the models are that once all weights are alike.
      traits.conserves_mean = false;
      traits.vectors = 2;
      break;
    case MixKind::relay_sum:
      traits.vectors = 2;
      break;
    case MixKind::companion:
      traits = {.conserves_mean = true, .keeps_equal = true, .vectors = 2};
      break;
    case MixKind::noloco:
      // Of the slow models, which only moves by the mean of the changes.
      traits = {.conserves_mean = true, .keeps_equal = true, .vectors = 4, .words = 2};
      break;
    case MixKind::downpour:
      traits.vectors = 2;
      break;
  }
  traits.keeps_copies =
      rule.memory == MixMemory::difference || rule.memory == MixMemory::replicated_difference;
  if (rule.memory != MixMemory::none) traits.vectors += traits.keeps_copies ? 3 : 1;
  switch (rule.correction) {
    case MixCorrection::none:
      break;
    case MixCorrection::quasi_global:
      traits.plain_steps = true;
      traits.vectors += 2;
      break;
    case MixCorrection::decentlam:
      traits.plain_steps = traits.one_by_one = true;
      traits.vectors += 2;
      break;
    case MixCorrection::tracking:
      traits.one_by_one = true;
      traits.vectors += 3;
      traits.words = 2;
      break;
    case MixCorrection::d2:
      traits.vectors += 1;
      break;
  }
  if (rule.outer == MixOuter::slowmo) traits.vectors += 2;
  if (rule.fragment_order == FragmentOrder::largest) {
    traits.conserves_mean = false;  // One sends a piece and is sent another.
    traits.vectors += 1;
  }
  // Parts of a sum all count, and so do differences, what the last message lacked, and each piece
  // of a model that travels in pieces.
  traits.newest_suffices = rule.staleness > 0 && rule.kind == MixKind::average &&
                           rule.memory == MixMemory::none &&
                           rule.correction == MixCorrection::none && rule.fragments == 1;
  return traits;
}

Problems problems_of(const MixRule& rule, std::size_t peers) {
  Problems problems;
  const auto refuse = [&](std::string place, std::string reason, std::string remedy) {
    problems.push_back({std::move(place), std::move(reason), std::move(remedy)});
  };
  if (const auto misfit = problem_of(rule.topology, peers)) {
    refuse("topology", misfit->place + ": " + misfit->reason, misfit->remedy);
    return problems;
  }
  const bool averages = rule.kind == MixKind::average;
  const bool directed = !is_symmetric(rule, peers);
  const bool lossy = rule.codec.kind != LossyKind::identity;
  const std::string kind = quoted(to_string(rule.kind));

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
  if (rule.alpha > 0 && rule.kind != MixKind::average) {
    refuse("alpha", kind + " has weights of its own", "remove alpha");
  }
  if (rule.alpha > 0 && averages) {
    // With partners drawn by each a peer has two in the mean, and more now and then.
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

  if (rule.memory != MixMemory::none && !averages) {
    refuse("memory", kind + " has no use for it", "write memory = \"none\"");
  }
  if (rule.memory != MixMemory::none && rule.correction != MixCorrection::none) {
    refuse("memory",
           quoted(to_string(rule.memory)) + " and correction = " +
               quoted(to_string(rule.correction)) + " each want to say what a message is",
           "choose one of them");
  }
  const bool remembers_neighbours = traits_of(rule).keeps_copies;
  if (remembers_neighbours && (!is_static(rule) || directed)) {
    refuse("memory", quoted(to_string(rule.memory)) + " needs the same neighbours in every round",
           "take a topology such as \"ring\", \"torus\" or \"random_regular\"");
  }
  if (remembers_neighbours && rule.staleness > 0) {
    refuse("staleness", "what is remembered of neighbours needs each of their messages in turn",
           "write staleness = 0");
  }
  if (rule.memory == MixMemory::none && lossy && averages) {
    const LossyTraits codec = traits_of(rule.codec, 1024);
    if (!codec.unbiased && !codec.lossless && rule.codec.kind != LossyKind::fp16 &&
        rule.codec.kind != LossyKind::bf16) {
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
  return problems;
}

}  // namespace gv
