// Names and traits of rules; which combinations make no sense is in mix_rule_problems.cpp.
#include "consensus/mixing/mix_rule.hpp"

namespace gv {

std::string_view to_string(MixKind kind) {
  switch (kind) {
    case MixKind::average:
      return "average";
    case MixKind::push_sum:
      return "push_sum";
    case MixKind::relay_sum:
      return "relay_sum";
    case MixKind::companion:
      return "companion";
    case MixKind::noloco:
      return "noloco";
    case MixKind::downpour:
      return "downpour";
  }
  return "";
}

std::string_view to_string(MixMemory memory) {
  switch (memory) {
    case MixMemory::none:
      return "none";
    case MixMemory::difference:
      return "difference";
    case MixMemory::replicated_difference:
      return "replicated_difference";
    case MixMemory::error_feedback:
      return "error_feedback";
  }
  return "";
}

std::string_view to_string(MixCorrection correction) {
  switch (correction) {
    case MixCorrection::none:
      return "none";
    case MixCorrection::quasi_global:
      return "quasi_global";
    case MixCorrection::decentlam:
      return "decentlam";
    case MixCorrection::tracking:
      return "tracking";
    case MixCorrection::d2:
      return "d2";
  }
  return "";
}

std::string_view to_string(MixOrder order) {
  return order == MixOrder::adapt_then_combine ? "adapt_then_combine" : "combine_then_adapt";
}

std::string_view to_string(Partners partners) {
  switch (partners) {
    case Partners::neighbours:
      return "neighbours";
    case Partners::pull:
      return "pull";
    case Partners::push:
      return "push";
    case Partners::both:
      return "both";
    case Partners::pairs:
      return "pairs";
  }
  return "";
}

std::string_view to_string(MixOuter outer) { return outer == MixOuter::none ? "none" : "slowmo"; }

std::string_view to_string(FragmentOrder order) {
  return order == FragmentOrder::in_turn ? "in_turn" : "largest";
}

MixTraits traits_of(const MixRule& rule) {
  const bool one_sided = rule.partners == Partners::pull || rule.partners == Partners::push;
  const bool guarded = rule.guard.kind != GuardKind::none;
  const bool clipped = rule.guard.kind == GuardKind::self_centred_clip && rule.guard.radius > 0;
  MixTraits traits;
  switch (rule.kind) {
    case MixKind::average:
      // A fixed radius clips both ends of an edge alike.
      traits.conserves_mean = !one_sided && (!guarded || clipped) && !rule.weigh_by_age;
      traits.keeps_equal = true;
      traits.vectors = 1;
      break;
    case MixKind::push_sum:
      // The mean of the numerators stays; that of the models does once all weights are alike.
      traits.conserves_mean = false;
      traits.vectors = 2;
      break;
    case MixKind::relay_sum:
      traits.vectors = 2;
      break;
    case MixKind::companion:
      traits = {.conserves_mean = true, .keeps_equal = true, .vectors = 2};
      break;
    case MixKind::noloco:
      // The mean of the slow models stays, except for the mean of the changes.
      traits = {.conserves_mean = true, .keeps_equal = true, .vectors = 4, .words = 2};
      break;
    case MixKind::downpour:
      traits.vectors = 2;
      break;
  }
  traits.keeps_copies =
      rule.memory == MixMemory::difference || rule.memory == MixMemory::replicated_difference;
  if (rule.memory != MixMemory::none) traits.vectors += traits.keeps_copies ? 3 : 1;
  switch (rule.correction) {
    case MixCorrection::none:
      break;
    case MixCorrection::quasi_global:
      traits.plain_steps = true;
      traits.vectors += 2;
      break;
    case MixCorrection::decentlam:
      traits.plain_steps = traits.one_by_one = true;
      traits.vectors += 2;
      break;
    case MixCorrection::tracking:
      traits.one_by_one = true;
      traits.vectors += 3;
      traits.words = 2;
      break;
    case MixCorrection::d2:
      traits.vectors += 1;
      break;
  }
  if (rule.outer == MixOuter::slowmo) traits.vectors += 2;
  if (rule.fragment_order == FragmentOrder::largest) {
    traits.conserves_mean = false;  // A peer sends one piece and receives another.
    traits.vectors += 1;
  }
  // Every message counts if it is a part of a sum, a difference, carries the error of the one
  // before, or is a piece of a model.
  traits.newest_suffices = rule.staleness > 0 && rule.kind == MixKind::average &&
                           rule.memory == MixMemory::none &&
                           rule.correction == MixCorrection::none && rule.fragments == 1;
  return traits;
}

}  // namespace gv
