// Asks a live peer for its ledger or about its path to this machine, and measures a lane.
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
  KeyPair identity;  ///< Our key pair, or the one in a ticket.
};

/// An answer, and our clock's time at about the moment when the other peer read its own clock.
struct Asked {
  ExamAnswer answer;
  std::uint64_t wall_us = 0;  ///< Our clock's time halfway between question and answer.
  Duration round_trip{};      ///< Time from question to answer.
};

/// Sends the request over a separate connection without a hello, so that other peers do not take us
/// for a member. Returns nullopt if there is no answer within a few seconds.
std::optional<Asked> ask_live_peer(const LivePeer& peer, ExamRequest request);

struct MeasuredLane {
  Duration round_trip{};
  double bytes_per_second = 0;  ///< Speed in each direction while both are busy, after slow start.
};

/// Opens the lane offered in an answer and sends bytes for about two seconds, but no more bytes
/// than the other peer returns. Returns nullopt if the lane cannot be opened or nothing comes back.
std::optional<MeasuredLane> measure_lane(const ExamAnswer& offer);

}  // namespace gv
