// Peers that have only IPv6 addresses.
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "net/ticket.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

bool has_ipv6() {
  asio::io_context io;
  asio::ip::tcp::socket socket(io);
  asio::error_code error;
  socket.open(asio::ip::tcp::v6(), error);
  if (!error) socket.bind({asio::ip::address_v6::loopback(), 0}, error);
  return !error;
}

}  // namespace

TEST_CASE("peers train over IPv6 and doctor examines one of them", "[process][ipv6]") {
  if (!has_ipv6()) {
    WARN("this machine has no address of IPv6; skipped");
    return;
  }
  Swarm swarm(2, endless_config());
  // These lanes use TCP, because the usual lanes within one host need no address.
  const StartOptions over_v6{.listen = "[::1]:0", .extra = {"--lane", "tls"}};
  swarm.start(0, over_v6);
  swarm.start(1, over_v6);
  CHECK(swarm.exchanges_go_on(0));
  CHECK(swarm.exchanges_go_on(1));
  const std::string there = swarm.status(0)["self"].value("advertised", "");
  CHECK(there.starts_with("[::1]:"));
  CHECK(swarm.status(0)["self"].value("lanes", "").starts_with("[::1]:"));

  std::string said;
  const Ending ending = run_grapevine(
      {"doctor", "--json", there, swarm.folder(1).string(), "--key",
       (swarm.folder(1) / "key").string(), "--authorized", swarm.authorized_file().string()},
      said);
  INFO(said);
  CHECK(ending.exit_code == 0);
  for (const auto& line : nlohmann::json::parse(said).at("lines")) {
    const std::string check = line.at("check");
    if (check == "lane speed" || check == "dialled back") CHECK(line.at("health") == "ok");
  }
  CHECK(said.find("TCP port") != std::string::npos);
}

TEST_CASE("a machine joins by a ticket with an address of IPv6", "[process][ipv6]") {
  if (!has_ipv6()) {
    WARN("this machine has no address of IPv6; skipped");
    return;
  }
  const TemporaryFolder root;
  std::ofstream(root.path() / "config.toml") << endless_config();
  const auto said = [&](const char* name) {
    std::ifstream in(root.path() / name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  ChildProcess first(
      {grapevine_binary(), "create", (root.path() / "config.toml").string(), "--listen", "[::1]:0",
       "--name", "first", "--folder", (root.path() / "first").string()},
      root.path() / "first.out");
  std::string ticket;
  REQUIRE(eventually([&] { return !(ticket = ticket_in(said("first.out"))).empty(); }, 30s));
  CHECK(read_ticket(ticket).ticket.addresses.front().starts_with("[::1]:"));
  ChildProcess second({grapevine_binary(), "join", ticket, "--listen", "[::]:0", "--name", "second",
                       "--folder", (root.path() / "second").string()},
                      root.path() / "second.out");
  const auto alive = [&](const char* name) {
    std::string status;
    run_grapevine({"status", (root.path() / name).string(), "--json"}, status);
    const auto document = nlohmann::json::parse(status, nullptr, false);
    std::size_t count = 0;
    if (!document.is_object()) return count;
    for (const auto& member : document["members"]) count += member.value("state", "") == "alive";
    return count;
  };
  INFO(said("second.out"));
  CHECK(eventually([&] { return alive("first") == 2 && alive("second") == 2; }, 30s));
  for (ChildProcess* peer : {&first, &second}) {
    peer->signal(SIGTERM);
    CHECK(eventually([&] { return peer->ending().has_value(); }, 30s));
  }
}

}  // namespace gv
