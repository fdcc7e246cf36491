// Lets the thread of the user's loop and the thread of the worker take turns.
#include "peer/host/user_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace gv {

struct UserLoop::Meeting {
  enum class Turn { worker, user };
  /// The call of the loop that passed the turn to the worker.
  enum class At { step_over, reduce };

  /// Called by the worker. Lets the loop make up to `steps` steps, and waits until the loop passes
  /// the turn back. Returns false if the loop has left.
  bool hand_over(std::uint64_t steps = 1) {
    std::unique_lock lock(mutex);
    granted = steps;
    made = 0;
    score = {};
    if (has_left) return false;
    turn = Turn::user;
    wake.notify_all();
    wake.wait(lock, [this] { return turn == Turn::worker || has_left; });
    return !has_left;
  }

  /// Like hand_over(), for a step whose gradient peers will sum. Passes parts of the gradient to
  /// `take` as they arrive.
  template <class Take>
  bool hand_over_for_sum(Take take) {
    std::unique_lock lock(mutex);
    granted = 1;
    made = 0;
    score = {};
    if (has_left) return false;
    sums_parts = true;
    turn = Turn::user;
    wake.notify_all();
    while (true) {
      wake.wait(lock, [this] { return turn == Turn::worker || has_left || !parts.empty(); });
      if (has_left || parts.empty()) break;
      const std::vector<GradientPart> given = std::exchange(parts, {});
      lock.unlock();
      for (const GradientPart& part : given) take(part);
      lock.lock();
    }
    sums_parts = false;
    return !has_left;
  }

  /// Called by the loop. Waits until the loop may run. Returns false if training is over.
  bool await() {
    std::unique_lock lock(mutex);
    wake.wait(lock, [this] { return turn == Turn::user || is_over; });
    return !is_over;
  }

  /// Called by the loop. Passes the turn to the worker.
  void pass_on(At where) {
    at = where;
    tell([this] { turn = Turn::worker; });
  }

  /// Counts a step. Returns true if the loop may make another step without waiting.
  bool count(const Score& step) {
    score += step;
    ++made;
    ++made_of_lease;
    if (made >= granted) return false;
    const std::lock_guard lock(mutex);
    return turn == Turn::user && !is_over && !has_left && !should_stop;
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
  bool is_over = false;   ///< True if the worker's side has been destroyed.
  bool has_left = false;  ///< True if the user's loop has left.
  bool should_stop = false;
  double learning_rate = 0;
  double factor = 1;
  double progress = 0;
  std::uint64_t position = 0;
  /// True while the worker waits for a gradient to sum, or for parts of one.
  bool sums_parts = false;
  std::vector<GradientPart> parts;  ///< Parts that the worker has not taken yet.

  // The fields below belong to the thread whose turn it is.

  Layout layout;
  std::vector<float> parameters;
  UserModel model;  ///< Accesses a model in the user's memory. If set, `parameters` is only a copy
                    ///< of that model.
  std::size_t samples = 1;
  At at = At::step_over;
  Score score;                ///< The sum of the scores of the steps in this turn.
  std::uint64_t granted = 0;  ///< Steps that the loop may make in this turn.
  std::uint64_t made = 0;     ///< Steps that the loop has made in this turn.
  /// With leased data: the first sample of the steps that the worker has requested.
  std::optional<std::uint64_t> leased_from;
  std::uint64_t made_of_lease = 0;
  UserGradient gradient;  ///< The gradient that the loop gave to reduce().
  Score reduced_score;    ///< The score that the loop gave to reduce().
  Reduced reduced;        ///< The next result of reduce().
  /// True if the gradient of the present step must pass through reduce().
  bool must_reduce = false;
  /// True if the gradient of the present step has passed through reduce().
  bool has_reduced = false;
  bool has_face = false;
};

/// The worker's side of the loop.
class UserLoop::Face final : public Learner {
 public:
  explicit Face(std::shared_ptr<Meeting> meeting) : own_(std::move(meeting)) {}
  ~Face() override {
    give_back();
    own_->tell([this] { own_->is_over = true; });
  }

  const Layout& layout() const override { return own_->layout; }
  std::size_t samples() const override { return own_->samples; }
  bool takes_any_batch() const override { return false; }
  std::span<const float> parameters() const override {
    fetch();
    return own_->parameters;
  }
  std::span<float> live_parameters() override {
    fetch();
    is_changed_ = true;
    return own_->parameters;
  }
  std::uint64_t step() const override { return step_; }
  double learning_rate() const override { return own_->read(own_->learning_rate); }

