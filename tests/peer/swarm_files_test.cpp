// The files and tickets of a peer in a swarm with certificates, and the paths in configs that it
// gets from other peers.
#include "peer/host/swarm_files.hpp"

#include <asio/io_context.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "consensus/trust/revocations.hpp"
#include "net/control_links.hpp"
#include "net/key_signer.hpp"
#include "peer/host/swarm_start.hpp"
#include "peer/host/ticket_book.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

constexpr std::uint64_t start_s = 1'800'000'000;

Config config_with(const std::string& folder, const std::string& file) {
  Config config;
  config.data.kind = DataKind::text;
  config.data.folder = folder;
  config.data.train_files = {file};
  return config;
}

/// A certificate, issued by the swarm itself, for a peer that may invite others until `expires_s`.
Certificate certificate_of(const KeyPair& swarm, const KeyPair& own, const std::string& name,
                           std::uint64_t expires_s) {
  Certificate certificate{.swarm = swarm.public_key,
                          .issuer = swarm.public_key,
                          .key = own.public_key,
                          .name = name,
                          .may_invite = true,
                          .expires_s = expires_s};
  certificate.signature = KeySigner(swarm, {}).sign(signed_bytes(certificate));
  return certificate;
}

/// A ticket of that swarm, valid until the year 2096, from a peer that does not answer.
Ticket ticket_of(const KeyPair& swarm) {
  return {.addresses = {"192.0.2.1:7000"},
          .swarm = swarm.public_key,
          .inviter = generate_key_pair().public_key,
          .secret = generate_ticket_secret(),
          .expires_s = 4'000'000'000};
}

}  // namespace

TEST_CASE("certificates are read from the disk as they were written and not if the file is cut") {
  const KeyPair swarm = generate_key_pair();
  std::vector<Certificate> certificates(230);
  for (std::size_t i = 0; i < certificates.size(); ++i) {
    certificates[i].name = "peer-" + std::to_string(i);
  }
  const std::vector<Revocation> revocations(3);
  const std::string text = certificates_text(swarm.public_key, certificates, revocations);
  const auto read = certificates_from_text(text);
  REQUIRE(read);
  CHECK(read->swarm == swarm.public_key);
  CHECK(read->certificates == certificates);
  CHECK(read->revocations == revocations);
  for (std::size_t length = 0; length < text.size(); length += 997) {
    const auto cut = certificates_from_text(text.substr(0, length));
    CHECK((!cut || text[length - 1] == '\n'));
  }
  CHECK_FALSE(certificates_from_text("swarm nonsense\n"));
}

TEST_CASE("keys and certificates of a swarm are in one folder which only we may read") {
  const TemporaryFolder scratch;
  CHECK_FALSE(has_swarm(scratch.path()));
  const LoadedKeyPair key = keep_swarm_key(scratch.path(), "key");
  const LoadedKeyPair swarm_key = keep_swarm_key(scratch.path(), "swarm_key");
  REQUIRE(key.problems.empty());
  REQUIRE(swarm_key.problems.empty());
  const KeyPair own = key.pair, swarm = swarm_key.pair;
  REQUIRE(write_certificates(scratch.path(), swarm.public_key, {}, {}));
  CHECK(has_swarm(scratch.path()));
  const SwarmFiles files = read_swarm(scratch.path());
  CHECK(files.problems.empty());
  CHECK(files.identity.public_key == own.public_key);
  REQUIRE(files.swarm_key);
  CHECK(files.swarm_key->public_key == swarm.public_key);
  // Keys are never replaced: after an interrupted start, the next start uses the same keys.
  CHECK(keep_swarm_key(scratch.path(), "key").pair.public_key == own.public_key);
  const auto others_may = [&](const std::filesystem::path& path) {
    using std::filesystem::perms;
    const perms others = perms::group_all | perms::others_all;
    return (std::filesystem::status(path).permissions() & others) != perms::none;
  };
  CHECK_FALSE(others_may(swarm_folder(scratch.path())));
  CHECK_FALSE(others_may(swarm_folder(scratch.path()) / "certificates"));
  std::ofstream(swarm_folder(scratch.path()) / "certificates") << "torn";
  CHECK_FALSE(read_swarm(scratch.path()).problems.empty());
}

