// The mixing rules, each in a few lines.
#include "consensus/mixing/mixer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "consensus/mixing/companion_rates.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv {
namespace {

/// The name of our reference in a checkpoint.
constexpr std::string_view reference_name = "reference";

/// We do not divide by a smaller learning rate, as in the last steps of a schedule that ends at 0.
constexpr double learning_rate_min = 1e-8;

}  // namespace

std::string_view to_string(MixRegister name) {
  constexpr std::array<std::string_view, mix_registers> names = {
      "before",  "message",       "numerator",  "companion", "slow",  "outer", "momentum",
      "tracker", "last_gradient", "correction", "drift",     "error", "sent"};
  return names[static_cast<std::size_t>(name)];
}

template <class Real>
Mixer<Real>::Mixer(const MixRule& rule, std::size_t elements, std::uint64_t seed, double samples)
    : rule_(rule),
      traits_(traits_of(rule)),
      elements_(elements),
      seed_(seed),
      share_(rule.weigh_by_samples ? samples : 1) {
  check(share_ > 0 && std::isfinite(share_), "a peer counts by a finite weight above 0");
}

template <class Real>
typename Mixer<Real>::Vector& Mixer<Real>::zeros_if_new(MixRegister name) {
  Vector& vector = at(name);
  if (vector.empty()) vector.assign(elements_, 0);
  return vector;
}

// ---- Generations and rounds ----

template <class Real>
void Mixer<Real>::begin_generation(std::size_t rank, std::span<const PeerId> order,
                                   std::uint64_t key, std::span<const Real> x) {
  check(x.size() == elements_, "a model has the layout's size");
  rank_ = rank;
  key_ = key;
  // Only the seed counts, so that equal views make equal plans whatever came before.
  plan_.emplace(rule_, order.size(), seed_);
  relayed_.clear();
  weight_ = share_;
  if (rule_.kind == MixKind::push_sum) {
    at(MixRegister::numerator).assign(elements_, 0);
    add<Real>(at(MixRegister::numerator), x, share_);
  }
  if (rule_.kind == MixKind::companion) {
    at(MixRegister::companion).assign(x.begin(), x.end());
    const CompanionRates rates = companion_rates(*plan_);
    leaning_ = rates.leaning;
    pull_ = rates.pull;
  }
  if (rule_.kind == MixKind::noloco || rule_.outer == MixOuter::slowmo) {
    zeros_if_new(MixRegister::outer);
    at(MixRegister::slow).assign(x.begin(), x.end());
  }
  if (traits_.keeps_copies) {
    at(MixRegister::drift).assign(elements_, 0);
    // Neighbours are the same in every round.
    memory_.begin_generation(order, plan_->turn(rank_, 0).out);
  }
  // The trackers of peers that left are lost. Starting again makes the mean of all trackers right.
  if (rule_.correction == MixCorrection::tracking) {
    at(MixRegister::tracker) = zeros_if_new(MixRegister::last_gradient);
  }
  if (rule_.correction == MixCorrection::d2) at(MixRegister::correction).assign(elements_, 0);
  if (rule_.fragment_order == FragmentOrder::largest) {
    at(MixRegister::sent).assign(x.begin(), x.end());
    // Neighbours have no piece of ours yet, so all pieces are sent in turn first.
    piece_due_.resize(rule_.fragments);
    std::iota(piece_due_.begin(), piece_due_.end(), 0);
  }
}

template <class Real>
void Mixer<Real>::forget() {
  for (Vector& vector : registers_) vector.clear();
  memory_.forget();
}

template <class Real>
void Mixer<Real>::close_generation(std::span<const MixMessage> arrived, bool unsent) {
  if (!traits_.keeps_copies || !plan_) return;
  if (unsent) memory_.take_back();
  learn(arrived);
}

template <class Real>
void Mixer<Real>::begin_round(std::uint64_t, std::span<Real> x) {
  if (rule_.kind == MixKind::push_sum) {
    add<Real>(at(MixRegister::numerator), x, -share_);
  } else if (rule_.kind == MixKind::companion) {
    Vector& companion = at(MixRegister::companion);
    const auto flow = static_cast<Real>((1 - std::exp(-2 * leaning_)) / 2);
    flow_together<Real>(x, companion, flow);
    take_away<Real>(companion, x);
  }
  const bool needs_before = rule_.kind == MixKind::downpour ||
                            rule_.correction == MixCorrection::quasi_global ||
                            rule_.correction == MixCorrection::decentlam;
  if (needs_before) at(MixRegister::before).assign(x.begin(), x.end());
}

