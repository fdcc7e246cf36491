// The lines that a running peer prints for people: how it begins, what it waits for, which faults
// they can mend, and why it ends.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "base/counted.hpp"
#include "base/printable.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/shards.hpp"
#include "peer/host/running_host.hpp"
#include "peer/modes/generations.hpp"
#include "peer/modes/swarm_work.hpp"
#include "peer/node/facts.hpp"

namespace gv {
namespace {

/// The clocks of peers that end together differ by less than this.
constexpr Duration ends_apart = std::chrono::seconds(1);

/// Returns a remedy as a sentence that may follow another one. Some remedies are sentences, and
/// others only fragments.
std::string as_sentence(std::string remedy) {
  if (remedy.empty()) return {};
  remedy.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(remedy.front())));
  return ". " + remedy + (remedy.ends_with('.') ? "" : ".");
}

}  // namespace

/// Prints a line that the operator should read.
void Host::warn(const std::string& line) const {
  if (is_guest()) {
    options_.guest_says(line);
  } else {
    say(stderr, line + "\n");
  }
}

/// Prints a fact if the operator should know it. Sets the exit code if the fact ends the process.
void Host::tell_people(const Fact& fact) {
  const auto warn = [&] {
    const FactText text = describe(fact);
    const std::string said = sentence(text, [this](PeerId peer) { return name_of(peer); });
    this->warn(printable(said + as_sentence(text.remedy)));
  };
  if (const auto* resumed = std::get_if<CollectiveResumed>(&fact)) {
    if (!resumed->peer || options_.quiet || node_->generations() == nullptr) return;
    say(stdout, to_line(node_->generations()->recoveries().last(), node_->membership()) + "\n");
  } else if (std::holds_alternative<StageLost>(fact)) {
    if (!std::exchange(told_of_lost_stage_, true)) warn();
  } else if (const auto* began = std::get_if<TrainingBegan>(&fact)) {
    warn_of_unread_shards(began->peers);
  } else if (std::holds_alternative<GenerationBegan>(fact)) {
    told_of_lost_stage_ = false;
  } else if (std::holds_alternative<GradientNotFinite>(fact) ||
             std::holds_alternative<TrainingFailed>(fact)) {
    warn();
    exit_code_ = 1;
  } else if (std::holds_alternative<ArraysDiffer>(fact)) {
    warn();
    exit_code_ = 2;
  } else if (const auto* other = std::get_if<HelloRefused>(&fact)) {
    if (is_newcomer() && with_other_settings_.insert(other->peer).second) warn();
    if (!heard_other_settings_at_) heard_other_settings_at_ = now();
  } else if (std::holds_alternative<NotReachable>(fact) ||
             std::holds_alternative<JoinFailed>(fact) ||
             std::holds_alternative<KeyUsedTwice>(fact) ||
             std::holds_alternative<EquivocationProved>(fact) ||
             std::holds_alternative<LinkQuarantined>(fact) ||
             std::holds_alternative<TicketRefused>(fact) ||
             // A failed save is usually followed by more, so only the first is printed.
             (std::holds_alternative<SaveFailed>(fact) && !std::exchange(told_unsaved_, true))) {
    warn();
  }
}

/// Prints how the peer begins. `has_no_checkpoint` is true if it was to resume and found nothing.
void Host::print_greeting(bool has_no_checkpoint) const {
  say(stdout, fmt::format("peer {} ({}) writes below {}\n", options_.name, to_string(self_),
                          options_.folder.string()));
  if (control_->advertised().empty()) {
    say(stdout,
        "dials out only: no peer can dial this one; give --listen HOST:PORT to change that\n");
  } else {
    say(stdout, fmt::format("listening on {}, advertised as {}; bulk lanes on {}\n",
                            control_->listening(), control_->advertised(), lanes_->listening()));
  }
  const std::uint64_t together = swarm_budget(options_.config, task_.samples);
  const std::string budget = together > 0 ? fmt::format("{} samples with all peers", together)
                                          : fmt::format("{} steps", task_.trainer.steps);
  const PartitionKind partition = options_.config.data.partition.kind;
  const std::string data = partition == PartitionKind::leased
                               ? fmt::format("takes chunks of all {} samples", samples_)
                           : partition == PartitionKind::shared
                               ? fmt::format("trains on all its {} samples", samples_)
                               : fmt::format("trains on shard {} of {}, {} samples", options_.shard,
                                             options_.config.run.peers, samples_);
  say(stdout, fmt::format("{}, {}\n", data, budget));
  if (has_no_checkpoint) {
    say(stdout, fmt::format("{} has no checkpoint: begins at step 0, or with the model of others\n",
                            (options_.folder / "checkpoints").string()));
  }
}

