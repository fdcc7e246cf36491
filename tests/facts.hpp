// Looks facts up by their type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <variant>
#include <vector>

#include "consensus/message/facts.hpp"

namespace gv {

/// How many facts of type F there are; only those with `reason` if it is given.
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

/// The peer that a fact is about, if it is about one.
inline std::optional<PeerId> peer_of_fact(const Fact& fact) {
  return std::visit(
      [](const auto& known) -> std::optional<PeerId> {
        if constexpr (requires { known.peer; }) return known.peer;
        return std::nullopt;
      },
      fact);
}

}  // namespace gv
