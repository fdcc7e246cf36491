// Whether all in lockstep still have the same model, found out by fingerprints.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "consensus/message/effects.hpp"

namespace gv {

/// Equal versions ought to mean equal bits, but a memory may fail, and one who passes pieces of a
/// sum on may pass on others than it was given. Every so many operations each tells all others the
/// fingerprint of its parameters. Whoever does not have what most have is odd; of groups that are
/// equally large the one with the lowest rank counts as most. Who made the difference is not known
/// by that. Pure. Cost: a word to each peer and a pass over the parameters in `every` operations.
class ModelAudit {
 public:
  static constexpr std::uint64_t every = 64;  ///< Operations.

  /// Whether parameters are compared when so many operations have become so many.
  static bool is_due(std::uint64_t before, std::uint64_t after) {
    return before / every != after / every;
  }

  /// Fingerprints of a generation begin to come; what is known of another is forgotten.
  void begin(const std::vector<PeerId>& order);
  void end() { begin({}); }

  /// `from`, maybe we ourselves, has these parameters before that operation. Those who are not
  /// the same as most, by rank, once all have told; nothing before that and never again after it.
  std::optional<std::vector<PeerId>> tell(PeerId from, std::uint64_t operation,
                                          std::uint64_t fingerprint);

 private:
  using Told = std::map<PeerId, std::uint64_t>;

  std::vector<PeerId> order_;
  std::map<std::uint64_t, Told> told_;  ///< By operation; the newest few.
};

}  // namespace gv
