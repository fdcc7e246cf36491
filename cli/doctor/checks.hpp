// The table of doctor's checks. One more check is one more row.
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

/// What a person asks about. Everything may be left out.
struct DoctorOptions {
  /// Each a ticket, "[NAME@]HOST:PORT", a run folder or a config file.
  std::vector<std::string> subjects;
  std::string key;              ///< Empty: that of the folder, else "key".
  std::string authorized;       ///< Empty: that of the folder, else "authorized_peers".
  std::string listen;           ///< "HOST:PORT" that this peer would listen on.
  std::uint16_t lane_port = 0;  ///< Port of its lanes on the same host; 0: any.
  std::string their_lanes;      ///< "HOST:PORT" where the other peer's lanes listen.
  double link_mbit = 0;         ///< Bandwidth; 0: that to the other peer, or 1000.
  double link_ms = 0;           ///< Round trip; 0: that to the other peer, or 50 ms.
};

/// Another peer, which the patient would join.
struct OtherPeer {
  std::string address;                 ///< "HOST:PORT"; empty: none was given.
  std::string name;                    ///< By our list; empty: any.
  bool answers = false;                ///< Its port was dialled and answered as a control port.
  std::optional<Duration> round_trip;  ///< Once it was measured.
  std::optional<LivePeer> live;        ///< Once it has let us in.
  ExamAnswer answer;                   ///< To the first question.
  std::optional<MeasuredLane> lane;    ///< Once it was measured.
};

/// What proves to others which peer this is. Nullopt stands for a file that does not exist.
struct Credentials {
  std::filesystem::path key_file;
  std::filesystem::path authorized_file;
  std::optional<LoadedKeyPair> key;
  std::optional<LoadedAuthorizedPeers> authorized;
  /// The certificates of the run folder, in place of a list; nullopt: it has none.
  std::optional<SwarmFiles> swarm;

  bool has_key() const { return key && key->problems.empty(); }
  bool has_list() const { return authorized && authorized->problems.empty(); }
  /// Place of our key in the allow-list; nullopt if it is not in it, or one of them is missing.
  std::optional<std::size_t> place() const;
};

/// A config and what shows when it meets its data.
struct PlannedRun {
  std::string path;  ///< Empty: no config was given.
  ParsedConfig parsed;
  Problems data_problems;
  std::uint64_t parameters = 0;       ///< Of the whole model; 0 if there are problems.
  std::size_t optimizer_vectors = 0;  ///< As long as the model each.

  /// True if the config was given and read without problems.
  bool is_sound() const { return !path.empty() && parsed.problems.empty(); }
};

/// The options, sorted and read once.
struct Patient {
  DoctorOptions options;
  OtherPeer other;
  std::optional<Ticket> ticket;  ///< Of the other peer.
  Credentials credentials;
  PlannedRun run;
  std::filesystem::path folder;  ///< A run folder; empty: none was given.
  std::string status;            ///< JSON of the peer that runs in the folder; empty: none does.

  /// The other peers of the run, by the allow-list, else by the config.
  std::size_t partners() const;
};

/// Sorts what was given, and reads keys and lists. Adds to `problems` each subject that cannot be
/// anything.
Patient identify(const DoctorOptions& options, Problems& problems);

/// The same, and reads the config with its data, and asks the peer of the folder.
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
