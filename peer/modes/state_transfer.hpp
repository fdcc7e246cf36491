// Transfers whole states within a generation, from peers that have the newest to those that do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <vector>

#include "base/rng.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/reviewed_download.hpp"
#include "consensus/transfer/sketch_server.hpp"
#include "consensus/transfer/state_server.hpp"
#include "peer/modes/vector_pool.hpp"

namespace gv {

/// How states travel in modes with generations: the source makes a copy first, and a source that
/// stops sending is given up, so that a ballot can name another.
StateDownload::Options generation_download(std::uint64_t layout_hash, std::size_t elements,
                                           std::uint32_t stage = 0);
StateServer::Options generation_server(std::uint64_t layout_hash);

/// A state that has arrived completely.
struct ArrivedState {
  VectorPool::Vector values;
  ModelVersion version;
  PeerId from{};
  bool has_witness = false;  ///< True if another peer has confirmed it.

  /// The largest norm of its parameters, relative to ours, at which we load it; 0: any. A state
  /// that only its source has may be forged. Models that begin with zeros grow fast, so only absurd
  /// norms are refused.
  double norm_cap() const { return has_witness ? 0 : 1000; }
};

/// The peers of the generation that have the state at its beginning, except `self`, in order.
std::vector<PeerId> holders_of(const Generation& generation, PeerId self);

/// Both ends of the transfer of a state. The generation says which peer sends to which. The peer
/// that lacks the state requests it, and then asks the other peers that have it to confirm it. If
/// they do not, it requests the state from one of them. If the source dies, the next generation may
/// name another, and the transfer continues from there if that peer has the same bits. Pure.
class StateTransfer {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    std::size_t elements = 0;  ///< Floats of the state.
    std::size_t compared = 0;  ///< Floats at the beginning of the state that are confirmed.
    std::pmr::memory_resource* memory = nullptr;  ///< As in AllReduceOptions.
  };

  StateTransfer(PeerId self, const Options& options, const Rng& draws);

  /// Call when the generation has begun and `source` has to send us its state. `is_common`: all
  /// peers at the generation's version have the same bits.
  void fetch(Time now, const Generation& generation, PeerId source, bool is_common, Effects& out);
  /// Call when the generation has begun and we have the state.
  void need_nothing() { incoming_.reset(); }
  /// Gives up all transfers under way because their generation is over. Keeps the received part of
  /// a state.
  void leave_generation();

  /// True if we lack the state, or if it has arrived but was not taken yet.
  bool is_fetching() const { return fetching_; }
  bool fetches_from(PeerId peer) const { return fetching_ && download_.source() == peer; }
  /// Takes a block, if it belongs to the state that we are waiting for.
  void receive(Time now, PeerId from, const Block& block, Effects& out);
  /// Handles messages about states, except requests.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  /// The state, once it is complete.
  std::optional<ArrivedState> take();

  /// True if we have the state of that generation, and `from` is one of the peers that lack it.
  bool may_ask(const Generation& generation, PeerId from, const TransferId& request) const;
  /// Notes that we owe the peer the state, or a sketch of it.
  void owe(Time now, PeerId to, const StateRequest& request, Effects& out) {
    server_.ask(now, to, request, false, out);
  }
  void owe(PeerId to, const SketchRequest& request, Effects& out) {
    sketches_.ask(to, request, out);
  }
  bool owes(PeerId to) const { return server_.waits(to); }
  bool owes_any() const { return server_.is_waited_for() || sketches_.is_waited_for(); }
  /// Drops all requests, because every peer of the generation has the state.
  void forget_debts() {
    server_.clear();
    sketches_.clear();
  }
  /// A vector into which a job copies the state, whose version is then `version`.
  VectorPool::Vector blank(const ModelVersion& version);
  /// Sends the copied state, or sketches of it, to all peers that are waiting for them, if the
  /// generation still starts from it. Returns the number of states sent. `is_common` as in fetch().
  std::size_t send(const Generation& generation, const VectorPool::Vector& state, bool is_common,
                   Effects& out);

  /// Repeats requests where needed. Returns the source if it has stopped sending, or refuses.
  std::optional<PeerId> tick(Time now, Effects& out);
  Time deadline() const { return download_.deadline(); }

 private:
  PeerId self_;
  std::size_t compared_;
  VectorPool states_;
  ReviewedDownload download_;
  StateServer server_;
  SketchServer sketches_;
  bool fetching_ = false;
  PeerId source_{};  ///< The source that the generation names.
  ModelVersion coming_version_;
  VectorPool::Vector incoming_;  ///< The values that `download_` has received; null: none.
  ModelVersion taken_;           ///< Version of the state that a job copied last.
};

}  // namespace gv
