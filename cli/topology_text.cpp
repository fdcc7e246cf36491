// Prints figures, edges and matrices as lines of text.
#include "cli/topology_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "base/counted.hpp"
#include "consensus/topology/base_k.hpp"
#include "consensus/topology/graphs.hpp"
#include "consensus/topology/pairs.hpp"
#include "consensus/topology/spectrum.hpp"

namespace gv {
namespace {

constexpr std::size_t matrix_peers_max = 16;
constexpr std::size_t edges_shown_max = 40;
constexpr std::size_t rounds_unasked = 8;
constexpr double bytes_per_number = 4;

/// The weights of a connection's two directions. One weight is 0 if models go only one way.
struct Link {
  std::size_t low = 0;
  std::size_t high = 0;
  double to_low = 0;
  double to_high = 0;
};

std::vector<Link> links_of(const Mixing& round) {
  std::vector<Link> links;
  const auto weight = [&](std::size_t to, std::size_t from) {
    const auto found = std::ranges::find(round[to], from, &Share::from);
    return found == round[to].end() ? 0 : found->weight;
  };
  for (std::size_t low = 0; low < round.size(); ++low) {
    std::vector<std::size_t> others;
    for (const Share& share : round[low]) {
      if (share.from > low) others.push_back(share.from);
    }
    for (std::size_t high = low + 1; high < round.size(); ++high) {
      if (weight(high, low) > 0 && !std::ranges::binary_search(others, high)) {
        others.insert(std::ranges::lower_bound(others, high), high);
      }
    }
    for (const std::size_t high : others) {
      links.push_back({low, high, weight(low, high), weight(high, low)});
    }
  }
  return links;
}

/// The value as a fraction if that is simple, for example "1/3", else with three digits.
std::string fraction(double value) {
  if (value == 0) return "0";
  for (int below = 1; below <= 200; ++below) {
    const double above = value * below;
    if (std::abs(above - std::round(above)) > 1e-9) continue;
    return below == 1 ? fmt::format("{:.0f}", above) : fmt::format("{:.0f}/{}", above, below);
  }
  return fmt::format("{:.3g}", value);
}

/// The link as text: "0-1", or "2>0" if only peer 2's model goes to peer 0.
std::string link_text(const Link& link) {
  if (link.to_low > 0 && link.to_high > 0) return fmt::format("{}-{}", link.low, link.high);
  return link.to_low > 0 ? fmt::format("{}>{}", link.high, link.low)
                         : fmt::format("{}>{}", link.low, link.high);
}

std::string round_line(const Mixing& round) {
  const std::vector<Link> links = links_of(round);
  if (links.empty()) return "no peer meets another";
  double least = 1;
  double most = 0;
  for (const Link& link : links) {
    least = std::min(least, std::max(link.to_low, link.to_high));
    most = std::max(most, std::max(link.to_low, link.to_high));
  }
  const bool alike = most - least < 1e-12;
  std::string text;
  for (std::size_t i = 0; i < std::min(links.size(), edges_shown_max); ++i) {
    text += (i == 0 ? "" : " ") + link_text(links[i]);
    if (!alike) text += "(" + fraction(std::max(links[i].to_low, links[i].to_high)) + ")";
  }
  if (links.size() > edges_shown_max) {
    text += fmt::format(" and {} more", links.size() - edges_shown_max);
  }
  return alike ? text + "   weight " + fraction(most) : text;
}

/// Breaks text at blanks into lines of at most 100 columns. Later lines are indented.
std::string wrapped(const std::string& head, const std::string& text) {
  std::string all;
  std::string line = head;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (line.size() + 1 + word.size() > 100 && line.size() > head.size()) {
      all += line + "\n";
      line = std::string(head.size(), ' ');
    }
    line += (line.size() == head.size() ? "" : " ") + word;
    at = end + 1;
  }
  return all + line + "\n";
}

std::string matrix_text(const Mixing& round) {
  const SquareMatrix w = mixing_matrix(round);
  std::string text = "       ";
  for (std::size_t j = 0; j < w.n; ++j) text += fmt::format("{:>5}", j);
  text += "\n";
  for (std::size_t i = 0; i < w.n; ++i) {
    text += fmt::format("  {:>5}", i);
    for (std::size_t j = 0; j < w.n; ++j) {
      const double value = w.at(i, j);
      const std::string number = std::abs(value) < 1e-12 ? "." : fmt::format("{:.2f}", value);
      text += fmt::format("{:>5}", number.starts_with("0.") ? number.substr(1) : number);
    }
    text += "\n";
  }
  return text;
}

/// A number of rounds as text, for example "9", "9.3", "910" or "never".
std::string rounds_text(double rounds) {
  if (!std::isfinite(rounds)) return "never";
  return rounds < 99.95 ? fmt::format("{:.3g}", rounds) : fmt::format("{:.0f}", rounds);
}

std::string gap_text(const Contraction& left) {
  if (left.left < 1e-12) return "1";
  return left.gap() < 1e-3 ? fmt::format("{:.2g}", left.gap()) : fmt::format("{:.4f}", left.gap());
}

/// A count as text: a whole number, or a number with one decimal place.
std::string count_text(double count) {
  const bool is_whole = std::abs(count - std::round(count)) < 1e-9;
  return is_whole ? fmt::format("{:.0f}", count) : fmt::format("{:.1f}", count);
}

std::string bytes_text(double bytes) {
  double value = bytes;
  const char* unit = "B";
  for (const char* next : {"kB", "MB", "GB", "TB"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = next;
  }
  return fmt::format("{:.3g} {}", value, unit);
}

/// The number of models sent.
struct Traffic {
  double models = 0;  ///< Models sent in a round by all peers, averaged over a period.
  double most = 0;    ///< The largest number of models that one peer sends in a round.
};

Traffic traffic_of(const TopologyQuestion& question, std::size_t rounds) {
  Traffic traffic;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<double> sent(question.peers, 0);
    for (const auto& row : round_shown(question, round)) {
      for (const Share& share : row) {
        sent[share.from] += 1;
        traffic.models += 1 / static_cast<double>(rounds);
      }
    }
    traffic.most = std::max(traffic.most, *std::ranges::max_element(sent));
  }
  return traffic;
}

/// Number of rounds over which means are taken: a period, or 64 for random topologies.
std::size_t rounds_for_means(const TopologyQuestion& question) {
  if (question.in_pairs) {
    const std::size_t period = PairPlan(question.topology, question.peers, question.seed).period();
    return period > 0 ? period : 64;
  }
  return std::max<std::size_t>(1, period_of(question.topology, question.peers));
}

std::string line(const std::string& name, const std::string& value) {
  return wrapped(fmt::format("{:<15}", name), value);
}

std::string after(std::size_t rounds) { return "after " + counted(rounds, "round"); }

std::string pairs_line(const TopologyQuestion& question) {
  const Topology& topology = question.topology;
  if (const auto problem = problem_with_pairs(topology)) {
    return line("in gossip", "not in pairs: " + problem->reason + "; " + problem->remedy);
  }
  const Contraction left = pair_contraction(topology, question.peers, question.seed);
  const std::string key = fmt::format("[gossip] topology = \"{}\"", to_string(topology.kind));
  if (left.left < 1e-12) {
    return line("in gossip",
                fmt::format("{}: its pairs have the mean of all {}", key, after(left.rounds)));
  }
  const bool weighs = topology.kind == TopologyKind::base_k;
  return line("in gossip",
              fmt::format("{}: its pairs leave a tenth of the spread after {} rounds{}", key,
                          rounds_text(left.rounds_to_a_tenth()),
                          weighs ? ", since all of them weigh 1/2 there" : ""));
}

std::string parameters_text(const TopologyQuestion& question) {
  const Topology& topology = question.topology;
  std::string text;
  if (topology.kind == TopologyKind::random_regular) {
    text += fmt::format(", degree {}", regular_degree(topology, question.peers));
  }
  if (topology.kind == TopologyKind::base_k) text += fmt::format(", k = {}", base_k_of(topology));
  if (topology.kind == TopologyKind::torus) {
    const std::size_t rows = torus_rows(question.peers);
    text += fmt::format(", {} x {}", rows, question.peers / rows);
  }
  if (topology.kind == TopologyKind::moshpit) {
    text += fmt::format(", {} dimensions", topology.dimensions);
  }
  if (topology.lazy) text += ", lazy";
  if (question.in_pairs) text += ", in pairs as gossip runs it";
  return text;
}

std::string period_text(const TopologyQuestion& question, std::size_t period) {
  if (period == 0) return "each drawn again";
  const bool by_distance = question.topology.kind == TopologyKind::one_peer_exponential;
  if (question.in_pairs && by_distance) {
    return fmt::format("{} distances by turns, counted from a rank that is drawn", period);
  }
  if (period == 1) return "all alike";
  return fmt::format("{} different ones, again and again", period);
}

std::string speed_lines(const TopologyQuestion& question) {
  const Contraction left = question.in_pairs
                               ? pair_contraction(question.topology, question.peers, question.seed)
                               : contraction_of(question.topology, question.peers, question.seed);
  const std::string over =
      left.rounds > 1 ? fmt::format(" over {} rounds", left.rounds) : std::string();
  if (left.left < 1e-12) {
    return line("exact", fmt::format("{} everybody has the mean of all", after(left.rounds))) +
           line("spectral gap", "1" + over + ": nothing of the spread is left");
  }
  return line("exact", "never: the spread only shrinks") +
         line(
             "spectral gap",
             fmt::format("{}{}: a round leaves {} {:.2f} % of the spread; a tenth is left after {} "
                         "rounds",
                         gap_text(left), over, left.in_mean ? "in the mean square" : "at most",
                         100 * left.per_round(), rounds_text(left.rounds_to_a_tenth())));
}

}  // namespace

