// The interface by which a mode decides what a generation contains.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// The answers of all peers, by id.
using Answers = std::map<PeerId, Answer>;

/// Plans the next generation from the answers to a ballot, and judges the plan of another peer. The
/// agreement itself knows neither algorithms nor stages. Pure: all peers with equal answers and
/// equal pasts plan alike.
class GenerationPlanner {
 public:
  virtual ~GenerationPlanner() = default;

  /// Plans which peers take part, from which model on, and how: everything except the id and the
  /// settings. `last` is the newest generation that this peer was in, or null. Empty if no peer
  /// could go on.
  virtual std::optional<Generation> plan(const Answers& answers, const Generation* last) const = 0;

  /// Whether `self`, which is in `start.order` and answered `own` in the ballot, can do what
  /// `start` asks of it. The lengths of `order`, `sources` and `shares` are equal.
  virtual bool can_begin(const Generation& start, PeerId self, const Answer& own) const = 0;
};

}  // namespace gv
