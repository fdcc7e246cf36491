// A model as consensus sees it: flat immutable snapshots, and forces to add to the live model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "consensus/message/transfer_id.hpp"

namespace gv {

/// Integer coordinates that travel with the parameters through the same protocol and arithmetic.
/// The optimiser never sees them. Their sums are exact, so they show at once if a force was applied
/// twice, on one side only, or with the wrong sign.
using ConservationChecksum = std::array<std::int64_t, 8>;
/// Adds modulo 2^64, so that no sum of received checksums overflows.
inline void add(ConservationChecksum& sum, const ConservationChecksum& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[i]) +
                                       static_cast<std::uint64_t>(more[i]));
  }
}

/// An immutable copy of a replica's parameters at one moment.
struct Snapshot {
  std::vector<float> values;
  /// State that is sent after the values when a whole replica is downloaded. In population-based
  /// training, it holds the optimiser's state and the hyper-parameters. Exchanges ignore it.
  std::vector<float> rest;
  ConservationChecksum checksum{};
  std::uint64_t step = 0;  ///< Local steps that the replica had taken.
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

/// A model downloaded from another peer.
struct DownloadedModel {
  PeerId source{};
  std::vector<float> values;  ///< The snapshot's values, followed by its `rest`.
  std::uint64_t step = 0;
};

/// The change that an exchange makes to the live model: parameters += scale * values, and
/// conservation checksum += checksum. The values are shared with the exchange, which needs them
/// until the next snapshot contains this force.
struct Force {
  std::shared_ptr<const std::vector<float>> values;
  float scale = 1;
  ConservationChecksum checksum{};
  TransferId exchange;     ///< The exchange that made this force. The forces at its two peers sum
                           ///< to zero.
  PeerId partner{};        ///< The other peer of that exchange.
  double distance = 0;     ///< Distance between the two models before the exchange.
  std::uint64_t step = 0;  ///< Local steps of our model in the snapshot that the partner received.
};

/// Immutable bytes, and the owner that keeps them alive. Slices share the owner, so nothing is
/// copied.
struct Payload {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

}  // namespace gv
