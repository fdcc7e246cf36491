// Runs a real node, with sockets, a clock, a worker thread, signals and files.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/identity.hpp"
#include "peer/config/config.hpp"
#include "peer/host/ticket_book.hpp"
#include "peer/node/replica.hpp"
#include "train/learner/learner.hpp"

namespace gv {

class Node;
struct NodeEffects;

/// Called with the node's effects before any of them is carried out. Tests use this to end a peer
/// at an exact point of a protocol.
using EffectsWatcher = std::function<void(const Node&, const NodeEffects&)>;

/// Hooks for tests and measurements. Each may be empty.
struct HostHooks {
  EffectsWatcher watcher;
  PassStandIn stand_in;  ///< Replaces passes through stages of a pipeline.
  StepPace pace;         ///< Paces local steps and gradients.
};

/// A second signal within this time counts as the same request. One request may arrive twice, for
/// example if it goes to a launcher and to the launcher's whole process group. A later signal ends
/// the process at once.
inline constexpr std::chrono::seconds same_interrupt{1};

/// A peer's place in its cohort. The allow-list holds all ranks in order.
struct CohortOptions {
  std::size_t rank = 0;
  std::filesystem::path rendezvous;  ///< Folder in which the ranks find each other's addresses.
};

/// The initial data of a peer in a swarm with certificates. The swarm's files are in the folder
/// "swarm" in the run folder.
struct CertifiedSwarm {
  PublicKey swarm{};
  std::optional<KeyPair> swarm_key;  ///< Set only for the peer that founded the swarm.
  std::vector<Certificate> certificates;
  std::vector<Revocation> revocations;
  std::string config;                       ///< The config text that guests receive.
  std::optional<TicketTerms> first_ticket;  ///< A ticket to print at the start.
};

/// The arguments of `grapevine peer`.
struct HostOptions {
  Config config;
  ConfigPlaces places;      ///< The places of settings in the config's text.
  std::string config_path;  ///< Config that goes into checkpoints; empty means the built-in one.
  std::filesystem::path folder;  ///< This peer's run folder; created if missing.
  KeyPair identity;
  std::string name;
  std::filesystem::path authorized_file;  ///< The allow-list, read again on SIGHUP; may be empty.
  std::vector<AuthorizedPeer> authorized;
  std::optional<CohortOptions> cohort;
  std::string listen;     ///< "host:port"; empty to dial out only.
  std::string advertise;  ///< Address that others dial; empty means that of `listen`.
  std::string dial_from;  ///< Address from which this peer dials; empty means the system's choice.
  std::uint16_t lane_port = 0;    ///< The port of bulk lanes; 0 means any free port.
  std::vector<std::string> join;  ///< "host:port" or "name@host:port".
  /// Number of the shard that this peer trains on, out of config.run.peers shards.
  std::size_t shard = 0;
  std::size_t wait_for = 1;  ///< Training starts when this many peers are present.
  bool resume = false;       ///< True to continue from the newest valid checkpoint.
  bool quiet = false;        ///< True if no progress lines are printed.
  /// Set if the peer is part of another program. The peer then handles no signals, pins no threads,
  /// and passes each line for people to this function instead of standard error. The function is
  /// called on the thread that runs the peer. Empty if the peer is a program of its own.
  std::function<void(const std::string& line)> guest_says;
  /// Number of samples of all peers together, if the learner is not built in; 0 if unknown.
  std::uint64_t all_samples = 0;
  bool has_buffers = false;  ///< True if a model that is not built in has buffers to average.
  HostHooks hooks;
  std::optional<CertifiedSwarm> swarm;  ///< Replaces the allow-list if set.
};

/// The exit code of a peer inside another program if it has found no peer to join. A separate peer
/// process ends with 2 in this case.
inline constexpr int unreachable_code = 3;

/// Runs a peer until its training is over or a signal stops it. Returns the process's exit code: 0
/// after a clean end, 1 if the machine failed (disk full, no such network address), 2 if the
/// operator must fix something (port taken, folder not writable, data missing, no peer to join,
/// settings that disagree).
int run_peer(const HostOptions& options);

/// Runs a peer with a learner that is not built in and brings its own data. The config's model and
/// data are ignored. A pipeline refuses such a learner, which cannot be cut into stages. The
/// learner is used on a separate thread and destroyed before this function returns. If the user's
/// loop is waiting, the destruction also tells it that training is over.
int run_peer(const HostOptions& options, std::unique_ptr<Learner> learner);

}  // namespace gv
