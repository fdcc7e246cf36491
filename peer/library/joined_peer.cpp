// Starts the host, and passes calls of the program to its loop.
#include "peer/library/joined_peer.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gv {
namespace {

/// More lines of a long run are not kept.
constexpr std::size_t lines_kept = 8;

UserModel model_in(const UserTensors& model, const UserTensors& state) {
  return {.read = [&model](std::span<float> to) { model.read(to); },
          .write = [&model](std::span<const float> from) { model.write(from); },
          .state_size = state.size(),
          .read_state = [&state](std::span<float> to) { state.read(to); },
          .write_state = [&state](std::span<const float> from) { state.write(from); }};
}

}  // namespace

JoinedPeer::JoinedPeer(HostOptions options, UserTensors model, UserTensors state,
                       std::size_t samples)
    : model_(std::move(model)),
      state_(std::move(state)),
      folder_(options.folder),
      loop_(model_.layout(), model_in(model_, state_), samples) {
  options.guest_says = [this](const std::string& line) {
    const std::lock_guard lock(mutex_);
    said_.push_back(line);
    if (said_.size() > lines_kept) said_.pop_front();
  };
  host_ = std::thread([this, options = std::move(options)]() mutable { run(std::move(options)); });
}

JoinedPeer::~JoinedPeer() {
  leave();
  host_.join();
}

void JoinedPeer::run(HostOptions options) {
  const int code = run_peer(options, loop_.learner());
  const std::lock_guard lock(mutex_);
  exit_code_ = code;
  has_ended_ = true;
  ended_.notify_all();
}

void JoinedPeer::step(const Score& score) {
  loop_.give_step(score);
  pending_ = Call::step;
}

void JoinedPeer::reduce(UserTensors gradient, const Score& score) {
  gradient_ = std::move(gradient);
  loop_.give_gradient({.read = [this](std::span<float> to) { gradient_.read(to); },
                       .write = [this](std::span<const float> from) { gradient_.write(from); }},
                      score);
  pending_ = Call::reduce;
}

UserLoop::Waited JoinedPeer::wait(Duration patience) {
  const UserLoop::Waited waited = loop_.wait(patience);
  if (waited == UserLoop::Waited::is_late) return waited;
  const Call call = std::exchange(pending_, Call::none);
  is_over_ = waited == UserLoop::Waited::is_over;
  if (call == Call::step) ++steps_;
  if (call == Call::reduce && waited == UserLoop::Waited::may_go_on) {
    reduced_ = loop_.take_reduced();
  }
  return waited;
}

void JoinedPeer::leave() {
  has_left_ = true;
  loop_.leave();
}

bool JoinedPeer::has_ended(Duration patience) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, patience, [this] { return has_ended_; });
}

int JoinedPeer::exit_code() const {
  const std::lock_guard lock(mutex_);
  return exit_code_;
}

std::string JoinedPeer::said() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const std::string& line : said_) text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace gv
