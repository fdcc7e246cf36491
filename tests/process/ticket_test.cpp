// Swarms of real processes that begin with `create` and grow by tickets.
#include "net/ticket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "consensus/membership/statement.hpp"
#include "net/admission.hpp"
#include "net/allow_list.hpp"
#include "net/key_signer.hpp"
#include "net/socket_watch.hpp"
#include "net/wire.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/swarm_files.hpp"
#include "sim/local/addresses.hpp"
#include "tests/process/insider.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Machines without keys, lists or configs. Only the first machine has a config.
class TicketRun {
 public:
  TicketRun() { std::ofstream(root() / "config.toml") << endless_config(); }

  std::string first_listens = "127.0.0.1:0";

  std::filesystem::path root() const { return root_.path(); }
  std::string folder(const std::string& name) const { return (root() / name).string(); }

  void create(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"create",   (root() / "config.toml").string(),
                                      "--listen", first_listens,
                                      "--name",   "first",
                                      "--folder", folder("first")};
    words.insert(words.end(), more.begin(), more.end());
    start("first", words);
  }

  void join(const std::string& name, const std::string& ticket,
            const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"join",   ticket, "--listen", "127.0.0.1:0",
                                      "--name", name,   "--folder", folder(name)};
    words.insert(words.end(), more.begin(), more.end());
    start(name, words);
  }

  /// The address at which the peer listens.
  std::string address(const std::string& name) const {
    std::string said;
    CHECK(run_grapevine({"status", folder(name), "--json"}, said).exit_code == 0);
    return nlohmann::json::parse(said)["self"].value("listening", "");
  }

  /// The ticket that the first peer has printed.
  std::string first_ticket() const {
    std::string ticket;
    REQUIRE(eventually(
        [&] {
          ticket = ticket_in(output("first"));
          return !ticket.empty();
        },
        30s));
    return ticket;
  }

  std::string invite(const std::string& at, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"invite", folder(at)};
    words.insert(words.end(), more.begin(), more.end());
    std::string said;
    CHECK(run_grapevine(words, said).exit_code == 0);
    return said.substr(0, said.find('\n'));
  }

  std::string output(const std::string& name) const {
    std::ifstream in(root() / (name + ".out"), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void forget_output(const std::string& name) const {
    std::filesystem::remove(root() / (name + ".out"));
  }
  bool says(const std::string& name, const std::string& text) const {
    return eventually([&] { return output(name).find(text) != std::string::npos; }, 30s);
  }
  int exit_code(const std::string& name) {
    ChildProcess& process = *processes_.at(name);
    const bool has_ended = eventually([&] { return process.ending().has_value(); }, 60s);
    if (!has_ended) return -1;
    const Ending ending = *process.ending();
    return ending.signal ? 128 + ending.signal : ending.exit_code;
  }
  void signal(const std::string& name, int number) { processes_.at(name)->signal(number); }

  /// Waits up to a minute until the peer has made `steps` steps. Returns false on a timeout.
  bool trains(const std::string& name, std::uint64_t steps) const {
    return eventually(
        [&] {
          const nlohmann::json state = status(name);
          return state.is_object() && state.value("step", std::uint64_t{0}) >= steps;
        },
        60s);
  }

  /// Waits up to half a minute until each of these peers reports that exactly these peers are
  /// alive. Returns false on a timeout.
  bool are_together(const std::vector<std::string>& names) const {
    return eventually(
        [&] {
          return std::ranges::all_of(names, [&](const std::string& name) {
            const nlohmann::json state = status(name);
            if (!state.is_object()) return false;
            std::size_t alive = 0;
            for (const auto& member : state["members"])
              alive += member.value("state", "") == "alive";
            return alive == names.size();
          });
        },
        30s);
  }

  /// The newest status document; not an object if the peer does not answer.
  nlohmann::json status(const std::string& name) const {
    const auto document = ask_peer(folder(name), {}, 500);
    return nlohmann::json::parse(document.value_or(""), nullptr, false);
  }

 private:
  void start(const std::string& name, const std::vector<std::string>& options) {
    std::vector<std::string> words = {grapevine_binary()};
    words.insert(words.end(), options.begin(), options.end());
    processes_[name] = std::make_unique<ChildProcess>(words, root() / (name + ".out"));
  }

  TemporaryFolder root_;
  std::map<std::string, std::unique_ptr<ChildProcess>> processes_;
};

/// Sends the request over a connection with the ticket's keys. Returns the answer.
JoinAnswer answer_to(const Ticket& ticket, const JoinRequest& request) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  dial_as(socket, curve_keys(guest_keys(ticket)), ticket.inviter);
  socket.connect("tcp://" + ticket.addresses.front());
  static_cast<void>(socket.send(zmq::buffer(encode(request)), zmq::send_flags::dontwait));
  const auto until = std::chrono::steady_clock::now() + 30s;
  zmq::message_t bytes;
  REQUIRE(await_input({{.socket = socket.handle(), .fd = 0, .events = ZMQ_POLLIN}}, until));
  REQUIRE(socket.recv(bytes, zmq::recv_flags::dontwait));
  const Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
  REQUIRE(decoded.frame);
  REQUIRE(std::holds_alternative<JoinAnswer>(*decoded.frame));
  return std::get<JoinAnswer>(*decoded.frame);
}

}  // namespace

