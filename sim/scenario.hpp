// A swarm's scenario for virtual or real peers: their speeds, links and faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/names.hpp"
#include "base/problems.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/attacks.hpp"

namespace gv {

inline constexpr std::size_t scenario_peers_max = 100000;

/// A set of peers, as a scenario names them: "all", "3", "0-15", "1,4,7-9", "any" or "any 3" (3
/// peers drawn at each use).
struct PeerSet {
  bool all = false;
  /// Number of peers to draw. If 0, the set consists of the peers in `ranges`.
  std::size_t any = 0;
  /// First and last number of each range, both included.
  std::vector<std::pair<std::size_t, std::size_t>> ranges;

  bool contains(std::size_t peer) const;  ///< Must not be called for a random set.
  void keep_below(std::size_t peers);     ///< Removes all numbers of at least `peers`.
  bool is_empty() const { return !all && any == 0 && ranges.empty(); }

  static PeerSet everyone() { return {.all = true}; }
  static std::optional<PeerSet> parse(std::string_view text);
  friend std::string to_string(const PeerSet& set);
};

/// One direction of a link between two peers. The default is a perfect link.
struct LinkQuality {
  Duration latency{};    ///< Latency of one direction.
  Duration jitter{};     ///< Upper bound of a uniform random delay. It never changes the order.
  double bandwidth = 0;  ///< Megabits per second; 0 means unlimited.
  double loss = 0;       ///< Probability that a message or block is lost.
  double duplicate = 0;  ///< Probability that a message or block arrives twice.
  double reorder = 0;    ///< Probability that a message or block arrives after later ones.
  double corrupt = 0;    ///< Probability that a message or block arrives visibly damaged.
};

/// [[scenario.speed]]: peers that compute faster or slower than others. Later rules win.
struct SpeedRule {
  PeerSet peers = PeerSet::everyone();
  double factor = 1;  ///< Pace relative to the other peers.
};

/// [[scenario.link]]: links that are not perfect. Later rules win.
struct LinkRule {
  PeerSet from = PeerSet::everyone();
  PeerSet to = PeerSet::everyone();
  bool one_way = false;  ///< True if the rule covers only the direction from `from` to `to`.
  LinkQuality quality;
};

enum class FaultKind {
  kill,       ///< Kills the peer. It restarts from its checkpoint after `lasts`, if that is set.
  restart,    ///< Kills the peer and restarts it at once.
  stop,       ///< Sends SIGSTOP, and SIGCONT after `lasts`.
  resume,     ///< Sends SIGCONT to peers that are stopped.
  leave,      ///< Sends SIGTERM. The peer restarts after `lasts`, if that is set.
  join,       ///< The peer does not exist before `at`.
  partition,  ///< Nothing passes between `peers` and all others.
  cut,        ///< Nothing passes from `peers` to `to`.
  clog,       ///< Messages between `peers` and `to` arrive only after the fault ends.
  heal,       ///< Ends every partition, cut, clog and fault of a link.
  slow_link,  ///< Adds the latency of `quality`, and limits the bandwidth to that of `quality`.
  /// Loses messages between `peers` and `to` with `probability`. The next three kinds use
  /// `probability` in the same way.
  loss,
  duplicate,
  reorder,
  corrupt,
  slow_cpu,    ///< Multiplies the pace by `factor`.
  clock_jump,  ///< The peer's clock jumps ahead by `jump`. Virtual peers only.
  clock_rate,  ///< The peer's clock runs `factor` times as fast. Virtual peers only.
  disk_full,   ///< Checkpoints cannot be written. Virtual peers only.
  slow_disk,   ///< Writing a checkpoint takes `jump` longer. Virtual peers only.
  switch_to,   ///< Not a fault: asks the peer to switch the swarm to `algorithm`.
  revoke,      ///< Not a fault: lets `peers` revoke `to`. Virtual peers with tickets only.
};

/// The names used in files.
inline constexpr auto fault_names = names_of<FaultKind>(
    {"kill",      "restart",   "stop",    "continue", "leave",      "join",
     "partition", "cut",       "clog",    "heal",     "slow_link",  "loss",
     "duplicate", "reorder",   "corrupt", "slow_cpu", "clock_jump", "clock_rate",
     "disk_full", "slow_disk", "switch",  "revoke"});
constexpr std::string_view to_string(FaultKind kind) { return fault_names[kind]; }

/// True for link faults, and for heal.
bool is_of_links(FaultKind kind);

/// True for link faults between `peers` and `to`, which name both ends.
bool has_two_ends(FaultKind kind);

/// False for faults that happen in an instant, so that a duration would have no effect. True for a
/// jump of the clock, although it happens in an instant, because stored worlds of earlier versions
/// give it a duration.
bool may_last(FaultKind kind);

/// True for faults that happen to each message with a probability.
bool is_chance(FaultKind kind);

/// [[scenario.fault]]: a fault that happens once or repeatedly.
struct FaultRule {
  FaultKind kind = FaultKind::kill;
  Duration at{};     ///< Time from the start of the scenario to the first fault of this rule.
  Duration lasts{};  ///< Duration of the fault. 0 means until it is healed, or for ever.
  /// Mean of the exponentially distributed time between repetitions; 0 means that there are none.
  Duration every{};
  Duration until = Duration::max();  ///< No repetition begins after this time.
  PeerSet peers = PeerSet::everyone();
  PeerSet to = PeerSet::everyone();
  double probability = 0;
  double factor = 1;
  Duration jump{};
  LinkQuality quality;    ///< slow_link: the added latency, and the bandwidth.
  std::string algorithm;  ///< switch_to: the mode or algorithm.
};

/// [[scenario.hostile]]: peers that attack during the whole run. Later rules win. Virtual peers
/// only.
struct HostileRule {
  PeerSet peers;
  AttackKind attack = AttackKind::bit_flip;
  double strength = 0;  ///< Strength s of the attack; 0 means the published strength.
};

/// The work that virtual peers do.
enum class WorkKind {
  training,   ///< Train the run's model on the run's data.
  quadratic,  ///< Minimise a quadratic with a known optimum and noise in its gradients.
  time,       ///< Only let time pass, to test membership and exchanges alone.
};

/// [scenario]: everything about a simulated or tested swarm that is not in its peers' config.
struct Scenario {
  std::size_t peers = 0;  ///< Number of peers; 0 means run.peers of the config.
  WorkKind work = WorkKind::training;
  std::uint32_t hosts = 1;  ///< Virtual peers: peer k states that it is on host k mod hosts.
  Duration step = std::chrono::milliseconds(20);  ///< Virtual peers: time of a step at pace 1.
  double step_jitter = 0.1;                       ///< Relative deviation of a step's time.
  Duration save = std::chrono::milliseconds(5);   ///< Time to write a checkpoint.
  Duration until = std::chrono::hours(1);         ///< Virtual peers end by this time.
  /// Time between two points of a curve; 0 means a hundredth of the run.
  Duration sample_every{};
  std::size_t dimension = 64;  ///< Number of parameters (work = quadratic or time).
  /// Relative work of a pipeline's stages (work = time). Empty means all equal.
  std::vector<std::size_t> stage_work;
  double noise = 0.1;          ///< Standard deviation of the gradients' noise (work = quadratic).
  double disagreement = 1;     ///< Standard deviation of the peers' own optima (work = quadratic).
  std::size_t neighbours = 0;  ///< Number of other peers in each peer's allow-list; 0 means all.
  /// True if virtual peers have certificates in place of allow-lists: peer 0 begins the swarm, and
  /// the others join by tickets.
  bool tickets = false;
  PeerSet saboteurs;  ///< Peers that send arbitrary messages and blocks. Virtual peers only.
  std::vector<SpeedRule> speeds;
  std::vector<LinkRule> links;
  std::vector<FaultRule> faults;
  std::vector<HostileRule> hostile;

