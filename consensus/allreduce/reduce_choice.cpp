// Predicts every algorithm's time over measured links, and decides whether a change is worthwhile.
#include "consensus/allreduce/reduce_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "consensus/allreduce/ring_order.hpp"

namespace gv {
namespace {

/// Bounds for the costs of a link, so that sums of costs stay finite.
constexpr double least_seconds_per_byte = 1e-12;
constexpr double most_seconds_per_byte = 1;
constexpr double most_latency_s = 1000;

constexpr double bytes_per_element = sizeof(float);

LinkCost cost_of(const LinkReport& report) {
  const auto latency = static_cast<double>(report.latency_s);
  const double per_byte = 1 / static_cast<double>(report.bytes_per_second);
  if (!(latency >= 0) || !(per_byte >= 0)) return {most_latency_s, most_seconds_per_byte};
  return {std::min(latency, most_latency_s),
          std::clamp(per_byte, least_seconds_per_byte, most_seconds_per_byte)};
}

/// Calls `use(from, to, bytes, round)` for every message of a sum.
template <class Use>
void for_each_message(const ReduceChoice& choice, std::size_t elements, Use use) {
  const std::size_t ranks = choice.order.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const ReduceStep& step : reduce_plan(choice.algorithm, ranks, rank, elements)) {
      if (step.kind != ReduceStep::Kind::send) continue;
      use(choice.order[rank], choice.order[step.peer],
          bytes_per_element * static_cast<double>(step.range.size()), step.round);
    }
  }
}

double message_seconds(const LinkCost& cost, double bytes) {
  return cost.latency_s + bytes * cost.seconds_per_byte;
}

std::optional<MeasuredLink> slowest_link(const ReduceChoice& choice, const LinkTable& links,
                                         std::size_t elements) {
  std::optional<MeasuredLink> slowest;
  double longest = -1;
  for_each_message(choice, elements,
                   [&](PeerId from, PeerId to, double bytes, std::size_t /*round*/) {
                     const auto cost = links.find(from, to);
                     if (!cost || message_seconds(*cost, bytes) <= longest) return;
                     longest = message_seconds(*cost, bytes);
                     slowest = MeasuredLink{from, to, *cost};
                   });
  return slowest;
}

/// Orders `peers` in a ring so that its slowest link is as fast as possible.
std::vector<PeerId> fastest_ring(std::vector<PeerId> peers, const LinkTable& links,
                                 std::size_t elements) {
  std::ranges::sort(peers);
  const double bytes =
      bytes_per_element * static_cast<double>(elements) / static_cast<double>(peers.size());
  std::vector<PeerId> order;
  for (const std::size_t place : ring_order(peers.size(), [&](std::size_t from, std::size_t to) {
         const auto cost = links.find(peers[from], peers[to]);
         return cost ? message_seconds(*cost, bytes) : std::numeric_limits<double>::infinity();
       })) {
    order.push_back(peers[place]);
  }
  return order;
}

}  // namespace

void LinkTable::add(PeerId from, const std::vector<LinkReport>& reports) {
  for (const LinkReport& report : reports) costs_[{from, report.to}] = cost_of(report);
}

std::optional<LinkCost> LinkTable::find(PeerId from, PeerId to) const {
  const auto found = costs_.find({from, to});
  return found == costs_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> predicted_seconds(const ReduceChoice& choice, const LinkTable& links,
                                        const ReduceNeeds& needs, bool measured_only) {
  /// The messages that one peer sends, or those that it receives, in one phase, and their costs on
  /// the links.
  struct Load {
    double latency_s = 0;
    double bytes_s = 0;
    double messages = 0;

    double seconds(double message_work) const {
      return latency_s + bytes_s + (messages - 1) * message_work;
    }
  };
  const double factor = byte_factor(choice.algorithm);
  const std::size_t ranks = choice.order.size();
  std::map<std::tuple<std::size_t, PeerId, bool>, Load> loads;
  bool all_measured = true;
  for_each_message(choice, needs.elements,
                   [&](PeerId from, PeerId to, double bytes, std::size_t round) {
                     const auto cost = links.find(from, to);
                     all_measured = all_measured && cost;
                     const LinkCost link = cost.value_or(needs.site.link);
                     const std::size_t phase = phase_of(choice.algorithm, ranks, round);
                     for (Load* load : {&loads[{phase, from, true}], &loads[{phase, to, false}]}) {
                       load->latency_s = std::max(load->latency_s, link.latency_s);
                       load->bytes_s += bytes * factor * link.seconds_per_byte;
                       ++load->messages;
                     }
                   });
  if (measured_only && !all_measured) return std::nullopt;
  std::map<std::size_t, double> phases;
  for (const auto& [name, load] : loads) {
    double& longest = phases[std::get<0>(name)];
    longest = std::max(longest, load.seconds(message_work_s(needs.site)));
  }
  double on_links = 0;
  for (const auto& [phase, seconds] : phases) on_links += seconds;
  return std::max(on_links, processor_seconds(choice.algorithm, ranks, needs.elements, needs.site));
}

ReduceChoice better_choice(ReduceChoice present, const LinkTable& links, const ReduceNeeds& needs) {
  if (links.empty() || present.order.size() > link_reports_max) return present;
  double takes = *predicted_seconds(present, links, needs, false);
  if (needs.operation_seconds > 0) takes = std::min(takes, needs.operation_seconds);
  const double operation = needs.operation_seconds > 0 ? needs.operation_seconds : takes;

  ReduceChoice best = present;
  double least = takes;
  for (const std::vector<PeerId>& order :
       {present.order, fastest_ring(present.order, links, needs.elements)}) {
    for (const ReduceAlgorithm algorithm : reduce_algorithms()) {
      if (needs.algorithm.value_or(algorithm) != algorithm) continue;
      if (!fits(algorithm, order.size()) && needs.algorithm != algorithm) continue;
      const ReduceChoice other{order, algorithm, {}};
      const auto predicted = predicted_seconds(other, links, needs, true);
      if (!predicted || *predicted >= least) continue;
      best = other;
      least = *predicted;
    }
  }
  ReduceChoice& chosen = takes - least >= worth_changing * operation ? best : present;
  chosen.slowest = slowest_link(chosen, links, needs.elements);
  return chosen;
}

}  // namespace gv
