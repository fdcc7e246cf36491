// A swarm's scenario: speeds, links and faults, for virtual and for real peers alike.
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
#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/attacks.hpp"

namespace gv {

inline constexpr std::size_t scenario_peers_max = 100000;

/// Peers by number, as a scenario names them: "all", "3", "0-15", "1,4,7-9", "any" or "any 3" (3
/// peers drawn at each use).
struct PeerSet {
  bool all = false;
  std::size_t any = 0;  ///< Number of peers to draw; 0 = those in `ranges`.
  std::vector<std::pair<std::size_t, std::size_t>> ranges;  ///< First and last, both included.

  bool contains(std::size_t peer) const;  ///< Only for a set that is not drawn.

  static PeerSet everyone() { return {.all = true}; }
  static std::optional<PeerSet> parse(std::string_view text);
  friend std::string to_string(const PeerSet& set);
};

/// One direction of a link between two peers. The default is a perfect one.
struct LinkQuality {
  Duration latency{};    ///< One way.
  Duration jitter{};     ///< Uniform, on top of the latency; order is kept.
  double bandwidth = 0;  ///< Megabits a second; 0 = unlimited.
  double loss = 0;       ///< Probability that a message or block is lost.
  double duplicate = 0;  ///< Probability that it arrives twice.
  double reorder = 0;    ///< Probability that it arrives behind later ones.
  double corrupt = 0;    ///< Probability that it arrives damaged, which its seal shows.
};

/// [[scenario.speed]]: peers that compute faster or slower than others. Later rules win.
struct SpeedRule {
  PeerSet peers = PeerSet::everyone();
  double factor = 1;  ///< Pace, relative to the others.
};

/// [[scenario.link]]: links that are not perfect. Later rules win.
struct LinkRule {
  PeerSet from = PeerSet::everyone();
  PeerSet to = PeerSet::everyone();
  bool one_way = false;  ///< Only from `from` to `to`.
  LinkQuality quality;
};

enum class FaultKind {
  kill,       ///< SIGKILL; started again from its checkpoint after `lasts`, if that is set.
  restart,    ///< SIGKILL, and started again at once.
  stop,       ///< SIGSTOP, SIGCONT after `lasts`.
  resume,     ///< SIGCONT for peers that are stopped.
  leave,      ///< SIGTERM; started again after `lasts`, if that is set.
  join,       ///< The peer is not there before `at`.
  partition,  ///< Nothing passes between `peers` and all others.
  cut,        ///< Nothing passes from `peers` to `to`.
  clog,       ///< Messages between `peers` and `to` arrive when the fault is over.
  heal,       ///< Ends every partition, cut, clog and fault of a link.
  slow_link,  ///< Adds `quality`'s latency; the smaller bandwidth counts.
  loss,       ///< `probability` for messages between `peers` and `to`; so for the next three.
  duplicate,
  reorder,
  corrupt,
  slow_cpu,    ///< The pace is multiplied by `factor`.
  clock_jump,  ///< The peer's clock springs `jump` ahead. Virtual peers only.
  clock_rate,  ///< The peer's clock runs `factor` times as fast. Virtual peers only.
  disk_full,   ///< Checkpoints cannot be written. Virtual peers only.
  slow_disk,   ///< Writing a checkpoint takes `jump` longer. Virtual peers only.
  switch_to,   ///< No fault: tells the peer that all switch to `algorithm`.
};

/// The names in files.
inline constexpr auto fault_names = names_of<FaultKind>(
    {"kill",    "restart",  "stop",       "continue",   "leave",     "join",      "partition",
     "cut",     "clog",     "heal",       "slow_link",  "loss",      "duplicate", "reorder",
     "corrupt", "slow_cpu", "clock_jump", "clock_rate", "disk_full", "slow_disk", "switch"});
constexpr std::string_view to_string(FaultKind kind) { return fault_names[kind]; }

/// True for faults of links, and for heal.
bool is_of_links(FaultKind kind);

/// True for faults of links between `peers` and `to`, where both ends are named.
bool has_two_ends(FaultKind kind);

/// True for faults with a probability for each message.
bool is_chance(FaultKind kind);

/// [[scenario.fault]]: a fault, once or repeated.
struct FaultRule {
  FaultKind kind = FaultKind::kill;
  Duration at{};     ///< Time since the start.
  Duration lasts{};  ///< 0 = until it is healed, or for good.
  Duration every{};  ///< Mean time between repetitions, drawn exponentially; 0 = once.
  Duration until = Duration::max();  ///< No repetition begins later.
  PeerSet peers = PeerSet::everyone();
  PeerSet to = PeerSet::everyone();
  double probability = 0;
  double factor = 1;
  Duration jump{};
  LinkQuality quality;    ///< Latency and bandwidth of slow_link.
  std::string algorithm;  ///< Algorithm of switch_to.
};

/// [[scenario.hostile]]: peers that attack the run, all the time. Later rules win. Virtual peers
/// only.
struct HostileRule {
  PeerSet peers;
  AttackKind attack = AttackKind::bit_flip;
  double strength = 0;  ///< s of the attack; 0 = the published one.
};

/// The work of virtual peers.
enum class WorkKind {
  training,   ///< The run's model on the run's data.
  quadratic,  ///< A quadratic with a known optimum, noise in its gradients.
  time,       ///< Nothing but time: for membership and exchanges alone.
};

/// [scenario]: everything about a swarm that is not in the config of its peers.
struct Scenario {
  std::size_t peers = 0;  ///< 0 = run.peers of the config.
  WorkKind work = WorkKind::training;
  Duration step = std::chrono::milliseconds(20);  ///< Time of a step at factor 1; virtual peers.
  double step_jitter = 0.1;                       ///< Relative deviation of a step's time.
  Duration save = std::chrono::milliseconds(5);   ///< A checkpoint takes this long to write.
  Duration until = std::chrono::hours(1);         ///< Virtual peers end by then.
  Duration sample_every{};     ///< Between two points of the curves; 0 = a hundredth of the run.
  std::size_t dimension = 64;  ///< Parameters; work = quadratic or time.
  /// Relative work of a pipeline's stages; empty: all equal. work = time.
  std::vector<std::size_t> stage_work;
  double noise = 0.1;          ///< Deviation of a gradient's noise; work = quadratic.
  double disagreement = 1;     ///< Deviation of the peers' own optima; work = quadratic.
  std::size_t neighbours = 0;  ///< Other peers in each peer's allow-list; 0 = all.
  std::vector<SpeedRule> speeds;
  std::vector<LinkRule> links;
  std::vector<FaultRule> faults;
  std::vector<HostileRule> hostile;

  double speed_of(std::size_t peer) const;
  LinkQuality link(std::size_t from, std::size_t to) const;
};

/// The begin or end of one fault, with its peers by number.
struct FaultEvent {
  Time at{};
  std::size_t fault = 0;  ///< The fault that begins or ends: counts up from 0.
  bool begins = true;     ///< False: the effect of `fault` is over.
  FaultRule rule;         ///< Its `peers` and `to` are lists of numbers, not drawn any more.
};

/// All fault events in order of time: repetitions and peers are drawn from `rng`, the same for
/// every world. Nothing begins after `end`.
std::vector<FaultEvent> timeline(const Scenario& scenario, std::size_t peers, Duration end,
                                 Rng rng);

/// The hostile peers among `peers`, with their rules; drawn from the world's seed where a rule says
/// "any".
std::map<std::size_t, HostileRule> hostile_peers(const Scenario& scenario, std::size_t peers,
                                                 std::uint64_t seed);

/// "kill peer 3 for 2.5 s", for people.
std::string to_string(const FaultEvent& fault_event);

}  // namespace gv
