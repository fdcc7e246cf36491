// Sends questions to a live peer over one ZeroMQ socket, and measures the speed of one lane.
#include "cli/doctor/live_exam.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "net/allow_list.hpp"
#include "net/echo_service.hpp"
#include "net/host_address.hpp"
#include "net/lane_handshake.hpp"
#include "net/socket_watch.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using ExamClock = std::chrono::steady_clock;

/// Longer than the other peer takes to find that two of our ports do not answer.
constexpr auto answer_patience = std::chrono::seconds(6);
constexpr const char* exam_monitor = "inproc://exam";
constexpr int echoes = 5;
constexpr std::size_t echo_bytes = 64;
constexpr std::size_t sent_at_once = std::size_t{128} * 1024;
constexpr auto sends_for = std::chrono::seconds(2);
/// Time for the dial, the echoes, the flood, and the part of the flood that is still on its way.
constexpr auto lane_patience = std::chrono::seconds(8);

std::uint64_t wall_us_now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// Waits until there is something to read. Returns false if nothing arrives in time.
bool await_answer(zmq::socket_t& socket, ExamClock::time_point until) {
  return await_input({{.socket = socket.handle(), .fd = 0, .events = ZMQ_POLLIN}}, until);
}

/// Sends a flood of bytes over one lane and counts the bytes that return.
class Measurement {
 public:
  explicit Measurement(const ExamAnswer& offer)
      : doors_(io_, {.local = false},
               {.accepted = [](const LaneHandshake::Proved&, ConnectionPtr) {},
                .fact = [](const Fact&) {}}) {
    LaneInvite invite{.lane = offer.lane, .token = offer.token};
    invite.address = offer.lanes;
    doors_.expect(offer.lane, offer.token);
    doors_.dial(invite, [this](ConnectionPtr lane) {
      if (lane == nullptr) return finish();
      lane_ = std::move(lane);
      lane_->tune();
      asio::error_code ignored;
      lane_->socket.non_blocking(true, ignored);
      echo();
    });
  }

  std::optional<MeasuredLane> run() {
    const auto until = ExamClock::now() + lane_patience;
    while (!is_over_ && ExamClock::now() < until) {
      io_.run_for(std::chrono::milliseconds(100));
      io_.restart();
      doors_.tidy_up();
    }
    if (lane_) lane_->close();
    return result();
  }

 private:
  struct Sample {
    ExamClock::time_point at;
    std::size_t bytes = 0;  ///< Bytes that had returned by `at`.
  };

  void finish() { is_over_ = true; }

  /// Sends a few bytes and waits for their return, several times.
  void echo() {
    if (echoes_ == echoes) return flood();
    began_ = ExamClock::now();
    received_ = 0;
    lane_->write(asio::buffer(out_.data(), echo_bytes),
                 [this](asio::error_code error, std::size_t) {
                   if (error) finish();
                 });
    await_echo();
  }

  void await_echo() {
    lane_->read_some(std::span(in_).first(echo_bytes - received_),
                     [this](asio::error_code error, std::size_t read) {
                       if (error) return finish();
                       received_ += read;
                       if (received_ < echo_bytes) return await_echo();
                       round_trip_ = std::min<Duration>(round_trip_, ExamClock::now() - began_);
                       ++echoes_;
                       echo();
                     });
  }

  void flood() {
    began_ = ExamClock::now();
    received_ = 0;
    left_ = echo_bytes_max - echoes * echo_bytes;
    send_more();
    receive_more();
  }

  void send_more() {
    const std::size_t now = std::min(left_, out_.size());
    if (now == 0 || ExamClock::now() - began_ > sends_for) {
      is_sent_ = true;
      return;
    }
    lane_->write(asio::buffer(out_.data(), now), [this](asio::error_code error, std::size_t sent) {
      if (error) return finish();
      left_ -= sent;
      sent_ += sent;
      send_more();
    });
  }

  void receive_more() {
    lane_->read_some(in_, [this](asio::error_code error, std::size_t read) {
      received_ += read;
      samples_.push_back({.at = ExamClock::now(), .bytes = received_});
      // Do not wait for bytes that are still in a long queue.
      const bool is_long = samples_.back().at - began_ > sends_for + std::chrono::seconds(1);
      if (error || is_long || (is_sent_ && received_ == sent_)) return finish();
      receive_more();
    });
  }

  /// Returns the round trip time, and the speed in the second half of the measurement. During the
  /// first half TCP is still finding its rate.
  std::optional<MeasuredLane> result() const {
    if (samples_.size() < 2) return std::nullopt;
    const Sample& last = samples_.back();
    const auto half = std::ranges::lower_bound(samples_, last.bytes / 2, {}, &Sample::bytes);
    const Sample& from = half + 1 < samples_.end() ? *half : samples_.front();
    const double span = seconds(std::chrono::duration_cast<Duration>(last.at - from.at));
    if (span <= 0) return std::nullopt;
    return MeasuredLane{.round_trip = round_trip_,
                        .bytes_per_second = static_cast<double>(last.bytes - from.bytes) / span};
  }

  asio::io_context io_;
  LaneHandshake doors_;
  ConnectionPtr lane_;
  std::vector<std::byte> out_ = std::vector<std::byte>(sent_at_once);
  std::vector<std::byte> in_ = std::vector<std::byte>(sent_at_once);
  int echoes_ = 0;
  Duration round_trip_ = lane_patience;
  ExamClock::time_point began_;
  std::size_t left_ = 0;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  bool is_sent_ = false;
  bool is_over_ = false;
  std::vector<Sample> samples_;
};

}  // namespace

std::optional<Asked> ask_live_peer(const LivePeer& peer, ExamRequest request) {
  randombytes_buf(&request.number, sizeof request.number);
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  zmq::socket_t events(context, zmq::socket_type::pair);
  dealer.set(zmq::sockopt::linger, 0);
  events.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::ipv6, is_ipv6(peer.address));
  dealer.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(frame_bytes_max));
  dial_as(dealer, curve_keys(peer.identity), peer.key);
  zmq_socket_monitor(dealer.handle(), exam_monitor, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  events.connect(exam_monitor);
  const auto until = ExamClock::now() + answer_patience;
  std::optional<Asked> asked;
  dealer.connect("tcp://" + peer.address);
  // Wait for the handshake first, so that the round trip does not include it.
  if (await_answer(events, until)) {
    const auto began = ExamClock::now();
    const std::uint64_t wall_us = wall_us_now();
    (void)dealer.send(zmq::buffer(encode(request)), zmq::send_flags::dontwait);
    while (!asked && await_answer(dealer, until)) {
      zmq::message_t bytes;
      if (!dealer.recv(bytes, zmq::recv_flags::dontwait)) break;
      const Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
      const auto* answer = decoded.frame ? std::get_if<ExamAnswer>(&*decoded.frame) : nullptr;
      if (answer == nullptr || answer->number != request.number) continue;
      const auto passed = std::chrono::duration_cast<Duration>(ExamClock::now() - began);
      asked = Asked{.answer = *answer,
                    .wall_us = wall_us + static_cast<std::uint64_t>(1e6 * seconds(passed) / 2),
                    .round_trip = passed};
    }
  }
  zmq_socket_monitor(dealer.handle(), nullptr, 0);
  return asked;
}

std::optional<MeasuredLane> measure_lane(const ExamAnswer& offer) {
  return Measurement(offer).run();
}

}  // namespace gv
