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
/// which peer caused the difference. A peer that sends no fingerprint is not compared, but cannot
/// keep the others from comparing theirs. Every `every` steps an audit costs a message to each peer
/// and a pass over the parameters. Pure.
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

  struct Verdict {
    std::uint64_t operation = 0;  ///< The collective before which the peers had these parameters.
    std::vector<PeerId> odd;      ///< The odd peers, by rank.

    friend bool operator==(const Verdict&, const Verdict&) = default;
  };

  /// Notes the fingerprint of the parameters that `from` (possibly this peer) had before the given
  /// collective. Returns a verdict once the fingerprints of all peers are known. If some are
  /// missing, it returns a verdict on the known ones, provided that more than half of all peers
  /// have sent theirs, and that more than half have sent one for a later collective. Otherwise
  /// returns nullopt. Ignores peers outside the generation.
  std::optional<Verdict> tell(PeerId from, std::uint64_t operation, std::uint64_t fingerprint);

  friend class Fields;
  static constexpr std::size_t field_count = 2;
  friend bool operator==(const ModelAudit& a, const ModelAudit& b);

 private:
  std::size_t tellers(std::uint64_t operation) const;
  Verdict judge(std::uint64_t operation);

  std::vector<PeerId> order_;
  /// The newest fingerprints of each peer that are not compared yet, by collective.
  std::map<PeerId, std::map<std::uint64_t, std::uint64_t>> told_;
};

}  // namespace gv