TEST_CASE("three machines train together after one command each and go on without the first",
          "[process]") {
  TicketRun run;
  run.create({"--uses", "2"});
  const std::string ticket = run.first_ticket();
  run.join("second", ticket);
  run.join("third", ticket);
  INFO(run.output("first") << run.output("second") << run.output("third"));
  REQUIRE(run.are_together({"first", "second", "third"}));
  CHECK(run.says("second", "joins as second: mode gossip"));
  CHECK(run.says("first", "third joins by a ticket"));

  // The first peer dies for good. The others can still invite and revoke.
  run.signal("first", SIGKILL);
  REQUIRE(run.exit_code("first") != 0);
  run.join("fourth", run.invite("second"));
  REQUIRE(run.are_together({"second", "third", "fourth"}));
  std::string said;
  CHECK(run_grapevine({"revoke", run.folder("third"), "second"}, said).exit_code == 0);
  CHECK(run.exit_code("second") == 2);
  CHECK(run.says("second", "has been revoked"));
  REQUIRE(run.are_together({"third", "fourth"}));

  // A peer that comes back needs no new ticket, but a revoked peer stays out.
  run.signal("fourth", SIGKILL);
  run.exit_code("fourth");
  run.join("fourth", ticket);
  CHECK(run.are_together({"third", "fourth"}));
}

TEST_CASE("a ticket that is used or expired or damaged is refused in one line on both sides",
          "[process]") {
  TicketRun run;
  run.create({"--uses", "1"});
  const std::string ticket = run.first_ticket();
  run.join("second", ticket);
  REQUIRE(run.are_together({"first", "second"}));
  run.join("late", ticket);
  CHECK(run.exit_code("late") == 2);
  CHECK(run.says("late", "the ticket has been used; ask for a new one"));
  CHECK(run.says("first", "a guest is refused: the ticket has been used"));

  const std::string short_lived = run.invite("first", {"--valid", "1"});
  const auto over = std::chrono::system_clock::now() + 1s;
  REQUIRE(eventually([&] { return std::chrono::system_clock::now() > over; }, 10s));
  run.join("later", short_lived);
  CHECK(run.exit_code("later") == 2);
  CHECK(run.says("later", "the ticket has expired: it was good until 20"));
  CHECK(run.says("later", " UTC, and this machine's clock says 20"));

  run.join("typist", ticket.substr(0, ticket.size() - 3));
  CHECK(run.exit_code("typist") == 2);
  CHECK(run.says("typist", "cut off or mistyped"));
}

