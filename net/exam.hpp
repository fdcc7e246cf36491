// The questions of `grapevine doctor` and `grapevine ledger` to a live peer, and the peer's
// answers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gv {

/// A question to a live peer. It travels on control links, before any hello. The sender does not
/// become a member, and does not count as a second process with its key.
struct ExamRequest {
  std::uint64_t number = 0;  ///< Chosen by the asker, and repeated in the answer.
  /// Ports to dial, only on the host that sent the request; 0 means none.
  std::uint16_t control_port = 0;
  std::uint16_t lane_port = 0;
  bool wants_echo = false;    ///< Asks for a lane that echoes everything sent on it.
  bool wants_ledger = false;  ///< Asks for the peer's account of the swarm's work.

  friend bool operator==(const ExamRequest&, const ExamRequest&) = default;
};

/// The result of dialling a port.
enum class DialOutcome : std::uint8_t { not_asked, connected, refused, silent, unreachable };
constexpr DialOutcome last_value(DialOutcome) { return DialOutcome::unreachable; }

struct ExamAnswer {
  std::uint64_t number = 0;
  /// Why the question is not answered, as a sentence; empty if it is answered.
  std::string refusal;
  std::uint64_t wall_us = 0;  ///< The peer's clock, in microseconds since 1970.
  std::string seen_as;        ///< The host from which the request came.
  DialOutcome control_port = DialOutcome::not_asked;
  DialOutcome lane_port = DialOutcome::not_asked;
  std::string lanes;       ///< "host:port" for the peer's lanes; empty if it has no port for them.
  std::uint64_t lane = 0;  ///< Number of the offered echo lane; 0 if none is offered.
  std::array<std::uint8_t, 32> token{};  ///< Token by which the asker proves itself on the lane.
  /// The peer's account of the swarm's work, in pieces short enough for a frame; empty if not
  /// requested.
  std::vector<std::string> ledger;

  friend bool operator==(const ExamAnswer&, const ExamAnswer&) = default;
};

}  // namespace gv
