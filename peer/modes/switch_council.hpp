// Agrees on the settings that a swarm switches to, in ballots numbered above those of all modes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/membership/membership.hpp"

namespace gv {

/// Ballots about switches have this number or a larger one. Ballots about the common mean at the
/// end of a run begin above them (first_ballot_of_mean).
inline constexpr std::uint64_t first_ballot_of_council = std::uint64_t{1} << 60;
/// Ballots about the mean of a switch have this number or a larger one, but smaller numbers than
/// those of councils.
inline constexpr std::uint64_t first_ballot_of_meetings = std::uint64_t{1} << 59;
/// The largest number of mode switches in one run. A newcomer accepts revision numbers up to 2^32.
/// A run folder and mode `mixing` shift the number of a switch left by 16 bits, so 16 bits remain
/// for the number itself.
inline constexpr std::uint64_t switches_max = (std::uint64_t{1} << 16) - 1;

/// Consecutive numbers of ballots. Peers ignore ballots outside their range, so peers with
/// different ranges do not disturb each other.
struct BallotRange {
  std::uint64_t first = 0;
  std::uint64_t size = 0;

  bool contains(std::uint64_t number) const { return number >= first && number - first < size; }
};

/// The ballots of the mode to which a swarm has switched by `revision`, or of the config's own mode
/// if the revision's number is 0. Each revision has a separate range.
BallotRange ballots_of_mode(const SettingsRevision& revision);

/// Plans a council's decision: which peers take part, and from which state they continue. A peer
/// already uses the newest revision if its answer has that revision's lineage. The field `speed` of
/// an answer holds the number of the newest refused switch. Pure.
class SwitchPlanner final : public GenerationPlanner {
 public:
  /// A council's decision, in Generation::algorithm.
  enum class Outcome : std::uint8_t {
    switches,  ///< All switch to the newest revision.
    ends,      ///< Refused: a peer's run is about to end, or has ended.
    differs,   ///< Refused: peers differ in settings that must be equal in lockstep.
    refused,   ///< Refused: an earlier council has refused this switch.
  };

  /// Returns why these settings are unusable, or an empty string.
  using Judge = std::function<std::string(std::string_view settings)>;
  /// True if peers with these settings work in lockstep.
  using NeedsAlike = std::function<bool(std::string_view settings)>;

  SwitchPlanner(Judge judge, NeedsAlike needs_alike)
      : judge_(std::move(judge)), needs_alike_(std::move(needs_alike)) {}

  /// The lineage in the answers of peers that use `revision`.
  static std::uint64_t lineage_of(const SettingsRevision& revision);

  std::optional<Generation> plan(const Answers& answers, const Generation* last) const override;
  std::uint64_t samples_max() const override { return std::uint64_t{1} << 22; }
  std::string problem(const Generation& generation) const override;
  std::string problem(const Answer& answer) const override;
  std::string problem(const SettingsRevision& revision) const override;
  bool can_begin(const Generation&, PeerId, const Answer&) const override { return true; }

 private:
  Judge judge_;
  NeedsAlike needs_alike_;
};

/// Decides by ballots when all peers switch to other settings, and tells the settings to peers that
/// arrive later. A peer that has answered must not end its run before the decision is known
/// (is_deciding). Until a peer first asks for a switch, no message is sent. Pure.
class SwitchCouncil {
 public:
  /// One peer's report about itself.
  struct Standing {
    std::uint64_t step = 0;
    std::uint64_t samples = 0;  ///< Samples that all peers have trained on, as far as this peer
                                ///< knows.
    bool ends = false;          ///< True if this peer's training is over, or about to end.
  };
  struct Decision {
    SettingsRevision revision;
    SwitchPlanner::Outcome outcome{};
    bool is_late = false;  ///< True if others already use the settings, so there is no common mean
                           ///< to wait for.
    std::uint64_t step = 0;     ///< The step at which all continue.
    std::uint64_t samples = 0;  ///< Samples that all peers have trained on by that step.
  };

  /// The ballots about the mean with which a switch begins. Peers whose councils decided on
  /// different steps enter the mean with different versions, so they use separate ranges.
  static BallotRange ballots_of_mean(const Decision& decision);

  struct Options {
    std::uint64_t layout_hash = 0;
    SettingsRevision present;  ///< The revision with which we begin.
    /// Equal at two peers if their settings agree as far as lockstep requires.
    std::uint64_t alike = 0;
  };

  /// `signer` has the key of `self` and must outlive this object.
  SwitchCouncil(PeerId self, std::uint64_t session, Options options, SwitchPlanner planner,
                const Signer& signer);

  /// Calls a council that decides on these settings.
  void ask(Time now, std::string settings, const Standing& own, const Membership& members,
           Effects& out);
  /// Call when we have begun to use this revision.
  void go_by(const SettingsRevision& revision) { present_ = revision; }
  /// Call when a council has refused the switch of this number, so that later councils refuse it
  /// too.
  void refuse(std::uint64_t number) { refused_ = std::max(refused_, number); }

  void receive(Time now, PeerId from, const Message& message, const Standing& own,
               const Membership& members, Effects& out);
  /// Call when a peer is gone. If it comes back, we must tell it the settings again, even if its
  /// old process has answered the ballot under way.
  void peer_gone(PeerId peer) {
    told_.erase(peer);
    if (is_deciding()) gone_.insert(peer);
  }
  /// `is_free`: true if we use the newest revision and may tell it to peers that do not know it.
  void tick(Time now, bool is_free, const Standing& own, const Membership& members, Effects& out);
  Time deadline() const;

  /// True while a ballot that we have called or answered is undecided.
  bool is_deciding() const;
  /// Returns each decision once; nullopt if there is no new one.
  std::optional<Decision> take_decision();
  /// Proofs against peers that have signed two different decisions of the same ballot, by peer.
  const std::map<PeerId, Equivocation>& proofs() const { return agreement_.proofs(); }
  /// The newest revision we have heard of.
  const SettingsRevision& heard() const { return agreement_.revision(); }
  /// Number of peers, including us, that took part in the newest decision and are still present.
  std::size_t together() const { return told_.size(); }

 private:
  void follow(Time now, const Standing& own, const Membership& members);
  void call(Time now, Effects& out);

  PeerId self_;
  std::uint64_t layout_hash_;
  SettingsRevision present_;
  std::uint64_t alike_;
  std::uint64_t refused_ = 0;  ///< The number of the newest refused switch.
  SwitchPlanner planner_;
  Agreement agreement_;
  std::vector<PeerId> present_peers_;
  bool has_met_ = false;
  std::uint64_t decided_ = 0;  ///< The key of the last decision that was taken.
  std::set<PeerId> told_;      ///< Peers that took part in the last decision taken and are still
                               ///< present.
  std::set<PeerId> gone_;      ///< Peers that were lost while the present ballot was undecided.
  Time tells_again_at_ = never;
  Duration tells_after_{};
};

}  // namespace gv
