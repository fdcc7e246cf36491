// The status table of a document with untrusted texts, and how a peer is asked for its status.
#include "peer/host/status.hpp"

#include <pthread.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "peer/host/peer_socket.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

std::atomic<int> signals_heard = 0;

}  // namespace

TEST_CASE("signals while a peer is asked do not end the question") {
  struct sigaction heard {};
  struct sigaction before {};
  heard.sa_handler = [](int) { ++signals_heard; };
  REQUIRE(::sigaction(SIGUSR1, &heard, &before) == 0);
  const TemporaryFolder folder;
  asio::io_context io;
  // Signals wake the asking side several times before the answer arrives.
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  const PeerSocket socket(
      io, folder.path(),
      {.document =
           [&] {
             const int first = signals_heard;
             while (signals_heard < first + 5 && std::chrono::steady_clock::now() < late) {
               std::this_thread::yield();
             }
             return std::string("here");
           },
       .command = [](const std::string&) { return std::string(); }});
  std::atomic<bool> is_over = false;
  std::optional<std::string> answer;
  std::thread serving([&] {
    while (!is_over) io.run_one_for(std::chrono::milliseconds(5));
  });
  std::thread asking([&] {
    answer = ask_peer(folder.path(), {}, 10'000);
    is_over = true;
  });
  while (!is_over) {
    ::pthread_kill(asking.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  asking.join();
  serving.join();
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
  CHECK(answer == "here");
}

TEST_CASE("a peer that hangs up without a word has not answered", "[unit]") {
  const TemporaryFolder folder;
  asio::io_context io;
  const PeerSocket socket(io, folder.path(),
                          {.document = [] { return std::string(); },
                           .command = [](const std::string&) { return std::string(); }});
  std::atomic<bool> is_over = false;
  std::optional<std::string> answer = "none yet";
  std::thread asking([&] {
    answer = ask_peer(folder.path(), {}, 10'000);
    is_over = true;
  });
  while (!is_over) io.run_one_for(std::chrono::milliseconds(5));
  asking.join();
  CHECK_FALSE(answer);
}

TEST_CASE("questions to a stopped peer end although its queue is full", "[unit]") {
  const TemporaryFolder folder;
  asio::io_context io;
  asio::local::stream_protocol::acceptor stopped(io);
  stopped.open();
  stopped.bind((folder.path() / "status.sock").string());
  stopped.listen(1);
  for (int i = 0; i < 4; ++i) CHECK_FALSE(ask_peer(folder.path(), {}, 1));
  CHECK(no_answer_problem(folder.path()).reason == "a peer runs here but does not answer");
}

TEST_CASE("control characters in a status document do not reach the terminal", "[unit]") {
  const std::string hostile = "a\033[2J\nb";
  const nlohmann::json document = {
      {"self", {{"name", hostile}, {"id", hostile}}},
      {"phase", hostile},
      {"details", {hostile}},
      {"members", {{{"name", hostile}, {"state", hostile}, {"address", hostile}}}},
      {"refusals", {{{"t", 1}, {"event", hostile}, {"peer", hostile}, {"why", hostile}}}},
      {"quarantined", {{{"seconds", 1}, {"peer", hostile}, {"why", hostile}}}}};
  const std::string table = status_table(document.dump());
  CHECK(table.find("a\\x1b[2J\\x0ab") != std::string::npos);
  CHECK(std::ranges::none_of(table, [](char c) { return c >= 0 && c < ' ' && c != '\n'; }));
}

TEST_CASE("the status of a peer that learns targets has a loss and no accuracy", "[unit]") {
  nlohmann::json document = {{"step", 3}, {"loss", 0.25}};
  CHECK(status_table(document.dump()).find("loss 0.2500  learning rate") != std::string::npos);
  document["accuracy"] = 0.5;
  CHECK(status_table(document.dump()).find("loss 0.2500  accuracy 50.00 %  learning rate") !=
        std::string::npos);
}

TEST_CASE("the status of a peer that only dials out says that no peer can dial it", "[unit]") {
  const nlohmann::json document = {
      {"self", {{"listening", ""}, {"advertised", ""}, {"lanes", ""}}}};
  CHECK(status_table(document.dump())
            .find("listening on nothing (dials out only)  advertised as "
                  "nothing  lanes on nothing\n") != std::string::npos);
}

TEST_CASE("a command that is given the folder of a launch names one of its peers", "[unit]") {
  const TemporaryFolder folder;
  CHECK_FALSE(launch_folder_problem(folder.path()));
  CHECK(no_answer_problem(folder.path()).reason == "no running peer answers here");
  std::filesystem::create_directory(folder.path() / "peer-0");
  const Problem problem = no_answer_problem(folder.path());
  CHECK(problem.reason == "this is the folder of a launch");
  CHECK(problem.remedy == "name one of its peers, as " + (folder.path() / "peer-0").string());
}

}  // namespace gv
