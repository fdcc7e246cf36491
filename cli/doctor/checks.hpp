// The table of doctor's checks. A new check is a new row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "base/time.hpp"
#include "cli/doctor/diagnosis.hpp"
#include "cli/doctor/live_exam.hpp"
#include "net/identity.hpp"
#include "net/ticket.hpp"
#include "peer/config/config.hpp"
#include "peer/host/swarm_files.hpp"

namespace gv {

/// A person's arguments to doctor. All are optional.
struct DoctorOptions {
  /// Each is a ticket, "[NAME@]HOST:PORT", a run folder or a config file.
  std::vector<std::string> subjects;
  std::string key;         ///< The key file; empty: that of the folder, or "key".
  std::string authorized;  ///< The allow-list; empty: that of the folder, or "authorized_peers".
  std::string data;        ///< The folder of the data; empty: the config's.
  std::string listen;      ///< "HOST:PORT" on which this peer would listen.
  std::uint16_t lane_port = 0;  ///< Port of the lanes on the same host; 0: any.
  std::string their_lanes;      ///< "HOST:PORT" on which the other peer's lanes listen.
  double link_mbit = 0;         ///< Bandwidth; 0: as measured to the other peer, or 1000.
  double link_ms = 0;           ///< Round trip; 0: as measured to the other peer, or 50 ms.
};

/// The other peer, which this machine would join.
struct OtherPeer {
  std::string address;   ///< "HOST:PORT"; empty: none was given.
  std::string name;      ///< The peer's name on our list; empty: any.
  bool answers = false;  ///< True if its port was dialled and answered as a control port.
  std::optional<Duration> round_trip;  ///< Set once it has been measured.
  std::optional<LivePeer> live;        ///< Set once the peer has admitted us.
  ExamAnswer answer;                   ///< The answer to the first question.
  std::optional<MeasuredLane> lane;    ///< Set once it has been measured.
};

/// The proofs of identity of this peer. Nullopt stands for a file that does not exist.
struct Credentials {
  std::filesystem::path key_file;
  std::filesystem::path authorized_file;
  std::optional<LoadedKeyPair> key;
  std::optional<LoadedAuthorizedPeers> authorized;
  /// The certificates in the run folder, used instead of a list; nullopt: there are none.
  std::optional<SwarmFiles> swarm;

  bool has_key() const { return key && key->problems.empty(); }
  bool has_list() const { return authorized && authorized->problems.empty(); }
  /// Place of our key in the allow-list; nullopt if it is not listed, or if key or list is missing.
  std::optional<std::size_t> place() const;
};

/// A config, and what its data show about it.
struct PlannedRun {
  std::string path;  ///< Empty: no config was given.
  ParsedConfig parsed;
  Problems data_problems;
  bool is_data_in_program = false;    ///< True if a program brings the data, so they are unknown.
  std::uint64_t parameters = 0;       ///< Parameters of the whole model; 0 if there are problems.
  std::size_t optimizer_vectors = 0;  ///< Number of optimiser vectors, each as long as the model.

  /// True if the config was given and read without problems.
  bool is_sound() const { return !path.empty() && parsed.problems.empty(); }
};

/// The arguments, sorted and read once.
struct Patient {
  DoctorOptions options;
  OtherPeer other;
  std::optional<Ticket> ticket;  ///< The ticket of the other peer.
  Credentials credentials;
  PlannedRun run;
  std::filesystem::path folder;  ///< A run folder; empty: none was given.
  std::string status;            ///< JSON of the peer that runs in the folder; empty: none does.

  /// The number of the run's other peers, from the allow-list or else the config.
  std::size_t partners() const;
};

/// Sorts what was given, and reads keys and lists. Adds to `problems` each subject that cannot be
/// anything.
Patient identify(const DoctorOptions& options, Problems& problems);

/// Calls identify(), reads the config with its data, and asks the peer of the folder.
Patient admit(const DoctorOptions& options, Problems& problems);

/// Shakes hands with the other peer. If it lets our key or ticket in, `other.live` is set.
Diagnosis meet(Patient& patient);

/// One check. It returns no lines where it has nothing to look at.
struct Check {
  std::string_view name;
  Diagnoses (*run)(Patient& patient);
};

/// All checks, in the order in which they run.
std::span<const Check> doctor_checks();

/// Runs all checks.
Diagnoses examine(Patient& patient);

}  // namespace gv
