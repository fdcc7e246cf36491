// Records the events at one peer during a short run of a swarm of lone peers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/lone_peer.hpp"

namespace gv::fuzz {

/// The events at peer 0, and how far that peer got.
struct Conversation {
  Script script;
  std::uint64_t messages_sent = 0;
  std::uint64_t jobs_done = 0;
  std::uint64_t step = 0;
};

/// Lets peers of kind number `kind` train together until peer 0 has had `steps` events. Links have
/// a latency of a millisecond.
Conversation converse(std::size_t kind, std::size_t steps);

}  // namespace gv::fuzz
