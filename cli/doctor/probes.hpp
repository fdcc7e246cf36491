// Reads from this machine the values that doctor judges. Changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/doctor/judgement.hpp"
#include "net/descriptor.hpp"

namespace gv {

/// Returns nullopt if nothing exists at that path.
std::optional<FileMode> probe_mode(const std::filesystem::path& path);

ClockState probe_clock();

/// Listens briefly on "HOST:PORT", as a peer would. Port 0 means any free one.
PortState probe_port(const std::string& purpose, const std::string& address);

/// Listens on "HOST:PORT" during its lifetime, so that another peer can dial it. Does not listen if
/// the port is taken.
class HeldPort {
 public:
  explicit HeldPort(const std::string& address);

  bool is_listening() const { return static_cast<bool>(socket_); }
  /// True if a connection has arrived since the last call.
  bool was_dialled();

 private:
  Descriptor socket_;
};

/// The highest number of descriptors that a process of this user can have.
std::uint64_t probe_descriptors();

SharedMemoryState probe_shared_memory();

/// Returns the system's limits. The fields about the link keep their default values.
TcpBuffers probe_tcp_buffers();

ProcessorState probe_processor();

/// Bytes that are available without swapping, within the limits of this process's control groups.
std::uint64_t probe_available_memory();

/// Reports whether the folder can be written, and its free space. If the folder does not exist yet,
/// uses its nearest existing parent.
DiskState probe_disk(const std::filesystem::path& folder);

/// Dials "HOST:PORT". If `awaits_greeting`, also waits a moment for a control port's first bytes.
Connection probe_connection(const std::string& address, bool awaits_greeting);

}  // namespace gv
