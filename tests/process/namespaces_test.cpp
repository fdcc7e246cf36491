// Peers on different hosts, which are network namespaces of one machine, joined by a bridge.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Hosts 10.77.0.1, .2, ... joined by a bridge in a namespace of its own.
class Hosts {
 public:
  explicit Hosts(int count) : tag_("gv" + std::to_string(::getpid())), count_(count) {
    usable_ = ::geteuid() == 0 && run("ip netns add " + hub()) &&
              run("ip -n " + hub() + " link add bridge type bridge") &&
              run("ip -n " + hub() + " link set bridge up");
    for (int host = 1; usable_ && host <= count_; ++host) {
      const std::string port = "port" + std::to_string(host);
      usable_ = run("ip netns add " + name(host)) &&
                run("ip -n " + hub() + " link add " + port + " type veth peer name eth0 netns " +
                    name(host)) &&
                run("ip -n " + hub() + " link set " + port + " master bridge up") &&
                run("ip -n " + name(host) + " addr add " + address(host) + "/24 dev eth0") &&
                run("ip -n " + name(host) + " link set eth0 up") &&
                run("ip -n " + name(host) + " link set lo up");
    }
  }
  ~Hosts() {
    for (int host = 1; host <= count_; ++host) run("ip netns delete " + name(host));
    run("ip netns delete " + hub());
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  bool usable() const { return usable_; }
  std::string address(int host) const { return "10.77.0." + std::to_string(host); }
  /// Options for a peer on that host.
  StartOptions on(int host, bool listens, std::vector<std::string> extra = {}) const {
    return {.prefix = at(host),
            .listen = listens ? address(host) + ":0" : "",
            .extra = std::move(extra)};
  }
  /// Blocks all connections to that host, as a home router does, or refuses them with `verdict`.
  /// Returns false without nftables.
  bool let_none_in(int host, const std::string& verdict = "drop") const {
    const std::string nft = "ip netns exec " + name(host) + " nft ";
    return run(nft + "add table inet router") &&
           run(nft + "'add chain inet router in { type filter hook input priority 0; }'") &&
           run(nft + "'add rule inet router in iifname eth0 tcp flags & (syn | ack) == syn " +
               verdict + "'");
  }
  /// Drops all packets between two hosts, in both directions. Returns false without nftables.
  bool part(int host, int other) const {
    const std::string nft = "ip netns exec " + name(host) + " nft ";
    return run(nft + "add table inet parted") &&
           run(nft + "'add chain inet parted in { type filter hook input priority 0; }'") &&
           run(nft + "'add chain inet parted out { type filter hook output priority 0; }'") &&
           run(nft + "add rule inet parted in ip saddr " + address(other) + " drop") &&
           run(nft + "add rule inet parted out ip daddr " + address(other) + " drop");
  }
  /// Reverts let_none_in().
  void let_all_in(int host) const {
    run("ip netns exec " + name(host) + " nft delete table inet router");
  }
  /// The words to put before a command so that it runs on that host.
  std::vector<std::string> at(int host) const {
    return {"/usr/bin/env", "ip", "netns", "exec", name(host)};
  }
  /// Drops all packets of this host's connections that use one of these ports at either end, as if
  /// a router had forgotten the connections. Returns the number of connections; 0 without nftables.
  int forget_connections(int host, const std::set<std::string>& ports) const {
    const TemporaryFolder folder;
    const std::string list = (folder.path() / "connections").string();
    const std::string inside = "ip netns exec " + name(host);
    if (std::system((inside + " ss -tnH state established >" + list).c_str()) != 0) return 0;
    const std::string nft = inside + " nft ";
    if (!run(nft + "add table inet lost") ||
        !run(nft + "'add chain inet lost in { type filter hook input priority 0; }'") ||
        !run(nft + "'add chain inet lost out { type filter hook output priority 0; }'")) {
      return 0;
    }
    const auto port_of = [](const std::string& address) {
      return address.substr(address.rfind(':') + 1);
    };
    int count = 0;
    std::ifstream lines(list);
    for (std::string queued, unsent, own, other; lines >> queued >> unsent >> own >> other;) {
      if (!ports.contains(port_of(own)) && !ports.contains(port_of(other))) continue;
      const std::string in = " tcp sport " + port_of(other) + " tcp dport " + port_of(own);
      const std::string out = " tcp sport " + port_of(own) + " tcp dport " + port_of(other);
      count += run(nft + "'add rule inet lost in" + in + " drop'") &&
               run(nft + "'add rule inet lost out" + out + " drop'");
    }
    return count;
  }
  /// Unplugs the host's cable or plugs it in again.
  void set_cable(int host, bool in) const {
    run("ip -n " + hub() + " link set port" + std::to_string(host) + (in ? " up" : " down"));
  }

 private:
  std::string hub() const { return tag_ + "hub"; }
  std::string name(int host) const { return tag_ + "h" + std::to_string(host); }

  std::string tag_;
  int count_;
  bool usable_ = false;
};

}  // namespace

