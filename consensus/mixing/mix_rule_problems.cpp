// The combinations of a rule's parts that make no sense, in one row for each constraint.
// Constraints on a single part are in that part's file in rules/.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "consensus/mixing/codec_bounds.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/mixing/mix_step.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"

namespace gv {
namespace {

/// The largest squared disagreement that a codec without memory may leave, relative to the squared
/// norm of the model.
constexpr double floor_max = 0.01;

/// The largest relative error of a power iteration.
constexpr double rounding = 1e-3;

/// The largest alpha allowed with `push`, where the number of senders to a peer in a round is
/// Poisson(1)-distributed. A round multiplies the squared difference of two models by 1 - 2 alpha +
/// 3 alpha^2, so the difference grows if alpha is above 2/3.
constexpr double push_alpha_max = 0.6;

bool is_symmetric(const MixRule& rule, std::size_t peers) {
  if (rule.partners == Partners::pull || rule.partners == Partners::push) return false;
  return rule.partners != Partners::neighbours || traits_of(rule.topology, peers).symmetric;
}

/// A rule, and the questions that several constraints ask about it.
struct Case {
  const MixRule& rule;
  std::size_t peers;
  bool averages = rule.kind == MixKind::average;
  MixTraits kind = traits_of(rule.kind);
  MixTraits correction = traits_of(rule.correction);
  bool directed = !is_symmetric(rule, peers);
  bool lossy = rule.codec.kind != CodecKind::identity;
  bool remembers = rule.memory != MixMemory::none;
  bool remembers_neighbours = traits_of(rule).keeps_copies;
  bool corrects = rule.correction != MixCorrection::none;
  bool guarded = rule.guard.kind != GuardKind::none;
  /// True if every round has the same weights.
  bool is_static = is_graph(rule.topology.kind) && rule.partners == Partners::neighbours;