/// Warns if training begins with fewer peers than the data have shards.
void Host::warn_of_unread_shards(std::size_t peers) const {
  const std::size_t shards = options_.config.run.peers;
  if (!task_.shard || peers >= shards || !has_shards(options_.config)) return;
  warn(fmt::format(
      "training begins with {} of {} peers, and each has its own shard of the data: the shards of "
      "the others are not read until these come. If all peers may read all data, write "
      "data.partition = \"leased\".",
      peers, shards));
}

/// Prints how many more peers training waits for, and again when that number changes.
void Host::print_waiting() {
  if (options_.quiet || is_guest() || node_->is_leaving()) return;
  if (node_->mode().phase() != Phase::joining) return;
  const Course& course = node_->mode().course();
  const View& view = node_->membership().view();
  const bool somebody_trains = std::ranges::any_of(view.peers(), [this](PeerId peer) {
    const Member* member = node_->membership().find(peer);
    return member != nullptr && member->progress.phase != Phase::joining;
  });
  const std::size_t least = needs_others() ? 2 : 1;
  const std::size_t needed = std::max(course.options().wait_for_peers, least);
  const std::size_t missing = needed - std::min(needed, view.size());
  if (somebody_trains || missing == missing_ || now() >= course.barrier_deadline()) return;
  missing_ = missing;
  if (missing == 0) return;
  // A peer that needs others but meets none ends instead of beginning alone.
  const bool ends_alone = contacts_.empty() && course.options().alone_after > Duration{};
  const Time until = ends_alone ? std::min(course.barrier_deadline(), Time(join_deadline))
                                : course.barrier_deadline();
  say(stdout, fmt::format("waits for {}, at most {:.0f} s more\n", counted(missing, "more peer"),
                          std::max(0.0, seconds(until - now()))));
}

/// Returns why the run has ended, for a peer that ends by itself or on request.
std::string Host::end_reason() const {
  if (log_.counts().of<FinaleMissed>() > 0) return "the other peers ended the run without this one";
  if (node_->mode().phase() != Phase::done) return "left on request";
  if (log_.counts().of<TargetReached>() > 0) {
    return fmt::format("the target accuracy of {:g} is reached", options_.config.run.target);
  }
  const SwarmWork* work = node_->mode().swarm_work();
  if (work == nullptr) return fmt::format("all {} steps are done", task_.trainer.steps);
  const SwarmWorkOptions& limits = work->options();
  if (!work->is_used_up() && work->is_time_over(now(), ends_apart)) {
    return fmt::format("the {:g} s of run.wall_s are over", seconds(limits.wall));
  }
  // A peer that ends because the others have ended does not always know which limit they reached.
  const bool may_be_unused = limits.wall > Duration{} || limits.target.value > 0;
  if (!work->is_used_up() && may_be_unused) return "the other peers have ended the run";
  const RunConfig& run = options_.config.run;
  if (run.steps == 0) return fmt::format("all {:g} passes are done", run.epochs);
  return fmt::format("all {} samples are done", limits.budget);
}

/// Prints one line that says why the run has ended, and where its model is.
void Host::print_end() const {
  if (options_.quiet || is_guest()) return;
  const std::filesystem::path model = options_.folder / "final.safetensors";
  const std::filesystem::path checkpoints = options_.folder / "checkpoints";
  std::error_code ignored;
  const std::string place = std::filesystem::exists(model, ignored)
                                ? "the common model is in " + model.string()
                            : std::filesystem::exists(checkpoints, ignored)
                                ? "the last checkpoint is in " + checkpoints.string()
                                : "no model has been saved";
  say(stdout, fmt::format("ended: {}; {}\n", end_reason(), place));
}

}  // namespace gv
