// `grapevine doctor` and `grapevine explain` as people use them: the real binary, and a live peer.
#include <sys/stat.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "net/identity.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

/// The document's lines about one check.
std::vector<Json> lines_of(const Json& document, const std::string& check) {
  std::vector<Json> found;
  if (!document.is_object()) return found;
  for (const Json& line : document.at("lines")) {
    if (line.at("check") == check) found.push_back(line);
  }
  return found;
}

/// The health of the first line of a check; "no line" if there is none.
std::string health_of(const Json& document, const std::string& check) {
  const std::vector<Json> lines = lines_of(document, check);
  return lines.empty() ? "no line" : lines.front().at("health").get<std::string>();
}

/// Runs doctor with these arguments and returns its document. Its exit code must be `code`.
Json doctor(std::vector<std::string> arguments, const std::vector<std::string>& credentials,
            int code) {
  arguments.insert(arguments.begin(), {"doctor", "--json"});
  arguments.insert(arguments.end(), credentials.begin(), credentials.end());
  std::string output;
  const Ending ending = run_grapevine(arguments, output);
  INFO(output);
  CHECK(ending.exit_code == code);
  const Json document = Json::parse(output, nullptr, false);
  REQUIRE(document.is_object());
  return document;
}

/// Arguments that name the credentials of a peer of the swarm.
std::vector<std::string> as_peer(const Swarm& swarm, std::size_t number) {
  return {"--key", (swarm.folder(number) / "key").string(), "--authorized",
          swarm.authorized_file().string()};
}

/// The address of a running peer, from its status.
std::string address_of(Swarm& swarm, std::size_t number, const char* what) {
  std::string address;
  eventually(
      [&] {
        const Json status = swarm.status(number);
        if (!status.is_object()) return false;
        address = status.at("self").value(what, "");
        return !address.empty();
      },
      30s);
  return address;
}

}  // namespace

TEST_CASE("doctor shakes hands with a live peer and is not noticed as a member", "[process]") {
  Swarm swarm(2, endless_config());
  swarm.start(0);
  const std::string control = address_of(swarm, 0, "advertised");
  const std::string lanes = address_of(swarm, 0, "lanes");
  REQUIRE_FALSE(control.empty());

  const Json sound =
      doctor({control, swarm.config_file().string(), "--lanes", lanes}, as_peer(swarm, 1), 0);
  CHECK(sound.at("healthy") == true);
  for (const char* check :
       {"config", "data", "key", "allow-list", "name", "control port", "handshake", "lane port"}) {
    INFO(check);
    CHECK(health_of(sound, check) == "ok");
  }
  // The findings depend on the machine.
  for (const char* check : {"memory", "disk"}) CHECK(health_of(sound, check) != "no line");
  const auto handshake = lines_of(sound, "handshake");
  REQUIRE(handshake.size() == 1);
  CHECK(handshake.front().at("text").get<std::string>().find(Swarm::name(0)) != std::string::npos);
  CHECK(lines_of(sound, "control port").size() == 2);
  // Doctor sends no hello, which would have made peer 1 a member.
  CHECK(swarm.state_of(0, 1) == "unknown");

  // A lane port is not a control port.
  const Json mixed_up = doctor({lanes}, as_peer(swarm, 1), 1);
  CHECK(health_of(mixed_up, "control port") == "error");
  CHECK(health_of(mixed_up, "handshake") == "no line");
}

/// A port of the loopback interface on which nothing listens now.
std::string free_port() {
  asio::io_context io;
  const asio::ip::tcp::acceptor probe(io, {asio::ip::address_v4::loopback(), 0});
  return std::to_string(probe.local_endpoint().port());
}

