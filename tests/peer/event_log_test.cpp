// The event log and its limits.
#include "peer/host/event_log.hpp"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

struct Folder : TemporaryFolder {
  EventLog::Options options(std::uint64_t bytes_max = 1 << 20) const {
    return {.folder = path(), .bytes_max = bytes_max, .name_of = [](PeerId peer) {
              return to_string(peer);
            }};
  }
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> all;
    for (const auto& file : event_files(path())) {
      std::ifstream in(file);
      for (std::string line; std::getline(in, line);) {
        all.push_back(nlohmann::json::parse(line, nullptr, false));
      }
    }
    return all;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path())) sum += entry.file_size();
    return sum;
  }
};

/// Limits the size of every file that this process writes, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const ::rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  ::rlimit before_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

const Fact refusal = OfferRefused{.peer = PeerId{7}, .reason = Reason::busy};

}  // namespace

TEST_CASE("an event log stays within its size and keeps the newest lines", "[unit]") {
  const Folder folder;
  for (std::uint64_t begun = 0; begun < 2; ++begun) {
    EventLog log(folder.options(40000));
    for (std::uint64_t step = 0; step < 2000; ++step) {
      log.write(Time{}, BudgetDone{.step = 2000 * begun + step});
      CHECK(folder.bytes() <= 40000);
    }
  }
  CHECK(event_files(folder.path()).size() == 4);
  const auto lines = folder.lines();
  REQUIRE(lines.size() > 200);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i].value("step", 0.0) == 4000.0 - static_cast<double>(lines.size() - i));
  }
}

TEST_CASE("of refusals that concern one peer ten a minute have a line and the rest are counted",
          "[unit]") {
  const Folder folder;
  {
    // The names come from an object that is destroyed before the log, so the destructor must not
    // ask for any.
    bool is_over = false;
    EventLog::Options options = folder.options();
    options.name_of = [&is_over](PeerId peer) {
      CHECK_FALSE(is_over);
      return to_string(peer);
    };
    EventLog log(std::move(options));
    for (int i = 0; i < 1000; ++i) log.write(Time{} + 1ms * i, refusal);
    CHECK(folder.lines().size() == 10);
    // Other kinds of facts, and refusals of offers from other peers, are still written.
    log.write(Time{} + 2s, OfferRefused{.peer = PeerId{8}, .reason = Reason::busy});
    log.write(Time{} + 2s, MemberSuspected{.peer = PeerId{7}});
    CHECK(folder.lines().size() == 12);
    log.write(Time{} + 61s, refusal);
    REQUIRE(folder.lines().size() == 14);
    CHECK(folder.lines()[12].value("left_out", 0) == 990);
    for (int i = 0; i < 19; ++i) log.write(Time{} + 62s, refusal);
    CHECK(log.counts().of<OfferRefused>() == 1021);
    is_over = true;
  }
  // Facts that are still left out at the end are counted too.
  CHECK(folder.lines().back().value("left_out", 0) == 10);
}

TEST_CASE("a peer that is accused without end fills no log", "[unit]") {
  const Folder folder;
  EventLog log(folder.options());
  for (int i = 0; i < 1000; ++i) {
    log.write(Time{} + 1ms * i, SelfRefuted{.held_for = MemberState::dead, .incarnation = 7});
  }
  REQUIRE(folder.lines().size() == 10);
  CHECK(log.counts().of<SelfRefuted>() == 1000);
  log.write(Time{} + 61s, MemberSuspected{.peer = PeerId{7}});
  const auto lines = folder.lines();
  REQUIRE(lines.size() == 12);
  CHECK(lines[10].value("event", "") == "self_refuted");
  CHECK(lines[10].value("left_out", 0) == 990);
  CHECK_FALSE(lines[10].contains("peer"));
}

TEST_CASE("a peer that leaves and returns or downloads without end fills no log", "[unit]") {
  const Folder folder;
  EventLog log(folder.options());
  const std::vector<Fact> caused = {
      MemberLeft{.peer = PeerId{7}},  MemberReturned{.peer = PeerId{7}},
      ModelServed{.peer = PeerId{7}}, LaneOpened{.peer = PeerId{7}},
      LaneClosed{.peer = PeerId{7}},  UnsoundMessage{.peer = PeerId{7}}};
  for (int i = 0; i < 1000; ++i) {
    for (const Fact& fact : caused) log.write(Time{} + 1ms * i, fact);
  }
  CHECK(folder.lines().size() == 60 * caused.size());
  CHECK(log.counts().of<ModelServed>() == 1000);
  // The lines about other peers stay.
  log.write(Time{} + 1s, ModelServed{.peer = PeerId{8}});
  CHECK(folder.lines().size() == 60 * caused.size() + 1);
  log.write(Time{} + 61s, BudgetDone{});
  const auto lines = folder.lines();
  REQUIRE(lines.size() == 61 * caused.size() + 2);
  CHECK(lines[lines.size() - 2].value("left_out", 0) == 940);
}

TEST_CASE("events that cannot be written are warned of once and counted when there is space",
          "[unit]") {
  const Folder folder;
  std::vector<std::string> warnings;
  EventLog::Options options = folder.options();
  options.warn = [&](const std::string& why) { warnings.push_back(why); };
  EventLog log(options);
  const Fact fact = MemberSuspected{.peer = PeerId{7}};
  log.write(Time{}, fact);
  {
    // The disk has no room even for the next line.
    const FileSizeLimit limit(folder.bytes() + 20);
    for (int i = 0; i < 5; ++i) log.write(Time{}, fact);
  }
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().find("cannot be written") != std::string::npos);
  log.write(Time{}, fact);
  const auto lines = folder.lines();
  REQUIRE(lines.size() == 4);
  CHECK(lines[1].is_discarded());  // The torn line does not run into the next one.
  CHECK(lines[2].value("event", "") == "events_lost");
  CHECK(lines[2].value("lines", 0) == 5);
  CHECK(lines[3].value("event", "") == "member_suspected");
}

TEST_CASE("the first event of a start is whole after an earlier process wrote part of a line",
          "[unit]") {
  const Folder folder;
  std::ofstream(folder.path() / "events.jsonl") << "{\"t\": 1}\n{\"t\": 2, \"ev";
  {
    EventLog log(folder.options());
    log.write(Time{}, ModelServed{.peer = PeerId{1}, .step = 3});
  }
  // The torn line is not JSON, and the ones around it are.
  const auto lines = folder.lines();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].is_object());
  CHECK_FALSE(lines[1].is_object());
  REQUIRE(lines[2].is_object());
  CHECK(lines[2]["event"] == "model_served");
}

}  // namespace gv
