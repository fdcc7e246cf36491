// A short life of a swarm of lone peers, recorded at one of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/lone_peer.hpp"

namespace gv::fuzz {

/// What happened to peer 0, and how far it came.
struct Conversation {
  Script script;
  std::uint64_t messages_sent = 0;
  std::uint64_t jobs_done = 0;
  std::uint64_t step = 0;
};

/// Peers of that kind train together until so much has happened to peer 0. Links take a
/// millisecond.
Conversation converse(std::size_t kind, std::size_t steps);

}  // namespace gv::fuzz
