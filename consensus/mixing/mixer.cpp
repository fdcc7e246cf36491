// Calls a rule's steps at each point of a round.
#include "consensus/mixing/mixer.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "base/state_hash.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv {
namespace {

/// Smallest learning rate to divide by. Without it, a learning-rate schedule that ends at 0 would
/// give infinity.
constexpr double learning_rate_min = 1e-8;

}  // namespace

template <class Real>
Mixer<Real>::Mixer(const MixRule& rule, std::size_t elements, std::uint64_t seed, double samples)
    : traits_(traits_of(rule)),
      peer_{.rule = rule,
            .elements = elements,
            .seed = seed,
            .share = rule.weigh_by_samples ? samples : 1} {
  check(peer_.share > 0 && std::isfinite(peer_.share), "a peer counts by a finite weight above 0");
  for (const MixPart* part : parts_of(rule)) {
    if (part->make.floats == nullptr) continue;
    if constexpr (std::is_same_v<Real, float>) {
      steps_.push_back(part->make.floats());
    } else {
      steps_.push_back(part->make.doubles());
    }
  }
}

// ---- Value semantics ----

template <class Real>
Mixer<Real>::Mixer(const Mixer& other) : traits_(other.traits_), peer_(other.peer_) {
  for (const auto& step : other.steps_) steps_.push_back(step->copy());
}

template <class Real>
bool Mixer<Real>::operator==(const Mixer& other) const {
  // Mixers with the same rule have the same list of steps.
  return equal_states(peer_, other.peer_) &&
         std::ranges::equal(steps_, other.steps_, [](const auto& step, const auto& same) {
           return step->has_state_of(*same);
         });
}

template <class Real>
void Mixer<Real>::add_to(StateHash& hash) const {
  hash.add(peer_);
  for (const auto& step : steps_) step->hash_into(hash);
}

// ---- Generations ----

template <class Real>
void Mixer<Real>::begin_generation(std::size_t rank, std::span<const PeerId> order,
                                   std::uint64_t key, std::span<const Real> x,
                                   std::vector<std::size_t> hosts) {
  check(x.size() == peer_.elements, "a model has the layout's size");
  peer_.rank = rank;
  peer_.order.assign(order.begin(), order.end());
  peer_.key = key;
  // The plan depends only on these arguments and not on earlier generations, so peers with equal
  // views have equal plans.
  peer_.plan.emplace(peer_.rule, order.size(), peer_.seed, std::move(hosts));
  for (const auto& step : steps_) step->begin_generation(peer_, x);
}

template <class Real>
void Mixer<Real>::forget() {
  for (const auto& step : steps_) {
    for (const auto& vector : step->kept()) vector.values->clear();
    step->forget();
  }
}

template <class Real>
void Mixer<Real>::close_generation(std::span<const MixMessage> arrived, bool unsent) {
  if (!peer_.plan) return;
  for (const auto& step : steps_) step->close_generation(peer_, arrived, unsent);
}

// ---- Rounds ----

template <class Real>
void Mixer<Real>::begin_round(std::uint64_t, std::span<Real> x) {
  for (const auto& step : steps_) step->begin_round(peer_, x);
}

template <class Real>
void Mixer<Real>::direct(std::span<Real> gradient) {
  for (const auto& step : steps_) step->direct(peer_, gradient);
}

template <class Real>
void Mixer<Real>::end_steps(std::span<Real> x, double learning_rate, std::uint64_t steps) {
  peer_.learning_rate = std::max(learning_rate, learning_rate_min);
  peer_.steps = std::max<std::uint64_t>(1, steps);
  for (const auto& step : steps_) step->end_steps(peer_, x);
}

template <class Real>
std::vector<MixMessage> Mixer<Real>::messages(std::uint64_t round, std::span<Real> x) {
  MixDraft<Real> draft{.round = round};
  for (const auto& step : steps_) step->write(peer_, draft, x);
  if (draft.words.empty()) return std::move(draft.messages);
  return peer_.to_all(round, draft.words, draft.count);
}

template <class Real>
std::size_t Mixer<Real>::mix(std::uint64_t round, std::span<Real> x,
                             std::span<const MixMessage> arrived, Real bound) {
  peer_.held_back.clear();
  MixInbox<Real> inbox{.round = round, .arrived = arrived, .bound = bound};
  if (!traits_.keeps_copies) inbox.others = peer_.heard(round, arrived, inbox.refused);
  for (const auto& step : steps_) step->mix(peer_, inbox, x);
  if (std::isfinite(bound)) {
    hold_within<Real>(x, bound);
    for (const auto& step : steps_) step->hold(peer_, bound);
  }
  return inbox.refused;
}

// ---- Kept vectors ----

template <class Real>
std::span<const Real> Mixer<Real>::kept(std::string_view name) const {
  for (const auto& step : steps_) {
    for (const auto& vector : step->kept()) {
      if (vector.name == name) return *vector.values;
    }
  }
  return {};
}

template <class Real>
const NeighbourMemory<Real>* Mixer<Real>::memory() const {
  for (const auto& step : steps_) {
    if (step->memory() != nullptr) return step->memory();
  }
  return nullptr;
}

template <class Real>
std::vector<std::pair<std::string_view, std::vector<Real>>> Mixer<Real>::lasting() const {
  std::vector<std::pair<std::string_view, std::vector<Real>>> vectors;
  // Checkpoints list the vectors of the last step first.
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    for (const auto& [name, values, lasts] : (*step)->kept()) {
      if (lasts && !values->empty()) vectors.emplace_back(name, *values);
    }
  }
  return vectors;
}

template <class Real>
void Mixer<Real>::restore(std::string_view name, std::span<const Real> values) {
  if (values.size() != peer_.elements) return;
  for (const auto& step : steps_) {
    for (const auto& vector : step->kept()) {
      if (vector.name == name) vector.values->assign(values.begin(), values.end());
    }
  }
}

template class Mixer<float>;
template class Mixer<double>;

}  // namespace gv
