// Reports the state of a peer in mode `pipeline`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "peer/modes/pipeline.hpp"

namespace gv {

namespace {

/// The names of the carriers and of the groups of each stage. A "+" joins the members of a group.
struct CarrierNames {
  std::vector<std::vector<std::string>> carriers;
  std::vector<std::vector<std::string>> groups;
};

CarrierNames carriers_of(const PipelineRun& run, const Membership& members) {
  CarrierNames names;
  for (const auto& workers : run.workers()) {
    auto& carriers = names.carriers.emplace_back();
    auto& groups = names.groups.emplace_back();
    for (const std::uint32_t worker : workers) {
      std::vector<std::string> group;
      for (const std::uint32_t rank : run.groups().members[worker]) {
        group.push_back(name_of(run.order()[rank], members));
      }
      groups.push_back(fmt::format("{}", fmt::join(group, "+")));
      carriers.insert(carriers.end(), group.begin(), group.end());
    }
  }
  return names;
}

std::string plan_line(double predicted_s, double measured_s) {
  const std::string measured =
      measured_s > 0 ? fmt::format("{:.1f} ms measured", 1e3 * measured_s) : "none measured yet";
  if (predicted_s == 0) {
    return fmt::format("step: {}; plan auto predicts after the next ballot", measured);
  }
  return fmt::format("step: {:.1f} ms predicted by plan auto, {}", 1e3 * predicted_s, measured);
}

}  // namespace

PipelineCounts PipelineMode::counts() const {
  PipelineCounts counts = counts_;
  counts.operations = generations_.operations();
  counts.generations = generations_.count();
  counts.losses = generations_.recoveries().losses();
  counts.states_sent = states_.sent();
  counts.passed_bytes = run_.bytes_sent();
  return counts;
}

ModeReport PipelineMode::report(const Membership& members) const {
  using enum ReportMetric::Kind;
  const PipelineCounts all = counts();
  const double both = all.computing_s + all.waiting_s;
  const double waiting_part = both > 0 ? all.waiting_s / both : 0;
  const auto [carriers, groups] = carriers_of(run_, members);
  const std::set<std::uint32_t> own = stages();
  const double predicted = predicted_s();
  ReportSection section{
      .name = "pipeline",
      .figures = {{"schedule", std::string(to_string(options_.kind))},
                  {"router", std::string(to_string(options_.router))},
                  {"own_stages", std::vector<std::uint32_t>(own.begin(), own.end())},
                  {"stages", carriers},
                  {"groups", groups},
                  {"stage_work", options_.stage_seconds},
                  {"plan", std::string(to_string(options_.plan))},
                  {"predicted_s", predicted},
                  {"measured_s", measured_s_},
                  {"operations", all.operations},
                  {"generations", all.generations},
                  {"losses", all.losses},
                  {"rollbacks", all.rollbacks},
                  {"steps_lost", all.steps_lost},
                  {"states_sent", all.states_sent},
                  {"states_adopted", all.states_adopted},
                  {"passed_bytes", all.passed_bytes},
                  {"computing_s", all.computing_s},
                  {"waiting_s", all.waiting_s},
                  {"waiting_part", waiting_part}}};
  generations_.add_to(section, members);
  const auto samples = static_cast<double>(options_.micro_batches * options_.micro_batch);
  ModeReport report{
      .sections = {std::move(section)},
      .metrics = {{"stages", gauge, "Stages of the model that this peer carries.",
                   static_cast<double>(own.size())},
                  {"waiting_ratio", gauge, "Part of its time in runs in which it waited, 0 to 1.",
                   waiting_part},
                  {"operations_total", counter, "Runs of the pipeline that this peer finished.",
                   static_cast<double>(all.operations)},
                  {"rollbacks_total", counter, "Times all went back because a stage was lost.",
                   static_cast<double>(all.rollbacks)},
                  {"models_fetched_total", counter, "States of stages downloaded.",
                   static_cast<double>(all.states_adopted)}},
      .columns = {{"stages", fmt::format("{}", fmt::join(own, ","))},
                  {"waits", fmt::format("{:.0f} %", 100 * waiting_part)},
                  {"losses", std::to_string(all.losses)}},
      .line = fmt::format("stages {}  waits {:.0f} %  losses {}", fmt::join(own, ", "),
                          100 * waiting_part, all.losses),
      .samples_per_step = samples,
      .share_of_work = work_done_here()};
  report.details.push_back(fmt::format("schedule {}, router {}; waits {:.0f} % of its time in runs",
                                       to_string(options_.kind), to_string(options_.router),
                                       100 * waiting_part));
  if (options_.plan == StagePlanKind::automatic) {
    report.details.push_back(plan_line(predicted, measured_s_));
  }
  for (std::size_t stage = 0; stage < carriers.size(); ++stage) {
    report.details.push_back(fmt::format("stage {} ({:.0f} % of the work): {}", stage,
                                         100 * options_.stage_seconds[stage],
                                         fmt::join(groups[stage], " ")));
  }
  generations_.add_to(report.metrics);
  if (work_.is_on()) work_.add_to(members, report);
  return report;
}

}  // namespace gv
