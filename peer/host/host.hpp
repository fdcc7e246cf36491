// Runs one node for real: with sockets, a clock, a worker thread, signals and files.
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

/// Called with the node's effects before any of them is carried out. Tests use it to end a peer at
/// an exact point of a protocol.
using EffectsWatcher = std::function<void(const Node&, const NodeEffects&)>;

/// Hooks for tests and measurements. Each may be empty.
struct HostHooks {
  EffectsWatcher watcher;
  PassStandIn stand_in;  ///< Replaces passes through stages of a pipeline.
  StepPace pace;         ///< Paces local steps and gradients.
};

/// A signal this soon after the first is the same request delivered twice, for example by a
/// launcher and to its whole process group. A later one ends the process at once.
inline constexpr std::chrono::seconds same_interrupt{1};

/// What a peer of a cohort knows of its place; the allow-list holds all ranks in their order.
struct CohortOptions {
  std::size_t rank = 0;
  std::filesystem::path rendezvous;  ///< Folder in which the ranks find each other's addresses.
};

/// What a peer of a swarm with certificates begins with. Its files are in the folder "swarm" of the
/// run folder.
struct CertifiedSwarm {
  PublicKey swarm{};
  std::optional<KeyPair> swarm_key;  ///< Set at the peer that has begun the swarm.
  std::vector<Certificate> certificates;
  std::vector<Revocation> revocations;
  std::string config;                       ///< The text that guests get.
  std::optional<TicketTerms> first_ticket;  ///< A ticket to print at the start.
};

/// The arguments of `grapevine peer`.
struct HostOptions {
  Config config;
  ConfigPlaces places;           ///< Where the config's text gives its settings.
  std::string config_path;       ///< Its text goes into checkpoints; empty: the built-in config.
  std::filesystem::path folder;  ///< This peer's run folder; created if missing.
  KeyPair identity;
  std::string name;
  std::filesystem::path authorized_file;  ///< Read again on SIGHUP; empty: there is none.
  std::vector<AuthorizedPeer> authorized;
  std::optional<CohortOptions> cohort;
  std::string listen;           ///< "host:port"; empty: dial out only.
  std::string advertise;        ///< The address that others dial; empty: the address listened on.
  std::string dial_from;        ///< Address our connections come from; empty: the system's choice.
  std::uint16_t lane_port = 0;  ///< Where bulk lanes listen; 0 = any free port.
  std::vector<std::string> join;  ///< "host:port" or "name@host:port".
  std::size_t shard = 0;          ///< The shard, of config.run.peers, that this peer trains on.
  std::size_t wait_for = 1;       ///< Start training when this many peers are there.
  bool resume = false;            ///< Continue from the newest valid checkpoint in the folder.
  bool quiet = false;             ///< No progress lines on standard output.
  /// The peer is a part of another program: it handles no signals, pins no threads, and gives each
  /// line that a person should read to this function instead of standard error. Called on the
  /// thread that runs the peer. Empty: the peer is a program of its own.
  std::function<void(const std::string& line)> guest_says;
  std::uint64_t all_samples = 0;  ///< Of all peers, if the learner is not built in; 0: not known.
  bool has_buffers = false;       ///< Such a learner's model has buffers that are averaged.
  HostHooks hooks;
  std::optional<CertifiedSwarm> swarm;  ///< In place of an allow-list.
};

/// The exit code of a peer that is a part of another program and has found no peer to join. A peer
/// of its own then ends with 2.
inline constexpr int unreachable_code = 3;

/// Runs a peer until its training is over or a signal stops it. Returns the process's exit code: 0
/// after a clean end, 1 if the machine failed it (port taken, folder not writable), 2 if the
/// operator must fix something (data missing, no peer to join, settings that disagree).
int run_peer(const HostOptions& options);

/// Runs a peer with a learner that is not built in and brings its own data: the config's model and
/// data are ignored. A pipeline refuses it, because it cannot be cut into stages. The learner is
/// used on a thread of its own, and destroyed before this returns. That also tells a waiting user's
/// loop that training is over.
int run_peer(const HostOptions& options, std::unique_ptr<Learner> learner);

}  // namespace gv
