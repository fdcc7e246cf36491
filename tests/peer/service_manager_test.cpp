// The messages that a peer sends to a service manager such as systemd.
#include "peer/host/service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace gv {
namespace {

/// A service manager's socket. NOTIFY_SOCKET of this process names it.
class Manager {
 public:
  /// `name` has the form of NOTIFY_SOCKET: a path, or @ and an abstract socket name.
  explicit Manager(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    ::sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    const bool is_abstract = name.front() == '@';
    if (is_abstract) address.sun_path[0] = 0;
    const auto length = static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + name.size() +
                                                 (is_abstract ? 0 : 1));
    REQUIRE(::bind(socket_, reinterpret_cast<::sockaddr*>(&address), length) == 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    ::unsetenv("NOTIFY_SOCKET");
    ::close(socket_);
  }

  /// The message that has arrived; empty if there is none.
  std::string heard() const {
    std::array<char, 100> text{};
    const ::ssize_t length = ::recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
    return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "";
  }

 private:
  int socket_;
};

}  // namespace

TEST_CASE("a service manager is told by a socket in a folder", "[unit]") {
  std::array<char, 32> folder{"/tmp/gv-manager-XXXXXX"};
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string path = std::string(folder.data()) + "/notify";
  {
    const Manager manager(path);
    CHECK(tell_service_manager("READY=1"));
    CHECK(manager.heard() == "READY=1");
    CHECK(manager.heard().empty());
  }
  ::unlink(path.c_str());
  ::rmdir(folder.data());
}

TEST_CASE("a service manager is told by a socket with an abstract name", "[unit]") {
  const Manager manager("@gv-manager-" + std::to_string(::getpid()));
  CHECK(tell_service_manager("STOPPING=1"));
  CHECK(manager.heard() == "STOPPING=1");
}

TEST_CASE("without a service manager nobody is told", "[unit]") {
  ::unsetenv("NOTIFY_SOCKET");
  CHECK_FALSE(tell_service_manager("READY=1"));
  for (const std::string& name :
       {std::string(), std::string("@"), std::string("/no/such/socket"), std::string(200, 'x')}) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    CHECK_FALSE(tell_service_manager("READY=1"));
  }
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace gv
