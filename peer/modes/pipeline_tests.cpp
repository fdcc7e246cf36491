// Decides when a pipeline tests its model, along which routes, and which peers judge it.
#include <algorithm>

#include "peer/modes/pipeline.hpp"

namespace gv {

// ---- In a run ----

/// The number of micro-batches in a test. It is enough for all test samples, and a multiple of the
/// number of groups that carry the last stage. All peers of a generation compute the same number.
std::size_t PipelineRun::tests_of_run() const {
  if (options_.test_samples == 0 || workers_.empty()) return 0;
  const std::size_t judges = workers_.back().size();
  const std::size_t all = (options_.test_samples - 1) / options_.micro_batch + 1;
  return ((std::min(all, test_micro_batches_max) - 1) / judges + 1) * judges;
}

/// Puts the instructions of a test before those of the run. The micro-batches alternate between
/// replicas, so that each judge has its own part of the samples.
void PipelineRun::begin_test() {
  const auto first = static_cast<std::uint32_t>(options_.micro_batches);
  std::vector<PipelineInstruction> list =
      test_instructions(test_routes_, worker_, first, options_.micro_batches);
  list.insert(list.end(), list_.begin(), list_.end());
  list_ = std::move(list);
  for (const auto& route : test_routes_) tests_left_ += route.back() == worker_;
}

/// Notes when our part of a test ends, which is when the last of our test passes through the last
/// stage has been handed to a job.
void PipelineRun::give_out_test(const PipelineInstruction& what) {
  const bool is_end = what.action == PipelineAction::forward &&
                      what.stage + 1 == options_.stages.size() && tests_left_ > 0;
  if (is_end && --tests_left_ == 0) is_tested_ = true;
}

const std::vector<std::uint32_t>& PipelineRun::route_of(std::uint32_t micro_batch) const {
  return is_test(micro_batch) ? test_routes_[micro_batch - options_.micro_batches]
                              : routes_[micro_batch];
}

/// The number of floats in the values with this name. In a test, the answers that go back have only
/// one float.
std::size_t PipelineRun::size_of(const PassName& name) const {
  if (!name.backward) return options_.stages[name.stage].forward;
  return is_test(name.micro_batch) ? 1 : options_.stages[name.stage + 1].backward;
}

/// False if we already keep as many values of test passes as honest neighbours can send before they
/// must wait for answers. For each of our stages and each direction, this limit is one window of
/// micro-batches, plus one micro-batch for each group.
bool PipelineRun::may_keep(const PassName& name) const {
  if (!is_test(name.micro_batch)) return true;
  const auto kept = std::ranges::count_if(
      incoming_, [this](const auto& entry) { return is_test(entry.first.micro_batch); });
  const std::size_t most = 2 * (options_.micro_batches + groups_.members.size());
  return static_cast<std::size_t>(kept) < most * own_stages_.size();
}

// ---- In the mode ----

/// True if the run that is about to begin must first test the model. A test is due when the
/// previous run has crossed a multiple of the number of samples between two sittings of the judges.
bool PipelineMode::is_test_due() const {
  const TargetOptions& target = course_.options().work.target;
  if (!work_.is_on() || target.value <= 0 || options_.test_samples == 0) return false;
  const std::uint64_t samples = generations_.agreement().version().samples;
  const std::uint64_t of_run = options_.micro_batches * options_.micro_batch;
  return sitting() > (samples - std::min(samples, of_run)) / target.every;
}

/// The judges' newest sitting that our version has reached, counted from 1; 0 before the first.
std::uint64_t PipelineMode::sitting() const {
  return generations_.agreement().version().samples / course_.options().work.target.every;
}

void PipelineMode::choose_panel() {
  panel_.clear();
  for (const std::uint32_t rank : run_.replicas().back()) panel_.push_back(run_.order()[rank]);
}

/// If the job ends our part of a test, adds a measurement of the model to the job.
void PipelineMode::add_measurement(Job& job) {
  if (!run_.take_tested()) return;
  work_.judges().begin(sitting());
  job.add(task::Measure{});
}

/// If the job has measured the model, announces our verdict to the other peers at once.
void PipelineMode::tell_verdict(const JobDone& done, Membership& members, Effects& out) {
  if (!work_.is_on() || !work_.learn_from(done, out)) return;
  members.set_progress(Mode::progress());
  members.announce(out);
}

}  // namespace gv
