// A queue of calls between the program's thread and the worker's.
#include "peer/host/mean_calls.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/wide.hpp"
#include "peer/host/adaptive_spin_wait.hpp"
#include "peer/host/worker.hpp"

namespace gv {
namespace {

GV_WIDE void scale(float* values, std::size_t n, float factor) {
  for (std::size_t i = 0; i < n; ++i) values[i] *= factor;
}

}  // namespace

struct MeanCalls::Meeting {
  struct Call {
    UserArray array;
    float weight = 1;
  };

  /// True if no further call will be answered.
  bool ends() const { return has_left || should_stop; }

  template <class Change>
  void tell(Change change) {
    {
      const std::lock_guard lock(mutex);
      change();
    }
    wake.notify_all();
  }

  /// Like tell(), but also calls `later`, for changes that the worker may be waiting for.
  template <class Change>
  void tell_worker(Change change) {
    tell(change);
    const std::lock_guard lock(later_mutex);
    if (later) std::exchange(later, nullptr)();
  }

  /// Ends the oldest call with the result `mean`. The caller must hold the lock.
  void end_oldest(const Mean& mean) {
    calls.pop_front();
    results[++ended] = mean;
  }

  mutable std::mutex mutex;
  std::condition_variable wake;
  std::deque<Call> calls;                 ///< Calls that have not ended.
  std::map<std::uint64_t, Mean> results;  ///< Results that have not been taken yet.
  std::uint64_t given = 0;                ///< Number of calls that have begun.
  std::uint64_t ended = 0;                ///< Number of calls that have ended.
  std::uint64_t common = 0;               ///< Number of calls that all peers have made together.
  bool is_ready = false;                  ///< True once the worker has waited for a call.
  bool is_over = false;                   ///< True if the worker's side is gone.
  bool has_left = false;                  ///< True if the program has left.
  bool should_stop = false;               ///< True if the host is ending.
  bool has_face = false;

  /// Protects `later`, and is held while `later` is called. So ~Face() waits until such a call has
  /// ended, and the host that `later` uses still exists during the call. Lock this mutex before
  /// `mutex`, never after it: the thread that `later` wakes needs `mutex` immediately.
  std::mutex later_mutex;
  std::function<void()> later;  ///< From ArraySource::peek(); null if nothing waits.

  /// A copy of `ended` for a program that polls. Set only after `mutex` is released, because the
  /// polling program then locks `mutex` and would otherwise often have to sleep until the release.
  std::atomic<std::uint64_t> polled = 0;
  // Used only by the program's thread.
  AdaptiveSpinWait spin_wait;
  /// True if the newest array is so short that its mean may come within microseconds.
  bool is_short = false;
};

/// The worker's side of the calls.
class MeanCalls::Face final : public Learner, public ArraySource {
 public:
  explicit Face(std::shared_ptr<Meeting> meeting) : own_(std::move(meeting)) {
    // Peers that average arrays work only with each other, and all of them have this layout.
    layout_.add("arrays to average", {1});
  }
  ~Face() override {
    own_->tell([this] { own_->is_over = true; });
    const std::lock_guard lock(own_->later_mutex);
    own_->later = nullptr;
  }

  // ---- ArraySource ----

  std::optional<std::size_t> await() override {
    std::unique_lock lock(own_->mutex);
    own_->is_ready = true;
    own_->wake.notify_all();
    own_->wake.wait(lock, [this] { return !own_->calls.empty() || own_->ends(); });
    if (own_->ends()) return std::nullopt;
    is_given_ = true;
    return own_->calls.front().array.floats;
  }
  std::optional<std::size_t> peek(std::function<void()> later) override {
    if (const std::optional<std::size_t> floats = floats_of_next()) return floats;
    const std::lock_guard lock(own_->later_mutex);
    // An array may have arrived in the meantime, without a call of `later`.
    const std::optional<std::size_t> floats = floats_of_next();
    if (!floats) own_->later = std::move(later);
    return floats;
  }
  float read(std::span<float> out) override {
    const Meeting::Call& call = oldest();
    call.array.read(out);
    if (call.weight != 1) scale(out.data(), out.size(), call.weight);
    return call.weight;
  }
  void write(std::span<const float> mean, float weights, std::size_t peers) override {
    const Meeting::Call& call = oldest();
    const bool is_mean = weights > 0;
    const float factor = is_mean ? static_cast<float>(peers) / weights : 0;
    if (is_mean && factor == 1) call.array.write(mean);
    if (is_mean && factor != 1) {
      std::vector<float> scaled(mean.begin(), mean.end());
      scale(scaled.data(), scaled.size(), factor);
      call.array.write(scaled);
    }
    is_given_ = false;
    ++step_;
    own_->tell([&] {
      own_->common = step_;
      own_->end_oldest({.number = step_, .peers = is_mean ? peers : 0});
    });
    own_->polled = own_->ended;
  }