TEST_CASE("doctor measures a lane to a live peer and has its own ports dialled back", "[process]") {
  Swarm swarm(2, endless_config());
  swarm.start(0);
  const std::string control = address_of(swarm, 0, "advertised");
  REQUIRE_FALSE(control.empty());
  const std::vector<std::string> ports = {"--listen", "127.0.0.1:" + free_port(), "--lane-port",
                                          free_port()};
  std::vector<std::string> words = {control, swarm.config_file().string()};
  words.insert(words.end(), ports.begin(), ports.end());
  const Json found = doctor(words, as_peer(swarm, 1), 0);
  for (const char* check : {"their clock", "lane port", "lane speed", "dialled back"}) {
    INFO(check);
    CHECK(health_of(found, check) == "ok");
  }
  CHECK(lines_of(found, "dialled back").size() == 2);
  const std::string speed = lines_of(found, "lane speed").front().at("text");
  CHECK(speed.find("Mbit/s") != std::string::npos);
  CHECK(lines_of(found, "TCP buffers").front().at("text").get<std::string>().find("measured") !=
        std::string::npos);
  CHECK(swarm.state_of(0, 1) == "unknown");

  // If the peer runs, its own ports are dialled.
  swarm.start(1);
  REQUIRE_FALSE(address_of(swarm, 1, "lanes").empty());
  REQUIRE(swarm.exchanges_go_on(1));
  const Json own = doctor({control, swarm.folder(1).string()}, as_peer(swarm, 1), 0);
  const auto dialled = lines_of(own, "dialled back");
  REQUIRE(dialled.size() == 2);
  CHECK(dialled.front().at("health") == "ok");
  CHECK(swarm.exchanges_go_on(1));

  // A client that keeps asking with one key eventually exceeds the budget of that key, and learns
  // this from the answer.
  Json often;
  for (int run = 0; run < 30 && health_of(often, "their clock") != "warning"; ++run) {
    often = doctor({control}, as_peer(swarm, 1), 0);
  }
  CHECK(health_of(often, "their clock") == "warning");
  CHECK(health_of(often, "dialled back") == "no line");
}

TEST_CASE("doctor says which side lacks the other's key", "[process]") {
  Swarm swarm(1, endless_config());
  swarm.start(0);
  const std::string control = address_of(swarm, 0, "advertised");
  REQUIRE_FALSE(control.empty());
  const TemporaryFolder folder;
  const auto key = folder.path() / "stranger";
  const auto list = folder.path() / "authorized_peers";
  const KeyPair pair = generate_key_pair();
  REQUIRE(save_key_pair(key, pair).empty());
  const std::string own = "stranger " + to_text(pair.public_key);
  std::ifstream theirs(swarm.authorized_file());
  const std::string known((std::istreambuf_iterator<char>(theirs)), {});
  std::ofstream(list) << known << own << "\n";
  const std::vector<std::string> files = {"--key", key.string(), "--authorized", list.string()};

  const Json refused = doctor({control}, files, 1);
  REQUIRE(lines_of(refused, "handshake").size() == 1);
  CHECK(lines_of(refused, "handshake").front().at("remedy").get<std::string>().find(own) !=
        std::string::npos);

  std::ofstream(list) << own << "\nanother " << to_text(generate_key_pair().public_key) << "\n";
  const Json unknown = doctor({control}, files, 1);
  REQUIRE(lines_of(unknown, "handshake").size() == 1);
  CHECK(lines_of(unknown, "handshake").front().at("text").get<std::string>().find("1 tried") !=
        std::string::npos);
}

TEST_CASE("doctor finds an open key file and a port that is taken", "[process]") {
  Swarm swarm(2, endless_config());
  swarm.start(0);
  const std::string control = address_of(swarm, 0, "listening");
  REQUIRE_FALSE(control.empty());
  const Json taken = doctor({"--listen", control}, as_peer(swarm, 1), 1);
  CHECK(health_of(taken, "own ports") == "error");
  // If the peer itself holds the port, the check passes.
  const Json own = doctor({swarm.folder(0).string(), "--listen", control}, as_peer(swarm, 0), 0);
  CHECK(health_of(own, "own ports") == "ok");
  CHECK(lines_of(own, "folder").front().at("text").get<std::string>().find("runs here") !=
        std::string::npos);

  const auto key = swarm.folder(1) / "key";
  REQUIRE(::chmod(key.c_str(), 0644) == 0);
  const Json open = doctor({}, as_peer(swarm, 1), 1);
  CHECK(health_of(open, "key") == "error");
}

