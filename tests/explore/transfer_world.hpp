// A small world of a newcomer that downloads a state from sources that may change the state and
// die.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "consensus/transfer/state_download.hpp"
#include "consensus/transfer/state_server.hpp"
#include "tests/explore/wire.hpp"

namespace gv::explore {

/// The bounds of a world of downloads.
struct TransferBound {
  Faults faults;
  int changes = 1;  ///< Number of changes of the state by all sources together.
  int wants = 2;    ///< Number of downloads that the newcomer begins.
};

/// Peer 0 downloads, and peers 1 and 2 serve, all with the production code. A state has two values,
/// sent in two blocks. Both sources begin with the same version. Whenever no download is in
/// progress, the newcomer may begin one, either of any version or only of the initial version. It
/// may give a download up at any time. Its clock moves only when its timer fires, which may be at
/// any time.
class TransferWorld {
 public:
  explicit TransferWorld(const TransferBound& bound);

  std::vector<Move> moves() const;
  void apply(const Move& move);
  const std::string& broken() const { return broken_; }
  bool is_outside() const { return false; }
  std::uint64_t hash() const;
  std::string text(const Move& move) const;

 private:
  static constexpr std::size_t elements = 2;
  struct Source {
    std::optional<StateServer> server;  ///< Empty if the peer is dead.
    ModelVersion version;
    bool is_known_dead = false;
  };
  enum Act : std::size_t { want_any, want_first, give_up, change };

  void carry_out(std::size_t number, Effects& out);
  template <class Call>
  void download(Call call);
  void give(std::size_t to, std::size_t from, const Message& message);
  void give_block(std::size_t to, std::size_t from, const Block& block);
  void do_act(const Move& move);
  Source& source(std::size_t number) { return sources_[number - 1]; }

  const TransferBound* bound_;
  StateDownload download_;
  std::vector<float> memory_ = std::vector<float>(elements);
  std::array<Source, 2> sources_;
  Wire wire_;
  Faults faults_;
  int changes_left_ = 0;
  int wants_left_ = 0;
  std::optional<ModelVersion> wanted_;
  Time now_{};
  std::string broken_;
};

}  // namespace gv::explore
