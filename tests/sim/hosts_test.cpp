// The list of hosts for a run over ssh, and each host's command, run by a real shell without ssh.
#include "sim/local/hosts.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gv {
namespace {

std::string text_in(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder with a stand-in for the program. The stand-in writes its arguments into the file
/// `said`, and then runs the shell text `does`.
class StandIn {
 public:
  explicit StandIn(const std::string& does) {
    std::array<char, 32> name{"/tmp/gv-hosts-XXXXXX"};
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name.data();
    const std::filesystem::path program = folder_ / "grapevine";
    std::ofstream(program) << "#!/bin/sh\necho \"$@\" >said\n" << does << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  ~StandIn() { std::filesystem::remove_all(folder_); }

  const std::filesystem::path& folder() const { return folder_; }

  /// Runs a command and returns its exit code. Its input is `input`, and then stays open until the
  /// command has made the file `until`.
  int run(const std::string& command, const std::string& input, const std::string& until) {
    const std::filesystem::path file = folder_ / "command";
    std::ofstream(file) << command;
    const std::string line = "cd " + folder_.string() + " && export PATH=" + folder_.string() +
                             ":$PATH && { printf '" + input + "'; until test -e " + until +
                             "; do :; done; } | { sh command; echo $? >code; }";
    REQUIRE(std::system(line.c_str()) == 0);
    return std::stoi(text_in(folder_ / "code"));
  }

 private:
  std::filesystem::path folder_;
};

const std::string text = "# ours\nann@node1\n\nnode2 192.0.2.7\n node1\nnode3 2001:db8::1\n";

}  // namespace

TEST_CASE("a list of hosts says where ssh goes and where peers dial", "[unit]") {
  const RunHosts read = read_hosts(text, "hosts.txt", 7000);
  REQUIRE(read.problems.empty());
  REQUIRE(read.hosts.size() == 4);
  CHECK(read.hosts[0].ssh == "ann@node1");
  CHECK(read.hosts[0].address == "node1:7000");
  CHECK(read.hosts[1].ssh == "node2");
  CHECK(read.hosts[1].address == "192.0.2.7:7000");
  // The second peer of a host has the next port.
  CHECK(read.hosts[2].address == "node1:7001");
  CHECK(read.hosts[3].address == "[2001:db8::1]:7000");
}

TEST_CASE("an address in brackets is that address and keeps its brackets", "[unit]") {
  const RunHosts read = read_hosts("node1 [2001:db8::1]\nnode1 2001:db8::1\n", "hosts.txt", 7000);
  REQUIRE(read.problems.empty());
  REQUIRE(read.hosts.size() == 2);
  CHECK(read.hosts[0].address == "[2001:db8::1]:7000");
  CHECK(read.hosts[1].address == "[2001:db8::1]:7001");
}

TEST_CASE("a list of hosts that cannot be right is refused with its line", "[unit]") {
  const auto place = [](const std::string& bad, std::uint16_t port = 7000) {
    const RunHosts read = read_hosts(bad, "hosts.txt", port);
    return read.problems.empty() ? "" : read.problems.front().place;
  };
  CHECK(place("node1\nnode2 a b\n") == "hosts.txt:2");
  CHECK(place("node1\nnode2 192.0.2.7:7461\n") == "hosts.txt:2");
  CHECK(place("node1:7461\n") == "hosts.txt:1");
  CHECK(place("node1 [2001:db8::1]:7461\n") == "hosts.txt:1");
  CHECK(place("-oProxyCommand=x\n") == "hosts.txt:1");
  CHECK(place("# none\n\n") == "hosts.txt");
  CHECK(place("node1\nnode1\n", 65535) == "hosts.txt:2");
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "node" + std::to_string(i) + "\n";
  CHECK(place(many) == "hosts.txt");
}

TEST_CASE("the command of a host gives its peer the files and returns its exit code", "[unit]") {
  StandIn program("cat run.toml cohort >got; exit 3");
  const RunHosts read = read_hosts(text, "hosts.txt", 7000);
  const std::string command = remote_command(
      read.hosts, 1, {.folder = "it's here", .config_bytes = 6, .secret_bytes = 4, .resume = true});
  // The peer ends by itself although the input is open.
  CHECK(program.run(command, "[run]\\nkey\\n", "code") == 3);
  const std::filesystem::path folder = program.folder() / "it's here/rank-1";
  CHECK(text_in(folder / "got") == "[run]\nkey\n");
  CHECK(text_in(folder / "said") ==
        "peer run.toml --cohort cohort --rank 1 --ranks 4 --folder . --listen 0.0.0.0:7000 "
        "--advertise 192.0.2.7:7000 --join rank-0@node1:7000 --join rank-1@192.0.2.7:7000 "
        "--resume\n");
  const auto mode = std::filesystem::status(folder / "cohort").permissions();
  CHECK(mode == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("the peer of a host is told to end when the launcher is gone", "[unit]") {
  // Nothing is ever written to this pipe, so the stand-in waits for input until the signal comes.
  StandIn program("mkfifo wait; trap 'exit 7' TERM; : >ready; exec 4<>wait; read x <&4");
  const RunHosts read = read_hosts("node1\n", "hosts.txt", 7000);
  const std::string command =
      remote_command(read.hosts, 0, {.folder = "run", .config_bytes = 1, .secret_bytes = 1});
  CHECK(program.run(command, "ab", "run/rank-0/ready") == 7);
}

}  // namespace gv