TEST_CASE("a ticket admits as many machines as it says for as long as it says") {
  const TemporaryFolder scratch;
  const std::filesystem::path file = scratch.path() / "tickets";
  const PublicKey swarm = generate_key_pair().public_key, own = generate_key_pair().public_key;
  const PublicKey one = generate_key_pair().public_key, two = generate_key_pair().public_key;
  const std::string here = "192.0.2.1:7000";
  TicketBook book(file);
  const Ticket ticket = *book.make({.uses = 1, .valid_s = 60}, here, swarm, own, start_s);
  const PublicKey guest = guest_keys(ticket).public_key;
  CHECK(book.refusal(guest, one, start_s).empty());
  book.use(guest, one);
  CHECK(book.refusal(guest, two, start_s) == "the ticket has been used");
  // A guest that did not receive the answer may ask again, even after the answering peer restarts.
  TicketBook again(file);
  CHECK(again.refusal(guest, one, start_s + 100).empty());
  CHECK(again.refusal(guest, two, start_s) == "the ticket has been used");
  CHECK(again.refusal(guest, two, start_s + 60) == "the ticket has expired");
  CHECK(again.refusal(two, two, start_s) == "this peer does not know the ticket");
  CHECK(again.guests(start_s + 3600).size() == 1);
  CHECK_FALSE(again.open_ticket(here, start_s));
  (void)again.make({.uses = 3, .valid_s = 600}, here, swarm, own, start_s);
  const Ticket longest = *again.make({.uses = 2, .valid_s = 900}, here, swarm, own, start_s);
  again.use(guest_keys(longest).public_key, one);
  REQUIRE(again.open_ticket(here, start_s + 60));
  CHECK(again.open_ticket(here, start_s + 60)->uses_left == 1);
  CHECK(again.open_ticket(here, start_s + 60)->left_s == 840);
  again.use(guest_keys(longest).public_key, two);
  CHECK(again.open_ticket(here, start_s + 60)->left_s == 540);
  CHECK_FALSE(again.open_ticket(here, start_s + 600));
  CHECK(again.guests(start_s + 2 * 86'400).empty());
  for (std::size_t i = 0; i < 2 * tickets_max; ++i) {
    (void)again.make({}, here, swarm, own, start_s);
  }
  CHECK(again.guests(start_s).size() == tickets_max);
}

TEST_CASE("a full book forgets tickets that admit no more machines and no others") {
  const TemporaryFolder scratch;
  const PublicKey swarm = generate_key_pair().public_key, own = generate_key_pair().public_key;
  const PublicKey one = generate_key_pair().public_key;
  TicketBook book(scratch.path() / "tickets");
  const auto make = [&](std::uint64_t at_s, std::uint64_t valid_s = 3600) {
    return book.make({.uses = 1, .valid_s = valid_s}, "192.0.2.1:7000", swarm, own, at_s);
  };
  const Ticket first = *make(start_s, 60);
  const Ticket used = *make(start_s);
  for (std::size_t i = 2; i < tickets_max; ++i) REQUIRE(make(start_s));
  // All tickets are open, so none may be forgotten.
  CHECK_FALSE(make(start_s));
  CHECK(book.refusal(guest_keys(first).public_key, one, start_s).empty());
  book.use(guest_keys(used).public_key, one);
  CHECK(make(start_s));
  CHECK_FALSE(book.knows(guest_keys(used).public_key));
  CHECK_FALSE(make(start_s));
  CHECK(make(start_s + 60));
  CHECK_FALSE(book.knows(guest_keys(first).public_key));
}

TEST_CASE("a ticket with which a revoked peer joined admits no more machines") {
  const TemporaryFolder scratch;
  const PublicKey swarm = generate_key_pair().public_key, own = generate_key_pair().public_key;
  const PublicKey one = generate_key_pair().public_key, two = generate_key_pair().public_key;
  const std::string here = "192.0.2.1:7000";
  bool is_revoked = false;
  TicketBook book(scratch.path() / "tickets",
                  [&](const PublicKey& key) { return is_revoked && key == one; });
  const Ticket ticket = *book.make({.uses = 3}, here, swarm, own, start_s);
  const PublicKey guest = guest_keys(ticket).public_key;
  book.use(guest, one);
  book.use(guest, two);
  const PublicKey next = generate_key_pair().public_key;
  CHECK(book.refusal(guest, next, start_s).empty());
  is_revoked = true;
  CHECK(book.refusal(guest, next, start_s) ==
        "a peer that joined with the ticket has been revoked");
  CHECK_FALSE(book.open_ticket(here, start_s));
  // A machine that has joined may not have received the answer, so it may still ask again.
  CHECK(book.refusal(guest, two, start_s).empty());
}

TEST_CASE("a peer that shares a shard because all have owners is told how to get one back") {
  Config config;
  config.run.peers = 4;
  config.data.partition.kind = PartitionKind::iid;
  CHECK(shared_shard(config, 3).empty());
  CHECK(shared_shard(config, 5).find("shares shard 1; if it replaces a machine that is gone, "
                                     "revoke that machine's name first") != std::string::npos);
  config.data.partition.kind = PartitionKind::leased;
  CHECK(shared_shard(config, 5).empty());
}

TEST_CASE("a name that is not UTF-8 is asked about like any other") {
  const SwarmCommand asked = read_swarm_command(swarm_command_text({.revoke = "peer\xff"}));
  CHECK(asked.revoke == "peer\xEF\xBF\xBD");
}

TEST_CASE("an earlier ticket counts only at the address that it names") {
  const TemporaryFolder scratch;
  const std::filesystem::path file = scratch.path() / "tickets";
  const PublicKey swarm = generate_key_pair().public_key, own = generate_key_pair().public_key;
  const PublicKey one = generate_key_pair().public_key;
  const std::string here = "192.0.2.1:7000", there = "192.0.2.2:7000";
  TicketBook book(file);
  const Ticket ticket = *book.make({.uses = 2, .valid_s = 60}, here, swarm, own, start_s);
  const PublicKey guest = guest_keys(ticket).public_key;
  book.use(guest, one);
  const TicketBook again(file);
  CHECK(again.open_ticket(here, start_s));
  CHECK_FALSE(again.open_ticket(there, start_s));
  CHECK(again.refusal(guest, one, start_s + 60).empty());

  // Earlier versions of the program stored no address with a ticket.
  std::ofstream(file) << to_text(guest) << " 2 " << start_s + 60 << " 1 " << to_text(one) << "\n";
  const TicketBook old(file);
  CHECK_FALSE(old.open_ticket(here, start_s));
  CHECK(old.refusal(guest, own, start_s).empty());
  CHECK(old.refusal(guest, one, start_s + 60).empty());
}

TEST_CASE("a peer that joined and has lost the config of its swarm is told the file") {
  const TemporaryFolder scratch;
  const KeyPair swarm = generate_key_pair(), own = keep_swarm_key(scratch.path(), "key").pair;
  const auto now_s = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const Certificate certificate =
      certificate_of(swarm, own, "laptop", static_cast<std::uint64_t>(now_s.count()) + 3600);
  REQUIRE(write_certificates(scratch.path(), swarm.public_key, {certificate}, {}));
  const std::filesystem::path config = swarm_folder(scratch.path()) / "config.toml";
  std::ofstream(config) << "";
  SwarmArguments arguments;
  arguments.folder = scratch.path().string();
  HostOptions options;
  const Problems problems = prepare_to_join(arguments, to_text(ticket_of(swarm)), options);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].place == config.string());
  CHECK(problems[0].reason.find("is empty") != std::string::npos);
}

