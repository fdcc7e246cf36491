// Host names are turned into numeric addresses while the loop keeps running.
#include "net/name_lookup.hpp"

#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <string>

namespace gv {

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

TEST_CASE("a lookup that ends after its owner has gone touches nothing") {
  asio::io_context io;
  {
    NameLookup names(io);
    CHECK_FALSE(names.numeric("localhost:80"));
  }
  CHECK(io.run() > 0);
}

}  // namespace gv
