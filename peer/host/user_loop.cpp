// The meeting of the two threads, which take turns.
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
  /// The function that the loop has called while it is the worker's turn.
  enum class At { step_over, reduce };

  /// The worker lets the loop run, and waits for its next call. Returns false if the loop has left.
  bool hand_over() {
    std::unique_lock lock(mutex);
    if (has_left) return false;
    turn = Turn::user;
    wake.notify_all();
    wake.wait(lock, [this] { return turn == Turn::worker || has_left; });
    return !has_left;
  }

  /// The loop waits until it may run. Returns false if training is over.
  bool await() {
    std::unique_lock lock(mutex);
    wake.wait(lock, [this] { return turn == Turn::user || is_over; });
    return !is_over;
  }

  /// The loop passes the turn to the worker, and waits for its own.
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
  bool is_over = false;   ///< The worker's side is gone.
  bool has_left = false;  ///< The user's loop has left.
  bool should_stop = false;
  double learning_rate = 0;
  double factor = 1;
  double progress = 0;

  // The members below belong to the thread whose turn it is.

  Layout layout;
  std::vector<float> parameters;
  std::size_t samples = 1;
  At at = At::step_over;
  Score score;                ///< Score given with the last call.
  std::span<float> gradient;  ///< Gradient given to reduce().
  Reduced reduced;            ///< The next result of reduce().
  bool must_reduce = false;   ///< The present step needs its gradient reduced.
  bool has_reduced = false;   ///< The present step's gradient has been reduced.
  bool has_face = false;
};

/// The worker's side.
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

  /// Ignores the batch size: the loop chooses its own.
  Score gradient(std::size_t, std::span<float> out, const ReadyRange&,
                 std::span<const std::size_t>) override {
    own_->must_reduce = true;
    while (!waits_for_sum_ || is_stale_) {
      own_->reduced = {.again = std::exchange(is_stale_, false)};
      waits_for_sum_ = own_->hand_over();
      // A loop that has left contributes zeros to the present sum.
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
  bool waits_for_sum_ = false;  ///< The loop waits in reduce() for the sum with its gradient.
  bool is_stale_ = false;       ///< The model of that gradient was replaced.
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
