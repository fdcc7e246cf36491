// The interface by which a mode decides what a generation contains.
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

/// True if the answers say that training ends with `version`: more than a third of the peers that
/// have made steps report the end; if `version` has no steps, of all peers. Newcomers know little
/// of the time. It does not matter which peers have `version`: a hostile one could claim a version
/// that only it has, and would then decide alone.
bool is_end_agreed(const Answers& answers, const ModelVersion& version);

/// What a peer sees of the common end of a run, by its own clock and by the verdicts that it has
/// heard.
enum class EndView : std::uint8_t {
  open,     ///< The end is near, or the peer cannot tell: it accepts either decision.
  far,      ///< No sound peer can report the end yet.
  over,     ///< Every sound peer must report the end, by its clock.
  reached,  ///< The target is reached, as far as the peer has heard; others may disagree.
};

/// Plans the next generation from the answers to a ballot, and checks the plans of other peers. The
/// agreement itself knows neither algorithms nor stages. Pure: equal answers, an equal `last` and
/// equal settings give equal plans.
class GenerationPlanner {
 public:
  virtual ~GenerationPlanner() = default;

  /// Plans which peers take part, from which model on, and how: everything except the id and the
  /// settings. `last` is the newest generation that included this peer, or null. Returns nullopt if
  /// no peer could continue.
  virtual std::optional<Generation> plan(const Answers& answers, const Generation* last) const = 0;

  /// The newest version of which the peers of these answers have a whole model together, if each
  /// may have a part of it. All of them end at this version if all leave.
  virtual ModelVersion newest_version(const Answers& /*answers*/) const { return {}; }

  /// The most samples that all peers together can contribute to one optimiser step.
  virtual std::uint64_t samples_max() const = 0;
  /// Returns why no sound peer of this run would install `generation`: a sentence without a full
  /// stop, empty if it is sound. The caller has checked that its peers are all different and that
  /// each has a share and one of the peers as its source.
  virtual std::string problem(const Generation& generation) const = 0;
  /// Returns why no sound peer would give this answer, in the same form.
  virtual std::string problem(const Answer& answer) const = 0;
  /// Returns why no sound peer would switch to these settings, in the same form. The default is for
  /// modes that cannot switch.
  virtual std::string problem(const SettingsRevision& revision) const {
    return revision == SettingsRevision{} ? "" : "its mode cannot switch settings";
  }

  /// Sets what we see of the end, against which decisions of others are checked, and how many peers
  /// could take part, including us. A proposer may leave sound ones out, so a third of all peers is
  /// a third of these.
  void set_view(EndView end, std::size_t present) {
    end_view_ = end;
    present_ = present;
  }
  EndView end_view() const { return end_view_; }
  /// True if this decision contradicts what we see of the end.
  bool contradicts_end(const Generation& generation) const;
  /// Returns why no sound peer would decide so, in the form of problem(); empty if one might.
  /// `answered`: our answer to this ballot reported the end.
  std::string problem_of_end(const Generation& generation, bool answered) const;

  /// True if `self`, which is in `start.order` and gave the answer `own`, has the state that the
  /// sound generation `start` expects from it.
  virtual bool can_begin(const Generation& start, PeerId self, const Answer& own) const = 0;

 protected:
  /// True if `some` are more than a third of the peers, of which `named` are known at least.
  bool are_many(std::size_t some, std::size_t named) const {
    return 3 * some > std::max(named, present_);
  }

 private:
  EndView end_view_ = EndView::open;
  std::size_t present_ = 0;
};

}  // namespace gv
