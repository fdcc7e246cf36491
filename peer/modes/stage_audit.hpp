// Finds out which carriers of a stage have other values of it than the others.
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

/// A hostile peer can send each replica of a stage something else. Then their states differ, no
/// download is confirmed, and no generation with a newcomer gets to its first run. So after such a
/// generation the peers that have a part which another one lacks tell each other its fingerprint
/// (ModelAudit). An odd one gives its state up and downloads that of most, or, where groups are
/// equally large, that of the lowest rank. Pure. Costs a copy of the part at each of these peers,
/// and messages only after a generation in vain.
class StageAudit {
 public:
  explicit StageAudit(PeerId self) : self_(self) {}

  /// Begins a generation, and an audit if one before was in vain and no run was finished since.
  void enter(const Generation& generation);
  /// The generation is over.
  void leave();
  /// A run is finished: each carrier has its parts, and they change from now on.
  void settle();

  /// Our parts that are compared in this generation.
  std::vector<std::uint32_t> own_parts() const;
  /// Tells the others our values of a part, if it is compared.
  void tell(std::uint32_t part, std::span<const float> values, Effects& out);
  void receive(PeerId from, const Audit& audit, Effects& out);
  /// Our parts that are odd; each is returned once.
  std::vector<std::uint32_t> take_odd() { return std::exchange(odd_, {}); }

 private:
  /// The comparison of one part.
  struct Compared {
    std::vector<PeerId> holders;
    ModelAudit audit;
    std::optional<std::uint64_t> own;  ///< Our fingerprint, once it is told.
    std::set<PeerId> answered;         ///< The peers that were told it again.
  };

  void note(PeerId from, std::uint32_t part, std::uint64_t fingerprint, Effects& out);

  PeerId self_;
  GenerationId ballot_;
  std::uint64_t key_ = 0;   ///< Key of the generation; 0: none.
  std::uint64_t step_ = 0;  ///< The step at which it begins.
  std::map<std::uint32_t, Compared> compared_;
  std::vector<std::uint32_t> odd_;
  /// True while a download of this generation needs a second voice and no run is finished.
  bool may_be_in_vain_ = false;
  bool was_in_vain_ = false;  ///< True if a generation ended like that.
};

}  // namespace gv