  /// True if the codec loses part of an average for good because no memory compensates for it.
  bool loses() const { return !remembers && lossy && averages; }
  bool steps_first() const { return rule.order == MixOrder::adapt_then_combine; }
  /// True if rounds with this gamma drive models apart even though a memory makes up for the
  /// codec's losses. False with replicated differences, which have no gamma.
  bool goes_too_far() const {
    const bool has_gamma = remembers && rule.memory != MixMemory::replicated_difference;
    return has_gamma && averages && lossy && rule.gamma > largest_gamma(rule, peers);
  }
  /// True if every round has the same weights, and a round makes the largest difference grow or
  /// flips its sign without shrinking it.
  bool overshoots() const {
    // With the topology's own weights, largest_pull() is below 2.
    if (!is_static || (rule.gamma <= 1 && rule.alpha == 0)) return false;
    return gamma_counts() && rule.gamma * largest_pull(rule, peers) > 2 * (1 - rounding);
  }
  /// True if rounds with different weights may drive models apart. With a gamma of at most 1, no
  /// round enlarges a difference. Above 1, several rounds in a row may enlarge the same difference.
  bool overshoots_at_times() const {
    const bool pulls = averages || rule.kind == MixKind::companion;
    return pulls && !is_static && rule.gamma > 1 && !takes_pieces_whole();
  }
  bool gamma_counts() const {
    return (averages || rule.kind == MixKind::noloco) &&
           rule.memory != MixMemory::replicated_difference && !takes_pieces_whole();
  }
  bool takes_pieces_whole() const { return rule.fragment_order == FragmentOrder::own; }
  /// True if received values are never scaled.
  bool takes_all_whole() const {
    return kind.adds_up || rule.kind == MixKind::relay_sum || takes_pieces_whole();
  }
  /// True if the rule could use differences as its memory, possibly with another gamma.
  bool can_remember() const {
    return is_static && !directed && !corrects && !guarded && rule.staleness == 0 &&
           rule.fragments == 1;
  }
  /// True if the rule only averages unchanged messages after the local steps.
  bool plain() const {
    return averages && !guarded && !lossy && !remembers && !corrects &&
           rule.order == MixOrder::adapt_then_combine;
  }
  /// Why this topology cannot form pairs; nullopt if it can.
  std::optional<Problem> misfit_of_pairs() const {
    if (rule.partners != Partners::pairs) return std::nullopt;
    return problem_with_pairs(rule.topology);
  }
  /// Number of partners of a peer in a round. With `both`, the result is the mean, two.
  std::size_t partners() const {
    if (rule.partners == Partners::both) return 2;
    if (rule.partners != Partners::neighbours) return 1;
    return std::max<std::size_t>(1, traits_of(rule.topology, peers).degree);
  }
  /// True if the rule averages plainly. A guard works with no other rule.
  bool can_be_guarded() const { return averages && !remembers_neighbours && !corrects; }
  /// Why the topology gives the guard too few inputs; nullopt if it gives enough.
  std::optional<Problem> misfit_of_guard() const {
    if (!guarded || !can_be_guarded() || !is_static) return std::nullopt;
    return problem_of(rule.guard, traits_of(rule.topology, peers).degree + 1);
  }
  bool loses_the_mean() const { return directed || rule.weigh_by_age; }
};

/// A row of the table. In the texts, {kind}, {memory} and so on stand for the rule's choices.
/// written() fills them in.
struct Constraint {
  std::string_view place;
  bool (*is_violated)(const Case&);
  std::string_view reason;
  std::string_view remedy;
};

/// Constraints on partners and weights.
constexpr std::array partner_constraints = {
    Constraint{"partners", [](const Case& c) { return c.misfit_of_pairs().has_value(); },
               "{misfit of pairs}", "{remedy of pairs}"},
    Constraint{"partners",
               [](const Case& c) {
                 return c.rule.partners != Partners::pairs &&
                        c.rule.partners != Partners::neighbours && !is_graph(c.rule.topology.kind);
               },
               "{topology} says itself who meets whom in each round",
               "write partners = \"neighbours\", or take a graph as topology = \"complete\""},
    Constraint{"partners",
               [](const Case& c) {
                 return c.rule.partners != Partners::neighbours && c.kind.needs_all_neighbours;
               },
               "{kind} counts on all neighbours of a round", "write partners = \"neighbours\""},
    Constraint{"alpha", [](const Case& c) { return c.rule.alpha > 0 && !c.averages; },
               "{kind} has weights of its own", "remove alpha"},
    Constraint{"alpha", [](const Case& c) { return c.rule.alpha > 0 && c.takes_pieces_whole(); },
               "pieces that each peer trains alone are taken as they come", "remove alpha"},
    Constraint{"alpha",
               [](const Case& c) {
                 return c.averages && c.rule.alpha * static_cast<double>(c.partners()) > 1;
               },
               "times {partners} it is more than 1: forces would overshoot",
               "take at most 1 / neighbours, or 0 for the topology's own weights"},
    Constraint{"alpha",
               [](const Case& c) {
                 return c.averages && c.rule.partners == Partners::push &&
                        c.rule.alpha > push_alpha_max;
               },
               "a pushed peer may hear several others at once: models run apart from 2/3 on",
               "take at most 0.6, or 0 for equal weights"},
};

/// Constraints on messages: memory, codec and correction.
constexpr std::array message_constraints = {
    Constraint{"memory", [](const Case& c) { return c.remembers && !c.averages; },
               "{kind} has no use for it", "write memory = \"none\""},
    Constraint{"memory", [](const Case& c) { return c.remembers && c.corrects; },
               "{memory} and correction = {correction} each want to say what a message is",
               "choose one of them"},
    Constraint{"memory",
               [](const Case& c) { return c.remembers_neighbours && (!c.is_static || c.directed); },
               "{memory} needs the same neighbours in every round",
               "take a topology such as \"ring\", \"torus\" or \"random_regular\""},
    Constraint{"staleness",
               [](const Case& c) { return c.remembers_neighbours && c.rule.staleness > 0; },
               "what is remembered of neighbours needs each of their messages in turn",
               "write staleness = 0"},
    Constraint{"codec",
               [](const Case& c) {
                 return c.loses() && !traits_of(c.rule.codec, 1024).unbiased &&
                        bytes_per_element(c.rule.codec) == 0 &&
                        !traits_of(c.rule.codec, 1024).lossless;
               },
               "{codec} always leaves out the same: without memory models drift apart",
               "{remedy of codec}"},
    Constraint{"codec",
               [](const Case& c) {
                 return c.loses() && traits_of(c.rule.codec, 1024).unbiased &&
                        floor_of_noise(c.rule, c.peers) > floor_max;
               },
               "{codec} adds noise: without memory models stay apart by {floor} of their squares, "
               "and 0.01 is the most",
               "{remedy of codec}"},
    Constraint{"gamma", [](const Case& c) { return c.overshoots() && !c.goes_too_far(); },
               "with these weights models of {peers} peers overshoot and do not settle",
               "write gamma = {settling gamma}"},
    Constraint{"gamma", [](const Case& c) { return c.overshoots_at_times() && !c.goes_too_far(); },
               "where rounds differ, models may run apart above 1", "write gamma = 1 or less"},
    Constraint{"gamma", [](const Case& c) { return c.goes_too_far(); },
               "{codec} leaves out so much that models of {peers} peers run apart above {bound}",
               "write gamma = {safe gamma}"},
    Constraint{"codec", [](const Case& c) { return c.lossy && !c.averages; },
               "{kind} adds messages up, so that what a codec loses is lost for good",
               "write codec = \"identity\""},
    Constraint{"correction", [](const Case& c) { return c.corrects && !c.averages; },
               "only \"average\" can be corrected, not {kind}", "write kind = \"average\""},
    Constraint{"order", [](const Case& c) { return c.corrects && !c.steps_first(); },
               "{correction} counts on steps before mixing",
               "write order = \"adapt_then_combine\""},
    Constraint{"partners",
               [](const Case& c) { return c.kind.needs_the_mean && c.loses_the_mean(); },
               "{kind} counts on the mean of all models, which one-sided mixing does not keep",
               "take a topology without directions and partners = \"neighbours\""},
    Constraint{"partners",
               [](const Case& c) {
                 return c.correction.needs_the_mean && !c.kind.needs_the_mean && c.loses_the_mean();
               },
               "{correction} counts on the mean of all models, which one-sided mixing does not "
               "keep",
               "take a topology without directions and partners = \"neighbours\""},
    Constraint{"topology",
               [](const Case& c) {
                 return c.correction.needs_same_weights && (!c.is_static || c.directed);
               },
               "{correction} runs apart unless every round has the same weights in both directions",
               "take a topology such as \"ring\", \"torus\" or \"complete\", and partners = "
               "\"neighbours\""},
    Constraint{"staleness", [](const Case& c) { return c.corrects && c.rule.staleness > 0; },
               "{correction} counts on rounds in step", "write staleness = 0"},
};

/// Constraints on guards and kinds of mixing.
constexpr std::array kind_constraints = {
    Constraint{"guard", [](const Case& c) { return c.guarded && !c.can_be_guarded(); },
               "only plain averages can be guarded",
               "write guard = \"none\", or kind = \"average\" without memory and correction"},
    Constraint{"guard", [](const Case& c) { return c.misfit_of_guard().has_value(); },
               "{misfit of guard}", "{remedy of guard}"},
    Constraint{"guard",
               [](const Case& c) {
                 return c.guarded && c.can_be_guarded() && !c.is_static &&
                        c.rule.guard.kind != GuardKind::self_centred_clip;
               },
               "{guard} compares several neighbours",
               "write guard = \"self_centred_clip\", which needs one"},
    Constraint{"centre_rests",
               [](const Case& c) {
                 const bool is_root =
                     c.rule.kind == MixKind::downpour && c.rule.topology.kind == TopologyKind::tree;
                 return c.rule.centre_rests && c.rule.topology.kind != TopologyKind::star &&
                        !is_root;
               },
               "only a star has a centre, and with kind = \"downpour\" a tree",
               "write topology = \"star\""},
    Constraint{"staleness",
               [](const Case& c) { return c.rule.staleness > 0 && c.kind.needs_rounds_in_step; },
               "{kind} counts on rounds in step", "write staleness = 0"},
    Constraint{
        "order",
        [](const Case& c) { return c.rule.order == MixOrder::combine_then_adapt && !c.averages; },
        "{kind} sends what its steps came to", "write order = \"adapt_then_combine\""},
    Constraint{"weigh_by_samples",
               [](const Case& c) { return c.rule.weigh_by_samples && !c.kind.weighs_peers; },
               "only \"push_sum\" has weights of peers", "write kind = \"push_sum\""},
};

/// Constraints on pieces of the model and on the outer step.
constexpr std::array other_constraints = {
    Constraint{"gamma", [](const Case& c) { return c.rule.gamma != 1 && c.takes_all_whole(); },
               "what is received here is taken whole", "remove gamma"},
    Constraint{"weigh_by_age",
               [](const Case& c) { return c.rule.weigh_by_age && c.takes_all_whole(); },
               "what is received here is taken whole", "remove weigh_by_age"},
    Constraint{"weigh_by_age",
               [](const Case& c) { return c.rule.weigh_by_age && c.rule.staleness == 0; },
               "peers that wait for each message have none of earlier rounds",
               "remove weigh_by_age, or write staleness = -1"},
    Constraint{"staleness",
               [](const Case& c) {
                 return c.rule.fragments > 1 && c.rule.staleness > 0 &&
                        c.rule.fragment_order != FragmentOrder::own;
               },
               "a round is about one piece of the model alone", "write staleness = 0"},
    Constraint{"fragments",
               [](const Case& c) {
                 return c.rule.fragments > 1 && (!c.averages || c.remembers || c.corrects);
               },
               "pieces of a model are only averaged",
               "write fragments = 1, or kind = \"average\" without memory and correction"},
    Constraint{
        "fragment_order",
        [](const Case& c) { return c.rule.fragment_order != FragmentOrder::in_turn && !c.plain(); },
        "pieces that each chooses are only averaged as they are",
        "write fragment_order = \"in_turn\""},
    Constraint{"fragment_order",
               [](const Case& c) {
                 return c.rule.fragment_order == FragmentOrder::own && c.rule.fragments == 1;
               },
               "with one piece all peers would have the same", "write fragments = {peers}"},
    Constraint{"outer",
               [](const Case& c) {
                 return c.rule.outer == MixOuter::slowmo && (!c.averages || c.corrects);
               },
               "\"slowmo\" follows plain averages", "write outer = \"none\""},
};

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

/// Formats a number with two significant digits, rounded down so that a bound still holds.
std::string two_digits(double value) {
  if (!std::isfinite(value)) return "more than all";
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  std::ostringstream text;
  text << std::setprecision(2) << std::floor(value / unit + 1e-9) * unit;
  return text.str();
}

/// The text that replaces `word` where a row's texts contain it in braces.
std::string meaning(std::string_view word, const Case& c) {
  if (word == "kind") return quoted(to_string(c.rule.kind));
  if (word == "memory") return quoted(to_string(c.rule.memory));
  if (word == "correction") return quoted(to_string(c.rule.correction));
  if (word == "codec") return quoted(to_string(c.rule.codec.kind));
  if (word == "guard") return quoted(to_string(c.rule.guard.kind));
  if (word == "topology") return quoted(to_string(c.rule.topology.kind));
  if (word == "momentum") return std::to_string(c.rule.momentum);
  if (word == "partners") {
    return std::to_string(c.partners()) +
           (c.rule.partners == Partners::both ? " partners in the mean" : " neighbours");
  }
  if (word == "peers") return std::to_string(c.peers);
  if (word == "floor") return two_digits(floor_of_noise(c.rule, c.peers));
  if (word == "bound") return two_digits(largest_gamma(c.rule, c.peers));
  if (word == "settling gamma") return two_digits(1 / largest_pull(c.rule, c.peers));
  if (word == "safe gamma") return two_digits(std::min(1.0, safe_gamma(c.rule, c.peers)));
  if (word == "remedy of codec") {
    const std::string other = "take \"qsgd\" with 127 levels";
    if (!c.can_remember()) return other;
    return "add memory = \"difference\" and gamma = " + meaning("safe gamma", c) + ", or " + other;
  }
  const bool of_pairs = word.ends_with("of pairs");
  const Problem problem = of_pairs ? c.misfit_of_pairs().value() : c.misfit_of_guard().value();
  if (word.starts_with("remedy")) return problem.remedy;
  return of_pairs ? problem.place + ": " + problem.reason : problem.reason;
}

/// Replaces every word in braces with its meaning.
std::string written(std::string_view text, const Case& c) {
  std::string all;
  while (!text.empty()) {
    const std::size_t open = std::min(text.find('{'), text.size());
    all += text.substr(0, open);
    if (open == text.size()) break;
    const std::size_t close = text.find('}', open);
    all += meaning(text.substr(open + 1, close - open - 1), c);
    text.remove_prefix(close + 1);
  }
  return all;
}

}  // namespace

Problems problems_of(const MixRule& rule, std::size_t peers) {
  if (const auto misfit = problem_of(rule.topology, peers)) {
    return {{"topology", misfit->place + ": " + misfit->reason, misfit->remedy}};
  }
  const Case checked{.rule = rule, .peers = peers};
  Problems problems;
  const auto check_all = [&](const auto& constraints, const auto& of) {
    for (const auto& row : constraints) {
      if (!row.is_violated(of)) continue;
      problems.push_back(
          {std::string(row.place), written(row.reason, checked), written(row.remedy, checked)});
    }
  };
  check_all(partner_constraints, checked);
  check_all(message_constraints, checked);
  check_all(kind_constraints, checked);
  check_all(other_constraints, checked);
  for (const MixPart* part : parts_of(rule)) check_all(part->constraints, rule);
  return problems;
}

}  // namespace gv