std::string_view meaning_of(TopologyKind kind) {
  static constexpr auto meanings = names_of<TopologyKind>(
      {"everybody averages with everybody", "pairs are drawn again in every round",
       "each averages with the two beside it",
       "a grid whose ends are joined: each averages with four",
       "all average with one, who is busy with everybody",
       "a binary tree: each averages with the one above and two below",
       "each averages with all whose number differs in one bit",
       "each takes from those 1, 2, 4, ... further on",
       "a graph drawn once, with equally many neighbours for all",
       "each takes from one, 1, 2, 4, ... before it by turns",
       "few partners a round, and the exact mean for any number of peers",
       "a grid: the lines of one axis average, the next round those of the next",
       "all of a host average, and now and then two hosts do; here on two hosts"});
  return meanings[kind];
}

Mixing round_shown(const TopologyQuestion& question, std::size_t round) {
  if (!question.in_pairs) {
    return mixing_of(question.topology, question.peers, question.seed, round);
  }
  Mixing mixing(question.peers);
  const PairPlan plan(question.topology, question.peers, question.seed);
  for (const RankPair& pair : plan.round(round)) {
    mixing[pair.initiator].push_back({pair.responder, 0.5});
    mixing[pair.responder].push_back({pair.initiator, 0.5});
  }
  return mixing;
}

