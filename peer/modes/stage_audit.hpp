// Finds carriers of a stage whose values differ from those of most other carriers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "consensus/generation/model_audit.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// A hostile peer can send different data to each replica of a stage. The replicas' states then
/// differ, no download is confirmed, and no generation with a newcomer reaches its first run. So
/// after such a generation, if some peer lacks a part, the peers that have the part tell each other
/// its fingerprint (ModelAudit). A peer whose fingerprint differs from most others gives up its
/// state and downloads the majority's state. If the largest groups are equal in size, it downloads
/// the state of the group that contains the lowest rank. An audit costs a copy of the part at each
/// of these peers. Messages are sent only after a generation without a run. Pure.
class StageAudit {
 public:
  explicit StageAudit(PeerId self) : self_(self) {}

  /// Begins a generation. If an earlier one reached no run, and no run was finished since then,
  /// also begins an audit.
  void enter(const Generation& generation);
  /// Call when the generation is over.
  void leave();
  /// Call when a run is finished. Each carrier then has its parts, which change from now on.
  void settle();

  /// Those of our parts that this generation compares.
  std::vector<std::uint32_t> own_parts() const;
  /// Sends the others the fingerprint of a part, if this generation compares the part.
  void tell(std::uint32_t part, std::span<const float> values, Effects& out);
  void receive(PeerId from, const Audit& audit, Effects& out);
  /// Returns those of our parts whose fingerprint differs from most other carriers'. Returns each
  /// part once.
  std::vector<std::uint32_t> take_odd() { return std::exchange(odd_, {}); }

 private:
  /// The comparison of one part.
  struct Compared {
    std::vector<PeerId> holders;
    ModelAudit audit;
    std::optional<std::uint64_t> own;  ///< Our fingerprint, once we have sent it.
    std::set<PeerId> answered;         ///< The peers to which we have sent our fingerprint again.
  };

  void note(PeerId from, std::uint32_t part, std::uint64_t fingerprint, Effects& out);

  PeerId self_;
  GenerationId ballot_;
  std::uint64_t key_ = 0;   ///< The generation's key; 0 if there is none.
  std::uint64_t step_ = 0;  ///< The step at which the generation begins.
  std::map<std::uint32_t, Compared> compared_;
  std::vector<std::uint32_t> odd_;
  /// True while a download in this generation needs another peer's confirmation, and no run is
  /// finished.
  bool may_be_in_vain_ = false;
  bool was_in_vain_ = false;  ///< True if `may_be_in_vain_` was true when a generation ended, and
                              ///< no run was finished since then.
};

}  // namespace gv
