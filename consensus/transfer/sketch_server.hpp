// Answers peers that review a download: sends sketches of our state in directions that they drew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "consensus/message/effects.hpp"

namespace gv {

/// The answering side of a ModelReview within a generation. A sketch takes a pass over the state,
/// which may have to be copied first. So the number of sketches is limited for each peer and stage
/// in a generation. Pure.
class SketchServer {
 public:
  explicit SketchServer(std::uint64_t layout_hash) : layout_hash_(layout_hash) {}

  /// Stores or refuses the request. The caller must have checked that the peer may ask at all.
  void ask(PeerId from, const SketchRequest& request, Effects& out);
  /// True if a peer is waiting for a sketch of this stage.
  bool is_waited_for(std::uint32_t stage = 0) const;
  /// Sends a sketch of the stage's state, which is at `step`, to all peers that are waiting for
  /// one.
  void answer(std::uint32_t stage, std::span<const float> values, std::uint64_t step, Effects& out);
  /// Forgets all requests, because their generation is over.
  void clear() { asked_.clear(); }

  friend class Fields;
  static constexpr std::size_t field_count = 2;
  friend bool operator==(const SketchServer& a, const SketchServer& b);

 private:
  struct Asked {
    SketchRequest request;
    bool is_open = false;  ///< True if the peer is waiting for an answer.
    std::size_t answers = 0;
  };

  std::uint64_t layout_hash_;
  std::map<std::pair<PeerId, std::uint32_t>, Asked> asked_;  ///< Keyed by peer and stage.
};

}  // namespace gv
