// Connects to an asker's ports, and closes each connection without sending a byte.
#include "net/examiner.hpp"

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <utility>
#include <vector>

#include "net/bounded_archive.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

/// Longest ledger document. It leaves room in the frame for the other fields.
constexpr std::size_t ledger_bytes_max = frame_bytes_max - 4 * archive_string_bytes_max;

/// Cuts the text into strings that are short enough for a frame.
std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size(); at += archive_string_bytes_max) {
    pieces.push_back(text.substr(at, archive_string_bytes_max));
  }
  return pieces;
}

DialOutcome outcome_of(const asio::error_code& error) {
  if (!error) return DialOutcome::connected;
  if (error == asio::error::connection_refused) return DialOutcome::refused;
  if (error == asio::error::timed_out) return DialOutcome::silent;
  return DialOutcome::unreachable;
}

}  // namespace

struct Examiner::Dial {
  explicit Dial(asio::io_context& io) : socket(io), timer(io) {}

  asio::ip::tcp::socket socket;
  asio::steady_timer timer;
  bool is_late = false;
};

Examiner::Examiner(asio::io_context& io, Options options, Callbacks callbacks)
    : io_(io), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

Examiner::~Examiner() = default;

void Examiner::dial(const asio::ip::address& host, std::uint16_t port,
                    std::function<void(DialOutcome)> done) {
  const auto dial = std::make_shared<Dial>(io_);
  const asio::ip::tcp::endpoint there(host, port);
  asio::error_code error;
  dial->socket.open(there.protocol(), error);
  const auto from = asio::ip::make_address(options_.dial_from, error);
  if (!error) dial->socket.bind({from, 0}, error);
  ++dials_;
  dial->timer.expires_after(options_.patience);
  dial->timer.async_wait([dial](asio::error_code stopped) {
    if (stopped) return;
    asio::error_code ignored;
    dial->is_late = true;
    dial->socket.close(ignored);
  });
  dial->socket.async_connect(there, [this, dial, done = std::move(done),
                                     weak = std::weak_ptr(alive_)](asio::error_code failed) {
    if (weak.expired()) return;
    --dials_;
    dial->timer.cancel();
    asio::error_code ignored;
    dial->socket.close(ignored);
    done(dial->is_late ? DialOutcome::silent : outcome_of(failed));
  });
}

void Examiner::examine(const std::string& source, const ExamRequest& request, Reply reply) {
  /// An answer that waits for dials to end.
  struct Waiting {
    ExamAnswer answer;
    Reply reply;
    std::size_t left = 0;  ///< Number of dials that have not ended.
  };
  const auto waiting = std::make_shared<Waiting>();
  ExamAnswer& answer = waiting->answer;
  answer = {.number = request.number, .wall_us = callbacks_.wall_us(), .seen_as = source};
  if (request.wants_echo) callbacks_.offer(answer);
  if (request.wants_ledger && callbacks_.ledger) {
    answer.ledger = pieces_of(callbacks_.ledger(ledger_bytes_max));
  }
  asio::error_code no_address;
  const auto host = asio::ip::make_address(source, no_address);
  const std::size_t wanted = (request.control_port != 0 ? 1 : 0) + (request.lane_port != 0 ? 1 : 0);
  if (wanted > 0 && (no_address || dials_ + wanted > options_.dials_max)) {
    answer.refusal = "it dials others back just now; try again in a moment";
  }
  if (wanted == 0 || !answer.refusal.empty()) {
    reply(answer);
    return;
  }
  waiting->reply = std::move(reply);
  waiting->left = wanted;
  const auto dial_port = [&](std::uint16_t port, DialOutcome ExamAnswer::*place) {
    if (port == 0) return;
    dial(host, port, [waiting, place](DialOutcome outcome) {
      waiting->answer.*place = outcome;
      if (--waiting->left == 0) waiting->reply(waiting->answer);
    });
  };
  dial_port(request.control_port, &ExamAnswer::control_port);
  dial_port(request.lane_port, &ExamAnswer::lane_port);
}

}  // namespace gv