TEST_CASE("a peer that was away past the end of its certificate is told so with the remedy") {
  const TemporaryFolder scratch;
  const KeyPair swarm = generate_key_pair(), own = keep_swarm_key(scratch.path(), "key").pair;
  const Certificate over = certificate_of(swarm, own, "laptop", 1'000'000'000);
  REQUIRE(write_certificates(scratch.path(), swarm.public_key, {over}, {}));
  const Ticket ticket = ticket_of(swarm);
  SwarmArguments arguments;
  arguments.folder = scratch.path().string();
  HostOptions options;
  const Problems problems = prepare_to_join(arguments, to_text(ticket), options);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].reason.find("the certificate of this peer expired ") == 0);
  CHECK(problems[0].remedy == "join with a new ticket and another --folder, or set the clock");
  // The first peer may have put the swarm's key elsewhere.
  arguments.host.listen = "127.0.0.1:0";
  CHECK(prepare_to_create(arguments, options).size() == 1);
}

TEST_CASE("a first peer whose clock is far behind is refused and keeps its certificates") {
  const TemporaryFolder scratch;
  const KeyPair own = keep_swarm_key(scratch.path(), "key").pair;
  const KeyPair swarm = keep_swarm_key(scratch.path(), "swarm_key").pair;
  const KeyPair other = generate_key_pair();
  // This test assumes that the machine's clock is before the year 2096.
  constexpr std::uint64_t made_s = 4'000'000'000;
  const Certificate later = certificate_of(swarm, own, "first", made_s + certificate_lifetime_s);
  Revocation revocation{.swarm = swarm.public_key,
                        .issuer = swarm.public_key,
                        .key = other.public_key,
                        .signed_s = made_s};
  revocation.signature = KeySigner(swarm, {}).sign(signed_bytes(revocation));
  SwarmArguments arguments;
  arguments.folder = scratch.path().string();
  arguments.host.listen = "127.0.0.1:0";
  for (const bool has_certificate : {true, false}) {
    std::vector<Certificate> certificates;
    if (has_certificate) certificates.push_back(later);
    REQUIRE(write_certificates(scratch.path(), swarm.public_key, certificates, {revocation}));
    HostOptions options;
    const Problems problems = prepare_to_create(arguments, options);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].reason.find("this machine's clock says 20") == 0);
    CHECK(problems[0].reason.find("was made at 2096-10-02 07:06:40 UTC") != std::string::npos);
    CHECK(problems[0].remedy.find("set the clock; if it is right, remove ") == 0);
    CHECK_FALSE(options.swarm);
    const SwarmFiles files = read_swarm(scratch.path());
    CHECK(files.certificates == certificates);
    CHECK(files.revocations.size() == 1);
  }
  // Without the certificates file, the peer begins with the same keys.
  std::filesystem::remove(swarm_folder(scratch.path()) / "certificates");
  HostOptions options;
  REQUIRE(prepare_to_create(arguments, options).empty());
  REQUIRE(options.swarm);
  CHECK(options.swarm->swarm == swarm.public_key);
  CHECK(options.identity.public_key == own.public_key);
}

