// Writes a peer's messages, and decodes and averages the messages of its neighbours.
#include "consensus/mixing/mix_peer.hpp"

#include <algorithm>
#include <utility>

#include "base/rng.hpp"
#include "consensus/mixing/robust.hpp"

namespace gv {

namespace {

/// Scales the shares down if they add up to more than 1, so that our own weight is not below 0.
/// Rounding errors do not count.
template <class Real>
void limit_shares(std::vector<HeardModel<Real>>& others) {
  double sum = 0;
  for (const HeardModel<Real>& other : others) sum += other.share;
  if (sum <= 1 + 1e-9) return;
  for (HeardModel<Real>& other : others) other.share /= sum;
}

}  // namespace

std::vector<const MixMessage*> in_order(std::span<const MixMessage> arrived) {
  std::vector<const MixMessage*> order;
  for (const MixMessage& message : arrived) order.push_back(&message);
  std::ranges::stable_sort(order, [](const MixMessage* a, const MixMessage* b) {
    return std::pair(a->from, a->round) < std::pair(b->from, b->round);
  });
  return order;
}

template <class Real>
std::shared_ptr<std::vector<std::byte>> MixPeer<Real>::written(
    std::uint64_t round, std::uint64_t salt, std::span<const std::span<const Real>> words,
    const MixHeader& header) const {
  const Rng rng = Rng(seed).fork("message").fork(key).fork(rank).fork(round).fork(salt);
  return write_message(rule, header, words, rng);
}

template <class Real>
std::vector<MixMessage> MixPeer<Real>::to_all(std::uint64_t round,
                                              std::span<const std::span<const Real>> words,
                                              std::uint32_t count) {
  const auto bytes = written(round, 0, words, {.weight = weight, .count = count});
  const auto decoded = read_message<Real>(rule, elements, round, *bytes);
  is_sound = decoded.has_value();
  message.resize(words.size() * words.front().size());
  if (is_sound) std::ranges::copy(decoded->values, message.begin());
  std::vector<std::size_t> out = plan->turn(rank, round).out;
  if (!is_sound || out.empty()) return {};
  return {{.from = rank, .round = round, .bytes = bytes, .to = std::move(out)}};
}

template <class Real>
std::vector<HeardModel<Real>> MixPeer<Real>::heard(std::uint64_t round,
                                                   std::span<const MixMessage> arrived,
                                                   std::size_t& refused) const {
  const bool adds_up = traits_of(rule).adds_up;
  const bool has_place = rule.fragment_order != FragmentOrder::in_turn;
  std::vector<HeardModel<Real>> others;
  for (const MixMessage* one : in_order(arrived)) {
    const Mixing& mixing = plan->round(one->round);
    const auto share =
        std::ranges::find(mixing[rank], one->from, [](const Share& s) { return s.from; });
    auto content = read_message<Real>(rule, elements, one->round, *one->bytes);
    if (share == mixing[rank].end() || !content ||
        (has_place && content->header.count >= rule.fragments)) {
      ++refused;
      continue;
    }
    double weight = share->weight;
    if (rule.weigh_by_age && one->round < round) {
      weight /= static_cast<double>(1 + round - one->round);
    }
    if (!adds_up && !others.empty() && others.back().from == one->from) others.pop_back();
    others.push_back({.from = one->from,
                      .share = weight,
                      .weight = content->header.weight,
                      .count = content->header.count,
                      .values = std::move(content->values)});
  }
  // Where rounds have different partners, the shares of several rounds may add up to more than 1.
  if (!adds_up && rule.staleness > 0) limit_shares(others);
  return others;
}

template <class Real>
std::vector<Real> MixPeer<Real>::change(std::uint64_t round,
                                        const std::vector<HeardModel<Real>>& others,
                                        std::size_t begin, std::size_t size) {
  const auto own = std::span<const Real>(message).subspan(begin, size);
  std::vector<Real> result(size, 0);
  if (rule.guard.kind == GuardKind::none) {
    for (const HeardModel<Real>& other : others) {
      const auto share = static_cast<Real>(rule.gamma * other.share);
      const auto theirs = std::span<const Real>(other.values).subspan(begin, size);
      for (std::size_t i = 0; i < size; ++i) result[i] += share * (theirs[i] - own[i]);
    }
    return result;
  }
  const std::vector<float> own_floats(own.begin(), own.end());
  std::vector<std::vector<float>> their_floats;
  std::vector<NeighbourModel> models;
  for (const HeardModel<Real>& other : others) {
    their_floats.emplace_back(other.values.begin(), other.values.end());
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    models.push_back({.values = their_floats[i], .weight = others[i].share});
  }
  std::vector<float> guarded(size);
  // Without staleness, the round has waited for all messages, so the missing ones were unusable.
  const std::size_t neighbours = plan->turn(rank, round).in.size();
  const std::size_t missing = neighbours - std::min(neighbours, others.size());
  const AbsentModels absent =
      rule.staleness == 0 ? AbsentModels{.refused = missing} : AbsentModels{.late = missing};
  for (const std::size_t held : guarded_change(rule.guard, own_floats, models, guarded, absent)) {
    held_back.push_back(others[held].from);
  }
  for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<Real>(rule.gamma * guarded[i]);
  return result;
}

template struct MixPeer<float>;
template struct MixPeer<double>;

}  // namespace gv
