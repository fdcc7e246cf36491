// The interface through which a mode decides what a generation contains.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "consensus/message/message.hpp"

namespace gv {

/// The answers of all peers, by id.
using Answers = std::map<PeerId, Answer>;

/// True if the answers imply that training ends with `version`: more than a third of the peers that
/// have made steps report the end. If `version` has no steps, all peers count. If it has steps,
/// newcomers do not count, because they know little about how long the run has lasted. It does not
/// matter which peers have `version`: a hostile peer could claim a version that only it has, and
/// would otherwise decide alone.
bool is_end_agreed(const Answers& answers, const ModelVersion& version);

/// A peer's view of whether the run is over for all, by its own clock and by the verdicts that it
/// has received.
enum class EndView : std::uint8_t {
  open,     ///< The end is near, or the peer cannot judge, so it accepts either decision.
  far,      ///< No honest peer can report the end yet.
  over,     ///< By this peer's clock, every honest peer must report the end.
  reached,  ///< The target is reached, by the verdicts that the peer has. Others may disagree.
};

/// Plans the next generation from the answers to a ballot, and checks the plans of other peers. The
/// agreement itself knows neither algorithms nor stages. Pure: equal answers, an equal `last` and
/// equal settings give equal plans.
class GenerationPlanner {
 public:
  virtual ~GenerationPlanner() = default;

  /// Plans which peers take part, from which model they start, and how they work: everything except
  /// the id and the settings. `last` is the newest generation that included this peer, or null.
  /// Returns nullopt if no peer could continue.
  virtual std::optional<Generation> plan(const Answers& answers, const Generation* last) const = 0;

  /// The newest version of which the peers in `answers` together have the complete model; each may
  /// have only a part. If all peers leave, all of them end at this version. `own` is this peer's
  /// answer, the only one that this peer need not doubt.
  virtual ModelVersion newest_version(const Answers& /*answers*/, const Answer& /*own*/) const {
    return {};
  }

  /// The most samples that all peers together can contribute to one optimiser step.
  virtual std::uint64_t samples_max() const = 0;
  /// Returns why no honest peer of this run would install `generation`: a sentence without a full
  /// stop, empty if `generation` is sound. The caller has checked that the peers are all different,
  /// and that each has a share and one of the peers as its source.
  virtual std::string problem(const Generation& generation) const = 0;
  /// Returns why no honest peer would give this answer: a sentence without a full stop, empty if
  /// one might.
  virtual std::string problem(const Answer& answer) const = 0;
  /// Returns why no honest peer would switch to these settings: a sentence without a full stop,
  /// empty if one might. The default is for modes that cannot switch.
  virtual std::string problem(const SettingsRevision& revision) const {
    return revision == SettingsRevision{} ? "" : "its mode cannot switch settings";
  }

  /// Sets our view of the end of the run, against which the decisions of others are checked, and
  /// the number of peers that could join a generation, including us. A third of all peers means a
  /// third of this number, because a proposer may leave out honest peers.
  void set_view(EndView end, std::size_t present) {
    end_view_ = end;
    present_ = present;
  }
  EndView end_view() const { return end_view_; }
  /// True if this decision contradicts our view of the end.
  bool contradicts_end(const Generation& generation) const;
  /// Returns why no honest peer would make this decision about the end, in the form of problem();
  /// empty if one might. `answered` is true if our answer to this ballot reported the end.
  std::string problem_of_end(const Generation& generation, bool answered) const;

  /// Returns why no honest peer that has the answer `own` of `self` would name these sources: a
  /// sentence without a full stop, empty if one might. `start` is sound; `self` need not be in it.
  virtual std::string problem_of_sources(const Generation& /*start*/, PeerId /*self*/,
                                         const Answer& /*own*/) const {
    return "";
  }

  /// True if `self` can continue as `start` says, and believes that the version of `start` exists
  /// and may replace its own. `start` is sound and has no problem_of_sources(), `self` is in
  /// `start.order`, and `own` is the answer that `self` gave.
  virtual bool can_begin(const Generation& start, PeerId self, const Answer& own) const = 0;

 protected:
  /// True if `some` peers are more than a third of all peers. There are at least `named` peers in
  /// all.
  bool are_many(std::size_t some, std::size_t named) const {
    return 3 * some > std::max(named, present_);
  }

 private:
  EndView end_view_ = EndView::open;
  std::size_t present_ = 0;
};

}  // namespace gv