TEST_CASE("a peer that joined and whose clock is far behind is told both times") {
  const TemporaryFolder scratch;
  const KeyPair swarm = generate_key_pair(), own = keep_swarm_key(scratch.path(), "key").pair;
  const Certificate later = certificate_of(swarm, own, "laptop", 4'000'000'000);
  REQUIRE(write_certificates(scratch.path(), swarm.public_key, {later}, {}));
  const Ticket ticket = ticket_of(swarm);
  SwarmArguments arguments;
  arguments.folder = scratch.path().string();
  HostOptions options;
  const Problems problems = prepare_to_join(arguments, to_text(ticket), options);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].reason.find("this machine's clock says 20") == 0);
  CHECK(problems[0].remedy ==
        "set the clock; if it is right, join with a new ticket and another --folder");
}

TEST_CASE("a machine that joins for the first time with its clock far behind is told both times") {
  const TemporaryFolder scratch;
  const KeyPair swarm = generate_key_pair(), inviter = generate_key_pair();
  asio::io_context io;
  ControlLinks links(
      io, {.identity = inviter, .name = "inviter", .listen = "127.0.0.1:0", .session = 1},
      {.message = [](const Envelope&) {},
       .invite = [](PeerId, const LaneInvite&) {},
       .contact = [](PeerId) {},
       .restarted = [](PeerId) {},
       .fact = [](const Fact&) {},
       .join = [&](const PublicKey&, const JoinRequest& request) -> std::optional<JoinAnswer> {
         const KeyPair guest{.public_key = request.key, .secret_key = {}};
         return JoinAnswer{
             .certificates = {certificate_of(swarm, guest, request.name, 4'000'000'000)},
             .config = {"[run]\nsteps = 5\n"}};
       },
       .shown = [](const Certificates&) {}});
  Ticket ticket = ticket_of(swarm);
  ticket.addresses = {links.listening()};
  ticket.inviter = inviter.public_key;
  links.admit_guests({guest_keys(ticket).public_key});
  std::atomic<bool> is_over = false;
  std::thread thread([&] {
    while (!is_over) io.run_one_for(std::chrono::milliseconds(5));
  });
  SwarmArguments arguments;
  arguments.folder = scratch.path().string();
  arguments.host.quiet = true;
  HostOptions options;
  const Problems problems = prepare_to_join(arguments, to_text(ticket), options);
  is_over = true;
  thread.join();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].reason.find("this machine's clock says 20") == 0);
}