TEST_CASE("three hosts train together when one of them can only dial out", "[process][netns]") {
  const Hosts hosts(3);
  if (!hosts.usable()) {
    WARN("network namespaces need root and iproute2; skipped");
    return;
  }
  Swarm swarm(3, endless_config());
  swarm.start(0, hosts.on(1, true, {"--wait-for", "3"}));
  swarm.start(1, hosts.on(2, true, {"--wait-for", "3"}));
  swarm.start(2, hosts.on(3, false, {"--wait-for", "3"}));
  for (std::size_t number = 0; number < 3; ++number) CHECK(swarm.exchanges_go_on(number));
  CHECK(swarm.status(0)["self"].value("advertised", "").starts_with("10.77.0.1:"));
  CHECK(swarm.status(2)["self"].value("advertised", "none").empty());
  // Between hosts, nothing is sent unencrypted unless the config says so.
  bool opened_tls = false;
  for (const auto& event : swarm.events(0, "lane_opened")) {
    opened_tls = opened_tls || event.value("detail", "").find("tls") != std::string::npos;
  }
  CHECK(opened_tls);
}

TEST_CASE("peers go on if a host answers that it does not know their protocol",
          "[process][netns]") {
  const Hosts hosts(2);
  if (!hosts.usable() || !hosts.let_none_in(2, "reject with icmp type prot-unreachable")) {
    WARN("network namespaces need root, iproute2 and nftables; skipped");
    return;
  }
  Swarm swarm(2, endless_config());
  swarm.start(0, hosts.on(1, true, {"--wait-for", "2"}));
  swarm.start(1, hosts.on(2, true, {"--wait-for", "2"}));
  REQUIRE(eventually([&] { return !swarm.events(1, "not_reachable").empty(); }, 30s));
  CHECK(swarm.exchanges_go_on(0));
  CHECK(swarm.exchanges_go_on(1));
}

TEST_CASE("a peer that cannot be reached back is told so with the remedy", "[process][netns]") {
  const Hosts hosts(2);
  if (!hosts.usable()) {
    WARN("network namespaces need root and iproute2; skipped");
    return;
  }
  Swarm swarm(2, endless_config());
  swarm.start(0, hosts.on(1, true, {"--wait-for", "2"}));
  // Nothing listens on port 9 of that host.
  swarm.start(1, hosts.on(2, true, {"--wait-for", "2", "--advertise", hosts.address(2) + ":9"}));
  REQUIRE(eventually([&] { return !swarm.events(1, "not_reachable").empty(); }, 20s));
  CHECK(swarm.events(1, "not_reachable").front().value("detail", "") == hosts.address(2) + ":9");
  CHECK(eventually([&] { return swarm.output(1).find("--advertise") != std::string::npos; }, 5s));
  CHECK(swarm.exchanges_go_on(0));
}

TEST_CASE("a host cut off for a while trains on alone and comes back when the cable is back",
          "[process][netns]") {
  const Hosts hosts(3);
  if (!hosts.usable()) {
    WARN("network namespaces need root and iproute2; skipped");
    return;
  }
  Swarm swarm(3, endless_config());
  for (int host = 1; host <= 3; ++host) {
    swarm.start(static_cast<std::size_t>(host - 1), hosts.on(host, true, {"--wait-for", "3"}));
  }
  REQUIRE(swarm.exchanges_go_on(2));
  hosts.set_cable(3, false);
  REQUIRE(eventually(
      [&] { return swarm.state_of(0, 2) == "dead" && swarm.state_of(2, 0) == "dead"; }, 60s));
  CHECK(swarm.exchanges_go_on(0));
  const std::uint64_t alone = swarm.step(2);
  CHECK(eventually([&] { return swarm.step(2) > alone + 1000; }, 20s));
  hosts.set_cable(3, true);
  CHECK(eventually(
      [&] { return swarm.state_of(0, 2) == "alive" && swarm.state_of(2, 0) == "alive"; }, 30s));
  CHECK(swarm.exchanges_go_on(2));
}

