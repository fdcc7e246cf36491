// Makes one node real: sockets, one clock, one worker thread, signals, files.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/identity.hpp"
#include "peer/config/config.hpp"
#include "peer/node/replica.hpp"
#include "train/learner/learner.hpp"

namespace gv {

class Node;
struct NodeEffects;

/// Called with the node's effects before any of them is carried out. For tests, which end a peer at
/// an exact point of a protocol.
using EffectsWatcher = std::function<void(const Node&, const NodeEffects&)>;

/// Hooks of tests and measurements. Each may be empty.
struct HostHooks {
  EffectsWatcher watcher;
  PassStandIn stand_in;  ///< Replaces passes through stages of a pipeline.
  StepPace pace;         ///< Paces local steps and gradients.
};

/// Signals this soon after the first are the same request, delivered twice, for example by a
/// launcher and to its whole process group. A later one means: end at once.
inline constexpr std::chrono::seconds same_interrupt{1};

/// The arguments of `grapevine peer`.
struct HostOptions {
  Config config;
  std::string config_path;       ///< Its text goes into checkpoints; empty: the built-in one.
  std::filesystem::path folder;  ///< This peer's run folder; created if missing.
  KeyPair identity;
  std::string name;
  std::filesystem::path authorized_file;  ///< Read again on SIGHUP.
  std::vector<AuthorizedPeer> authorized;
  std::string listen;           ///< "host:port"; empty: dial out only.
  std::string advertise;        ///< What others dial; empty: the address listened on.
  std::string dial_from;        ///< Address our connections come from; empty: the system's choice.
  std::uint16_t lane_port = 0;  ///< Where bulk lanes listen; 0 = any free port.
  std::vector<std::string> join;  ///< "host:port" or "name@host:port".
  std::size_t shard = 0;          ///< Which of config.run.peers shards this peer trains on.
  std::size_t wait_for = 1;       ///< Start training when this many peers are there.
  bool resume = false;            ///< Go on from the newest sound checkpoint in the folder.
  bool quiet = false;             ///< No progress lines on standard output.
  HostHooks hooks;
};

/// Runs a peer until its training is over or it is told to stop. Returns the process's exit code: 0
/// after a clean end, 1 when the machine failed it (port taken, folder not writable), 2 when the
/// operator has to mend something (data missing, no peer to join, settings that disagree).
int run_peer(const HostOptions& options);

/// The same for a learner that is not built in and has its own data: of the config's model and data
/// nothing is read. A pipeline refuses it, as it cannot be cut. The learner is used on a thread of
/// its own, and destroyed before this returns.
int run_peer(const HostOptions& options, std::unique_ptr<Learner> learner);

}  // namespace gv