template <class Real>
bool Mixer<Real>::directs() const {
  return rule_.correction == MixCorrection::quasi_global ||
         rule_.correction == MixCorrection::tracking;
}

template <class Real>
void Mixer<Real>::direct(std::span<Real> gradient) {
  if (rule_.correction == MixCorrection::quasi_global) {
    add<Real>(gradient, zeros_if_new(MixRegister::momentum), rule_.momentum);
  } else if (rule_.correction == MixCorrection::tracking) {
    Vector& tracker = zeros_if_new(MixRegister::tracker);
    Vector& last = zeros_if_new(MixRegister::last_gradient);
    tracking_step<Real>(tracker, last, gradient);
  }
}

template <class Real>
void Mixer<Real>::end_steps(std::span<Real> x, double learning_rate, std::uint64_t steps) {
  learning_rate_ = std::max(learning_rate, learning_rate_min);
  steps_ = std::max<std::uint64_t>(1, steps);
  if (rule_.kind == MixKind::push_sum) add<Real>(at(MixRegister::numerator), x, share_);
  if (rule_.kind == MixKind::companion) add<Real>(at(MixRegister::companion), x);
  if (rule_.correction == MixCorrection::d2) add<Real>(x, at(MixRegister::correction));
}

// ---- Messages ----

/// Offset and length of the piece of the model that the round mixes.
template <class Real>
std::pair<std::size_t, std::size_t> Mixer<Real>::range(std::uint64_t round) const {
  return piece_of(rule_, elements_, round);
}

template <class Real>
std::shared_ptr<std::vector<std::byte>> Mixer<Real>::encoded(
    std::uint64_t round, std::uint64_t salt, std::span<const std::span<const Real>> words,
    const MixHeader& header) const {
  const Rng rng = Rng(seed_).fork("message").fork(key_).fork(rank_).fork(round).fork(salt);
  return write_message(rule_, header, words, rng);
}

/// One message for all peers that hear us; the values that they decode go to `as_decoded`.
template <class Real>
std::vector<MixMessage> Mixer<Real>::to_all(std::uint64_t round,
                                            std::span<const std::span<const Real>> words,
                                            std::span<Real> as_decoded, double weight,
                                            std::uint32_t count) {
  const auto bytes = encoded(round, 0, words, {.weight = weight, .count = count});
  const auto decoded = read_message<Real>(rule_, elements_, round, *bytes);
  sound_ = decoded.has_value();
  if (sound_) std::ranges::copy(decoded->values, as_decoded.begin());
  std::vector<std::size_t> out = plan_->turn(rank_, round).out;
  if (!sound_ || out.empty()) return {};
  return {{.from = rank_, .round = round, .bytes = bytes, .to = std::move(out)}};
}

/// Sends each neighbour the sum of us and all peers behind us, without what came from it.
template <class Real>
std::vector<MixMessage> Mixer<Real>::relayed(std::uint64_t round, std::span<const Real> x) {
  std::vector<MixMessage> messages;
  for (const std::size_t to : plan_->turn(rank_, round).out) {
    Vector sum(x.begin(), x.end());
    std::uint32_t count = 1;
    for (const auto& [from, last] : relayed_) {
      if (from == to) continue;
      add<Real>(sum, last.first);
      count += last.second;
    }
    const std::span<const Real> word = sum;
    messages.push_back({.from = rank_,
                        .round = round,
                        .bytes = encoded(round, to, {&word, 1}, {.count = count}),
                        .to = {to}});
  }
  sound_ = std::ranges::all_of(x, [](Real value) { return std::isfinite(value); });
  if (!sound_) messages.clear();
  return messages;
}

/// Sends the piece that has changed most since it was last sent; of equal ones the first. But no
/// piece waits longer than `rounds_for_each` rounds times the number of pieces.
template <class Real>
std::vector<MixMessage> Mixer<Real>::largest_piece(std::uint64_t round, std::span<const Real> x) {
  constexpr std::uint64_t rounds_for_each = 4;
  Vector& sent = at(MixRegister::sent);
  std::size_t chosen =
      static_cast<std::size_t>(std::ranges::min_element(piece_due_) - piece_due_.begin());
  if (piece_due_[chosen] > round) {
    double most = -1;
    for (std::size_t piece = 0; piece < rule_.fragments; ++piece) {
      const auto [begin, size] = chosen_piece(rule_, elements_, piece);
      double squares = 0;
      for (std::size_t i = begin; i < begin + size; ++i) {
        const double change = static_cast<double>(x[i]) - static_cast<double>(sent[i]);
        squares += change * change;
      }
      if (squares > most) {
        most = squares;
        chosen = piece;
      }
    }
  }
  piece_due_[chosen] = round + rounds_for_each * rule_.fragments;
  const auto [begin, size] = chosen_piece(rule_, elements_, chosen);
  const std::span<const Real> word = x.subspan(begin, size);
  std::ranges::copy(word, sent.begin() + static_cast<std::ptrdiff_t>(begin));
  return to_all(round, {&word, 1}, at(MixRegister::message), 1, static_cast<std::uint32_t>(chosen));
}

