// Asks a live peer about the way between it and this machine or for its ledger, and measures a
// lane.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "net/exam.hpp"
#include "net/identity.hpp"

namespace gv {

/// A live peer that admits our key.
struct LivePeer {
  std::string address;  ///< "HOST:PORT" of its control port.
  PublicKey key{};
  KeyPair identity;  ///< Our key pair, or that of a ticket.
};

/// The answer, and the moment to which its clock belongs.
struct Asked {
  ExamAnswer answer;
  std::uint64_t wall_us = 0;  ///< Our clock halfway between question and answer.
  Duration round_trip{};      ///< Time from question to answer.
};

/// Asks over a separate connection, without a hello, so others do not take us for a member. Nullopt
/// if there is no answer within some seconds.
std::optional<Asked> ask_live_peer(const LivePeer& peer, ExamRequest request);

struct MeasuredLane {
  Duration round_trip{};
  double bytes_per_second = 0;  ///< Speed in each direction, both at once, without TCP's slow
                                ///< start.
};

/// Opens the lane offered in an answer and sends for about two seconds, but no more than the other
/// peer returns. Nullopt if the lane cannot be opened or nothing comes back.
std::optional<MeasuredLane> measure_lane(const ExamAnswer& offer);

}  // namespace gv
