// Keeps network errors during a connection attempt from ending the program.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

/// Replaces the C library's getsockopt. ZeroMQ 4.3 aborts if a connection fails with "protocol not
/// available" (errno_assert in tcp_connecter.cpp), so this function reports "no route to the host"
/// instead. Any dialled host, or any router on the way, can cause this error with an ICMP message.
/// A definition in the program itself takes precedence over the C library's, even for calls from
/// libraries. A program that only loads libgrapevine does not get this replacement.
extern "C" __attribute__((visibility("default"))) int getsockopt(int file, int level, int name,
                                                                 void* value,
                                                                 socklen_t* size) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_getsockopt, file, level, name, value, size));
  if (result != 0 || level != SOL_SOCKET || name != SO_ERROR || *size != sizeof(int)) return result;
  int& error = *static_cast<int*>(value);
  if (error == ENOPROTOOPT) error = EHOSTUNREACH;
  return result;
}
