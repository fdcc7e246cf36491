// Reads from this machine what doctor judges. Changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/doctor/judgement.hpp"
#include "net/descriptor.hpp"

namespace gv {

/// Nullopt if there is nothing at that path.
std::optional<FileMode> probe_mode(const std::filesystem::path& path);

ClockState probe_clock();

/// Listens on "HOST:PORT" for a moment, as a peer would. Port 0 means any free one.
PortState probe_port(const std::string& purpose, const std::string& address);

/// Listens on "HOST:PORT" for as long as it lives, so that another peer can dial it. Without a port
/// that is free it listens nowhere.
class HeldPort {
 public:
  explicit HeldPort(const std::string& address);

  bool is_listening() const { return static_cast<bool>(socket_); }
  /// True if a connection has come since the last call.
  bool was_dialled();

 private:
  Descriptor socket_;
};

/// The most descriptors that a process of this user can have.
std::uint64_t probe_descriptors();

SharedMemoryState probe_shared_memory();

/// The system's limits; the link is left as it is by default.
TcpBuffers probe_tcp_buffers();

ProcessorState probe_processor();

/// The bytes that can be had without swapping, within the limits of this process's control groups.
std::uint64_t probe_available_memory();

/// Whether the folder can be written, and its free space. For a folder that does not exist yet, of
/// the nearest one above it that does.
DiskState probe_disk(const std::filesystem::path& folder);

/// Dials "HOST:PORT". If `awaits_greeting`, also waits a moment for the first bytes of a control
/// port.
Connection probe_connection(const std::string& address, bool awaits_greeting);

}  // namespace gv
