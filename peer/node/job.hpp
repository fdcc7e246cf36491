// What a node asks of the owner of its replica, and the results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "base/one_of.hpp"
#include "base/time.hpp"
#include "consensus/message/message.hpp"
#include "peer/node/tasks.hpp"
#include "train/learner/score.hpp"

namespace gv {

using TaskVariant =
    std::variant<task::AdoptModel, task::LoadState, task::ApplyUpdate, task::TakeFingerprint,
                 task::ExportState, task::AddForces, task::TakeSteps, task::ComputeGradient,
                 task::Validate, task::TakeSnapshot, task::LeaveGeneration, task::EnterGeneration,
                 task::MixRound, task::BeginRound, task::SendRound, task::AbandonRun, task::EndRun,
                 task::ExportStages, task::MoveTo, task::LoadStages, task::ReleaseStages,
                 task::CopyStages, task::StagePass, task::CopyParameters, task::SendStage,
                 task::Save>;

/// Any task. Only job.cpp compiles how one is copied, moved and destroyed, as for Message.
struct AnyTask : TaskVariant {
  template <class T>
  requires(IsOneOf<T, TaskVariant>) AnyTask(T task)
      : AnyTask(OneOf<T, TaskVariant>::index(), &task) {}

  AnyTask(const AnyTask& other);
  AnyTask(AnyTask&& other) noexcept;
  AnyTask& operator=(const AnyTask& other);
  AnyTask& operator=(AnyTask&& other) noexcept;
  ~AnyTask();

 private:
  AnyTask(std::size_t index, void* task);
};

/// Work for the owner of the replica.
struct Job {
  using Task = AnyTask;

  std::uint64_t number = 0;
  /// Where peers agree on versions: that of our model once the job is done.
  ModelVersion version;
  std::vector<Task> tasks;  ///< Done in this order.

  void add(Task task);
  /// It ends with a checkpoint.
  bool saves() const;
};

/// A job that is done.
struct JobDone {
  using Result = std::variant<result::Fingerprint, result::Gradient, result::Validation,
                              result::Mixing, result::StagePart, result::Saved>;

  /// It comes back to the thread that asked for it, with its buffers filled.
  Job job;
  std::uint64_t step = 0;       ///< Local steps taken in all.
  std::uint64_t steps_run = 0;  ///< Steps made by this job.
  Score score;                  ///< Training loss and hits over those steps.
  double learning_rate = 0;     ///< Learning rate of the next step.
  std::vector<Result> results;  ///< Of the tasks that have one, in their order.
  Duration busy{};              ///< Duration of the job, measured by the thread that ran it.
};

/// The first of a job's tasks or results that is a `T`; null if there is none.
template <class T, class Alternatives>
auto first_of(Alternatives& all) -> decltype(std::get_if<T>(&all.front())) {
  for (auto& one : all) {
    if (auto* found = std::get_if<T>(&one)) return found;
  }
  return nullptr;
}

}  // namespace gv
