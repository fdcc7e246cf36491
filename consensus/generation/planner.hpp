// The interface by which a mode decides what a generation contains.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

struct Generation;

/// One peer's answer in a ballot, about itself.
struct Answer {
  ModelVersion version;
  float speed = 0;  ///< Samples a second; 0: not known.
  std::vector<LinkReport> links;
  std::vector<StageHolding> holdings;
  bool leaves = false;
  SettingsRevision revision;

  friend bool operator==(const Answer&, const Answer&) = default;
  void add_to(StateHash& hash) const {
    hash.add(version, speed, links, holdings, leaves, revision);
  }
};

/// The answers of all peers, by id.
using Answers = std::map<PeerId, Answer>;

/// Plans the next generation from the answers to a ballot, and judges the plan of another peer. The
/// agreement itself knows neither algorithms nor stages. Pure: all peers with equal answers and
/// equal pasts plan alike.
class GenerationPlanner {
 public:
  virtual ~GenerationPlanner() = default;

  /// Plans which peers take part, from which model on, and how: everything except the ballot and
  /// the settings. `last` is the newest generation that this peer was in, or null. Empty if no peer
  /// could go on.
  virtual std::optional<Install> plan(const Answers& answers, const Generation* last) const = 0;

  /// Whether `self`, which is in `start.order` and answered `own` in the ballot, can do what
  /// `start` asks of it. The lengths of `order`, `sources` and `shares` are equal.
  virtual bool can_begin(const Install& start, PeerId self, const Answer& own) const = 0;
};

}  // namespace gv