  // ---- Learner ----

  ArraySource* arrays() override { return this; }
  const Layout& layout() const override { return layout_; }
  bool takes_any_batch() const override { return false; }
  std::span<const float> parameters() const override { return {&unused_, 1}; }
  std::span<float> live_parameters() override { return {&unused_, 1}; }
  std::uint64_t step() const override { return step_; }
  double learning_rate() const override { return 0; }
  Score run_steps(std::uint64_t, const Direct&) override { return {}; }
  Score gradient(std::size_t, std::span<float>, const ReadyRange&,
                 std::span<const std::size_t>) override {
    return {};
  }
  void update(std::span<const float>, std::size_t) override {}
  void set_update_factor(double) override {}

  /// Continues at the step of the other peers. If the worker has already taken a call, that call
  /// and all later calls in the queue end as missed.
  void go_on_at(std::uint64_t step) override {
    step_ = step;
    const bool was_given = std::exchange(is_given_, false);
    own_->tell([&] {
      own_->common = step;
      while (was_given && !own_->calls.empty()) {
        own_->end_oldest({.number = step, .is_missed = true});
      }
    });
    own_->polled = own_->ended;
  }
  void stop() override {
    own_->tell_worker([this] { own_->should_stop = true; });
  }
  bool has_ended() const override {
    const std::lock_guard lock(own_->mutex);
    return own_->has_left;
  }

 private:
  /// Like peek(), but does not register a function to call later.
  std::optional<std::size_t> floats_of_next() {
    const std::lock_guard lock(own_->mutex);
    if (!std::exchange(own_->is_ready, true)) own_->wake.notify_all();
    if (own_->ends()) return 0;
    if (own_->calls.empty()) return std::nullopt;
    return own_->calls.front().array.floats;
  }
  const Meeting::Call& oldest() const {
    const std::lock_guard lock(own_->mutex);
    check(is_given_ && !own_->calls.empty(), "an array is averaged after it was given");
    // The call stays in place when others are added, because a deque never moves its elements.
    return own_->calls.front();
  }

  std::shared_ptr<Meeting> own_;
  Layout layout_;
  float unused_ = 0;
  std::uint64_t step_ = 0;
  bool is_given_ = false;  ///< True if the worker has taken the oldest call.
};

MeanCalls::MeanCalls() : meeting_(std::make_shared<Meeting>()) {}

MeanCalls::~MeanCalls() { leave(); }

std::unique_ptr<Learner> MeanCalls::learner() {
  check(!std::exchange(meeting_->has_face, true), "a program's calls have one learner");
  return std::make_unique<Face>(meeting_);
}

std::uint64_t MeanCalls::give(UserArray array, float weight) {
  std::uint64_t call = 0;
  meeting_->is_short = array.floats <= short_array;
  meeting_->tell_worker([&] {
    meeting_->calls.push_back({std::move(array), weight});
    call = ++meeting_->given;
  });
  return call;
}

auto MeanCalls::wait(std::uint64_t call, Duration patience) -> Waited {
  if (call > 0 && meeting_->is_short && patience >= AdaptiveSpinWait::awake_max) {
    poll_until(meeting_->spin_wait, [&] { return meeting_->polled >= call; });
  }
  std::unique_lock lock(meeting_->mutex);
  const auto is_done = [&] { return call > 0 ? meeting_->ended >= call : meeting_->is_ready; };
  const auto may_return = [&] { return is_done() || meeting_->is_over; };
  if (!meeting_->wake.wait_for(lock, patience, may_return)) return Waited::is_late;
  return is_done() ? Waited::is_done : Waited::is_over;
}

Mean MeanCalls::take(std::uint64_t call) {
  const std::lock_guard lock(meeting_->mutex);
  const auto found = meeting_->results.find(call);
  check(found != meeting_->results.end(), "the result of a call that has ended is taken once");
  const Mean mean = found->second;
  meeting_->results.erase(found);
  return mean;
}

std::uint64_t MeanCalls::newest() const {
  const std::lock_guard lock(meeting_->mutex);
  return meeting_->given;
}

std::uint64_t MeanCalls::common_calls() const {
  const std::lock_guard lock(meeting_->mutex);
  return meeting_->common;
}

void MeanCalls::leave() {
  meeting_->tell_worker([this] { meeting_->has_left = true; });
}

}  // namespace gv
