// The points of an all-reduce at which tests kill a peer, as named in docs/faults.md. A point is
// recognised by the effects that the node asks for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "peer/modes/allreduce.hpp"
#include "peer/modes/generations.hpp"
#include "peer/node/node.hpp"

namespace gv {

inline const std::vector<std::string> lockstep_points = {"r1", "r2 confirmed", "r2", "r3",
                                                         "r4", "r5",           "r6", "r7"};

/// True if the point is reached only while peers agree on a generation.
inline bool is_of_agreement(std::string_view point) { return point < "r3"; }

template <class Kind>
bool sends(const NodeEffects& effects) {
  return std::ranges::any_of(effects.messages, [](const Outgoing& outgoing) {
    return std::holds_alternative<Kind>(outgoing.message);
  });
}

/// True if a piece of a sum is about to be sent in one of the ring's rounds [from, until).
inline bool sends_piece(const NodeEffects& effects, std::size_t from, std::size_t until) {
  return std::ranges::any_of(effects.transfers, [&](const Transfer& transfer) {
    const auto piece = piece_named(transfer.id);
    return piece && piece->round >= from && piece->round < until;
  });
}

/// True if a node that sums along the ring and asks for these effects is at the point `point`.
inline bool is_at(std::string_view point, const Node& node, const NodeEffects& effects) {
  const Generation* generation = node.as<AllReduceMode>()->generations()->agreement().generation();
  const std::size_t peers = generation == nullptr ? 1 : generation->order.size();
  if (point == "r1") return sends<Propose>(effects);
  if (point == "r2 confirmed") return sends<Promise>(effects);
  if (point == "r2") return sends<Install>(effects);
  if (peers < 3) return false;
  if (point == "r3") return sends_piece(effects, 0, peers - 1);
  if (point == "r4") return sends_piece(effects, peers - 1, 2 * peers - 3);
  if (point == "r6") return sends_piece(effects, 2 * peers - 3, 2 * peers - 2);
  return (point == "r5" || point == "r7") && std::ranges::any_of(effects.jobs, [](const Job& job) {
           return first_of<task::ApplyUpdate>(job.tasks) != nullptr;
         });
}

}  // namespace gv
