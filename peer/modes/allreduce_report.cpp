// Reports the state of a peer in mode `allreduce`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "peer/modes/allreduce.hpp"

namespace gv {

AllReduceCounts AllReduceMode::counts() const {
  AllReduceCounts counts = counts_;
  counts.operations = generations_.operations();
  counts.generations = generations_.count();
  counts.losses = generations_.recoveries().losses();
  counts.reduced_bytes = operation_.bytes_sent();
  return counts;
}

ModeReport AllReduceMode::report(const Membership& members) const {
  using enum ReportMetric::Kind;
  const Generation* generation = generations_.current();
  const std::vector<std::string> order =
      generation != nullptr ? names_of(generation->order, members) : std::vector<std::string>();
  const AllReduceCounts all = counts();
  ReportSection section{.name = "allreduce",
                        .figures = {{"algorithm", std::string(to_string(algorithm()))},
                                    {"order", order},
                                    {"operations", all.operations},
                                    {"generations", all.generations},
                                    {"losses", all.losses},
                                    {"states_sent", all.states_sent},
                                    {"states_adopted", all.states_adopted},
                                    {"reduced_bytes", all.reduced_bytes}}};
  generations_.add_to(section, members);
  ModeReport report{
      .sections = {std::move(section)},
      .metrics = {{"lockstep_peers", gauge, "Peers in lockstep with this one, itself included.",
                   static_cast<double>(order.size())},
                  {"operations_total", counter, "Sums that this peer finished.",
                   static_cast<double>(all.operations)},
                  {"models_fetched_total", counter, "Whole models downloaded.",
                   static_cast<double>(all.states_adopted)}},
      .columns = {{"together", std::to_string(order.size())},
                  {"losses", std::to_string(all.losses)},
                  {"models sent", std::to_string(all.states_sent)}},
      .line = fmt::format("in lockstep {}  losses {}", order.size(), all.losses),
      .details = {fmt::format(
          "sums by {}, in the order {}", to_string(algorithm()),
          order.empty() ? "that is being agreed on" : fmt::format("{}", fmt::join(order, " ")))}};
  generations_.add_to(report.metrics);
  if (work_.is_on()) work_.add_to(members, report);
  noise_.add_to(report);
  // The slowest link, which all sums wait for; reported once it has been measured.
  if (generation != nullptr && generation->slowest.bytes_per_second > 0) {
    const std::string from = name_of(generation->slowest_from, members);
    const std::string to = name_of(generation->slowest.to, members);
    const double latency_s = generation->slowest.latency_s;
    const double bytes_per_second = generation->slowest.bytes_per_second;
    report.sections.push_back({.name = "slowest_link",
                               .figures = {{"from", from},
                                           {"to", to},
                                           {"latency_s", latency_s},
                                           {"bytes_per_second", bytes_per_second}}});
    report.details.push_back(fmt::format("slowest link {} to {}: {} MB/s, {} ms", from, to,
                                         plain_number(1e-6 * bytes_per_second, 4),
                                         plain_number(1e3 * latency_s)));
  }
  return report;
}

}  // namespace gv
