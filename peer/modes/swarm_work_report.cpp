// Reports the swarm's budget: totals, chunks of leased data, and a section for each member.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/modes/swarm_work.hpp"
#include "peer/modes/vouched.hpp"

namespace gv {
namespace {

/// The status mentions late forces if their mean delay is at least this many steps.
constexpr double steps_late_max = 16;

void add_factors(double factor, double wanted, ReportSection& section) {
  section.figures.emplace_back("factor", factor);
  section.figures.emplace_back("factor_wanted", wanted);
}

void add_metrics(const Ledger& ledger, std::uint64_t leased, ModeReport& report) {
  using enum ReportMetric::Kind;
  const Ledger::Counts& counts = ledger.counts();
  const auto add = [&](std::string_view name, ReportMetric::Kind kind, std::string_view help,
                       std::uint64_t value) {
    report.metrics.push_back({name, kind, help, static_cast<double>(value)});
  };
  add("chunks_done", gauge, "Chunks of leased data that are known to be done.", ledger.done());
  add("chunks_leased", gauge, "Chunks that live peers are known to have taken and not done.",
      leased);
  add("chunks_trained_total", counter, "Chunks that this peer has trained.", counts.trained);
  add("chunks_repeated_total", counter,
      "Chunks that this peer trained and another had done before.", counts.repeated);
  add("chunks_lost_total", counter, "Chunks that this peer trained and lost with its model.",
      counts.lost);
  add("chunks_helped_total", counter, "Chunks that this peer took over from slower peers.",
      counts.helped);
  add("chunks_freed_total", counter,
      "Chunks that were free again because the peer that had taken them died or left.",
      counts.freed);
}

}  // namespace

/// The number of samples that the member claims to have trained on, in all of its processes known
/// to us.
std::uint64_t SwarmWork::samples_of(const Member& member) const {
  const std::uint64_t told = member.progress.work ? member.progress.work->samples : 0;
  const Other* other = find(member.id);
  if (other == nullptr || agreed_) return told;
  return std::max(told, other->before + other->grown);
}

/// The age of the oldest report of a training peer when we last looked. Nullopt if there is no
/// report, or if none is needed.
std::optional<Duration> SwarmWork::oldest_report() const {
  std::optional<Duration> oldest;
  if (agreed_) return oldest;
  for (const Other& other : others_) {
    if (other.trains) oldest = std::max(oldest.value_or(Duration{}), heard_ - other.counted);
  }
  return oldest;
}

/// The number of samples that all peers have trained on. A peer that ends because others have ended
/// may not have heard all counts, so once training is over it takes the others' total if that is
/// larger.
std::uint64_t SwarmWork::counted_at_end(const Membership& members) const {
  if (!has_ended(members.self().progress.phase)) return counted();
  std::vector<std::uint64_t> totals{counted()};
  members.for_each_report([&](const Member&, const Progress& progress) {
    if (!progress.work || !has_ended(progress.phase)) return;
    totals.push_back(std::min(progress.work->counted, options_.budget));
  });
  return std::max(counted(), vouched(std::move(totals)));
}

/// Adds the totals to the report.
void SwarmWork::add_work(const Membership& members, ModeReport& report) const {
  using enum ReportMetric::Kind;
  const auto budget = static_cast<double>(options_.budget);
  const std::uint64_t counted = counted_at_end(members);
  const double done = std::min(budget, static_cast<double>(counted));
  const double share = done / budget;
  const double together = pace();
  ReportSection section{.name = "work",
                        .figures = {{"budget", options_.budget},
                                    {"counted", counted},
                                    {"own", samples_},
                                    {"samples_per_second", together},
                                    {"factor", factor()}}};
  std::string text = fmt::format("work {:.1f} %: ", 100 * share);
  if (options_.all_data > 0) {
    const auto pass = static_cast<double>(options_.all_data);
    section.figures.emplace_back("passes_done", done / pass);
    section.figures.emplace_back("passes", budget / pass);
    text +=
        fmt::format("{} of {} passes, ", plain_number(done / pass), plain_number(budget / pass));
  }
  text += fmt::format("{} of {} samples, {}/s", short_count(done), short_count(budget),
                      short_count(together));
  const bool is_over = has_ended(members.self().progress.phase);
  std::optional<double> left_s;
  if (together > 0 && done < budget) left_s = (budget - done) / together;
  if (options_.wall > Duration{}) {
    section.figures.emplace_back("ran_s", seconds(ran_));
    const double clock_s = std::max(0.0, seconds(options_.wall - ran_));
    left_s = std::min(left_s.value_or(clock_s), clock_s);
  }
  if (left_s && !is_over) {
    section.figures.emplace_back("seconds_left", *left_s);
    text += fmt::format(", about {} s left", plain_number(*left_s));
  }
  if (const auto oldest = oldest_report()) {
    section.figures.emplace_back("oldest_report_s", seconds(*oldest));
    text += fmt::format(", oldest report {:.1f} s old", seconds(*oldest));
  }
  if (!options_.growth.at.empty()) {
    const std::uint64_t batch = options_.batch * batch_growth();
    report.samples_per_step = static_cast<double>(batch);
    section.figures.emplace_back("batch", batch);
    text += fmt::format(", in batches of {}", batch);
  }
  section.figures.emplace_back("text", text);
  report.sections.push_back(std::move(section));
  report.metrics.push_back(
      {"work_counted", gauge, "Samples that all peers are known to have trained.", done});
  report.metrics.push_back({"update_factor", gauge, "Factor on this peer's updates.", factor()});
  report.columns.push_back({"work", fmt::format("{:.1f} %", 100 * share)});
  report.line += fmt::format("  work {:.1f} %", 100 * share);
  report.details.push_back(std::move(text));
}

/// Adds the number of peers that reached the target in their last measurement.
void SwarmWork::add_target(ModeReport& report) const {
  using enum ReportMetric::Kind;
  const std::string text = fmt::format("target {:.4g}: {} of {} peers have measured it",
                                       judges_.target(), judges_.votes(), judges_.voters());
  ReportSection section{.name = "target",
                        .figures = {{"value", judges_.target()},
                                    {"votes", judges_.votes()},
                                    {"peers", judges_.voters()},
                                    {"text", text}}};
  if (judges_.verdict()) section.figures.emplace_back("measured", judges_.measured());
  report.sections.push_back(std::move(section));
  report.metrics.push_back({"target_votes", gauge, "Peers known to have measured the target.",
                            static_cast<double>(judges_.votes())});
  report.columns.push_back({"target", fmt::format("{}/{}", judges_.votes(), judges_.voters())});
  report.details.push_back(text);
}

/// The approximate number of samples that were trained again or lost with a model, as far as we
/// know. `samples` is the number of samples that all members have trained on.
std::uint64_t SwarmWork::again(std::uint64_t samples) const {
  const std::uint64_t chunk = options_.batch * options_.chunk_steps;
  const std::uint64_t once = (ledger_->done() + ledger_->leased()) * chunk;
  // After a restart, we know only the samples trained since then.
  const std::uint64_t restored = restored_.done + restored_.begun;
  if (restored > 0) samples = samples_ + sums_.grown;
  return samples - std::min(samples, once - std::min(once, restored));
}

/// Adds the numbers of chunks to the report. `samples` is the number of samples that all members
/// have trained on.
void SwarmWork::add_ledger(std::uint64_t samples, ModeReport& report) const {
  const Ledger& ledger = *ledger_;
  const Ledger::Counts& counts = ledger.counts();
  const std::uint64_t chunks = ledger.options().chunks;
  const std::uint64_t leased = ledger.leased();
  const std::uint64_t to_do = chunks - ledger.done() - leased;
  const std::uint64_t chunk = options_.batch * options_.chunk_steps;
  const std::uint64_t again = this->again(samples);
  std::string text = fmt::format("ledger: {} of {} chunks done, {} under way, {} to do",
                                 ledger.done(), chunks, leased, to_do);
  if (again > 0) text += fmt::format(", about {} samples trained again", again);
  text += fmt::format(
      "; {} freed by lost peers; this peer trained {}, {} of them again, helped with {}, lost {}",
      counts.freed, counts.trained, counts.repeated, counts.helped, counts.lost);
  report.sections.push_back({.name = "ledger",
                             .figures = {{"chunks", chunks},
                                         {"chunk_samples", chunk},
                                         {"done", ledger.done()},
                                         {"leased", leased},
                                         {"to_do", to_do},
                                         {"samples_again", again},
                                         {"begun_samples", begun()},
                                         {"restored_samples", restored_.done},
                                         {"restored_begun_samples", restored_.begun},
                                         {"freed", counts.freed},
                                         {"trained", counts.trained},
                                         {"repeated", counts.repeated},
                                         {"lost", counts.lost},
                                         {"helped", counts.helped},
                                         {"ahead", ledger.ahead()},
                                         {"text", text}}});
  add_metrics(ledger, leased, report);
  report.details.push_back(std::move(text));
}

/// Adds a line about the factor on our updates and one about late forces. If a limited factor or
/// late forces cost accuracy, the line says what to do.
void SwarmWork::add_factor(ModeReport& report) const {
  const double wanted = factor_wanted();
  report.details.push_back(
      wanted > options_.weigh_max
          ? fmt::format("updates times {:.2f}; {:.2f} would be needed, so this peer's samples "
                        "count {:.2f} of what others' do; give it less data or, if all peers may "
                        "read all, write data.partition = \"leased\"",
                        factor(), wanted, factor() / wanted)
          : fmt::format("updates times {:.2f}, because of this peer's data and pace", factor()));
  if (steps_late_ < steps_late_max) return;
  report.details.push_back(fmt::format(
      "forces come {:.0f} steps late, which costs accuracy where peers' data are unlike: "
      "send less, with gossip.codec, or if all peers may read all data write "
      "data.partition = \"leased\"",
      steps_late_));
}

void SwarmWork::add_part(const Ledger::Part& part, ReportSection& section) const {
  section.figures.emplace_back("chunks_done", part.done);
  section.figures.emplace_back("leases", part.leased);
  if (part.freed > 0) section.figures.emplace_back("chunks_freed", part.freed);
}

/// Returns the section about another member.
ReportSection SwarmWork::section_of(const Member& member, std::uint64_t samples, double share,
                                    const Together& all) const {
  ReportSection section{.name = "work", .figures = {{"samples", samples}, {"share", share}}};
  section.figures.emplace_back("data", member.progress.work ? member.progress.work->data : 0);
  const Other* known = find(member.id);
  if (known == nullptr || agreed_) return section;
  const Other& other = *known;
  const double pace = other.pace.per_second();
  section.figures.emplace_back("report_age_s", seconds(heard_ - other.counted));
  if (other.trains && pace > 0) {
    section.figures.emplace_back("samples_per_second", pace);
    if (weighs()) {
      const double wanted = factor_wanted(other.data, pace, all);
      add_factors(std::min(options_.weigh_max, wanted), wanted, section);
    }
  }
  if (ledger_) add_part(ledger_->part_of(member.id), section);
  return section;
}

void SwarmWork::add_to(const Membership& members, ModeReport& report) const {
  std::uint64_t all = samples_;
  std::vector<std::pair<Member, std::uint64_t>> others;
  members.for_each_other([&](const Member& member) {
    if (!member.progress.work && find(member.id) == nullptr) return;
    others.emplace_back(member, samples_of(member));
    // Other peers claim these counts, so the sum could overflow.
    all += std::min(others.back().second, std::numeric_limits<std::uint64_t>::max() - all);
  });
  // The peers' own counts lack the samples of earlier processes.
  all = std::max(all, counted_at_end(members));
  add_work(members, report);
  if (judges_.is_on()) add_target(report);
  if (ledger_) add_ledger(all, report);
  if (weighs()) add_factor(report);
  const auto share_of = [whole = std::max<std::uint64_t>(1, all)](std::uint64_t own) {
    return static_cast<double>(own) / static_cast<double>(whole);
  };
  ReportSection own{.name = "work",
                    .figures = {{"samples", samples_},
                                {"share", share_of(samples_)},
                                {"data", options_.data},
                                {"samples_per_second", pace_.per_second()}}};
  if (weighs()) add_factors(factor(), factor_wanted(), own);
  if (ledger_) add_part(ledger_->own_part(), own);
  report.members.push_back({members.self().id, std::move(own)});
  const Together together = this->together();
  for (const auto& [member, samples] : others) {
    report.members.push_back({member.id, section_of(member, samples, share_of(samples), together)});
  }
}

}  // namespace gv
