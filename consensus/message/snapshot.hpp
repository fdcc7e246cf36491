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

/// Integer coordinates that travel with the parameters through the same protocol and arithmetic,
/// but that the optimiser never sees. Their sums are exact, so a force that is applied twice, on
/// one side only or with the wrong sign shows at once.
using ConservationChecksum = std::array<std::int64_t, 8>;

/// An immutable copy of a replica's parameters at one moment.
struct Snapshot {
  std::vector<float> values;
  /// State that follows the values when the whole replica is downloaded: in a population the
  /// optimiser's state and the hyper-parameters. Exchanges ignore it.
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
  TransferId exchange;     ///< The exchange of this force. Its two forces add up to zero.
  PeerId partner{};        ///< The other peer of that exchange.
  double distance = 0;     ///< Distance between the two models before the exchange.
  std::uint64_t step = 0;  ///< Step of our model, in the version that the partner has received.
};

/// Immutable bytes with the owner that keeps them alive. Slices share the owner without a copy.
struct Payload {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

}  // namespace gv
