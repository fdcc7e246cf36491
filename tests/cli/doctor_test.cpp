// `grapevine doctor`: how it judges the states a machine can be in, without needing such machines.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/diagnosis.hpp"
#include "cli/doctor/judgement.hpp"
#include "peer/host/network_options.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

bool says(const Diagnosis& line, const std::string& words) {
  return (line.text + "; " + line.remedy).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("what is not ok says what mends it", "[unit]") {
  const Diagnoses bad = {
      judge(FileMode{.path = "authorized_peers", .others_write = true}),
      judge(ClockState{.is_synchronised = false}),
      judge(ClockState{.is_synchronised = true, .error = 5s}),
      judge(PortState{.purpose = "lanes", .address = "127.0.0.1:7001", .error = EADDRINUSE}),
      judge(PortState{.purpose = "lanes", .address = "127.0.0.1:71", .error = EACCES}),
      judge(PortState{.purpose = "lanes", .address = "192.0.2.9:1", .error = EADDRNOTAVAIL}),
      judge(PortState{.purpose = "lanes", .address = "nowhere:1", .unresolved = "unknown"}),
      judge(DescriptorLimit{.most = 20, .partners = 1}),
      judge(DescriptorLimit{.most = 64, .partners = 15}),
      judge(SharedMemoryState{.works = false}),
      judge(MemoryState{.available_bytes = 1 << 20, .parameters = 1000, .copies = 6}),
      judge(DiskState{.folder = "/runs", .is_writable = false}),
      judge_lane_port({.address = "a:1", .outcome = Connection::Outcome::refused, .why = "no"}),
      judge(Handshake{.outcome = Handshake::Outcome::unknown, .address = "a:1"}),
      judge(Handshake{.outcome = Handshake::Outcome::unknown, .address = "a:1", .by_ticket = true}),
      judge(Handshake{.outcome = Handshake::Outcome::refused, .address = "a:1", .by_ticket = true}),
      judge(TicketState{.expires_s = 1000, .now_s = 1000}),
      judge(RelayedMember{.name = "third", .relay = "first"}),
      judge(CertificateState{.now_s = 1000}).front(),
      judge(PeerClock{.theirs_us = 5'000'000, .ours_us = 1'000'000}),
      judge(LaneSpeed{.round_trip = 1ms, .bits_per_second = 4e6, .expected_bits = 1e7}),
      judge(DialledBack{.purpose = "lanes", .port = 7001, .outcome = DialOutcome::refused}),
      judge(DialledBack{.purpose = "lanes", .port = 7001, .outcome = DialOutcome::silent}),
      judge(DialledBack{.purpose = "lanes", .port = 7001, .outcome = DialOutcome::unreachable}),
      judge(DialledBack{.port = 7001, .outcome = DialOutcome::connected, .is_elsewhere = true})};
  for (const Diagnosis& line : bad) {
    INFO(line.text);
    CHECK(line.health != Health::ok);
    CHECK_FALSE(line.remedy.empty());
  }
}

TEST_CASE("a limit of descriptors is judged by the number of partners", "[unit]") {
  CHECK(judge(DescriptorLimit{.most = descriptors_for(1) - 1, .partners = 1}).health ==
        Health::error);
  CHECK(judge(DescriptorLimit{.most = descriptors_for(3), .partners = 3}).health == Health::ok);
  CHECK(judge(DescriptorLimit{.most = descriptors_for(3), .partners = 4}).health ==
        Health::warning);
}

TEST_CASE("TCP buffers have to hold four times bandwidth times round trip", "[unit]") {
  // 1 Gbit/s times 50 ms is 6.25 MB.
  TcpBuffers buffers{.receive = BufferLimit{4096, 131072, 25000000},
                     .send = BufferLimit{4096, 16384, 24999999}};
  const Diagnoses found = judge(buffers);
  REQUIRE(found.size() == 2);
  CHECK(found[0].health == Health::ok);
  CHECK(found[1].health == Health::warning);
  CHECK(says(found[1], "sysctl -w net.ipv4.tcp_wmem='4096 16384 25000000'"));
  buffers.round_trip = 1ms;
  for (const Diagnosis& line : judge(buffers)) CHECK(line.health == Health::ok);
  for (const Diagnosis& line : judge(TcpBuffers{})) CHECK(line.health == Health::warning);
}

TEST_CASE("a port that the given folder's own peer uses is no error", "[unit]") {
  PortState port{.purpose = "control links", .address = "127.0.0.1:7000", .error = EADDRINUSE};
  CHECK(judge(port).health == Health::error);
  CHECK(says(judge(port), "sport = :7000"));
  port.is_ours = true;
  CHECK(judge(port).health == Health::ok);
}

TEST_CASE("memory is judged by parameters times copies", "[unit]") {
  // Six copies of a million floats take 24 MB, and the program takes 64 MiB.
  constexpr std::uint64_t needed = 24000000 + (64 << 20);
  MemoryState memory{.available_bytes = needed, .parameters = 1000000, .copies = 6};
  CHECK(judge(memory).health == Health::ok);
  memory.available_bytes = needed - 1;
  CHECK(judge(memory).health == Health::error);
}

TEST_CASE("a disk has to hold all checkpoints, and must hold one", "[unit]") {
  DiskState disk{.folder = "/runs",
                 .is_writable = true,
                 .free_bytes = 400,
                 .checkpoint_bytes = 100,
                 .checkpoints = 4};
  CHECK(judge(disk).health == Health::ok);
  disk.log_bytes = 1;
  CHECK(judge(disk).health == Health::warning);
  disk.free_bytes = 99;
  CHECK(judge(disk).health == Health::error);
}

TEST_CASE("more training threads than processors are a warning", "[unit]") {
  const auto worst = [](const Diagnoses& found) {
    return std::ranges::max_element(found, {}, &Diagnosis::health)->health;
  };
  CHECK(worst(judge(ProcessorState{.usable = 4, .has_avx2 = true, .threads = 4})) == Health::ok);
  CHECK(worst(judge(ProcessorState{.usable = 2, .has_avx2 = true, .threads = 4})) ==
        Health::warning);
  CHECK(worst(judge(ProcessorState{.usable = 4, .threads = 1})) == Health::warning);
  CHECK(worst(judge(ProcessorState{.usable = 4, .is_x86 = false})) == Health::ok);
}

TEST_CASE("each way in which a peer cannot be dialled has its own remedy", "[unit]") {
  using Outcome = Connection::Outcome;
  std::set<std::string> remedies;
  for (const Outcome outcome :
       {Outcome::refused, Outcome::silent, Outcome::unreachable, Outcome::unresolved}) {
    const Diagnoses found =
        judge_control_port({.address = "192.0.2.1:7000", .outcome = outcome, .why = "why"});
    REQUIRE(found.size() == 1);
    CHECK(found.front().health == Health::error);
    CHECK(remedies.insert(found.front().remedy).second);
  }
}

TEST_CASE("a port that answers but does not greet is not taken for a control port", "[unit]") {
  Connection connection{
      .address = "192.0.2.1:7000", .outcome = Connection::Outcome::connected, .round_trip = 80ms};
  CHECK(judge_control_port(connection).front().health == Health::error);
  connection.greets = true;
  const Diagnoses found = judge_control_port(connection);
  REQUIRE(found.size() == 2);
  CHECK(found[0].health == Health::ok);
  CHECK(says(found[1], "80 ms"));
}

TEST_CASE("a ticket that has expired and a clock that is wrong are named with both times",
          "[unit]") {
  constexpr std::uint64_t noon = 1'767'268'800;
  const Diagnosis late = judge(TicketState{.expires_s = noon, .now_s = noon + 3600});
  CHECK(late.health == Health::error);
  CHECK(says(late, "2026-01-01 12:00:00 UTC"));
  CHECK(says(late, "2026-01-01 13:00:00 UTC"));
  CHECK(judge(TicketState{.expires_s = noon + 3600, .now_s = noon}).health == Health::ok);
  // No ticket is valid for longer than a certificate.
  const Diagnosis early = judge(TicketState{.expires_s = noon + 86'400 * 60, .now_s = noon});
  CHECK(early.health == Health::warning);

  CertificateState state{
      .name = "laptop", .expires_s = noon + 86'400, .now_s = noon, .seen_s = noon + 3600};
  const Diagnoses behind = judge(state);
  REQUIRE(behind.size() == 2);
  CHECK(behind[0].health == Health::error);
  CHECK(says(behind[0], "2026-01-01 12:00:00 UTC"));
  CHECK(says(behind[0], "2026-01-01 13:00:00 UTC"));
  CHECK(behind[1].health == Health::ok);
  state.seen_s = noon + 30;
  CHECK(judge(state).size() == 1);
  state.expires_s = noon;
  CHECK(judge(state).front().health == Health::error);
}

TEST_CASE("two clocks are compared beyond what the way between them hides", "[unit]") {
  constexpr std::uint64_t noon_us = 1'767'268'800'000'000;
  PeerClock clock{.theirs_us = noon_us + 1'200'000, .ours_us = noon_us, .uncertainty = 300ms};
  CHECK(judge(clock).health == Health::ok);
  clock.uncertainty = 100ms;
  CHECK(judge(clock).health == Health::warning);
  // The clocks are an hour apart, which is too far for certificates.
  clock.theirs_us = noon_us - 3'600'000'000;
  CHECK(judge(clock).health == Health::warning);
  clock.has_certificates = true;
  const Diagnosis apart = judge(clock);
  CHECK(apart.health == Health::error);
  CHECK(says(apart, "2026-01-01 12:00:00 UTC"));
  CHECK(says(apart, "2026-01-01 11:00:00 UTC"));
}

TEST_CASE("a clock that shows an absurd time is never called equal", "[unit]") {
  constexpr std::uint64_t noon_us = 1'767'268'800'000'000;
  // The first is ahead by as many nanoseconds as 64 bits have values, and 384 more.
  for (const std::uint64_t theirs_us :
       {noon_us + 18'446'744'073'709'552, std::uint64_t{1} << 63, ~std::uint64_t{}}) {
    PeerClock clock{.theirs_us = theirs_us, .ours_us = noon_us, .uncertainty = 1ms};
    CHECK(judge(clock).health == Health::warning);
    clock.has_certificates = true;
    CHECK(judge(clock).health == Health::error);
  }
}

TEST_CASE("a measured lane is shown with the time for the model", "[unit]") {
  // The model takes 4 MB, and the lane carries 8 Mbit/s.
  const Diagnosis found =
      judge(LaneSpeed{.round_trip = 80ms, .bits_per_second = 8e6, .model_bytes = 4'000'000});
  CHECK(found.health == Health::ok);
  CHECK(says(found, "round trip 80 ms, 8 Mbit/s"));
  CHECK(says(found, "takes 4 s"));
  // If the measurement itself sets the limit, the link is not to blame.
  CHECK(
      judge(LaneSpeed{.bits_per_second = 1e9, .is_bounded = true, .expected_bits = 1e10}).health ==
      Health::ok);
}

TEST_CASE("a refused handshake gives the line that the other side needs", "[unit]") {
  const Diagnosis found = judge(Handshake{.outcome = Handshake::Outcome::refused,
                                          .address = "192.0.2.1:7000",
                                          .name = "node",
                                          .own_line = "laptop ed25519:abc"});
  CHECK(found.health == Health::error);
  CHECK(says(found, "laptop ed25519:abc"));
}

TEST_CASE("warnings alone leave the exit code at zero", "[unit]") {
  Diagnoses found{{.check = "a"}, {.check = "b", .health = Health::warning, .remedy = "mend"}};
  CHECK(exit_code_of(found) == 0);
  CHECK(to_text(found).find("1 ok, 1 warning, 0 errors") != std::string::npos);
  found.push_back({.check = "c", .health = Health::error, .text = "broken", .remedy = "mend"});
  CHECK(exit_code_of(found) == 1);
  const auto document = nlohmann::json::parse(to_json(found));
  CHECK(document.at("healthy") == false);
  REQUIRE(document.at("lines").size() == 3);
  CHECK(document.at("lines").at(2).at("health") == "error");
  CHECK(document.at("lines").at(2).at("text") == "broken");
}

TEST_CASE("text from others cannot move the cursor", "[unit]") {
  const Diagnoses found{{.check = "a", .text = "name\x1b[2J\nok"}};
  CHECK(to_text(found).find('\x1b') == std::string::npos);
  CHECK(to_json(found).find("\\n") == std::string::npos);
  // Bytes that are not valid UTF-8 would make the document unreadable.
  const auto document = nlohmann::json::parse(to_json({{.check = "a", .text = "out\xff: no"}}));
  CHECK(document.at("lines").at(0).at("text") == "out\xEF\xBF\xBD: no");
}

TEST_CASE("a disk without a byte is an error even if no config names the model", "[unit]") {
  DiskState disk{.folder = "/runs", .is_writable = true, .checkpoint_bytes = 100'000};
  CHECK(judge(disk).health == Health::error);
  disk.free_bytes = 99'999;
  CHECK(judge(disk).health == Health::error);
  disk.free_bytes = 100'000;
  CHECK(judge(disk).health == Health::ok);
  disk.checkpoint_bytes = 0;
  disk.free_bytes = 0;
  CHECK(says(judge(disk), "too little for a checkpoint"));
}

TEST_CASE("the folder of a whole run is refused with that of a peer", "[unit]") {
  const TemporaryFolder run;
  std::filesystem::create_directory(run.path() / "peer-0");
  Problems problems;
  admit({.subjects = {run.path().string()}}, problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().remedy.ends_with((run.path() / "peer-0").string()));
}

TEST_CASE("every check has a name of its own", "[unit]") {
  std::set<std::string_view> names;
  for (const Check& check : doctor_checks()) CHECK(names.insert(check.name).second);
}

TEST_CASE("a subject that cannot be anything is refused with what it could be", "[unit]") {
  Problems problems;
  admit({.subjects = {"no/such/file"}}, problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().place == "no/such/file");
  CHECK(problems.front().remedy.find("HOST:PORT") != std::string::npos);
  problems.clear();
  admit({.subjects = {"192.0.2.1:7000", "node@192.0.2.2:7000"}}, problems);
  CHECK(problems.size() == 1);
  problems.clear();
  const Patient patient = admit({.subjects = {"node@192.0.2.2:7000"}}, problems);
  CHECK(problems.empty());
  CHECK(patient.other.name == "node");
  CHECK(patient.other.address == "192.0.2.2:7000");
}

TEST_CASE("data are looked for where the person says", "[unit]") {
  const TemporaryFolder folder;
  const std::string config = folder.path() / "config.toml";
  std::ofstream(config) << "[data]\nkind = \"csv\"\nfolder = \"elsewhere\"\n[run]\npeers = 1\n";
  std::filesystem::create_directory(folder.path() / "here");
  for (const char* name : {"train.csv", "test.csv"}) {
    std::ofstream(folder.path() / "here" / name) << "1,0\n2,1\n";
  }
  Problems problems;
  CHECK_FALSE(admit({.subjects = {config}}, problems).run.is_sound());
  const std::string data = folder.path() / "here";
  const Patient patient = admit({.subjects = {config}, .data = data}, problems);
  CHECK(problems.empty());
  CHECK(patient.run.is_sound());
  CHECK(patient.run.data_problems.empty());
}

TEST_CASE("doctor refuses data outside of a joined peer's folder unless it is told", "[unit]") {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder.path() / "run", data = folder.path() / "data";
  std::filesystem::create_directory(data);
  for (const char* name : {"train.csv", "test.csv"}) std::ofstream(data / name) << "1,0\n2,1\n";
  REQUIRE(keep_swarm_key(run, "key").problems.empty());
  REQUIRE(write_certificates(run, generate_key_pair().public_key, {}, {}));
  std::ofstream(swarm_folder(run) / "config.toml")
      << "[data]\nkind = \"csv\"\nfolder = \"" << data.string() << "\"\n[run]\npeers = 1\n";
  Problems problems;
  const Patient refused = admit({.subjects = {run.string()}}, problems);
  REQUIRE(refused.run.data_problems.size() == 1);
  CHECK(refused.run.data_problems.front().remedy.find("--data FOLDER") != std::string::npos);
  CHECK(refused.run.data_problems.front().place.find("config.toml:3") != std::string::npos);
  const Patient allowed = admit({.subjects = {run.string()}, .data = data.string()}, problems);
  CHECK(problems.empty());
  CHECK(allowed.run.is_sound());
  CHECK(allowed.run.data_problems.empty());

  // First the peer was started with this data folder. Later, it was started by a program that has
  // the data.
  REQUIRE(write_data_place(run, {.folder = data.string()}));
  const Patient started = admit({.subjects = {run.string()}}, problems);
  CHECK(started.run.data_problems.empty());
  CHECK(started.run.parameters == allowed.run.parameters);
  REQUIRE(write_data_place(run, {.folder = {}, .is_in_program = true}));
  std::filesystem::remove_all(data);
  const Patient program = admit({.subjects = {run.string()}}, problems);
  CHECK(problems.empty());
  CHECK(program.run.is_sound());
  CHECK(program.run.data_problems.empty());
  CHECK(program.run.is_data_in_program);
}

}  // namespace gv
