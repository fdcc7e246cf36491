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

/// The first message of each side; the side that dialled sends first. On a Unix socket, it comes
/// with the descriptors of the sender's ring and, if there is one, of its shared buffer.
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
  /// Returns true if the proof is complete and made with `token`.
  bool holds(const LaneToken& token, bool by_dialler) const;
};

/// Sends a proof as the first bytes of a connection. The socket's buffer is still empty, so the
/// proof goes out at once. Returns false if sending fails.
bool send_proof(LaneConnection& connection, const LaneToken& token, std::uint64_t lane,
                bool dialled, const SharedBuffer* lent);

/// Reads the bytes of a proof that have arrived. Returns false if they cannot be part of a proof.
bool take_proof(LaneConnection& connection, ArrivingProof& arriving);

/// Maps the memory that came with a proof. Returns false if memory that the lane needs is missing.
bool take_memory(LaneConnection& connection, const std::vector<Descriptor>& descriptors);

}  // namespace gv
