// The first bytes of a lane without TLS, by which each side shows that it holds the lane's token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "net/descriptor.hpp"
#include "net/lane_connection.hpp"
#include "net/lane_security.hpp"

namespace gv {

inline constexpr char plain_first_byte = 'G';

/// The side that dialled sends its proof first. On a Unix socket the descriptors of the sender's
/// ring and of its shared buffer, if it has one, come with it.
struct LaneProof {
  char mark = plain_first_byte;
  std::uint8_t version = 1;
  std::uint8_t unused[6] = {};
  std::uint64_t lane = 0;
  std::array<std::uint8_t, 32> proof{};
};
static_assert(sizeof(LaneProof) == 48);

/// A proof that is arriving, with its descriptors.
struct ArrivingProof {
  LaneProof proof;
  std::size_t got = 0;
  std::vector<Descriptor> descriptors;

  bool is_complete() const { return got == sizeof(LaneProof); }
  /// Whether it is the proof of a peer that holds the token of its lane.
  bool holds(const LaneToken& token, bool by_dialler) const;
};

/// Sends a proof as the first bytes of a connection, whose buffer is empty: at once or never.
bool send_proof(LaneConnection& connection, const LaneToken& token, std::uint64_t lane,
                bool dialled, const SharedBuffer* lent);

/// Reads the part of a proof that is there; false if it is none.
bool take_proof(LaneConnection& connection, ArrivingProof& arriving);

/// Maps the memory that came with a proof; false unless the connection then has all it needs.
bool take_memory(LaneConnection& connection, const std::vector<Descriptor>& descriptors);

}  // namespace gv
