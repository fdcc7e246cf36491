// Inputs of the target `node`: the events at a peer, encoded as steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/fuzz/target.hpp"

namespace gv::fuzz {

enum class Action : std::uint8_t {
  frame,     ///< Bytes arrive on the control link to a peer.
  records,   ///< Bytes arrive on the lane to a peer.
  contact,   ///< The control link to a peer has come up.
  restart,   ///< A peer has restarted.
  lost,      ///< The lane to a peer has broken.
  refused,   ///< No lane to a peer can be opened.
  job_done,  ///< The oldest job has finished.
  leave,     ///< The fuzzed peer is asked to leave.
};
inline constexpr std::size_t actions = 8;

/// One event, which happens after a wait.
struct Step {
  Action action = Action::frame;
  std::uint8_t from = 0;  ///< The number of another peer, counted from 0.
  std::uint16_t wait_ms = 0;
  Bytes bytes;
};

inline constexpr std::size_t steps_max = 400;

/// An input: the kind of peer, and the events at it. Any bytes decode to an input.
struct Script {
  std::uint8_t kind = 0;
  std::vector<Step> steps;
};
Script script_of(std::span<const std::byte> bytes);
Bytes to_bytes(const Script& script);

/// The same input with a few steps changed, added, dropped or moved.
Bytes mutated_script(std::span<const std::byte> bytes, Rng& rng, MutateBytes mutate);

}  // namespace gv::fuzz
