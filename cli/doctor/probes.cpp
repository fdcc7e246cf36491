// Probes this machine through files below /proc and /sys, system limits and short-lived sockets.
#include "cli/doctor/probes.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "net/descriptor.hpp"
#include "net/host_address.hpp"
#include "net/shared_buffer.hpp"
#include "peer/host/processors.hpp"

namespace gv {
namespace {

constexpr int dial_patience_ms = 3000;
constexpr int greeting_patience_ms = 1000;
/// ZeroMQ's signature: 0xff, eight bytes of any value, 0x7f.
constexpr std::size_t signature_bytes = 10;

/// A name's addresses, or the reason why it has none.
struct Resolved {
  std::unique_ptr<::addrinfo, decltype(&::freeaddrinfo)> list{nullptr, &::freeaddrinfo};
  std::string problem;
};

Resolved resolve(const std::string& address, bool to_listen) {
  const std::string host = host_of(address);
  const std::string port = address.substr(address.rfind(':') + 1);
  ::addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  const bool any = to_listen && host == "*";
  ::addrinfo* found = nullptr;
  const int error = ::getaddrinfo(any ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  Resolved resolved;
  if (error != 0) resolved.problem = ::gai_strerror(error);
  resolved.list.reset(found);
  return resolved;
}

/// Returns 0, or the errno of the attempt. On success `socket` listens.
int try_to_listen(const ::addrinfo& where, Descriptor& socket) {
  socket =
      Descriptor(::socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  // Without SO_REUSEADDR, a port counts as taken for a while after its connections have ended.
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), where.ai_addr, where.ai_addrlen) != 0 ||
      ::listen(socket.get(), 1) != 0) {
    return errno;
  }
  return 0;
}

/// Waits until the socket is ready. Returns false if it is not ready in time.
bool is_ready(int socket, short events, int patience_ms) {
  ::pollfd wait{.fd = socket, .events = events, .revents = 0};
  return ::poll(&wait, 1, patience_ms) > 0;
}

/// Connects within the time limit. Returns 0 or an errno.
int connect_within(int socket, const ::addrinfo& where) {
  if (::connect(socket, where.ai_addr, where.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!is_ready(socket, POLLOUT, dial_patience_ms)) return ETIMEDOUT;
  int error = 0;
  ::socklen_t length = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

/// True if the other end greets as ZeroMQ does. The dialling side must greet first, because the
/// other system hands a connection to its program only once some bytes have arrived.
bool exchanges_signatures(int socket) {
  std::array<unsigned char, signature_bytes> bytes{0xff};
  bytes.back() = 0x7f;
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) != ::ssize_t{signature_bytes}) {
    return false;
  }
  std::size_t have = 0;
  while (have < bytes.size() && is_ready(socket, POLLIN, greeting_patience_ms)) {
    const ::ssize_t n = ::recv(socket, bytes.data() + have, bytes.size() - have, 0);
    if (n <= 0) return false;
    have += static_cast<std::size_t>(n);
  }
  return have == bytes.size() && bytes.front() == 0xff && bytes.back() == 0x7f;
}

Connection::Outcome outcome_of(int error) {
  switch (error) {
    case 0:
      return Connection::Outcome::connected;
    case ECONNREFUSED:
      return Connection::Outcome::refused;
    case ETIMEDOUT:
      return Connection::Outcome::silent;
    default:
      return Connection::Outcome::unreachable;
  }
}

std::optional<BufferLimit> buffer_limit(const char* file) {
  BufferLimit limit;
  std::ifstream in(file);
  if (!(in >> limit.least >> limit.first >> limit.most)) return std::nullopt;
  return limit;
}

/// The number in a control group's file; nullopt if there is no file, or no limit ("max").
std::optional<std::uint64_t> group_number(const std::filesystem::path& file) {
  std::uint64_t number = 0;
  std::ifstream in(file);
  if (!(in >> number)) return std::nullopt;
  return number;
}

/// The number of bytes that this process's control groups (version 2) still let it allocate.
std::uint64_t left_in_groups() {
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::filesystem::path top = "/sys/fs/cgroup";
    for (std::filesystem::path group = top / line.substr(4);; group = group.parent_path()) {
      const auto most = group_number(group / "memory.max");
      const auto used = group_number(group / "memory.current");
      if (most && used) left = std::min(left, *most > *used ? *most - *used : 0);
      if (group == top || !group.has_relative_path()) break;
    }
  }
  return left;
}

}  // namespace

