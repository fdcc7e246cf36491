// The interface by which a mode decides what a generation contains.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
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

  /// The most samples that all peers together contribute in an optimiser step.
  virtual std::uint64_t samples_max() const = 0;
  /// What in another peer's generation no sound peer of this run would install: a sentence without
  /// a full stop, or empty. Its peers are all different, and each has a share and one of them as
  /// its source.
  virtual std::string problem(const Generation& generation) const = 0;
  /// Likewise what no sound peer would answer.
  virtual std::string problem(const Answer& answer) const = 0;
  /// Likewise which settings no sound peer would switch to. Without a mode that can switch: all.
  virtual std::string problem(const SettingsRevision& revision) const {
    return revision == SettingsRevision{} ? "" : "its mode cannot switch settings";
  }

  /// Whether `self`, which is in `start.order` and answered `own` in the ballot, has what a sound
  /// `start` asks of it.
  virtual bool can_begin(const Generation& start, PeerId self, const Answer& own) const = 0;
};

}  // namespace gv