template <class Real>
std::vector<MixMessage> Mixer<Real>::messages(std::uint64_t round, std::span<Real> x) {
  const auto [begin, size] = range(round);
  Vector& message = at(MixRegister::message);
  message.resize(traits_.words * size);
  std::span<const Real> word = x.subspan(begin, size);
  Vector made;
  switch (rule_.kind) {
    case MixKind::push_sum: {
      const std::size_t parts = plan_->turn(rank_, round).out.size() + 1;
      Vector& numerator = at(MixRegister::numerator);
      for (Real& value : numerator) value /= static_cast<Real>(parts);
      weight_ /= static_cast<double>(parts);
      word = numerator;
      return to_all(round, {&word, 1}, message, weight_);
    }
    case MixKind::relay_sum:
      return relayed(round, x);
    case MixKind::noloco: {
      const Vector& slow = at(MixRegister::slow);
      made.assign(x.begin(), x.end());
      take_away<Real>(made, slow);
      const std::array<std::span<const Real>, 2> words = {std::span<const Real>(slow), made};
      return to_all(round, words, message);
    }
    case MixKind::downpour:
      if (rank_ == 0) return to_all(round, {&word, 1}, message);
      made.assign(x.begin(), x.end());
      take_away<Real>(made, at(MixRegister::before));
      word = made;
      return to_all(round, {&word, 1}, message);
    case MixKind::average:
    case MixKind::companion:
      break;
  }
  if (rule_.fragment_order == FragmentOrder::largest) return largest_piece(round, x);
  if (rule_.correction == MixCorrection::tracking) {
    const std::array<std::span<const Real>, 2> words = {
        std::span<const Real>(x), std::span<const Real>(zeros_if_new(MixRegister::tracker))};
    return to_all(round, words, message);
  }
  switch (rule_.memory) {
    case MixMemory::none:
      return to_all(round, {&word, 1}, message);
    case MixMemory::error_feedback: {
      Vector& error = zeros_if_new(MixRegister::error);
      add<Real>(error, x);
      word = error;
      auto all = to_all(round, {&word, 1}, message);
      take_away<Real>(error, message);
      return all;
    }
    case MixMemory::difference:
    case MixMemory::replicated_difference:
      return differences(round, x);
  }
  return {};
}

/// Sends the difference to our reference to neighbours that have it, and the reference to others.
template <class Real>
std::vector<MixMessage> Mixer<Real>::differences(std::uint64_t round, std::span<Real> x) {
  sound_ = std::ranges::all_of(x, [](Real value) { return std::isfinite(value); });
  if (!sound_) return {};
  if (memory_.own().empty()) memory_.set_own(x);
  const bool opens = round == 0;
  std::shared_ptr<std::vector<std::byte>> coded;
  if (!opens) {
    Vector made(x.begin(), x.end());
    take_away<Real>(made, memory_.own());
    // With replicated differences our model is the shared reference, so add the mixed drift first.
    if (rule_.memory == MixMemory::replicated_difference) add<Real>(made, at(MixRegister::drift));
    const std::span<const Real> word = made;
    coded = encoded(round, 0, {&word, 1}, {.count = 1});
    const auto decoded = read_message<Real>(rule_, elements_, round, *coded);
    sound_ = decoded.has_value();
    if (!sound_) return {};
    memory_.add(decoded->values);
    if (rule_.memory == MixMemory::replicated_difference)
      std::ranges::copy(memory_.own(), x.begin());
  }
  std::vector<MixMessage> messages;
  const std::span<const Real> own = memory_.own();
  for (auto& [to, header, knowledge] : memory_.heads(opens)) {
    const std::size_t words = header.form == MixForm::hello ? 0 : 1;
    std::shared_ptr<std::vector<std::byte>> bytes;
    if (header.form != MixForm::coded) {
      bytes = encoded(round, 1, std::span(&own, words), header);
    } else if (header.lacks != 0) {
      bytes = std::make_shared<std::vector<std::byte>>(*coded);
      std::memcpy(bytes->data(), &header, sizeof(header));
    } else {
      bytes = coded;
    }
    write_knowledge(*bytes, knowledge);
    messages.push_back({rank_, round, std::move(bytes), std::move(to)});
  }
  return messages;
}