/// The peer that relays the lane from `number` to `other`, according to `number`; empty if none
/// does.
std::string relay_between(Swarm& swarm, std::size_t number, std::size_t other) {
  const auto status = swarm.status(number);
  for (const auto& member : status.value("members", nlohmann::json::array())) {
    if (member.value("name", "") == Swarm::name(other)) return member.value("relay", "");
  }
  return {};
}

/// The endless config for peers that train in lockstep by all-reduce.
std::string lockstep_config() {
  std::string config = endless_config();
  config.insert(config.find("steps"), "mode = \"allreduce\"\n");
  const std::size_t gossip = config.find("[gossip]");
  config.erase(gossip, config.find("[checkpoint]") - gossip);
  return config;
}

TEST_CASE("two hosts that only dial out train in lockstep through a third", "[process][netns]") {
  const Hosts hosts(3);
  if (!hosts.usable()) {
    WARN("network namespaces need root and iproute2; skipped");
    return;
  }
  Swarm swarm(3, lockstep_config());
  swarm.start(0, hosts.on(1, true, {"--wait-for", "3"}));
  swarm.start(1, hosts.on(2, false, {"--wait-for", "3"}));
  swarm.start(2, hosts.on(3, false, {"--wait-for", "3"}));
  for (std::size_t number = 0; number < 3; ++number) {
    CHECK(eventually([&] { return swarm.step(number) > 20; }, 60s));
  }
  CHECK(eventually([&] { return relay_between(swarm, 1, 2) == Swarm::name(0); }, 30s));
  CHECK(relay_between(swarm, 2, 1) == Swarm::name(0));
  CHECK(swarm.status(0)["relayed"].value("bytes", 0ULL) > 0);
}

TEST_CASE("peers in lockstep replace lanes that a router has forgotten and lose no peer",
          "[process][netns]") {
  const Hosts hosts(3);
  if (!hosts.usable()) {
    WARN("network namespaces need root and iproute2; skipped");
    return;
  }
  Swarm swarm(3, lockstep_config());
  std::set<std::string> ports;
  for (std::size_t number = 0; number < 3; ++number) {
    swarm.start(number, hosts.on(static_cast<int>(number) + 1, true, {"--wait-for", "3"}));
  }
  REQUIRE(swarm.reach({0, 1, 2}, 100));
  for (std::size_t number = 0; number < 3; ++number) {
    const std::string lanes = swarm.status(number)["self"].value("lanes", "");
    ports.insert(lanes.substr(lanes.rfind(':') + 1));
  }
  const int forgotten = hosts.forget_connections(3, ports);
  if (forgotten == 0) {
    WARN("packets are dropped by nftables, and connections listed by ss; skipped");
    return;
  }
  // The control links still work, so all peers stay members. The first peer that notices the silent
  // lanes ends the generation for all of them, and they open new lanes.
  CHECK(eventually(
      [&] {
        return std::ranges::any_of(std::vector{0, 1, 2}, [&](int number) {
          return !swarm.events(static_cast<std::size_t>(number), "peer_silent").empty();
        });
      },
      30s));
  CHECK(eventually([&] { return !swarm.events(2, "lane_lost").empty(); }, 30s));
  for (std::size_t number = 0; number < 3; ++number) {
    CHECK(eventually(
        [&] {
          return swarm.status(number)["allreduce"].value("order", nlohmann::json::array()).size() ==
                 3;
        },
        30s));
    CHECK(swarm.events(number, "member_dead").empty());
  }
  CHECK(swarm.go_on({0, 1, 2}));
}

TEST_CASE("hosts behind routers that let none in meet through another relay when theirs dies",
          "[process][netns]") {
  const Hosts hosts(4);
  if (!hosts.usable() || !hosts.let_none_in(3) || !hosts.let_none_in(4)) {
    WARN("network namespaces need root, iproute2 and nftables; skipped");
    return;
  }
  Swarm swarm(4, endless_config());
  // The peers behind routers also listen and advertise their addresses, as uninformed operators do.
  for (std::size_t number = 0; number < 4; ++number) {
    swarm.start(number, hosts.on(static_cast<int>(number) + 1, true, {"--wait-for", "4"}));
  }
  std::string relay;
  REQUIRE(eventually([&] { return !(relay = relay_between(swarm, 2, 3)).empty(); }, 60s));
  const std::size_t dead = relay == Swarm::name(0) ? 0 : 1;
  swarm.kill(dead);
  CHECK(eventually([&] { return relay_between(swarm, 2, 3) == Swarm::name(1 - dead); }, 60s));
  CHECK(swarm.exchanges_go_on(2));
  CHECK(swarm.exchanges_go_on(3));
}

