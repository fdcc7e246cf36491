// Runs the host's thread, and keeps its last lines of output.
#include "peer/library/guest_host.hpp"

#include <utility>

namespace gv {
namespace {

/// Only this many of the newest output lines are kept.
constexpr std::size_t lines_kept = 8;

}  // namespace

GuestHost::GuestHost(HostOptions options, std::unique_ptr<Learner> learner)
    : folder_(options.folder) {
  options.guest_says = [this](const std::string& line) {
    const std::lock_guard lock(mutex_);
    said_.push_back(line);
    if (said_.size() > lines_kept) said_.pop_front();
  };
  thread_ =
      std::thread([this, options = std::move(options), learner = std::move(learner)]() mutable {
        run(options, std::move(learner));
      });
}

GuestHost::~GuestHost() { thread_.join(); }

void GuestHost::run(const HostOptions& options, std::unique_ptr<Learner> learner) {
  const int code = run_peer(options, std::move(learner));
  const std::lock_guard lock(mutex_);
  exit_code_ = code;
  has_ended_ = true;
  ended_.notify_all();
}

bool GuestHost::has_ended(Duration patience) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, patience, [this] { return has_ended_; });
}

int GuestHost::exit_code() const {
  const std::lock_guard lock(mutex_);
  return exit_code_;
}

std::string GuestHost::said() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::string& line : said_) text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace gv