TEST_CASE("a join request that is sent again is good for no other key and no other ticket",
          "[process]") {
  TicketRun run;
  run.create({"--uses", "2"});
  const Ticket ticket = read_ticket(run.first_ticket()).ticket;
  const Ticket other = read_ticket(run.invite("first")).ticket;
  const KeyPair own = generate_key_pair(), foreign = generate_key_pair();
  const JoinRequest request = join_request(ticket, own, "second");
  const JoinAnswer admitted = answer_to(ticket, request);
  REQUIRE(admitted.refusal == "");
  REQUIRE(admitted.certificates.front().key == own.public_key);

  // A proof is valid only for its key, its ticket and its peer.
  const std::string no_proof = "the request does not prove that the guest holds its key";
  JoinRequest stolen = request;
  stolen.key = foreign.public_key;
  const JoinAnswer refused = answer_to(ticket, stolen);
  CHECK(refused.refusal == no_proof);
  CHECK(refused.certificates.empty());
  CHECK(refused.config.empty());
  CHECK(refused.addresses.empty());
  CHECK(run.says("first", "a guest is refused: " + no_proof));
  CHECK(answer_to(other, request).refusal == no_proof);

  // The same key gets its certificate again, because the first answer may have been lost. The
  // repeated request does not use up the ticket.
  const JoinAnswer again = answer_to(ticket, request);
  CHECK(again.refusal == "");
  CHECK(again.certificates.front() == admitted.certificates.front());
  CHECK(answer_to(ticket, join_request(ticket, foreign, "third")).refusal == "");

  // The ticket is used up now, so neither the stolen proof nor a valid one is accepted.
  const std::string is_used = "the ticket has been used";
  const KeyPair late = generate_key_pair();
  stolen.key = late.public_key;
  CHECK(answer_to(ticket, stolen).refusal == is_used);
  const JoinRequest sound = join_request(ticket, late, "late");
  CHECK(answer_to(ticket, sound).refusal == is_used);
  // A peer reports refusals at most once a second, so the guest asks until one is reported.
  CHECK(eventually(
      [&] {
        return answer_to(ticket, sound).refusal == is_used &&
               run.output("first").find("a guest is refused: " + is_used) != std::string::npos;
      },
      30s));
}

TEST_CASE("a statement that comes right behind its certificate counts against no peer",
          "[process]") {
  TicketRun run;
  run.create();
  const Ticket ticket = read_ticket(run.first_ticket()).ticket;
  const KeyPair own = generate_key_pair();
  const JoinAnswer admitted = answer_to(ticket, join_request(ticket, own, "second"));
  REQUIRE(admitted.refusal == "");
  Insider second(own, "second", ticket.inviter, ticket.addresses.front());
  REQUIRE(second.join());
  // The newcomers joined elsewhere, so the first peer learns about them from the second. If many
  // messages are sent at once, the receiver reads most of them together.
  const KeyPair swarm = keep_swarm_key(run.folder("first"), "swarm_key").pair;
  constexpr std::size_t newcomers = 20;
  for (std::size_t i = 0; i < newcomers; ++i) {
    const KeyPair key = generate_key_pair();
    const std::string name = fmt::format("new-{}", i);
    Certificate made{.swarm = ticket.swarm,
                     .issuer = ticket.swarm,
                     .key = key.public_key,
                     .name = name,
                     .expires_s = admitted.certificates.front().expires_s};
    made.signature = KeySigner(swarm, {}).sign(signed_bytes(made));
    Member member{.id = peer_id(key.public_key), .name = name, .address = "127.0.0.1:9"};
    restate(member, KeySigner(key, {}));
    second.send(Message(Certificates{.held = {}, .certificates = {made}, .revocations = {}}));
    second.send(Message(PushPull{.reply = true, .members = {member}}));
  }
  CHECK(eventually(
      [&] {
        const nlohmann::json state = run.status("first");
        return state.is_object() && std::ranges::count_if(state["members"], [](const auto& member) {
                                      return member.value("name", "").starts_with("new-");
                                    }) == newcomers;
      },
      30s));
  std::ifstream in(run.root() / "first" / "events.jsonl");
  const std::string events{std::istreambuf_iterator<char>(in), {}};
  CHECK(events.find("unsound_message") == std::string::npos);
}