// ---- Mixing ----

/// gamma sum_j w_ij (m_j - m_i), or the guard's aggregate instead, for a part of the messages.
template <class Real>
typename Mixer<Real>::Vector Mixer<Real>::change(const std::vector<Heard>& others,
                                                 std::size_t begin, std::size_t size) {
  const auto own = std::span<const Real>(at(MixRegister::message)).subspan(begin, size);
  return change_by<Real>(rule_, own, others, begin, held_back_);
}

template <class Real>
void Mixer<Real>::average(std::uint64_t round, std::span<Real> x,
                          const std::vector<Heard>& others) {
  if (rule_.fragment_order == FragmentOrder::largest) return average_pieces<Real>(rule_, x, others);
  const auto [begin, size] = range(round);
  const Vector moves = change(others, 0, size);
  add<Real>(x.subspan(begin, size), moves);
  switch (rule_.correction) {
    case MixCorrection::none:
      break;
    case MixCorrection::tracking:
      add<Real>(at(MixRegister::tracker), change(others, elements_, elements_));
      break;
    case MixCorrection::d2:
      add<Real>(at(MixRegister::correction), moves);
      break;
    case MixCorrection::quasi_global: {
      Vector& momentum = zeros_if_new(MixRegister::momentum);
      const Vector& before = at(MixRegister::before);
      const double scale = (1 - rule_.smoothing) / (learning_rate_ * static_cast<double>(steps_));
      quasi_global_step<Real>(momentum, before, x, rule_.smoothing, scale);
      break;
    }
    case MixCorrection::decentlam: {
      Vector& momentum = zeros_if_new(MixRegister::momentum);
      const Vector& before = at(MixRegister::before);
      const auto rate = static_cast<Real>(learning_rate_);
      decentlam_step<Real>(momentum, before, x, rule_.momentum, rate);
      break;
    }
  }
}

/// Updates our copies by the neighbours' messages; returns the number of unusable ones.
template <class Real>
std::size_t Mixer<Real>::learn(std::span<const MixMessage> arrived) {
  std::size_t refused = 0;
  for (const MixMessage* message : in_order(arrived)) {
    const auto content = read_message<Real>(rule_, elements_, message->round, *message->bytes);
    if (!content || !memory_.take(message->from, *content)) ++refused;
  }
  return refused;
}

/// x += gamma sum_j w_ij (j's reference - ours). With replicated differences this is done when the
/// next message is made.
template <class Real>
void Mixer<Real>::follow(std::uint64_t round, std::span<Real> x) {
  memory_.end_round();
  Vector& drift = at(MixRegister::drift);
  drift.assign(elements_, 0);
  const Vector& own = memory_.own();
  for (const Share& share : plan_->turn(rank_, round).in) {
    const Vector* known = memory_.shared(share.from);
    if (known == nullptr) continue;
    const auto weight = static_cast<Real>(share.weight);
    for (std::size_t i = 0; i < elements_; ++i) drift[i] += weight * ((*known)[i] - own[i]);
  }
  if (rule_.memory == MixMemory::difference) add<Real>(x, drift, rule_.gamma);
}

/// u = beta u + (slow - x) / eta; slow -= lr eta u; x = slow.
template <class Real>
void Mixer<Real>::outer_step(std::uint64_t round, std::span<Real> x) {
  if (rule_.outer != MixOuter::slowmo || (round + 1) % rule_.outer_every != 0) return;
  Vector& slow = at(MixRegister::slow);
  Vector& outer = zeros_if_new(MixRegister::outer);
  const auto rate = static_cast<Real>(learning_rate_);
  const auto step = static_cast<Real>(rule_.outer_learning_rate) * rate;
  slowmo_step<Real>(outer, slow, x, rule_.outer_momentum, rate, step);
}

/// Adds up numerators and weights; the model is their quotient.
template <class Real>
void Mixer<Real>::mix_push_sum(std::span<Real> x, const std::vector<Heard>& others) {
  Vector& numerator = at(MixRegister::numerator);
  for (const Heard& other : others) {
    add<Real>(numerator, other.values);
    weight_ += other.weight;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = numerator[i] / static_cast<Real>(weight_);
  }
}