std::optional<FileMode> probe_mode(const std::filesystem::path& path) {
  struct ::stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileMode{.path = path.string(),
                  .others_write = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0};
}

ClockState probe_clock() {
  ::timex clock{};
  const int state = ::adjtimex(&clock);
  if (state < 0) return {.is_known = false};
  return {.is_synchronised = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0,
          .error = std::chrono::microseconds(clock.maxerror)};
}

PortState probe_port(const std::string& purpose, const std::string& address) {
  PortState port{.purpose = purpose, .address = address};
  const Resolved where = resolve(address, true);
  if (!where.list) {
    port.unresolved = where.problem;
  } else {
    Descriptor socket;
    port.error = try_to_listen(*where.list, socket);
  }
  return port;
}

HeldPort::HeldPort(const std::string& address) {
  const Resolved where = resolve(address, true);
  if (where.list && try_to_listen(*where.list, socket_) != 0) socket_ = Descriptor();
}

bool HeldPort::was_dialled() {
  bool was = false;
  while (Descriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC))) was = true;
  return was;
}

std::uint64_t probe_descriptors() {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_max;
}

SharedMemoryState probe_shared_memory() { return {.works = SharedBuffer::make() != nullptr}; }

TcpBuffers probe_tcp_buffers() {
  return {.receive = buffer_limit("/proc/sys/net/ipv4/tcp_rmem"),
          .send = buffer_limit("/proc/sys/net/ipv4/tcp_wmem")};
}

ProcessorState probe_processor() {
  ProcessorState found{.usable = Processors().count()};
#if defined(__x86_64__)
  found.has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  found.has_avx512 = found.has_avx2 && __builtin_cpu_supports("avx512f") != 0;
#else
  found.is_x86 = false;
#endif
  return found;
}

std::uint64_t probe_available_memory() {
  constexpr std::string_view name = "MemAvailable:";
  std::uint64_t available = 0;
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    if (word != name) continue;
    in >> available;
    break;
  }
  return std::min(available * 1024, left_in_groups());
}

DiskState probe_disk(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::path there = std::filesystem::absolute(folder, ignored);
  while (there.has_relative_path() && !std::filesystem::exists(there, ignored)) {
    there = there.parent_path();
  }
  DiskState disk{.folder = there.string()};
  disk.is_writable = ::access(there.c_str(), W_OK | X_OK) == 0;
  struct ::statvfs space {};
  if (::statvfs(there.c_str(), &space) == 0) {
    disk.free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  }
  return disk;
}

Connection probe_connection(const std::string& address, bool awaits_greeting) {
  Connection connection{.address = address};
  const Resolved where = resolve(address, false);
  if (!where.list) {
    connection.outcome = Connection::Outcome::unresolved;
    connection.why = where.problem;
    return connection;
  }
  // Uses the first address, because peers dial that one.
  const Descriptor socket(
      ::socket(where.list->ai_family, where.list->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int error = socket ? connect_within(socket.get(), *where.list) : errno;
  connection.outcome = outcome_of(error);
  if (error != 0) {
    connection.why = std::strerror(error);
    return connection;
  }
  ::tcp_info info{};
  ::socklen_t length = sizeof info;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
    connection.round_trip = std::chrono::microseconds(info.tcpi_rtt);
  }
  connection.greets = awaits_greeting && exchanges_signatures(socket.get());
  return connection;
}

}  // namespace gv