TEST_CASE("a machine that joins before the first peer runs says so and waits for it", "[process]") {
  asio::io_context io;
  const ReservedPort port(io, asio::ip::make_address("127.0.0.1"));
  TicketRun run;
  run.first_listens = fmt::format("127.0.0.1:{}", port.port());
  run.create();
  const std::string ticket = run.first_ticket();
  run.signal("first", SIGKILL);
  run.exit_code("first");
  run.join("second", ticket);
  const std::string line = run.first_listens +
                           ": no peer answers there; waits for the peer that made the ticket "
                           "until 20";
  REQUIRE(run.says("second", line));
  run.create();
  INFO(run.output("first") << run.output("second"));
  REQUIRE(run.are_together({"first", "second"}));
  CHECK(run.says("second", "joins as second: mode gossip"));
  CHECK(run.trains("first", 1));
  CHECK(run.trains("second", 1));
  const std::string said = run.output("second");
  CHECK(said.find("no peer answers there") == said.rfind("no peer answers there"));
}

TEST_CASE("a machine waits for the first peer no longer than its ticket is good", "[process]") {
  asio::io_context io;
  const ReservedPort port(io, asio::ip::make_address("127.0.0.1"));
  TicketRun run;
  const auto now_s = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const Ticket ticket{.addresses = {fmt::format("127.0.0.1:{}", port.port())},
                      .swarm = generate_key_pair().public_key,
                      .inviter = generate_key_pair().public_key,
                      .secret = generate_ticket_secret(),
                      .expires_s = static_cast<std::uint64_t>(now_s.count()) + 5};
  run.join("alone", to_text(ticket));
  CHECK(run.exit_code("alone") == 2);
  CHECK(run.says("alone", "no peer answers there; waits for the peer that made the ticket"));
  CHECK(run.says("alone", "no peer has answered there, and the ticket has expired; start the "));
  CHECK(std::ranges::count(run.output("alone"), '\n') == 2);
}

TEST_CASE("a name that is taken and ports and folders that cannot be used are told in one line",
          "[process]") {
  TicketRun run;
  run.create({"--uses", "3"});
  const std::string ticket = run.first_ticket();
  run.join("second", ticket);
  REQUIRE(run.are_together({"first", "second"}));
  ChildProcess other({grapevine_binary(), "join", ticket, "--listen", "127.0.0.1:0", "--name",
                      "second", "--folder", run.folder("other")},
                     run.root() / "other.out");
  CHECK(run.says("other", "joins as second-2 because another peer is named second: mode gossip"));

  // The program does not replace a port or a folder that the operator has named.
  const std::string listen = run.address("first");
  std::string said;
  CHECK(run_grapevine({"create", "--listen", listen, "--folder", run.folder("third")}, said)
            .exit_code == 2);
  CHECK_THAT(said, Catch::Contains("--listen " + listen + ": cannot listen there ("));
  // No user can make a folder in /proc, not even root.
  const std::string folder = "/proc/grapevine-run";
  CHECK(run_grapevine({"create", "--listen", "127.0.0.1:0", "--folder", folder}, said).exit_code ==
        2);
  CHECK_THAT(said, Catch::StartsWith(folder) && Catch::Contains("choose another --folder"));
  CHECK(std::ranges::count(said, '\n') == 1);
}

TEST_CASE("a guest that could not write its certificates is admitted again with the same ticket",
          "[process]") {
  TicketRun run;
  run.create({"--uses", "1"});
  const std::string ticket = run.first_ticket();
  // This folder has the name of the temporary file, so the certificates cannot be written.
  const std::filesystem::path obstacle = run.root() / "second" / "swarm" / "certificates.new";
  std::filesystem::create_directories(obstacle);
  run.join("second", ticket);
  CHECK(run.exit_code("second") == 2);
  CHECK(run.says("second", "cannot be written; free some space on that disk"));
  CHECK(run.says("second", "start again with the same folder"));
  std::filesystem::remove(obstacle);
  run.join("second", ticket);
  CHECK(run.are_together({"first", "second"}));
}

TEST_CASE("a first peer that starts again prints no ticket while an earlier one is good",
          "[process]") {
  TicketRun run;
  run.create({"--uses", "2"});
  const std::string ticket = run.first_ticket();
  run.join("second", ticket);
  REQUIRE(run.are_together({"first", "second"}));
  // The ticket contains the old address, so the first peer must keep it.
  run.first_listens = run.address("first");
  run.signal("first", SIGKILL);
  run.exit_code("first");
  run.forget_output("first");
  run.create({"--uses", "2"});
  CHECK(run.says("first",
                 "an earlier ticket is good for 1 more machine and 60 min; for another: "
                 "grapevine invite "));
  CHECK(run.output("first").find("gv1_") == std::string::npos);
  run.join("third", ticket);
  REQUIRE(run.are_together({"first", "second", "third"}));
  // No ticket is left, so the next start prints one.
  run.signal("first", SIGKILL);
  run.exit_code("first");
  run.forget_output("first");
  run.create();
  CHECK(run.first_ticket() != ticket);
}

