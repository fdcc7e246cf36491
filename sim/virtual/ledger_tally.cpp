// Counts the steps of every job that trains on leased data.
#include "sim/virtual/ledger_tally.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "peer/modes/swarm_work.hpp"

namespace gv {

void LedgerTally::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  const auto* taken = first_of<task::TakeSteps>(done.job.tasks);
  const auto& node = world.peer(peer).node;
  if (taken == nullptr || !taken->from || !node) return;
  const SwarmWork* work = node->mode().swarm_work();
  if (work == nullptr || work->ledger() == nullptr) return;
  const Ledger::Options& all = work->ledger()->options();
  batch_ = work->options().batch;
  steps_ = (all.chunks - 1) * all.steps + all.last_steps;
  const std::uint64_t first = *taken->from / batch_;
  const std::uint64_t end = std::min(first + done.steps_run, steps_);
  if (times_.size() < end) times_.resize(end);
  for (std::uint64_t step = first; step < end; ++step) ++times_[step];
}

std::uint64_t LedgerTally::trained() const {
  return batch_ * static_cast<std::uint64_t>(
                      std::ranges::count_if(times_, [](std::uint32_t times) { return times > 0; }));
}

std::uint64_t LedgerTally::again() const {
  std::uint64_t sum = 0;
  for (const std::uint32_t times : times_) sum += times > 1 ? times - 1 : 0;
  return batch_ * sum;
}

std::string LedgerTally::text() const {
  return fmt::format("{} samples: trained {}, again {}, never {}", samples(), trained(), again(),
                     samples() - trained());
}

}  // namespace gv
