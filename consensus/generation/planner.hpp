// What a generation contains is the mode's business: the planner that a mode passes to the
// agreement.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

struct Generation;

/// What one peer said of itself in a ballot.
struct Answer {
  ModelVersion version;
  float speed = 0;  ///< Samples a second; 0: not known.
  std::vector<LinkReport> links;
  std::vector<StageHolding> holdings;
  bool leaves = false;
  SettingsRevision revision;
};

/// Everybody's, by id.
using Answers = std::map<PeerId, Answer>;

/// Makes of the answers to a ballot what the next generation is, and judges what another peer has
/// made of them. The agreement itself knows neither algorithms nor stages. Pure: all peers with
/// equal answers and equal pasts plan alike.
class GenerationPlanner {
 public:
  virtual ~GenerationPlanner() = default;

  /// Who takes part, from which model on, and how; all but the ballot and the settings. `last` is
  /// the newest generation that this peer was in, or null. Empty if nobody could go on.
  virtual std::optional<Install> plan(const Answers& answers, const Generation* last) const = 0;

  /// Whether `self`, which is in `start.order` and said `own` in the ballot, can do what it is told
  /// there. The lengths of `order`, `sources` and `shares` are equal.
  virtual bool can_begin(const Install& start, PeerId self, const Answer& own) const = 0;
};

}  // namespace gv
