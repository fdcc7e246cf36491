// Agrees on the settings that a swarm switches to, in ballots of its own above those of all modes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/membership/membership.hpp"

namespace gv {

/// Ballots about switches have this number or a larger one; those of the common mean at the end of
/// a run begin above them (first_ballot_of_mean).
inline constexpr std::uint64_t first_ballot_of_council = std::uint64_t{1} << 60;
/// Ballots about the mean of a switch have this number or a larger one, below those of councils.
inline constexpr std::uint64_t first_ballot_of_meeting = std::uint64_t{1} << 59;
/// A swarm switches its mode at most this many times.
inline constexpr std::uint64_t switches_max = (std::uint64_t{1} << 18) - 1;

/// The first ballot of the mode that a swarm has switched to by `revision`. Each revision has a
/// range of its own, so that peers of different modes do not understand each other's ballots.
std::uint64_t first_ballot_of(const SettingsRevision& revision);
/// True if the ballot is one of that mode. `first`: 0, or first_ballot_of_meeting for its mean.
bool is_ballot_of(const SettingsRevision& revision, std::uint64_t first, std::uint64_t number);

/// Plans a council's decision: who takes part, and what they go on from. A peer whose answer has
/// the lineage of the newest revision already works by it. The speed in an answer is the number of
/// the newest switch that was refused. Pure.
class SwitchPlanner final : public GenerationPlanner {
 public:
  /// What a council has decided, in Generation::algorithm.
  enum class Outcome : std::uint8_t {
    switches,  ///< All go by the newest revision.
    ends,      ///< A peer is about to end, or has ended.
    differs,   ///< Peers have settings that must be equal where they work in step.
    refused,   ///< An earlier council has refused it.
  };

  /// Why no peer can go by these settings; empty if one can.
  using Judge = std::function<std::string(std::string_view settings)>;
  /// True if peers work in step with these settings.
  using NeedsAlike = std::function<bool(std::string_view settings)>;

  SwitchPlanner(Judge judge, NeedsAlike needs_alike)
      : judge_(std::move(judge)), needs_alike_(std::move(needs_alike)) {}

  /// The lineage in the answers of peers that go by `revision`.
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

/// Decides by ballots when all peers switch to other settings, and tells peers that come later what
/// they have switched to. A peer that has answered must not end its run before the decision is
/// there (is_deciding). While no peer has ever asked for a switch, nothing is sent. Pure.
class SwitchCouncil {
 public:
  /// What one peer says of itself.
  struct Standing {
    std::uint64_t step = 0;
    std::uint64_t samples = 0;  ///< Trained by all peers, as far as it knows.
    bool ends = false;          ///< Its training is over, or about to be.
  };
  struct Decision {
    SettingsRevision revision;
    SwitchPlanner::Outcome outcome{};
    bool is_late = false;    ///< Others already go by it, so there is no common mean to wait for.
    std::uint64_t step = 0;  ///< The step at which all go on.
    std::uint64_t samples = 0;  ///< What all peers have trained by then.
  };

  struct Options {
    std::uint64_t layout_hash = 0;
    SettingsRevision present;  ///< The revision that we begin with.
    /// Equal at peers whose settings are equal where that matters in step.
    std::uint64_t alike = 0;
  };

  /// `signer` has the key of `self` and must outlive this object.
  SwitchCouncil(PeerId self, std::uint64_t session, Options options, SwitchPlanner planner,
                const Signer& signer);

  /// Calls a council that decides on these settings.
  void ask(Time now, std::string settings, const Standing& own, const Membership& members,
           Effects& out);
  /// We go by that revision from now on.
  void go_by(const SettingsRevision& revision) { present_ = revision; }
  /// A council has refused the switch of this number, and later ones must not make it after all.
  void refuse(std::uint64_t number) { refused_ = std::max(refused_, number); }

  void receive(Time now, PeerId from, const Message& message, const Standing& own,
               const Membership& members, Effects& out);
  /// The peer is gone. If it comes back it has to be told again.
  void peer_gone(PeerId peer) { told_.erase(peer); }
  /// `is_free`: we go by the newest revision and may tell it to peers that have not heard of it.
  void tick(Time now, bool is_free, const Standing& own, const Membership& members, Effects& out);
  Time deadline() const;

  /// True while a ballot that we have called or answered is not decided.
  bool is_deciding() const;
  /// A decision that was not taken yet.
  std::optional<Decision> take_decision();
  /// The newest revision we have heard of.
  const SettingsRevision& heard() const { return agreement_.revision(); }
  /// Number of peers that took part in the newest decision and are still here, ourselves included.
  std::size_t together() const { return told_.size(); }

 private:
  void follow(Time now, const Standing& own, const Membership& members);
  void call(Time now, Effects& out);

  PeerId self_;
  std::uint64_t layout_hash_;
  SettingsRevision present_;
  std::uint64_t alike_;
  std::uint64_t refused_ = 0;  ///< The number of the newest switch that was refused.
  SwitchPlanner planner_;
  Agreement agreement_;
  std::vector<PeerId> present_peers_;
  bool has_met_ = false;
  std::uint64_t decided_ = 0;  ///< The key of the decision that was taken last.
  std::set<PeerId> told_;      ///< Peers of that decision that are still here.
  Time tells_again_at_ = never;
  Duration tells_after_{};
};

}  // namespace gv