TEST_CASE("doctor without anything to examine looks at the machine alone", "[process]") {
  const TemporaryFolder folder;
  const Json bare = doctor({}, {"--key", (folder.path() / "none").string()}, 1);
  CHECK(health_of(bare, "key") == "error");
  for (const char* check : {"descriptors", "shared memory", "TCP buffers", "processor", "clock"}) {
    INFO(check);
    CHECK(health_of(bare, check) != "no line");
  }
  for (const char* check : {"config", "handshake", "control port", "own ports", "disk"}) {
    INFO(check);
    CHECK(health_of(bare, check) == "no line");
  }
}

TEST_CASE("explain prints an entry and offers the nearest names", "[process]") {
  std::string output;
  CHECK(run_grapevine({"explain", "not", "ready"}, output).exit_code == 0);
  CHECK(output.find("not_ready (reason)") != std::string::npos);
  output.clear();
  CHECK(run_grapevine({"explain", "exit-2", "--json"}, output).exit_code == 0);
  const Json entry = Json::parse(output, nullptr, false);
  REQUIRE(entry.size() == 1);
  CHECK(entry.at(0).at("kind") == "exit code");
  output.clear();
  CHECK(run_grapevine({"explain", "membr_dead"}, output).exit_code == 2);
  CHECK(output.find("the nearest are member_dead") != std::string::npos);
}

TEST_CASE("doctor tries a ticket without using it up and reads a certified run folder",
          "[process]") {
  const TemporaryFolder root;
  const std::string first = (root.path() / "first").string();
  ChildProcess creator({grapevine_binary(), "create", "--listen", "127.0.0.1:0", "--name", "first",
                        "--folder", first},
                       root.path() / "first.out");
  std::string ticket;
  REQUIRE(eventually(
      [&] {
        std::ifstream in(root.path() / "first.out");
        ticket = ticket_in({std::istreambuf_iterator<char>(in), {}});
        return !ticket.empty();
      },
      30s));
  for (int turn = 0; turn < 2; ++turn) {
    const Json tried = doctor({ticket}, {}, 0);
    CHECK(health_of(tried, "ticket") == "ok");
    CHECK(health_of(tried, "handshake") == "ok");
    CHECK(health_of(tried, "key") == "no line");
    CHECK(health_of(tried, "lane speed") == "ok");
  }
  // A ticket is enough for doctor, but not to see what the swarm has trained.
  std::string refusal;
  CHECK(run_grapevine({"ledger", ticket}, refusal).exit_code == 2);
  CHECK(refusal.find("only members") != std::string::npos);
  const Json folder = doctor({first}, {}, 0);
  CHECK(health_of(folder, "certificate") == "ok");
  CHECK(health_of(folder, "links") == "ok");
  CHECK(health_of(folder, "key") == "ok");

  creator.signal(SIGKILL);
  CHECK(eventually([&] { return creator.ending().has_value(); }, 30s));
  const Json alone = doctor({ticket}, {}, 1);
  CHECK(health_of(alone, "control port") == "error");
}

TEST_CASE("doctor takes the addresses to listen on that other commands take", "[process]") {
  std::string output;
  for (const char* bad : {"127.0.0.1:99999", "127.0.0.1:", "127.0.0.1"}) {
    CHECK(run_grapevine({"doctor", "--listen", bad}, output).exit_code == 2);
    CHECK_THAT(output, Catch::Contains("is not HOST:PORT"));
  }
  output.clear();
  CHECK(run_grapevine({"doctor", "--listen", ":0"}, output).exit_code == 0);
}

}  // namespace gv
