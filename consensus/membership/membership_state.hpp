// The private state of Membership. Only the sources of the membership include it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "consensus/membership/membership.hpp"
#include "consensus/membership/statement.hpp"

namespace gv {

/// How often something may be done: `at_once` times at once, and one more time in each interval.
/// `rested_at` is when the full number is available again.
struct Allowance {
  int at_once = 1;
  Duration every{};

  bool is_left(Time now, Time rested_at) const { return rested_at <= now + (at_once - 1) * every; }
  /// Does nothing and returns false if nothing is left.
  bool take(Time now, Time& rested_at) const {
    if (!is_left(now, rested_at)) return false;
    rested_at = std::max(rested_at, now) + every;
    return true;
  }
};

struct Membership::State {
  static constexpr int health_max = 8;         ///< Lifeguard's upper bound on the local health.
  static constexpr int confirmations_max = 3;  ///< The most independent suspicions that count
                                               ///< (Lifeguard).

  /// A member, with our private notes about it.
  struct Entry {
    Member member;                  ///< The member, with its newest progress, which is unsigned.
    Progress stated{};              ///< The progress that the member's signature covers.
    std::set<PeerId> suspected_by;  ///< Independent accusers, possibly including us.
    Time suspected_at{};
    Time gone_at{};      ///< When the member died or left.
    Time checked_at{};   ///< When we last probed the member while it was suspected.
    Time reminded_at{};  ///< When we last told the member that we believe it to be gone.
    int transmissions_left =
        0;  ///< Number of times that the member's newest change must still be sent.
    std::set<PeerId> told_to;  ///< Peers to which the member's newest change was sent. Empty if no
                               ///< transmissions are left.
  };

  /// Our own probe under way.
  struct Probe {
    PeerId target{};
    std::uint64_t sequence = 0;
    Time indirect_at{};  ///< When to ask others to probe the target, unless we have done so.
    Time verdict_at{};   ///< When silence becomes suspicion.
    bool asked_others = false;
    int nacks_missing = 0;
    Member known;  ///< The target's entry at the time when we asked others.
  };

  /// A peer that has a link to us but that we have not heard from yet.
  struct Unheard {
    Time again_at{};
    int tries = 0;
  };

  /// A member that we have met through others, and that has not stated anything over its own link
  /// yet. What others pass on may be from an earlier run of the member.
  struct Stranger {
    Time until{};               ///< When the reports that others pass on begin to count.
    bool has_reported = false;  ///< True if the member has reported progress over its own link.
  };

  /// When the full allowances are available again. Peers with full allowances have no entry.
  struct Allowances {
    std::map<PeerId, Time> checks;      ///< Of each peer's statements that others pass on.
    std::map<PeerId, Time> own_checks;  ///< Of each peer's statements over its own link.
    std::map<PeerId, Time> tables;      ///< Of answers to each peer with our whole table.
    Time renewals{};                    ///< Of our statements that others have asked for.
  };

  /// A probe that we make for another peer.
  struct Relay {
    PeerId origin{};
    std::uint64_t origin_sequence = 0;
    PeerId target{};
    Time nack_at{};
  };

  Entry self;
  std::set<PeerId> authorized;
  Options options;
  const Signer* signer;
  Time stated_at{};                ///< When we last renewed our own statement.
  std::optional<Time> refuted_at;  ///< When we last corrected a rumour that we are suspected, dead
                                   ///< or gone.
  Rng rng;
  std::map<PeerId, Entry> others;
  /// Incarnation and version of the last statements of peers that were gone for so long that we
  /// forgot them.
  std::map<PeerId, std::pair<std::uint64_t, std::uint64_t>> forgotten;
  std::map<PeerId, Stranger> strangers;
  Allowances allowances;
  std::set<PeerId> unwell;  ///< Other members that are not alive; usually few.
  /// Other members whose newest change must still be sent. The one sent the fewest times comes
  /// first.
  std::set<std::pair<int, PeerId>> news;
  View view;
  std::vector<PeerId> probe_order;
  std::optional<Probe> probe;
  std::map<std::uint64_t, Relay> relays;
  std::map<PeerId, Unheard> unheard;
  std::uint64_t sequence = 0;
  Time next_probe{};
  Time next_push_pull{};
  /// The result of deadline() at the end of the previous call. If the next call comes much later,
  /// this process has stalled.
  Time due = never;
  int health = 0;

  static constexpr std::size_t field_count = 23;

  PeerId id() const { return self.member.id; }
  Duration scaled(Duration duration) const { return duration * (1 + health); }
  Time suspicion_deadline(const Entry& entry) const;
  Duration push_pull_period() const;
  Time deadline() const;
  void set_state(Entry& entry, MemberState state);
  std::map<PeerId, Entry>::iterator forget(std::map<PeerId, Entry>::iterator entry);
  void absorb_stall(Time now);
  void renew_statement();
  void begin(Time now);
  void spread(Entry& entry);
  static Member told(const Entry& entry);
  void set_transmissions(Entry& entry, int left);
  bool is_kept_from(PeerId to, const Entry& entry) const;
  std::vector<Member> rumors_for(PeerId to);
  /// How often we answer a peer with our whole table, or renew our statement because others ask.
  Allowance answers() const { return {.at_once = 4, .every = options.probe_timeout}; }
  void forget_rested(Time now);
  void push_pull(PeerId to, bool reply, Effects& out);
  std::vector<PeerId> live_others() const;
  void judge_health(int change) { health = std::clamp(health + change, 0, health_max); }

  void begin_probe(Time now, Effects& out);
  void continue_probe(Time now, Effects& out);
  void suspect(Time now, Entry& entry, PeerId accuser, Effects& out);
  void declare(Time now, Entry& entry, MemberState state, Effects& out);

  void hear(Time now, PeerId from, const std::vector<Member>& members, Effects& out);
  bool is_ours(const Member& rumor) const;
  bool is_news(const Member& rumor) const;
  bool hear_of_self(Time now, const Member& rumor, Effects& out);
  void meet(Time now, PeerId from, const Member& rumor, Effects& out);
  void hear_of(Time now, PeerId from, const Member& rumor, Effects& out);
  void take_statement(Entry& entry, const Member& rumor, bool own_word);
  void accept_strangers(Time now);
  bool is_hearsay(const Entry& entry) const;
  PeerId accuser_of(PeerId from, const Member& rumor) const;
  void introduce(std::vector<PeerId> peers, Effects& out);
  void greet(Time now, PeerId peer, Effects& out);
  void note_progress(PeerId from, const Progress& progress);
  void remind(Time now, PeerId from, Effects& out);

  void on(Time now, PeerId from, const Ping& ping, Effects& out);
  bool has_restated(const Probe& asked) const;
  void on(Time now, PeerId from, const PingRequest& request, Effects& out);
  void on(Time now, PeerId from, const Ack& ack, Effects& out);
  void on(Time now, PeerId from, const Nack& nack, Effects& out);
  void on(Time now, PeerId from, const PushPull& exchange, Effects& out);
};

}  // namespace gv
