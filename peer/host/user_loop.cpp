// The meeting of the two threads: one turn, which goes back and forth.
#include "peer/host/user_loop.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/check.hpp"

namespace gv {

struct UserLoop::Meeting {
  enum class Turn { worker, user };
  /// Where the loop is while it is the worker's turn.
  enum class At { step_over, reduce };

  /// The worker lets the loop go on, and waits for its next call. False if the loop has left.
  bool hand_over() {
    std::unique_lock lock(mutex);
    if (has_left) return false;
    turn = Turn::user;
    wake.notify_all();
    wake.wait(lock, [this] { return turn == Turn::worker || has_left; });
    return !has_left;
  }

  /// The loop waits until it may go on. False if training is over.
  bool await() {
    std::unique_lock lock(mutex);
    wake.wait(lock, [this] { return turn == Turn::user || is_over; });
    return !is_over;
  }

  /// The loop calls, and waits.
  bool call(At where) {
    at = where;
    tell([this] { turn = Turn::worker; });
    return await();
  }

  template <class Change>
  void tell(Change change) {
    {
      const std::lock_guard lock(mutex);
      change();
    }
    wake.notify_all();
  }

  template <class T>
  T read(const T& value) const {
    const std::lock_guard lock(mutex);
    return value;
  }

  mutable std::mutex mutex;
  std::condition_variable wake;
  Turn turn = Turn::worker;
  bool is_over = false;   ///< The face is gone.
  bool has_left = false;  ///< The loop is gone.
  bool should_stop = false;
  double learning_rate = 0;
  double factor = 1;
  double progress = 0;

  // What follows belongs to the one whose turn it is.

  Layout layout;
  std::vector<float> parameters;
  std::size_t samples = 1;
  At at = At::step_over;
  Score score;                ///< Given with the last call.
  std::span<float> gradient;  ///< Given to reduce().
  Reduced reduced;            ///< What reduce() will return.
  bool must_reduce = false;   ///< The step under way needs its gradient reduced.
  bool has_reduced = false;   ///< It has been.
  bool has_face = false;
};

/// The face for the worker.
class UserLoop::Face final : public Learner {
 public:
  explicit Face(std::shared_ptr<Meeting> meeting) : own_(std::move(meeting)) {}
  ~Face() override {
    own_->tell([this] { own_->is_over = true; });
  }

  const Layout& layout() const override { return own_->layout; }
  std::size_t samples() const override { return own_->samples; }
  std::span<const float> parameters() const override { return own_->parameters; }
  std::span<float> live_parameters() override { return own_->parameters; }
  std::uint64_t step() const override { return step_; }
  double learning_rate() const override { return own_->read(own_->learning_rate); }

  Score run_steps(std::uint64_t count, const Direct& direct) override {
    Score score;
    own_->must_reduce = static_cast<bool>(direct);
    own_->reduced = {.again = std::exchange(waits_for_sum_, false)};
    is_stale_ = false;
    for (std::uint64_t made = 0; made < count && !own_->read(own_->should_stop);) {
      if (!own_->hand_over()) break;
      own_->reduced = {};
      if (own_->at == Meeting::At::reduce) {
        if (direct) direct(own_->gradient);
        continue;
      }
      score += own_->score;
      ++made;
      ++step_;
    }
    return score;
  }

  /// The loop's batches have the size that it chooses.
  Score gradient(std::size_t, std::span<float> out, const ReadyRange&,
                 std::span<const std::size_t>) override {
    own_->must_reduce = true;
    while (!waits_for_sum_ || is_stale_) {
      own_->reduced = {.again = std::exchange(is_stale_, false)};
      waits_for_sum_ = own_->hand_over();
      // A loop that has left brings nothing to the sum under way.
      if (!waits_for_sum_) {
        std::ranges::fill(out, 0.0F);
        return {};
      }
    }
    std::ranges::copy(own_->gradient, out.begin());
    return own_->score;
  }

  void update(std::span<const float> mean, std::size_t samples) override {
    if (has_ended()) return;
    check(waits_for_sum_ && !is_stale_, "a user's loop is given the sum of its own gradient");
    waits_for_sum_ = false;
    std::ranges::copy(mean, own_->gradient.begin());
    own_->reduced = {.samples = samples};
    if (own_->hand_over()) ++step_;
  }

  void go_on_at(std::uint64_t step) override {
    step_ = step;
    is_stale_ = waits_for_sum_;
  }

  void set_update_factor(double factor) override {
    own_->tell([&] { own_->factor = factor; });
  }
  void set_progress(double fraction) override {
    own_->tell([&] { own_->progress = fraction; });
  }
  void stop() override {
    own_->tell([this] { own_->should_stop = true; });
  }
  bool has_ended() const override { return own_->read(own_->has_left); }

 private:
  std::shared_ptr<Meeting> own_;
  std::uint64_t step_ = 0;
  bool waits_for_sum_ = false;  ///< The loop is in reduce(), and its gradient in a sum.
  bool is_stale_ = false;       ///< That gradient is of a model that was replaced.
};

UserLoop::UserLoop(Layout layout, std::vector<float> parameters, std::size_t samples)
    : meeting_(std::make_shared<Meeting>()) {
  check(layout.size() == parameters.size(), "a model has the layout's size");
  meeting_->layout = std::move(layout);
  meeting_->parameters = std::move(parameters);
  meeting_->samples = samples;
}

UserLoop::~UserLoop() { leave(); }

std::unique_ptr<Learner> UserLoop::learner() {
  check(!std::exchange(meeting_->has_face, true), "a user's loop has one learner");
  return std::make_unique<Face>(meeting_);
}

bool UserLoop::begin() { return meeting_->await(); }

std::span<float> UserLoop::parameters() { return meeting_->parameters; }

bool UserLoop::step_over(const Score& score) {
  if (meeting_->must_reduce && !meeting_->has_reduced) {
    throw std::logic_error("this run needs every step's gradient: call reduce() before the step");
  }
  meeting_->has_reduced = false;
  meeting_->score = score;
  return meeting_->call(Meeting::At::step_over);
}

Reduced UserLoop::reduce(std::span<float> gradient, const Score& score) {
  check(gradient.size() == meeting_->parameters.size(), "a gradient has the layout's size");
  if (std::exchange(meeting_->has_reduced, true)) {
    throw std::logic_error("a step has one gradient: call step_over() before the next reduce()");
  }
  meeting_->gradient = gradient;
  meeting_->score = score;
  if (!meeting_->call(Meeting::At::reduce)) return {.is_over = true};
  meeting_->has_reduced = !meeting_->reduced.again;
  return meeting_->reduced;
}

void UserLoop::set_learning_rate(double learning_rate) {
  meeting_->tell([&] { meeting_->learning_rate = learning_rate; });
}

double UserLoop::update_factor() const { return meeting_->read(meeting_->factor); }
double UserLoop::progress() const { return meeting_->read(meeting_->progress); }
bool UserLoop::should_stop() const { return meeting_->read(meeting_->should_stop); }

void UserLoop::leave() {
  meeting_->tell([this] { meeting_->has_left = true; });
}

}  // namespace gv
