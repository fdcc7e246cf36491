// Copies, moves and destroys tasks, and puts them into jobs.
#include "peer/node/job.hpp"

namespace gv {

AnyTask::AnyTask(std::size_t index, void* task)
    : TaskVariant(variant_from<TaskVariant>(index, task)) {}
AnyTask::AnyTask(const AnyTask& other) = default;
AnyTask::AnyTask(AnyTask&& other) noexcept = default;
AnyTask& AnyTask::operator=(const AnyTask& other) = default;
AnyTask& AnyTask::operator=(AnyTask&& other) noexcept = default;
AnyTask::~AnyTask() = default;

void Job::add(Task task) {
  if (tasks.empty()) tasks.reserve(6);  // Hardly any job has more.
  tasks.push_back(std::move(task));
}

bool Job::saves() const { return first_of<task::Save>(tasks) != nullptr; }

std::uint64_t batch_growth(const Job& job) {
  const auto* follows = first_of<task::FollowSwarm>(job.tasks);
  return follows != nullptr ? follows->batch_growth : 1;
}

}  // namespace gv
