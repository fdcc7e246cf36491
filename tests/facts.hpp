// Finds facts by their type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <variant>
#include <vector>

#include "consensus/message/facts.hpp"

namespace gv {

/// Number of facts of type F. If `reason` is given, only facts with that reason count.
template <class F>
std::size_t count_of(const std::vector<Fact>& facts, Reason reason = Reason::none) {
  return static_cast<std::size_t>(std::ranges::count_if(facts, [&](const Fact& fact) {
    const F* found = std::get_if<F>(&fact);
    if constexpr (requires { found->reason; }) {
      return found != nullptr && (reason == Reason::none || found->reason == reason);
    }
    return found != nullptr;
  }));
}

/// The peer that a fact is about. Empty if the fact is about no peer.
inline std::optional<PeerId> peer_of_fact(const Fact& fact) {
  return std::visit(
      [](const auto& known) -> std::optional<PeerId> {
        if constexpr (requires { known.peer; }) return known.peer;
        return std::nullopt;
      },
      fact);
}

}  // namespace gv
