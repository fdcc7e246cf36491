// Host names are turned into numeric addresses while the loop keeps running.
#include "net/name_lookup.hpp"

#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gv {
namespace {

constexpr auto patience = std::chrono::seconds(20);

/// A resolver that waits for the test. Its threads may outlive this object.
class SlowResolver {
 public:
  AddressLookup::Resolve resolve() const {
    return [state = state_](const AddressLookup::Name& name) {
      std::unique_lock lock(state->mutex);
      state->asked.push_back(name.host);
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return state->may_answer; });
      return AddressLookup::Addresses();
    };
  }

  /// Waits until a first lookup is under way.
  void await_begin() const {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, patience, [this] { return !state_->asked.empty(); });
  }

  /// Lets all lookups end.
  void answer() const {
    const std::lock_guard lock(state_->mutex);
    state_->may_answer = true;
    state_->changed.notify_all();
  }

  std::vector<std::string> asked() const {
    const std::lock_guard lock(state_->mutex);
    return state_->asked;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> asked;
    bool may_answer = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

TEST_CASE("an address without a name is dialled as it is") {
  asio::io_context io;
  NameLookup names(io);
  for (const char* address : {"192.0.2.1:80", "[2001:db8::1]:80", "x y z", "no-port", ""}) {
    CHECK(names.numeric(address) == address);
  }
  CHECK(io.poll() == 0);
}

TEST_CASE("a name is not waited for and is known later for every port") {
  asio::io_context io;
  NameLookup names(io);
  CHECK_FALSE(names.numeric("localhost:80"));
  CHECK_FALSE(names.numeric("localhost:81"));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!names.numeric("localhost:80") && std::chrono::steady_clock::now() < give_up) {
    io.run_one_for(std::chrono::milliseconds(5));
    io.restart();
  }
  CHECK(names.numeric("localhost:80") == "127.0.0.1:80");
  CHECK(names.numeric("localhost:81") == "127.0.0.1:81");
}

TEST_CASE("a peer can end while the system still looks up a name") {
  SlowResolver resolver;
  // The loop ends on a separate thread, so if it waits, the test fails and does not hang.
  std::future<void> end = std::async(std::launch::async, [&] {
    asio::io_context io;
    NameLookup names(io, resolver.resolve());
    names.numeric("slow.example:80");
    resolver.await_begin();
  });
  CHECK(end.wait_for(patience) == std::future_status::ready);
  resolver.answer();
}

TEST_CASE("one name is looked up at a time and the name of an asker that has gone is left out") {
  asio::io_context io;
  SlowResolver resolver;
  AddressLookup lookup(io, resolver.resolve());
  const auto asker = std::make_shared<int>(0);
  auto gone = std::make_shared<int>(0);
  std::vector<std::string> answered;
  const auto look_up = [&](const std::string& host, const std::shared_ptr<int>& who) {
    lookup.look_up({.host = host, .port = "80"}, who,
                   [&answered, host](const auto&) { answered.push_back(host); });
  };
  look_up("first", asker);
  look_up("second", gone);
  look_up("third", asker);
  resolver.await_begin();
  CHECK(resolver.asked() == std::vector<std::string>{"first"});
  gone.reset();
  resolver.answer();
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (answered.size() < 2 && std::chrono::steady_clock::now() < give_up) {
    io.run_one_for(std::chrono::milliseconds(5));
    io.restart();
  }
  CHECK(answered == std::vector<std::string>{"first", "third"});
  CHECK(resolver.asked() == answered);
}

}  // namespace gv