  Score run_steps(std::uint64_t count, const Direct& direct) override {
    Score score;
    own_->must_reduce = static_cast<bool>(direct);
    own_->reduced = {.again = std::exchange(waits_for_sum_, false)};
    is_stale_ = false;
    for (std::uint64_t made = 0; made < count && !own_->read(own_->should_stop);) {
      // If a rule changes gradients, the loop gets one step at a time; otherwise it gets all steps
      // at once.
      const bool goes_on = hand_over(direct ? 1 : count - made);
      if (goes_on && own_->at == Meeting::At::reduce) {
        own_->reduced = {};
        if (direct) change_gradient(direct);
        continue;
      }
      own_->reduced = {};
      score += own_->score;
      made += own_->made;
      step_ += own_->made;
      if (!goes_on) break;
    }
    return score;
  }

  /// Ignores the batch size, because the loop chooses its own.
  Score gradient(std::size_t, std::span<float> out, const ReadyRange& ready,
                 std::span<const std::size_t>) override {
    own_->must_reduce = true;
    GradientParts parts(out, ready);
    if (!waits_for_sum_ || is_stale_) {
      own_->reduced = {.again = std::exchange(is_stale_, false)};
      give_back();
      waits_for_sum_ = own_->hand_over_for_sum([&](const GradientPart& part) { parts.take(part); });
      // If the loop has left, its gradient is zero, except for parts that other peers may already
      // have.
      if (!waits_for_sum_) {
        std::ranges::fill(out.first(parts.ready_from()), 0.0F);
        return {};
      }
    }
    if (parts.is_empty()) {
      own_->gradient.read(out);
    } else if (parts.ready_from() > 0) {
      throw std::logic_error("a gradient in parts has ended before all of them were given");
    }
    return own_->reduced_score;
  }

  void update(std::span<const float> mean, std::size_t samples) override {
    if (has_ended()) return;
    // An exception ends only this peer, whereas a failed check would end the user's whole program.
    if (!waits_for_sum_ || is_stale_) {
      throw std::logic_error("there is a sum, but the user's loop has given no gradient for it");
    }
    waits_for_sum_ = false;
    own_->gradient.write(mean);
    own_->reduced = {.samples = samples};
    hand_over();
    step_ += own_->made;
  }

  void go_on_at(std::uint64_t step) override {
    step_ = step;
    is_stale_ = waits_for_sum_;
  }

  void read_from(std::uint64_t position) override {
    // If the gradient's samples now belong to another peer, the gradient is useless.
    if (waits_for_sum_ && own_->leased_from != position) is_stale_ = true;
    own_->leased_from = position;
    own_->made_of_lease = 0;
  }