TEST_CASE("a peer that was revoked while it was down is told once that it may have been",
          "[process]") {
  TicketRun run;
  run.create();
  const std::string ticket = run.first_ticket();
  run.join("second", ticket);
  REQUIRE(run.are_together({"first", "second"}));
  run.signal("second", SIGKILL);
  run.exit_code("second");
  std::string said;
  REQUIRE(run_grapevine({"revoke", run.folder("first"), "second"}, said).exit_code == 0);
  run.forget_output("second");
  run.join("second", ticket);
  const std::string place = "no peer with an authorised key answers at " + run.address("first");
  CHECK(run.says("second", "If revoked, join with a new ticket and another --folder"));
  // The peer reports all addresses at the same moment, so it can be ended now.
  run.signal("second", SIGTERM);
  run.exit_code("second");
  const std::string output = run.output("second");
  CHECK(output.find(place) != std::string::npos);
  CHECK(output.find(place) == output.rfind(place));
}

TEST_CASE("keys of peers and of the swarm are replaced after a theft", "[process]") {
  TicketRun run;
  run.create({"--uses", "2"});
  const std::string ticket = run.first_ticket();
  run.join("second", ticket);
  run.join("third", ticket);
  REQUIRE(run.are_together({"first", "second", "third"}));
  // A peer's key was stolen. It is revoked, and the machine joins with another key.
  std::string said;
  CHECK(run_grapevine({"revoke", run.folder("first"), "third"}, said).exit_code == 0);
  CHECK(run.exit_code("third") == 2);
  run.join("third-again", run.invite("second"));
  REQUIRE(run.are_together({"first", "second", "third-again"}));
  // The swarm's key was stolen. All machines stop, forget their keys, and start over.
  for (const char* name : {"first", "second", "third-again"}) {
    run.signal(name, SIGTERM);
    CHECK(run.exit_code(name) >= 0);
  }
  std::filesystem::remove_all(run.root() / "first" / "swarm");
  run.forget_output("first");
  run.create();
  const std::string fresh = run.first_ticket();
  run.join("second", fresh);
  CHECK(run.exit_code("second") == 2);
  CHECK(run.says("second", "belongs to another swarm"));
  std::filesystem::remove_all(run.root() / "second" / "swarm");
  run.join("second", fresh);
  CHECK(run.are_together({"first", "second"}));
}