TEST_CASE("two hosts find a relay when their packets to each other are lost during a run",
          "[process][netns]") {
  const Hosts hosts(3);
  if (!hosts.usable()) {
    WARN("network namespaces need root and iproute2; skipped");
    return;
  }
  Swarm swarm(3, endless_config());
  for (std::size_t number = 0; number < 3; ++number) {
    swarm.start(number, hosts.on(static_cast<int>(number) + 1, true, {"--wait-for", "3"}));
  }
  for (std::size_t number = 0; number < 3; ++number) REQUIRE(swarm.exchanges_go_on(number));
  REQUIRE(relay_between(swarm, 1, 2).empty());
  if (!hosts.part(2, 3)) {
    WARN("packets are dropped by nftables; skipped");
    return;
  }
  // The system ends the connections between these two peers only after ten seconds, and does not
  // say to which peer they belonged.
  CHECK(eventually([&] { return relay_between(swarm, 1, 2) == Swarm::name(0); }, 40s));
  CHECK(eventually([&] { return relay_between(swarm, 2, 1) == Swarm::name(0); }, 10s));
  CHECK(swarm.exchanges_go_on(1));
  CHECK(swarm.exchanges_go_on(2));
}

TEST_CASE("two hosts leave their relay when one of them can be dialled", "[process][netns]") {
  const Hosts hosts(3);
  if (!hosts.usable() || !hosts.let_none_in(2) || !hosts.let_none_in(3)) {
    WARN("network namespaces need root, iproute2 and nftables; skipped");
    return;
  }
  Swarm swarm(3, endless_config());
  for (std::size_t number = 0; number < 3; ++number) {
    swarm.start(number, hosts.on(static_cast<int>(number) + 1, true, {"--wait-for", "3"}));
  }
  REQUIRE(eventually([&] { return relay_between(swarm, 1, 2) == Swarm::name(0); }, 60s));
  hosts.let_all_in(2);
  CHECK(eventually(
      [&] {
        return relay_between(swarm, 1, 2).empty() && relay_between(swarm, 2, 1).empty() &&
               swarm.state_of(1, 2) == "alive" && swarm.state_of(2, 1) == "alive";
      },
      60s));
  // These two peers use a direct lane. Much time may pass before their next exchange, because a
  // peer pauses exchanges with a partner whose lane took seconds to open.
  CHECK(eventually(
      [&] {
        return std::ranges::any_of(swarm.events(1, "lane_opened"), [](const auto& event) {
          return event.value("name", "") == Swarm::name(2) && event.value("detail", "") == "tls";
        });
      },
      60s));
}

TEST_CASE("doctor hears from a live peer which of its ports a router keeps closed",
          "[process][netns]") {
  const Hosts hosts(2);
  if (!hosts.usable()) {
    WARN("network namespaces need root, iproute2 and nftables; skipped");
    return;
  }
  Swarm swarm(2, endless_config());
  swarm.start(0, hosts.on(1, true));
  std::string live;
  REQUIRE(eventually(
      [&] {
        const auto status = swarm.status(0);
        if (status.is_object()) live = status["self"].value("advertised", "");
        return !live.empty();
      },
      30s));
  const TemporaryFolder folder;
  const auto lines = [&](const char* check) {
    std::vector<std::string> words = hosts.at(2);
    const std::vector<std::string> more = {grapevine_binary(),
                                           "doctor",
                                           "--json",
                                           live,
                                           "--key",
                                           (swarm.folder(1) / "key").string(),
                                           "--authorized",
                                           swarm.authorized_file().string(),
                                           "--listen",
                                           hosts.address(2) + ":7000",
                                           "--lane-port",
                                           "7001"};
    words.insert(words.end(), more.begin(), more.end());
    std::filesystem::remove(folder.path() / "out");
    ChildProcess process(words, folder.path() / "out");
    CHECK(eventually([&] { return process.ending().has_value(); }, 60s));
    std::ifstream in(folder.path() / "out");
    const auto document = nlohmann::json::parse(in, nullptr, false);
    std::vector<std::string> found;
    if (!document.is_object()) return found;
    for (const auto& line : document.at("lines")) {
      if (line.at("check") == check) found.push_back(line.at("health"));
    }
    return found;
  };
  CHECK(lines("dialled back") == std::vector<std::string>{"ok", "ok"});
  CHECK(lines("lane speed") == std::vector<std::string>{"ok"});
  if (!hosts.let_none_in(2)) {
    WARN("ports are closed by nftables; the rest is skipped");
    return;
  }
  CHECK(lines("dialled back") == std::vector<std::string>{"error", "error"});
}

}  // namespace gv
