// Passes the program's calls to its loop.
#include "peer/library/joined_peer.hpp"

#include <span>
#include <stdexcept>
#include <utility>

namespace gv {
namespace {

std::optional<IndexRule> rule_of(const HostOptions& options) {
  IndexRule rule{
      .seed = options.config.run.seed, .peer = options.shard, .peers = options.config.run.peers};
  switch (options.config.data.partition.kind) {
    case PartitionKind::iid:
      return rule;
    case PartitionKind::shared:
      rule.part = IndexRule::Part::all;
      return rule;
    case PartitionKind::leased:
      rule.part = IndexRule::Part::common;
      return rule;
    case PartitionKind::dirichlet:
    case PartitionKind::by_label:
    case PartitionKind::clusters:
      break;
  }
  return std::nullopt;
}

}  // namespace

JoinedPeer::JoinedPeer(HostOptions options, UserTensors model, UserTensors state,
                       TensorCopies copies, std::size_t samples)
    : model_(std::move(model)),
      state_(std::move(state)),
      copies_(std::move(copies)),
      given_(model_),
      loop_(model_.layout(), user_model(), samples),
      index_rule_(rule_of(options)),
      batch_(options.config.train.batch),
      host_(std::move(options), loop_.learner()) {}

JoinedPeer::~JoinedPeer() { leave(); }

UserModel JoinedPeer::user_model() {
  using enum TensorCopies::Part;
  const auto read = [this](TensorCopies::Part part, const UserTensors& tensors) {
    return [this, part, &tensors](std::span<float> to) {
      copy_out(part);
      tensors.read(to);
    };
  };
  const auto write = [this](TensorCopies::Part part, const UserTensors& tensors) {
    return [this, part, &tensors](std::span<const float> from) {
      tensors.write(from);
      copy_in(part);
    };
  };
  return {.read = read(model, model_),
          .write = write(model, model_),
          .state_size = state_.size(),
          .read_state = read(state, state_),
          .write_state = write(state, state_)};
}

void JoinedPeer::copy_out(TensorCopies::Part part) {
  if (!copies_.out || copies_.out(part)) return;
  has_failed_to_copy_ = true;
  throw std::runtime_error("the program could not copy its tensors for the peer");
}

/// Copies a part from host memory to the program's tensors. Never throws, because it also runs
/// while the peer ends.
void JoinedPeer::copy_in(TensorCopies::Part part) {
  if (copies_.in && !copies_.in(part)) has_failed_to_copy_ = true;
}

std::uint64_t JoinedPeer::find_indices(std::uint64_t samples, std::uint64_t position,
                                       std::span<std::uint64_t> indices) {
  if (!index_rule_) {
    throw std::invalid_argument(
        "data.partition deals samples by what is in them, which only the built-in data show: write "
        "iid, shared or leased");
  }
  if (!order_ || order_->samples() != samples) order_.emplace(samples, *index_rule_);
  if (order_->part() == 0) {
    throw std::invalid_argument("there are fewer samples than peers, and none for this one");
  }
  for (std::uint64_t& index : indices) index = order_->at(position++);
  has_asked_ = has_asked_ || !indices.empty();
  return order_->part();
}

std::uint64_t JoinedPeer::position() const {
  return loop_.leased_position(batch_).value_or(loop_.position());
}

/// Throws if only some parts of a gradient have been given. The gradient must be completed before a
/// step or another gradient can begin.
void JoinedPeer::check_no_parts() const {
  if (given_.is_empty()) return;
  throw std::logic_error(
      "a gradient is given in parts: give the others to gv_reduce_begin(), and call "
      "gv_reduce_end()");
}

void JoinedPeer::step(const Score& score) {
  check_no_parts();
  const bool is_leased = index_rule_ && index_rule_->part == IndexRule::Part::common;
  if (is_leased && !has_asked_) {
    throw std::logic_error(
        "data are leased, and this step has not asked for its samples: take them from "
        "gv_indices() at gv_info's `position`, or in Python from a sampler");
  }
  loop_.give_step(score);
  has_asked_ = false;
  pending_ = Call::step;
}

void JoinedPeer::reduce(UserTensors gradient, const Score& score) {
  check_no_parts();
  gradient_ = std::move(gradient);
  loop_.give_gradient({.read = [this](std::span<float> to) { gradient_.read(to); },
                       .write = [this](std::span<const float> from) { gradient_.write(from); }},
                      score);
  pending_ = Call::reduce;
}

void JoinedPeer::reduce_begin(const UserTensors& part) {
  if (loop_.has_reduced()) {
    throw std::logic_error(
        "a step has one gradient, which was reduced: end the step before the next");
  }
  loop_.give_parts(given_.add(part));
}

void JoinedPeer::reduce_end(const Score& score) { reduce(given_.take(), score); }

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

}  // namespace gv