TEST_CASE("a peer whose certificate is over is told so in one line", "[process]") {
  TicketRun run;
  const std::filesystem::path folder = run.root() / "late";
  const KeyPair swarm = generate_key_pair(), own = keep_swarm_key(folder, "key").pair;
  Certificate over{.swarm = swarm.public_key,
                   .issuer = swarm.public_key,
                   .key = own.public_key,
                   .name = "late",
                   .expires_s = 1'000'000'000};
  over.signature = KeySigner(swarm, {}).sign(signed_bytes(over));
  REQUIRE(write_certificates(folder, swarm.public_key, {over}, {}));
  const Ticket ticket{.addresses = {"127.0.0.1:7000"},
                      .swarm = swarm.public_key,
                      .inviter = generate_key_pair().public_key,
                      .secret = generate_ticket_secret(),
                      .expires_s = 4'000'000'000};
  run.join("late", to_text(ticket));
  CHECK(run.exit_code("late") == 2);
  CHECK(run.says("late",
                 "days ago by this machine's clock; join with a new ticket and another "
                 "--folder, or set the clock"));
  CHECK(std::ranges::count(run.output("late"), '\n') == 1);
}

TEST_CASE("without a default route a ticket names an address that other machines can dial",
          "[process]") {
  const auto created = [](const std::string& network) {
    const TemporaryFolder scratch;
    const std::filesystem::path output = scratch.path() / "out";
    ChildProcess peer(
        {"/usr/bin/unshare", "-n", "sh", "-c", network + " exec \"$0\" \"$@\"", grapevine_binary(),
         "create", "--listen", ":0", "--folder", (scratch.path() / "first").string()},
        output);
    std::string said;
    eventually(
        [&] {
          std::ifstream in(output, std::ios::binary);
          said.assign(std::istreambuf_iterator<char>(in), {});
          return !ticket_in(said).empty() || peer.ending().has_value();
        },
        30s);
    const std::string ticket = ticket_in(said);
    return ticket.empty() ? said : read_ticket(ticket).ticket.addresses.front();
  };
  const std::string pair = "ip link add link0 type veth peer name link1";
  if (std::system(("unshare -n " + pair + " >/dev/null 2>&1").c_str()) != 0) {
    WARN("network namespaces need root and iproute2; skipped");
    return;
  }
  const std::string card =
      "ip link set lo up; " + pair + "; ip link set link0 up; ip link set link1 up;";
  CHECK(created(card + "ip addr add 10.77.9.1/24 dev link0;").starts_with("10.77.9.1:"));
  // Only this machine's own peers can join a peer on a machine without a network.
  CHECK(created("ip link set lo up;").starts_with("127.0.0.1:"));
  CHECK_THAT(created(card), Catch::Contains("say with --advertise HOST:PORT"));
}

TEST_CASE("a guest reads no file outside of its folder because the swarm's config names it",
          "[process]") {
  TicketRun run;
  const std::filesystem::path data = run.root() / "data";
  std::filesystem::create_directories(data);
  for (const char* name : {"train.csv", "test.csv"}) {
    std::ofstream out(data / name);
    for (int i = 0; i < 200; ++i) out << i % 7 << ',' << i % 3 << ',' << i % 2 << '\n';
  }
  std::ofstream(run.root() / "config.toml") << fmt::format(
      "[run]\nmode = \"gossip\"\nsteps = 100000000\n[data]\nkind = \"csv\"\n"
      "folder = \"{}\"\n[model]\nkind = \"linear\"\n[train]\nbatch = 8\n"
      "[checkpoint]\nevery_steps = 0\n",
      data.string());
  run.create();
  const std::string ticket = run.first_ticket();
  run.join("guest", ticket);
  CHECK(run.exit_code("guest") == 2);
  CHECK(run.says("guest", "outside of this peer's folder; if it may, say so with --data FOLDER"));
  run.join("guest", ticket, {"--data", data.string()});
  CHECK(run.are_together({"first", "guest"}));
  CHECK(read_data_place(run.folder("guest")).folder == data.string());
}

TEST_CASE("after Ctrl-C the command of create and of join goes on at the saved step", "[process]") {
  TicketRun run;
  run.create();
  const std::string ticket = run.first_ticket();
  run.join("second", ticket);
  REQUIRE(run.are_together({"first", "second"}));
  run.first_listens = run.address("first");  // Like a command that names its port.
  std::map<std::string, std::uint64_t> saved = {{"first", 0}, {"second", 0}};
  for (auto& [name, step] : saved) {
    REQUIRE(run.trains(name, 100));
    run.signal(name, SIGINT);
    CHECK(run.exit_code(name) == 0);
    const auto checkpoints = run.root() / name / "checkpoints";
    for (const auto& file : std::filesystem::directory_iterator(checkpoints)) {
      step = std::max(step, std::stoul(file.path().filename().string().substr(5)));  // "step-7..."
    }
    CHECK(step >= 100);
  }
  run.create();
  run.join("second", ticket);
  for (const auto& [name, step] : saved) {
    CHECK(run.trains(name, step + 1));
    std::vector<std::uint64_t> resumed;
    std::ifstream in(run.root() / name / "events.jsonl");
    for (std::string line; std::getline(in, line);) {
      if (line.find("\"resumed\"") == std::string::npos) continue;
      resumed.push_back(nlohmann::json::parse(line).value("step", 0ULL));
    }
    CHECK(resumed == std::vector{step});
  }
}

}  // namespace gv
