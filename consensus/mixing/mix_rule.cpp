// The table of the parts that make up rules. Each part is implemented in rules/.
#include "consensus/mixing/mix_rule.hpp"

#include <algorithm>

#include "consensus/mixing/mix_step.hpp"

namespace gv {

// Each of these parts is defined in its own file in rules/. Only the table below names them.
namespace rules {
extern const MixPart average, push_sum, relay_sum, companion, noloco, downpour;
extern const MixPart difference, replicated_difference, error_feedback;
extern const MixPart quasi_global, decentlam, tracking, d2;
extern const MixPart slowmo;
extern const MixPart largest_piece, own_piece;
}  // namespace rules

namespace {

constexpr MixPart none{.name = "none"};
constexpr MixPart in_turn{.name = "in_turn"};

// Each array is in the order of its enumeration.
constexpr std::array kinds = {&rules::average,   &rules::push_sum, &rules::relay_sum,
                              &rules::companion, &rules::noloco,   &rules::downpour};
constexpr std::array memories = {&none, &rules::difference, &rules::replicated_difference,
                                 &rules::error_feedback};
constexpr std::array corrections = {&none, &rules::quasi_global, &rules::decentlam,
                                    &rules::tracking, &rules::d2};
constexpr std::array outers = {&none, &rules::slowmo};
constexpr std::array orders_of_pieces = {&in_turn, &rules::largest_piece, &rules::own_piece};
static_assert(kinds.size() == mix_kinds.size() && memories.size() == mix_memories.size() &&
              corrections.size() == mix_corrections.size() && outers.size() == mix_outers.size() &&
              orders_of_pieces.size() == fragment_orders.size());

const MixPart& row(const auto& table, auto choice) {
  return *table[static_cast<std::size_t>(choice)];
}

}  // namespace

std::string_view to_string(MixKind kind) { return row(kinds, kind).name; }
std::string_view to_string(MixMemory memory) { return row(memories, memory).name; }
std::string_view to_string(MixCorrection correction) { return row(corrections, correction).name; }
std::string_view to_string(MixOuter outer) { return row(outers, outer).name; }
std::string_view to_string(FragmentOrder order) { return row(orders_of_pieces, order).name; }
const MixTraits& traits_of(MixKind kind) { return row(kinds, kind).traits; }
const MixTraits& traits_of(MixCorrection correction) { return row(corrections, correction).traits; }

std::string_view to_string(MixOrder order) {
  return order == MixOrder::adapt_then_combine ? "adapt_then_combine" : "combine_then_adapt";
}

std::string_view to_string(Partners partners) {
  constexpr std::array<std::string_view, partner_kinds.size()> names = {"neighbours", "pull",
                                                                        "push", "both", "pairs"};
  return names[static_cast<std::size_t>(partners)];
}

MixParts parts_of(const MixRule& rule) {
  const MixPart& memory = row(memories, rule.memory);
  const MixPart& pieces = row(orders_of_pieces, rule.fragment_order);
  const bool averages = rule.kind == MixKind::average && (memory.averages || pieces.averages);
  return {averages ? &none : &row(kinds, rule.kind), &memory, &pieces,
          &row(corrections, rule.correction), &row(outers, rule.outer)};
}

MixTraits traits_of(const MixRule& rule) {
  MixTraits all;
  for (const MixPart* part : parts_of(rule)) {
    const MixTraits& one = part->traits;
    all.conserves_mean |= one.conserves_mean;
    all.keeps_equal |= one.keeps_equal;
    all.adds_up |= one.adds_up;
    all.directs |= one.directs;
    all.one_by_one |= one.one_by_one;
    all.plain_steps |= one.plain_steps;
    all.has_momentum |= one.has_momentum;
    all.keeps_copies |= one.keeps_copies;
    all.vectors += one.vectors;
    all.words = std::max(all.words, one.words);
  }
  const bool one_sided = rule.partners == Partners::pull || rule.partners == Partners::push;
  // With a fixed radius, both ends of an edge clip by the same amount.
  const bool pulls_alike =
      rule.guard.kind == GuardKind::none ||
      (rule.guard.kind == GuardKind::self_centred_clip && rule.guard.radius > 0);
  all.conserves_mean = all.conserves_mean && !one_sided && pulls_alike && !rule.weigh_by_age;
  // A newer message makes an older one useless only for plain averages of whole models. Every
  // message counts if messages are differences, parts of sums, or pieces sent in turn, or if they
  // include the error of an earlier message. A peer's own piece counts as a whole model.
  all.newest_suffices = rule.staleness > 0 && rule.kind == MixKind::average &&
                        rule.memory == MixMemory::none && rule.correction == MixCorrection::none &&
                        (rule.fragments == 1 || rule.fragment_order == FragmentOrder::own);
  return all;
}

}  // namespace gv
