// A job's part in mixing with neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "consensus/mixing/mix_message.hpp"

namespace gv {

struct MixOutbox;
struct MixRule;

/// A replica's place among the others in a generation.
struct MixPlace {
  std::size_t rank = 0;
  std::vector<PeerId> order;  ///< Peers by rank.
  std::uint64_t key = 0;      ///< Key of the generation.
  std::uint64_t step = 0;     ///< Step at which all peers in it begin.
};

/// Done in the order of the fields. Where a rule sends first, a round may come as two jobs, so that
/// its messages leave before its steps are made: the first without steps, the second with them and
/// without an outbox.
struct MixJob {
  std::vector<MixMessage>
      left_over;        ///< Messages of the generation before `place` that are no longer mixed.
  bool unsent = false;  ///< Our last messages in it went to no peer.
  bool forget = false;  ///< The model was replaced by another peer's.
  /// Switch to this rule and keep nothing of the last; null: no switch.
  std::shared_ptr<const MixRule> rule;
  std::optional<MixPlace> place;
  std::optional<std::uint64_t> ends;  ///< Mix this round; empty: none.
  std::vector<MixMessage> arrived;    ///< Messages to mix.
  /// Begin this round: make the job's steps and its messages.
  std::optional<std::uint64_t> begins;
  bool rests = false;                  ///< Count the steps without making them.
  std::shared_ptr<MixOutbox> outbox;   ///< Where messages go; null: they are made already.
  std::size_t refused = 0;             ///< Result: arrived messages that were of no use.
  std::vector<std::size_t> held_back;  ///< Result: ranks whose messages the guard cut or left out.
};

}  // namespace gv