/// The last sum of each neighbour has all peers behind it; together with our model they give the
/// mean of all.
template <class Real>
void Mixer<Real>::mix_relay_sum(std::span<Real> x, const std::vector<Heard>& others) {
  for (const Heard& other : others) relayed_[other.from] = {other.values, other.count};
  Vector sum(elements_, 0);
  double count = 0;
  for (const auto& [from, last] : relayed_) {
    add<Real>(sum, last.first);
    count += last.second;
  }
  const auto peers = static_cast<Real>(plan_->peers());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] += (sum[i] - static_cast<Real>(count) * x[i]) / peers;
  }
}

/// Model and companion each take their part of the differences.
template <class Real>
void Mixer<Real>::mix_companion(std::span<Real> x, const std::vector<Heard>& others) {
  const Vector moves = change(others, 0, elements_);
  add<Real>(x, moves);
  // The topology's weight averages a pair; the companion takes pull / (1/2) times as much.
  add<Real>(at(MixRegister::companion), moves, pull_ / 0.5);
}

/// The slow model moves by the mean change, and towards the others' slow models.
template <class Real>
void Mixer<Real>::mix_noloco(std::span<Real> x, const std::vector<Heard>& others) {
  const std::span<const Real> message = at(MixRegister::message);
  Vector& slow = at(MixRegister::slow);
  Vector& outer = at(MixRegister::outer);
  Vector mean(message.begin() + static_cast<std::ptrdiff_t>(elements_), message.end());
  Vector together(elements_, 0);
  for (const Heard& other : others) {
    const auto share = static_cast<Real>(other.share);
    for (std::size_t i = 0; i < elements_; ++i) {
      together[i] += share * (other.values[i] - message[i]);
      mean[i] += share * (other.values[elements_ + i] - message[elements_ + i]);
    }
  }
  for (std::size_t i = 0; i < elements_; ++i) {
    outer[i] = static_cast<Real>(rule_.momentum) * outer[i] +
               static_cast<Real>(rule_.outer_learning_rate) * mean[i] +
               static_cast<Real>(rule_.gamma) * together[i];
    x[i] = slow[i] += outer[i];
  }
}

/// The centre adds changes up; the others go on from its sum.
template <class Real>
void Mixer<Real>::mix_downpour(std::span<Real> x, const std::vector<Heard>& others) {
  const std::span<const Real> message = at(MixRegister::message);
  if (rank_ == 0) {
    for (const Heard& other : others) add<Real>(x, other.values);
  } else if (!others.empty()) {
    // The sum does not have our last change yet.
    std::ranges::copy(others.back().values, x.begin());
    add<Real>(x, message);
  }
}

template <class Real>
std::size_t Mixer<Real>::mix(std::uint64_t round, std::span<Real> x,
                             std::span<const MixMessage> arrived) {
  std::size_t refused = 0;
  held_back_.clear();
  if (traits_.keeps_copies) {
    refused = learn(arrived);
    follow(round, x);
    outer_step(round, x);
    return refused;
  }
  const std::vector<Heard> others =
      heard_models<Real>(rule_, *plan_, rank_, elements_, round, arrived, refused);
  switch (rule_.kind) {
    case MixKind::average:
      average(round, x, others);
      outer_step(round, x);
      break;
    case MixKind::push_sum:
      mix_push_sum(x, others);
      break;
    case MixKind::relay_sum:
      mix_relay_sum(x, others);
      break;
    case MixKind::companion:
      mix_companion(x, others);
      break;
    case MixKind::noloco:
      mix_noloco(x, others);
      break;
    case MixKind::downpour:
      mix_downpour(x, others);
      break;
  }
  return refused;
}

// ---- Checkpoints ----

template <class Real>
std::vector<std::pair<std::string_view, std::vector<Real>>> Mixer<Real>::lasting() const {
  std::vector<std::pair<std::string_view, std::vector<Real>>> vectors;
  for (const MixRegister name : {MixRegister::outer, MixRegister::momentum,
                                 MixRegister::last_gradient, MixRegister::error}) {
    if (!at(name).empty()) vectors.emplace_back(to_string(name), at(name));
  }
  if (!memory_.own().empty()) vectors.emplace_back(reference_name, memory_.own());
  return vectors;
}

template <class Real>
void Mixer<Real>::restore(std::string_view name, std::span<const Real> values) {
  if (values.size() != elements_) return;
  if (name == reference_name) memory_.set_own(values);
  for (std::size_t i = 0; i < mix_registers; ++i) {
    if (to_string(static_cast<MixRegister>(i)) != name) continue;
    registers_[i].assign(values.begin(), values.end());
  }
}

template class Mixer<float>;
template class Mixer<double>;

}  // namespace gv
