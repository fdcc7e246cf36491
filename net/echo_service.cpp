// Echoes bytes through a single buffer.
#include "net/echo_service.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/steady_timer.hpp>

#include "net/steady_time.hpp"

namespace gv {
namespace {

constexpr std::size_t echoed_at_once = std::size_t{128} * 1024;

}  // namespace

struct EchoService::Echo {
  explicit Echo(asio::io_context& io) : timer(io), budget(echo_bytes_per_second) {
    // A byte budget starts with one second's worth of bytes. They are spent here, because an echo
    // must never exceed the rate.
    (void)budget.charge(steady_time(), static_cast<std::size_t>(echo_bytes_per_second));
  }

  std::uint64_t lane = 0;
  ConnectionPtr connection;  ///< Null until the offer is accepted.
  Clock::time_point began = Clock::now();
  std::array<std::byte, echoed_at_once> bytes;
  std::size_t left = echo_bytes_max;
  asio::steady_timer timer;
  ByteBudget budget;
};

EchoService::EchoService(asio::io_context& io, Options options, LaneHandshake& doors)
    : io_(io), options_(options), doors_(doors) {}

EchoService::~EchoService() {
  alive_.reset();
  end();
}

std::optional<EchoService::Offer> EchoService::offer() {
  if (echo_ || doors_.advertised().empty()) return std::nullopt;
  Offer offer;
  while (offer.lane == 0) randombytes_buf(&offer.lane, sizeof offer.lane);
  randombytes_buf(offer.token.data(), offer.token.size());
  if (!doors_.expect(offer.lane, offer.token)) return std::nullopt;
  echo_ = std::make_shared<Echo>(io_);
  echo_->lane = offer.lane;
  return offer;
}

bool EchoService::accepted(std::uint64_t lane, const ConnectionPtr& connection) {
  if (!echo_ || echo_->lane != lane || echo_->connection) return false;
  doors_.expect_no_more(lane);
  echo_->connection = connection;
  echo_->began = Clock::now();
  connection->tune();
  asio::error_code ignored;
  connection->socket.non_blocking(true, ignored);
  pump(echo_);
  return true;
}

void EchoService::pump(const EchoPtr& echo) {
  const std::size_t most = std::min(echo->left, echo->bytes.size());
  if (most == 0) {
    end();
    return;
  }
  echo->connection->read_some(
      std::span(echo->bytes).first(most),
      [this, echo, weak = std::weak_ptr(alive_)](asio::error_code error, std::size_t read) {
        if (weak.expired() || echo != echo_) return;
        if (error) {
          end();
        } else {
          pass_back(echo, read);
        }
      });
}

void EchoService::pass_back(const EchoPtr& echo, std::size_t bytes) {
  echo->left -= bytes;
  echo->connection->write(
      asio::buffer(echo->bytes.data(), bytes),
      [this, echo, weak = std::weak_ptr(alive_)](asio::error_code error, std::size_t written) {
        if (weak.expired() || echo != echo_) return;
        if (error) {
          end();
          return;
        }
        const Duration pause = echo->budget.charge(steady_time(), written);
        if (pause == Duration{}) {
          pump(echo);
          return;
        }
        echo->timer.expires_after(pause);
        echo->timer.async_wait([this, echo, weak](asio::error_code stopped) {
          if (!stopped && !weak.expired() && echo == echo_) pump(echo);
        });
      });
}

void EchoService::end() {
  if (!echo_) return;
  doors_.expect_no_more(echo_->lane);
  echo_->timer.cancel();
  if (echo_->connection) echo_->connection->close();
  echo_.reset();
}

void EchoService::tidy_up() {
  if (!echo_) return;
  const Duration lasts = echo_->connection ? options_.lasts : options_.patience;
  if (Clock::now() - echo_->began > lasts) end();
}

}  // namespace gv
