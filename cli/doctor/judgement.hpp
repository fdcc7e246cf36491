// Judges what probes have found: numbers in, lines out. Reads nothing itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "cli/doctor/diagnosis.hpp"
#include "net/exam.hpp"
#include "net/identity.hpp"

namespace gv {

// ---- This machine ----

/// Who may change a file or a folder.
struct FileMode {
  std::string path;
  bool others_write = false;  ///< Its group or all users may.
};
Diagnosis judge(const FileMode& mode);

/// The system's view of its own clock, from adjtimex(2).
struct ClockState {
  bool is_known = true;
  bool is_synchronised = false;
  Duration error{};  ///< The largest error that the system expects.
};
Diagnosis judge(const ClockState& clock);

/// A ticket, and what this machine's clock shows.
struct TicketState {
  std::uint64_t expires_s = 0;  ///< In seconds since 1970, like `now_s`.
  std::uint64_t now_s = 0;
  std::string address;  ///< Of the peer that has made it.
};
Diagnosis judge(const TicketState& ticket);

/// The certificate of the peer of a run folder. Certificates that others have made show that their
/// clocks were at least at `seen_s`.
struct CertificateState {
  std::string name;
  std::string inviter_command;  ///< With which another peer makes a ticket.
  std::uint64_t expires_s = 0;  ///< In seconds since 1970, like the others; 0: there is none.
  std::uint64_t now_s = 0;
  std::uint64_t seen_s = 0;
};
Diagnoses judge(const CertificateState& certificate);

/// A member that a running peer reaches through another one.
struct RelayedMember {
  std::string name;
  std::string relay;
};
Diagnosis judge(const RelayedMember& member);

/// A port that this peer would listen on.
struct PortState {
  std::string purpose;     ///< "control links" or "lanes".
  std::string address;     ///< "HOST:PORT"
  int error = 0;           ///< The errno of the attempt to listen; 0: it is free.
  std::string unresolved;  ///< Why the host has no address; empty if it has one.
  bool is_ours = false;    ///< The peer that runs in the given folder listens there.
};
Diagnosis judge(const PortState& port);

struct DescriptorLimit {
  std::uint64_t most = 0;    ///< What a process can raise its limit to.
  std::size_t partners = 0;  ///< Other peers of the run.
};
Diagnosis judge(const DescriptorLimit& limit);

/// Whether the system gives memory that can be shared with a peer on this host.
struct SharedMemoryState {
  bool works = false;
};
Diagnosis judge(const SharedMemoryState& memory);

/// The three figures of net.ipv4.tcp_rmem or tcp_wmem, in bytes.
struct BufferLimit {
  std::uint64_t least = 0;
  std::uint64_t first = 0;
  std::uint64_t most = 0;
};

/// The system's buffers of a TCP connection, and the link that they have to fill.
struct TcpBuffers {
  std::optional<BufferLimit> receive;
  std::optional<BufferLimit> send;
  double bits_per_second = 1e9;
  Duration round_trip = std::chrono::milliseconds(50);
  bool is_measured = false;  ///< Both are those to the given peer.
};
Diagnoses judge(const TcpBuffers& buffers);

/// What this processor has of what oneDNN chooses its kernels by.
struct ProcessorState {
  std::size_t usable = 1;   ///< Processors that this process may use.
  bool is_x86 = true;       ///< The features below are known.
  bool has_avx2 = false;    ///< Includes FMA.
  bool has_avx512 = false;  ///< AVX-512 F.
  std::size_t threads = 1;  ///< train.threads of the config.
};
Diagnoses judge(const ProcessorState& processor);

struct MemoryState {
  std::uint64_t available_bytes = 0;  ///< Free, or can be freed, and within the group's limit.
  std::uint64_t parameters = 0;       ///< Of the model.
  double copies = 0;                  ///< Vectors of that length that a peer keeps.
};
Diagnosis judge(const MemoryState& memory);

struct DiskState {
  std::string folder;  ///< The run folder, or the nearest one above it that exists.
  bool is_writable = false;
  std::uint64_t free_bytes = 0;
  std::uint64_t checkpoint_bytes = 0;  ///< Of one checkpoint.
  std::size_t checkpoints = 0;         ///< At most on disk at once.
  std::uint64_t log_bytes = 0;         ///< At most for events.
};
Diagnosis judge(const DiskState& disk);

// ---- Another peer ----

/// An attempt to connect.
struct Connection {
  enum class Outcome { connected, refused, silent, unreachable, unresolved };
  std::string address;
  Outcome outcome = Outcome::silent;
  std::string why;                     ///< The system's words; empty if connected.
  std::optional<Duration> round_trip;  ///< As the system has measured it.
  bool greets = false;  ///< It began with the signature of ZeroMQ, as control ports do.
};
Diagnoses judge_control_port(const Connection& connection);
Diagnosis judge_lane_port(const Connection& connection);

/// A handshake of CURVE, without a message after it.
struct Handshake {
  enum class Outcome {
    admitted,  ///< The key there is on our list, and ours is on that peer's.
    refused,   ///< The key there is on our list, and ours is not on that peer's.
    unknown,   ///< No key on our list is that of the peer there.
  };
  Outcome outcome = Outcome::unknown;
  std::string address;
  std::string wanted;      ///< The only peer that was tried; empty: any of our list.
  std::string name;        ///< The name on our list of the peer that answered.
  PublicKey key{};         ///< And its key.
  std::string own_line;    ///< The line that the other side needs in its allow-list.
  std::size_t tried = 0;   ///< Keys of our list.
  bool by_ticket = false;  ///< With the keys of a ticket, at the peer that has made it.
};
Diagnosis judge(const Handshake& handshake);

/// The clock of a live peer beside ours, at one moment.
struct PeerClock {
  std::uint64_t theirs_us = 0;  ///< In microseconds since 1970, like `ours_us`.
  std::uint64_t ours_us = 0;
  Duration uncertainty{};         ///< The moments lie no further apart.
  bool has_certificates = false;  ///< The swarm goes by certificates, which expire.
};
Diagnosis judge(const PeerClock& clock);

/// A lane to a live peer, measured.
struct LaneSpeed {
  Duration round_trip{};
  double bits_per_second = 0;     ///< Each way, at once.
  bool is_bounded = false;        ///< The peer returns no more than that.
  double expected_bits = 0;       ///< That a person counts on; 0: not given.
  std::uint64_t model_bytes = 0;  ///< 0: unknown.
};
Diagnosis judge(const LaneSpeed& speed);

/// A port of ours that a live peer has dialled.
struct DialledBack {
  std::string purpose;  ///< "control links" or "lanes".
  std::uint16_t port = 0;
  std::string seen_as;  ///< The host that was dialled: ours, as that peer sees it.
  DialOutcome outcome = DialOutcome::not_asked;
  bool is_elsewhere = false;  ///< It was connected, but not to us.
};
Diagnosis judge(const DialledBack& port);

}  // namespace gv
