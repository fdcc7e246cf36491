// What `grapevine doctor` and `grapevine ledger` ask a live peer, and what that peer answers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gv {

/// A question to a live peer. It travels on control links, before any hello, and makes its sender
/// neither a member nor a second process of its key.
struct ExamRequest {
  std::uint64_t number = 0;  ///< Chosen by the asker. The answer has it too.
  /// Ports to dial at the host from which the request comes, and at no other; 0: none.
  std::uint16_t control_port = 0;
  std::uint16_t lane_port = 0;
  bool wants_echo = false;    ///< Asks for a lane that returns all that comes on it.
  bool wants_ledger = false;  ///< Asks for what the peer knows of the swarm's common work.

  friend bool operator==(const ExamRequest&, const ExamRequest&) = default;
};

/// The result of dialling a port.
enum class DialOutcome : std::uint8_t { not_asked, connected, refused, silent, unreachable };
constexpr DialOutcome last_value(DialOutcome) { return DialOutcome::unreachable; }

struct ExamAnswer {
  std::uint64_t number = 0;
  std::string refusal;        ///< Why there is no answer, as a sentence; empty: there is one.
  std::uint64_t wall_us = 0;  ///< The peer's clock, in microseconds since 1970.
  std::string seen_as;        ///< The host from which the request came.
  DialOutcome control_port = DialOutcome::not_asked;
  DialOutcome lane_port = DialOutcome::not_asked;
  std::string lanes;       ///< "host:port" of its lanes; empty: it has no port.
  std::uint64_t lane = 0;  ///< Number of the lane that returns bytes; 0: none is offered.
  std::array<std::uint8_t, 32> token{};  ///< Token by which the asker proves itself on the lane.
  /// The document of the common work, cut into strings that a frame may have; empty: not asked for.
  std::vector<std::string> ledger;

  friend bool operator==(const ExamAnswer&, const ExamAnswer&) = default;
};

}  // namespace gv