  void adopt_state(std::span<const float> parameters, std::span<const float> optimizer,
                   std::uint64_t step, std::uint64_t /*updates*/) override {
    adopt(parameters, step);
    if (own_->model.write_state) own_->model.write_state(optimizer);
  }
  std::size_t optimizer_size() const override { return own_->model.state_size; }
  void copy_optimizer(std::span<float> out) const override {
    if (own_->model.read_state) own_->model.read_state(out);
  }
  OptimizerState optimizer_state() const override {
    OptimizerState state = Learner::optimizer_state();
    state.position = own_->read(own_->position);
    if (own_->model.state_size == 0) return state;
    std::vector<float> values(own_->model.state_size);
    copy_optimizer(values);
    state.vectors.emplace_back(state_name, std::move(values));
    return state;
  }
  std::string restore(std::span<const float> parameters, const OptimizerState& state) override {
    const auto named = std::ranges::find(state.vectors, state_name, [](const auto& vector) {
      return std::string_view(vector.first);
    });
    const std::size_t saved = named == state.vectors.end() ? 0 : named->second.size();
    if (saved != own_->model.state_size) {
      return fmt::format("the user's state has {} numbers there and {} here", saved,
                         own_->model.state_size);
    }
    const std::string problem =
        Learner::restore(parameters, {.vectors = {}, .step = state.step, .updates = state.updates});
    if (!problem.empty()) return problem;
    if (saved > 0) own_->model.write_state(named->second);
    own_->tell([&] { own_->position = state.position.value_or(0); });
    return problem;
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
  /// The name of the user's state in a checkpoint.
  static constexpr std::string_view state_name = "user_state";

  /// Copies the user's model to `parameters`, unless that copy is current.
  void fetch() const {
    if (own_->model.read && !std::exchange(is_fetched_, true)) own_->model.read(own_->parameters);
  }
  /// Writes the model to the user's memory if the worker has changed it.
  void give_back() {
    if (own_->model.write && std::exchange(is_changed_, false)) {
      own_->model.write(own_->parameters);
    }
    is_fetched_ = false;
  }
  bool hand_over(std::uint64_t steps = 1) {
    give_back();
    return own_->hand_over(steps);
  }
  void change_gradient(const Direct& direct) {
    std::vector<float> values(own_->parameters.size());
    own_->gradient.read(values);
    direct(values);
    own_->gradient.write(values);
  }

  std::shared_ptr<Meeting> own_;
  std::uint64_t step_ = 0;
  mutable bool is_fetched_ = false;
  bool is_changed_ = false;
  bool waits_for_sum_ = false;  ///< True while the loop waits in reduce() for the sum.
  /// True if the model has been replaced since the waiting loop computed its gradient.
  bool is_stale_ = false;
};

UserLoop::UserLoop(Layout layout, std::vector<float> parameters, std::size_t samples)
    : meeting_(std::make_shared<Meeting>()) {
  if (layout.size() != parameters.size()) {
    throw std::invalid_argument("a model has as many parameters as its layout says");
  }
  meeting_->layout = std::move(layout);
  meeting_->parameters = std::move(parameters);
  meeting_->samples = samples;
}

UserLoop::UserLoop(Layout layout, UserModel model, std::size_t samples)
    : UserLoop(layout, std::vector<float>(layout.size()), samples) {
  if (!model.read || !model.write) {
    throw std::invalid_argument("a model in the user's memory can be read and written");
  }
  meeting_->model = std::move(model);
}

UserLoop::~UserLoop() { leave(); }

std::unique_ptr<Learner> UserLoop::learner() {
  if (std::exchange(meeting_->has_face, true)) {
    throw std::logic_error("a user's loop has one learner, which it has given already");
  }
  return std::make_unique<Face>(meeting_);
}

bool UserLoop::begin() { return meeting_->await(); }

std::span<float> UserLoop::parameters() { return meeting_->parameters; }

bool UserLoop::step_over(const Score& score) {
  give_step(score);
  return meeting_->await();
}

void UserLoop::give_step(const Score& score) {
  if (meeting_->must_reduce && !meeting_->has_reduced) {
    throw std::logic_error("this run needs every step's gradient: call reduce() before the step");
  }
  meeting_->has_reduced = false;
  if (!meeting_->count(score)) meeting_->pass_on(Meeting::At::step_over);
}

Reduced UserLoop::reduce(std::span<float> gradient, const Score& score) {
  if (gradient.size() != meeting_->parameters.size()) {
    throw std::invalid_argument("a gradient has as many elements as the model has parameters");
  }
  return reduce(
      {.read = [gradient](std::span<float> to) { std::ranges::copy(gradient, to.begin()); },
       .write =
           [gradient](std::span<const float> from) { std::ranges::copy(from, gradient.begin()); }},
      score);
}

Reduced UserLoop::reduce(UserGradient gradient, const Score& score) {
  give_gradient(std::move(gradient), score);
  if (!meeting_->await()) return {.is_over = true};
  return take_reduced();
}

void UserLoop::give_gradient(UserGradient gradient, const Score& score) {
  if (std::exchange(meeting_->has_reduced, true)) {
    throw std::logic_error(
        "a step has one gradient, which was reduced: end the step before the next");
  }
  // Without a sum, and without a rule that changes gradients, there is nothing to wait for.
  if (!needs_gradient()) return;
  meeting_->gradient = std::move(gradient);
  meeting_->reduced_score = score;
  meeting_->pass_on(Meeting::At::reduce);
}

void UserLoop::give_parts(std::vector<GradientPart> parts) {
  if (has_reduced()) throw std::logic_error("the step's gradient has been reduced");
  // If there is no sum, or if a rule needs the whole gradient, reduce() handles all parts.
  meeting_->tell([&] {
    if (!meeting_->sums_parts) return;
    for (GradientPart& part : parts) meeting_->parts.push_back(std::move(part));
  });
}

bool UserLoop::has_reduced() const { return meeting_->has_reduced; }

auto UserLoop::wait(Duration patience) -> Waited {
  std::unique_lock lock(meeting_->mutex);
  const auto may_return = [this] {
    return meeting_->turn == Meeting::Turn::user || meeting_->is_over;
  };
  if (!meeting_->wake.wait_for(lock, patience, may_return)) return Waited::is_late;
  return meeting_->is_over ? Waited::is_over : Waited::may_go_on;
}

Reduced UserLoop::take_reduced() {
  meeting_->has_reduced = !meeting_->reduced.again;
  return meeting_->reduced;
}

void UserLoop::set_position(std::uint64_t position) {
  meeting_->tell([&] { meeting_->position = position; });
}

std::uint64_t UserLoop::position() const { return meeting_->read(meeting_->position); }

std::optional<std::uint64_t> UserLoop::leased_position(std::uint64_t batch) const {
  if (!meeting_->leased_from) return std::nullopt;
  return *meeting_->leased_from + meeting_->made_of_lease * batch;
}

void UserLoop::set_learning_rate(double learning_rate) {
  meeting_->tell([&] { meeting_->learning_rate = learning_rate; });
}

bool UserLoop::needs_gradient() const { return meeting_->must_reduce || meeting_->reduced.again; }

double UserLoop::update_factor() const { return meeting_->read(meeting_->factor); }
double UserLoop::progress() const { return meeting_->read(meeting_->progress); }
bool UserLoop::should_stop() const { return meeting_->read(meeting_->should_stop); }

void UserLoop::leave() {
  meeting_->tell([this] { meeting_->has_left = true; });
}

}  // namespace gv
