// What consensus rules see of a model: flat immutable snapshots and the forces to be added to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.hpp"

namespace gv {

/// Integer coordinates that travel with the parameters through the same protocol and the same
/// arithmetic but are never seen by the optimiser: their sums are exact, so a force applied twice,
/// once or with the wrong sign shows at once.
using ConservationChecksum = std::array<std::int64_t, 8>;

/// An immutable copy of a replica's parameters at one moment.
struct Snapshot {
  std::vector<float> values;
  /// What follows the values where the whole replica is downloaded: in a population what the
  /// optimiser keeps and the hyper-parameters. Exchanges leave it alone.
  std::vector<float> rest;
  ConservationChecksum checksum{};
  std::uint64_t step = 0;  ///< Local steps the replica had taken.
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

/// What an exchange adds to the live parameters: x += scale * values, conservation checksum +=
/// conservation checksum. The values are shared with the exchange, which needs them until the next
/// snapshot contains them.
struct Force {
  std::shared_ptr<const std::vector<float>> values;
  float scale = 1;
  ConservationChecksum checksum{};
  TransferId exchange;  ///< Where it comes from: with the partner's force of the same exchange it
  PeerId partner{};     ///< adds up to nothing.
};

/// Immutable bytes with whatever keeps them alive; slices share the owner, nothing is copied.
struct Payload {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

}  // namespace gv
