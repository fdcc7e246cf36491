// What a network may answer to a connection attempt must not end the program.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

/// The system call, except that it reports "protocol not available" for a failed connection as "no
/// route to the host". ZeroMQ 4.3 aborts on the former (errno_assert in tcp_connecter.cpp), and any
/// dialled host or router on the way can cause it by an ICMP message. A definition in the program
/// itself is found before that of the C library, by libraries too; in a program that only loads
/// libgrapevine it is not.
extern "C" __attribute__((visibility("default"))) int getsockopt(int file, int level, int name,
                                                                 void* value,
                                                                 socklen_t* size) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_getsockopt, file, level, name, value, size));
  if (result != 0 || level != SOL_SOCKET || name != SO_ERROR || *size != sizeof(int)) return result;
  int& error = *static_cast<int*>(value);
  if (error == ENOPROTOOPT) error = EHOSTUNREACH;
  return result;
}
