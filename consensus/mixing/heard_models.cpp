// Reads, weighs and averages the messages of neighbours.
#include "consensus/mixing/heard_models.hpp"

#include <algorithm>
#include <utility>

#include "consensus/mixing/robust.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv {

std::vector<const MixMessage*> in_order(std::span<const MixMessage> arrived) {
  std::vector<const MixMessage*> order;
  for (const MixMessage& message : arrived) order.push_back(&message);
  std::ranges::stable_sort(order, [](const MixMessage* a, const MixMessage* b) {
    return std::pair(a->from, a->round) < std::pair(b->from, b->round);
  });
  return order;
}

template <class Real>
std::vector<HeardModel<Real>> heard_models(const MixRule& rule, const RoundPlan& plan,
                                           std::size_t rank, std::size_t elements,
                                           std::uint64_t round, std::span<const MixMessage> arrived,
                                           std::size_t& refused) {
  const bool adds_up = rule.kind == MixKind::push_sum || rule.kind == MixKind::downpour;
  std::vector<HeardModel<Real>> others;
  for (const MixMessage* message : in_order(arrived)) {
    const Mixing& mixing = plan.round(message->round);
    const auto share =
        std::ranges::find(mixing[rank], message->from, [](const Share& s) { return s.from; });
    auto content = read_message<Real>(rule, elements, message->round, *message->bytes);
    const bool has_place = rule.fragment_order == FragmentOrder::largest;
    if (share == mixing[rank].end() || !content ||
        (has_place && content->header.count >= rule.fragments)) {
      ++refused;
      continue;
    }
    HeardModel<Real> one{.from = message->from,
                         .weight = content->header.weight,
                         .count = content->header.count,
                         .values = std::move(content->values)};
    one.share = share->weight;
    if (rule.weigh_by_age && message->round < round) {
      one.share /= static_cast<double>(1 + round - message->round);
    }
    if (!adds_up && !others.empty() && others.back().from == one.from) others.pop_back();
    others.push_back(std::move(one));
  }
  return others;
}

template <class Real>
std::vector<Real> change_by(const MixRule& rule, std::span<const Real> own,
                            const std::vector<HeardModel<Real>>& others, std::size_t begin,
                            std::vector<std::size_t>& held_back) {
  const std::size_t size = own.size();
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
  for (const std::size_t held : guarded_change(rule.guard, own_floats, models, guarded)) {
    held_back.push_back(others[held].from);
  }
  for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<Real>(rule.gamma * guarded[i]);
  return result;
}

template <class Real>
void average_pieces(const MixRule& rule, std::span<Real> x,
                    const std::vector<HeardModel<Real>>& others) {
  const std::size_t elements = x.size();
  std::vector<Real> moves(elements, 0);
  for (const HeardModel<Real>& other : others) {
    const auto [begin, size] = chosen_piece(rule, elements, other.count);
    const auto share = static_cast<Real>(rule.gamma * other.share);
    for (std::size_t i = 0; i < size; ++i) {
      moves[begin + i] += share * (other.values[i] - x[begin + i]);
    }
  }
  add<Real>(x, moves);
}

template std::vector<HeardModel<float>> heard_models(const MixRule&, const RoundPlan&, std::size_t,
                                                     std::size_t, std::uint64_t,
                                                     std::span<const MixMessage>, std::size_t&);
template std::vector<HeardModel<double>> heard_models(const MixRule&, const RoundPlan&, std::size_t,
                                                      std::size_t, std::uint64_t,
                                                      std::span<const MixMessage>, std::size_t&);
template std::vector<float> change_by(const MixRule&, std::span<const float>,
                                      const std::vector<HeardModel<float>>&, std::size_t,
                                      std::vector<std::size_t>&);
template std::vector<double> change_by(const MixRule&, std::span<const double>,
                                       const std::vector<HeardModel<double>>&, std::size_t,
                                       std::vector<std::size_t>&);
template void average_pieces(const MixRule&, std::span<float>,
                             const std::vector<HeardModel<float>>&);
template void average_pieces(const MixRule&, std::span<double>,
                             const std::vector<HeardModel<double>>&);

}  // namespace gv