TEST_CASE("an address that is too long for a ticket is refused before the peer starts") {
  const TemporaryFolder scratch;
  SwarmArguments arguments;
  arguments.folder = scratch.path().string();
  arguments.host.listen = "127.0.0.1:0";
  HostOptions options;
  for (const std::size_t length : {253U, 252U, 251U, 249U}) {
    arguments.host.advertise = std::string(length, 'a') + ":0";
    const Problems problems = prepare_to_create(arguments, options);
    CHECK(problems.empty() == (length == 249));
    if (!problems.empty()) CHECK(problems[0].reason == "the address is too long for a ticket");
  }
}

TEST_CASE("a machine whose keys are removed after a theft begins a new swarm with its model") {
  const TemporaryFolder scratch;
  SwarmArguments arguments;
  arguments.folder = scratch.path().string();
  arguments.host.listen = "127.0.0.1:0";
  HostOptions first, again;
  REQUIRE(prepare_to_create(arguments, first).empty());
  CHECK_FALSE(first.resume);
  std::filesystem::create_directories(scratch.path() / "checkpoints");
  std::filesystem::remove_all(swarm_folder(scratch.path()));
  REQUIRE(prepare_to_create(arguments, again).empty());
  CHECK(again.resume);
  REQUIRE((first.swarm && again.swarm));
  CHECK(first.swarm->swarm != again.swarm->swarm);
  CHECK(first.identity.public_key != again.identity.public_key);
}

TEST_CASE("a config from a ticket reads data below the run folder and no others unless told") {
  const auto is_refused = [](const Config& config, const std::string& data) {
    return !problems_of_places(config, "/home/me/run", data).empty();
  };
  CHECK_FALSE(is_refused(config_with("/home/me/run/data", "a.txt"), ""));
  CHECK_FALSE(is_refused(config_with("/usr/share/datasets/x", "a.txt"), ""));
  CHECK(is_refused(config_with("/home/me/run/../.ssh", "id_rsa"), ""));
  CHECK(is_refused(config_with("/home/me/running", "a.txt"), ""));
  CHECK(is_refused(config_with("/etc", "passwd"), ""));
  CHECK_FALSE(is_refused(config_with("/data", "a.txt"), "/data"));
  // Allowing one folder does not allow any other.
  CHECK(is_refused(config_with("/data", "../etc/passwd"), "/data"));
  CHECK(is_refused(config_with("/data", "/etc/passwd"), "/data"));
  // No config may read the peer's own keys, even if their folder is allowed.
  CHECK(is_refused(config_with("/home/me/run/swarm", "key"), ""));
  CHECK(is_refused(config_with("/home/me/run", "swarm/key"), ""));
  CHECK(is_refused(config_with("/home/me/run/./data/../swarm", "key"), "/home/me/run/swarm"));
  CHECK_FALSE(is_refused(config_with("/home/me/run", "swarm-data/a.txt"), ""));
  Config clusters = config_with("/data", "a.txt");
  clusters.data.centres = "/data/centres.safetensors";
  CHECK_FALSE(is_refused(clusters, "/data"));
  clusters.data.centres = "/etc/passwd";
  CHECK(is_refused(clusters, "/data"));
}

TEST_CASE("commands about tickets are read as they were written and others are left alone") {
  const SwarmCommand invite =
      read_swarm_command(swarm_command_text({.invite = TicketTerms{3, 77, false}}));
  REQUIRE(invite.invite);
  CHECK(invite.invite->uses == 3);
  CHECK(invite.invite->valid_s == 77);
  CHECK_FALSE(invite.invite->may_invite);
  const SwarmCommand revoke =
      read_swarm_command(swarm_command_text({.revoke = "laptop", .with_invited = true}));
  CHECK(revoke.revoke == "laptop");
  CHECK(revoke.with_invited);
  // An empty name must not turn the command into one for a ticket.
  CHECK_FALSE(read_swarm_command(swarm_command_text({.revoke = ""})).invite);
  for (const char* text : {"", "{}", "[]", "{\"switch\": \"\"}", "{\"revoke\": 3}",
                           "{\"invite\": 3}", "{\"invite\": {\"uses\": \"x\"}}"}) {
    const SwarmCommand other = read_swarm_command(text);
    CHECK_FALSE(other.invite);
    CHECK(other.revoke.empty());
  }
}

}  // namespace gv
