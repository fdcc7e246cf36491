// The table of doctor's checks. To add a check, add a row.
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

/// The arguments of `grapevine doctor`. All are optional.
struct DoctorOptions {
  /// Each is a ticket, "[NAME@]HOST:PORT", a run folder or a config file.
  std::vector<std::string> subjects;
  std::string key;  ///< The key file. Empty means the run folder's, or "key".
  /// The allow-list. Empty means the run folder's, or "authorized_peers".
  std::string authorized;
  std::string data;             ///< The folder of the data. Empty means as in the config.
  std::string listen;           ///< "HOST:PORT" on which this peer would listen.
  std::uint16_t lane_port = 0;  ///< Port of this peer's lanes; 0 if not given.
  std::string their_lanes;      ///< "HOST:PORT" on which the other peer's lanes listen.
  double link_mbit = 0;  ///< Bandwidth in Mbit/s; 0 means as measured, or 1000 if unmeasured.
  double link_ms = 0;    ///< Round trip in ms; 0 means as measured, or 50 if unmeasured.
};

/// The other peer, which the peer on this machine would join.
struct OtherPeer {
  std::string address;                 ///< "HOST:PORT". Empty if none was given.
  std::string name;                    ///< The peer's name on our allow-list. Empty means any.
  bool answers = false;                ///< True if the peer's port behaves as a control port.
  std::optional<Duration> round_trip;  ///< Set once the round trip has been measured.
  std::optional<LivePeer> live;        ///< Set once the peer has admitted us.
  ExamAnswer answer;                   ///< The peer's answer to our first question.
  std::optional<MeasuredLane> lane;    ///< Set once the lane has been measured.
};

/// This peer's proofs of identity. A field is nullopt if its file does not exist.
struct Credentials {
  std::filesystem::path key_file;
  std::filesystem::path authorized_file;
  std::optional<LoadedKeyPair> key;
  std::optional<LoadedAuthorizedPeers> authorized;
  /// The certificates in the run folder, used in place of an allow-list. Nullopt if there are none.
  std::optional<SwarmFiles> swarm;

  bool has_key() const { return key && key->problems.empty(); }
  bool has_list() const { return authorized && authorized->problems.empty(); }
  /// Place of our key in the allow-list. Nullopt if there is no key or no list, or if the key is
  /// not listed.
  std::optional<std::size_t> place() const;
};

/// A config, and the facts that doctor derived from it and its data.
struct PlannedRun {
  std::string path;  ///< The config file. Empty if none was given.
  ParsedConfig parsed;
  Problems data_problems;
  bool is_data_in_program = false;    ///< True if a user's program provides the data.
  std::uint64_t parameters = 0;       ///< Number of parameters of the whole model; 0: unknown.
  std::size_t optimizer_vectors = 0;  ///< Number of optimiser vectors, each as long as the model.

  /// True if the config was given and read without problems.
  bool is_sound() const { return !path.empty() && parsed.problems.empty(); }
};

/// The arguments, sorted and read once.
struct Patient {
  DoctorOptions options;
  OtherPeer other;
  std::optional<Ticket> ticket;  ///< The ticket that the other peer issued.
  Credentials credentials;
  PlannedRun run;
  std::filesystem::path folder;  ///< A run folder. Empty if none was given.
  /// JSON status of the peer that runs in `folder`. Empty if no peer runs there.
  std::string status;

  /// The number of other peers in the run: the larger of the numbers in the allow-list and in the
  /// config.
  std::size_t partners() const;
};

/// Sorts the subjects, and reads keys and lists. Adds a problem for each subject of unknown kind,
/// and for a second subject of the same kind.
Patient identify(const DoctorOptions& options, Problems& problems);

/// Calls identify(), reads the config with its data, and asks the peer that runs in the folder for
/// its status.
Patient admit(const DoctorOptions& options, Problems& problems);

/// Performs a handshake with the other peer. Sets `other.live` if that peer admits our key or
/// ticket.
Diagnosis meet(Patient& patient);

/// One check. It returns no lines if it has nothing to examine.
struct Check {
  std::string_view name;
  Diagnoses (*run)(Patient& patient);
};

/// All checks, in the order in which they run.
std::span<const Check> doctor_checks();

/// Runs all checks, and returns their lines.
Diagnoses examine(Patient& patient);

}  // namespace gv
