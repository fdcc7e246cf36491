// Turns the numbers from the probes into diagnoses. Reads nothing itself.
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

/// A file or a folder, and whether users other than its owner may change it.
struct FileMode {
  std::string path;
  bool others_write = false;  ///< True if its group or all users may change it.
};
Diagnosis judge(const FileMode& mode);

/// The system's view of its own clock, from adjtimex(2).
struct ClockState {
  bool is_known = true;
  bool is_synchronised = false;
  Duration error{};  ///< The largest clock error that the system expects.
};
Diagnosis judge(const ClockState& clock);

/// A ticket, and the time on this machine's clock.
struct TicketState {
  std::uint64_t expires_s = 0;  ///< Expiry in seconds since 1970, like `now_s`.
  std::uint64_t now_s = 0;
  std::string address;  ///< Address of the peer that made the ticket.
};
Diagnosis judge(const TicketState& ticket);

/// The certificate of the peer in a run folder. Other peers' certificates show that the clocks of
/// their issuers had reached `seen_s`.
struct CertificateState {
  std::string name;
  std::string inviter_command;  ///< The command with which another peer makes a ticket.
  std::uint64_t expires_s = 0;  ///< Expiry in seconds since 1970, like the other times here; 0:
                                ///< there is no certificate.
  std::uint64_t now_s = 0;
  std::uint64_t seen_s = 0;
};
Diagnoses judge(const CertificateState& certificate);

/// A member that a running peer reaches only through another peer.
struct RelayedMember {
  std::string name;
  std::string relay;
};
Diagnosis judge(const RelayedMember& member);

/// A port on which this peer would listen.
struct PortState {
  std::string purpose;     ///< "control links" or "lanes".
  std::string address;     ///< "HOST:PORT"
  int error = 0;           ///< The errno of the attempt to listen; 0: the port is free.
  std::string unresolved;  ///< Why the host name has no address; empty if it has one.
  bool is_ours = false;    ///< True if the listener is the peer that runs in the given folder.
};
Diagnosis judge(const PortState& port);

struct DescriptorLimit {
  std::uint64_t most = 0;    ///< The highest limit that a process can set.
  std::size_t partners = 0;  ///< Number of other peers in the run.
};
Diagnosis judge(const DescriptorLimit& limit);

/// Whether the system provides memory that can be shared with a peer on the same host.
struct SharedMemoryState {
  bool works = false;
};
Diagnosis judge(const SharedMemoryState& memory);

/// The three values of net.ipv4.tcp_rmem or tcp_wmem, in bytes.
struct BufferLimit {
  std::uint64_t least = 0;
  std::uint64_t first = 0;
  std::uint64_t most = 0;
};

/// The system's buffers for a TCP connection, and the link that they have to fill.
struct TcpBuffers {
  std::optional<BufferLimit> receive;
  std::optional<BufferLimit> send;
  double bits_per_second = 1e9;
  Duration round_trip = std::chrono::milliseconds(50);
  bool is_measured = false;  ///< True if the link to the given peer was measured.
};
Diagnoses judge(const TcpBuffers& buffers);

/// The processor features by which oneDNN chooses its kernels.
struct ProcessorState {
  std::size_t usable = 1;   ///< Processors that this process may use.
  bool is_x86 = true;       ///< True on x86, where the AVX features can be read.
  bool has_avx2 = false;    ///< AVX2, including FMA.
  bool has_avx512 = false;  ///< AVX-512 F.
  std::size_t threads = 1;  ///< train.threads of the config.
};
Diagnoses judge(const ProcessorState& processor);

struct MemoryState {
  std::uint64_t available_bytes = 0;  ///< Memory in bytes that is free or can be freed, within the
                                      ///< control group's limit.
  std::uint64_t parameters = 0;       ///< Number of the model's parameters.
  double copies = 0;                  ///< Number of vectors of the model's size that a peer keeps.
};
Diagnosis judge(const MemoryState& memory);

struct DiskState {
  std::string folder;  ///< The run folder, or its nearest existing parent.
  bool is_writable = false;
  std::uint64_t free_bytes = 0;
  std::uint64_t checkpoint_bytes = 0;  ///< Bytes of one checkpoint, or a lower bound.
  /// The most checkpoints that are on disk at the same time. 0: unknown, since there is no config.
  std::size_t checkpoints = 0;
  std::uint64_t log_bytes = 0;  ///< The largest size of the event log in bytes.
};
Diagnosis judge(const DiskState& disk);

// ---- Another peer ----

/// An attempt to connect.
struct Connection {
  enum class Outcome { connected, refused, silent, unreachable, unresolved };
  std::string address;
  Outcome outcome = Outcome::silent;
  std::string why;                     ///< The system's error text; empty if connected.
  std::optional<Duration> round_trip;  ///< The round trip time that the system measured.
  bool greets = false;  ///< True if the peer sent ZeroMQ's signature first, as control ports do.
};
Diagnoses judge_control_port(const Connection& connection);
Diagnosis judge_lane_port(const Connection& connection);

/// A CURVE handshake that no message follows.
struct Handshake {
  enum class Outcome {
    admitted,  ///< The answering peer's key is on our list, and our key is on that peer's list.
    refused,   ///< The answering peer's key is on our list, but our key is not on that peer's list.
    unknown,   ///< The answering peer's key is not on our list.
  };
  Outcome outcome = Outcome::unknown;
  std::string address;
  std::string wanted;      ///< Name of the only peer that was tried; empty: any peer on our list.
  std::string name;        ///< The answering peer's name on our list.
  PublicKey key{};         ///< The answering peer's key.
  std::string own_line;    ///< The line about us that the other peer must add to its allow-list.
  std::size_t tried = 0;   ///< Number of keys from our list that were tried.
  bool by_ticket = false;  ///< True if the handshake used the keys in a ticket.
};
Diagnosis judge(const Handshake& handshake);

/// The clocks of a live peer and of this machine at one moment.
struct PeerClock {
  std::uint64_t theirs_us = 0;  ///< The peer's clock in microseconds since 1970, like `ours_us`.
  std::uint64_t ours_us = 0;
  Duration uncertainty{};         ///< The largest possible time between the two readings.
  bool has_certificates = false;  ///< True if the swarm uses certificates, which expire.
};
Diagnosis judge(const PeerClock& clock);

/// The measured speed of a lane to a live peer.
struct LaneSpeed {
  Duration round_trip{};
  double bits_per_second = 0;  ///< Speed in each direction while both directions are busy.
  bool is_bounded = false;   ///< True if the speed is only a lower bound, because the peer returns
                             ///< bytes at a limited rate.
  double expected_bits = 0;  ///< The speed that the user expects; 0: not given.
  std::uint64_t model_bytes = 0;  ///< Size of the model in bytes; 0: unknown.
};
Diagnosis judge(const LaneSpeed& speed);

/// A port of ours that a live peer was asked to dial.
struct DialledBack {
  std::string purpose;  ///< "control links" or "lanes".
  std::uint16_t port = 0;
  std::string seen_as;  ///< The host that the peer dialled: our address as that peer sees it.
  DialOutcome outcome = DialOutcome::not_asked;
  bool is_elsewhere = false;  ///< True if the connection reached another machine.
};
Diagnosis judge(const DialledBack& port);

}  // namespace gv
