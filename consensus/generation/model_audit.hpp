// Checks by fingerprints whether all peers of a generation still have the same model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "consensus/message/effects.hpp"

namespace gv {

/// Equal versions should mean equal bits, but memory may fail, and a peer may change the pieces of
/// a sum that it forwards. At regular intervals each peer sends all others the fingerprint of its
/// parameters. A peer whose fingerprint differs from the majority's is odd. Among groups of equal
/// size, the one that contains the lowest rank counts as the majority. The audit does not show
/// which peer caused the difference. Every `every` steps it costs a message to each peer and a pass
/// over the parameters. Pure.
class ModelAudit {
 public:
  static constexpr std::uint64_t every = 64;  ///< Number of steps between two audits.

  /// True if the step counter crosses a multiple of `every` between `before` and `after`.
  static bool is_due(std::uint64_t before, std::uint64_t after) {
    return before / every != after / every;
  }

  /// Begins a generation, and forgets the fingerprints of the previous one.
  void begin(const std::vector<PeerId>& order);
  void end() { begin({}); }

  /// Notes the fingerprint of the parameters that `from` (possibly this peer) had before the given
  /// collective. Returns the odd peers, by rank, once the fingerprints of all peers are known, and
  /// nullopt before that. Ignores peers outside the generation.
  std::optional<std::vector<PeerId>> tell(PeerId from, std::uint64_t operation,
                                          std::uint64_t fingerprint);

  friend class Fields;
  static constexpr std::size_t field_count = 2;
  friend bool operator==(const ModelAudit& a, const ModelAudit& b);

 private:
  using Told = std::map<PeerId, std::uint64_t>;

  std::vector<PeerId> order_;
  std::map<std::uint64_t, Told> told_;  ///< Fingerprints of the newest audits, by collective.
};

}  // namespace gv