  double speed_of(std::size_t peer) const;
  LinkQuality link(std::size_t from, std::size_t to) const;
};

/// The beginning or end of a fault, with its peers by number.
struct FaultEvent {
  Time at{};
  std::size_t fault = 0;  ///< Identifies the fault that begins or ends. Counts up from 0.
  bool begins = true;     ///< False if the effect of `fault` ends now.
  FaultRule rule;  ///< The rule, with `peers` and `to` as lists of numbers instead of random sets.
};

/// Replaces the random sets in the speed and link rules by peers drawn from `seed`. The draw holds
/// for the whole run.
void draw_rules(Scenario& scenario, std::size_t peers, std::uint64_t seed);

/// Removes all peers with numbers of at least `peers` from the speed and link rules, and then the
/// rules that no longer name any peer. The speeds and links of the other peers stay the same.
void drop_missing_peers(Scenario& scenario, std::size_t peers);

/// Lists the rules that name peers with numbers of at least `peers`, and the faults that repeat too
/// often before `end` to be drawn. `place` is the scenario's file name, as problems show it.
Problems problems_with_rules(const Scenario& scenario, std::size_t peers, Duration end,
                             const std::string& place);

/// All fault events in order of time. Draws repetitions and peers from `rng`, with the same result
/// for virtual and for real peers. No fault begins after `end`. If problems_with_rules() is empty,
/// every rule has all of its events.
std::vector<FaultEvent> timeline(const Scenario& scenario, std::size_t peers, Duration end,
                                 Rng rng);

/// True if the scenario asks a peer to switch the swarm.
bool has_switches(const Scenario& scenario);

/// The hostile peers among `peers`, with their rules. Peers of a rule with "any" are drawn from
/// `seed`.
std::map<std::size_t, HostileRule> hostile_peers(const Scenario& scenario, std::size_t peers,
                                                 std::uint64_t seed);

/// A description for people, for example "kill peer 3 for 2.5 s".
std::string to_string(const FaultEvent& fault_event);

}  // namespace gv