std::size_t rounds_shown(const TopologyQuestion& question) {
  if (question.rounds > 0) return question.rounds;
  const std::size_t period =
      question.in_pairs ? PairPlan(question.topology, question.peers, question.seed).period()
                        : period_of(question.topology, question.peers);
  return period == 0 ? 3 : std::min(period, rounds_unasked);
}

std::string topology_report(const TopologyQuestion& question) {
  const Topology& topology = question.topology;
  const std::size_t n = question.peers;
  const std::size_t rounds = rounds_for_means(question);
  const Traffic traffic = traffic_of(question, rounds);
  const std::size_t period =
      question.in_pairs ? PairPlan(topology, n, question.seed).period() : period_of(topology, n);
  std::string text = fmt::format("{} of {}{}\n{}\n\n", to_string(topology.kind), counted(n, "peer"),
                                 parameters_text(question), meaning_of(topology.kind));
  text += line("neighbours",
               fmt::format("{} in a round at most",
                           question.in_pairs ? (n > 1 ? 1 : 0) : traits_of(topology, n).degree));
  text += line("rounds", period_text(question, period));
  text += speed_lines(question);
  const double size = question.parameters * bytes_per_number;
  text +=
      line("messages",
           fmt::format("{} models a round, at most {:.0f} by one peer: {} in all and {} for that "
                       "one, with {:.0f} numbers in a model",
                       count_text(traffic.models), traffic.most, bytes_text(traffic.models * size),
                       bytes_text(traffic.most * size), question.parameters));
  if (!question.in_pairs) {
    text += line("matrix", std::string("doubly stochastic, so the mean stays; ") +
                               (traits_of(topology, n).symmetric
                                    ? "symmetric"
                                    : "directed: A>B means that B takes the model of A"));
    text += pairs_line(question);
  }
  text += "\n";
  const std::size_t shown = rounds_shown(question);
  for (std::size_t round = 0; round < shown; ++round) {
    text += wrapped(fmt::format("{:<15}", fmt::format("round {}", round)),
                    round_line(round_shown(question, round)));
  }
  if (n <= matrix_peers_max) {
    text += "\nround 0 as a matrix: what the peer of a row takes of the peer of a column\n" +
            matrix_text(round_shown(question, 0));
  }
  return text;
}

std::string topology_table(std::size_t peers, std::uint64_t seed) {
  const char* row = "{:<21}{:>10}{:>8}{:>9}{:>12}{:>9}{:>12}\n";
  std::string text = counted(peers, "peer") + "\n\n" +
                     fmt::format(fmt::runtime(row), "topology", "neighbours", "period", "gap",
                                 "to a tenth", "models", "in gossip");
  for (const TopologyKind kind : topology_kinds) {
    const TopologyQuestion question{.topology = {.kind = kind}, .peers = peers, .seed = seed};
    if (const auto problem = problem_of(question.topology, peers)) {
      text += fmt::format("{:<21}  {}\n", to_string(kind), problem->reason);
      continue;
    }
    const Contraction left = contraction_of(question.topology, peers, seed);
    const std::size_t period = period_of(question.topology, peers);
    std::string pairs = "-";
    if (!problem_with_pairs(question.topology)) {
      pairs = rounds_text(pair_contraction(question.topology, peers, seed).rounds_to_a_tenth());
    }
    text +=
        fmt::format(fmt::runtime(row), to_string(kind), traits_of(question.topology, peers).degree,
                    period == 0 ? "drawn" : std::to_string(period), gap_text(left),
                    rounds_text(left.rounds_to_a_tenth()),
                    count_text(traffic_of(question, rounds_for_means(question)).models), pairs);
  }
  return text +
         "\nneighbours: the most of one peer in a round. gap: 1 - ||W - J||, over one period.\n"
         "to a tenth: rounds until a tenth of the spread is left. models: sent in a round.\n"
         "in gossip: such rounds where each peer has one exchange at most, as gossip.topology runs "
         "it.\n";
}

}  // namespace gv
