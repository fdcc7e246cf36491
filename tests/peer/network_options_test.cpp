// A peer checks its limits and removes old sockets before it opens its links and lanes.
#include "peer/host/network_options.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "net/descriptor.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {

TEST_CASE("a peer says when its partners need more descriptors than it may have") {
  ::rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const ::rlimit few{.rlim_cur = descriptors_for(6), .rlim_max = usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const std::string enough = warning_of_descriptors(6);
  const std::string warning = warning_of_descriptors(11);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(enough.empty());
  CHECK(warning.find("61 open files") != std::string::npos);
  CHECK(warning.find("86 with 11 partners") != std::string::npos);
}

TEST_CASE("sockets of lanes that a killed process left are removed and nothing else is") {
  const TemporaryFolder folder;
  const auto leave_socket = [&](const char* name) {
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    std::strcpy(where.sun_path, (folder.path() / name).c_str());
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
  };
  leave_socket("lane-4711-1");
  leave_socket("lane-4712-99");
  leave_socket("other");
  std::ofstream(folder.path() / "lane-notes") << "a file";
  remove_old_sockets(folder.path());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "lane-4711-1"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "lane-4712-99"));
  CHECK(std::filesystem::exists(folder.path() / "other"));
  CHECK(std::filesystem::exists(folder.path() / "lane-notes"));
  remove_old_sockets(folder.path() / "none");
}

}  // namespace gv
