// Transfers complete states within a generation, from peers with the newest state to the others.
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

/// Returns the options for downloads in modes with generations. They allow time for the source to
/// copy its state first. A source that stops sending is given up, so that a ballot can name another
/// one.
StateDownload::Options generation_download(std::uint64_t layout_hash, std::size_t elements,
                                           std::uint32_t stage = 0);
StateServer::Options generation_server(std::uint64_t layout_hash);

/// A state that has arrived completely.
struct ArrivedState {
  VectorPool::Vector values;
  ModelVersion version;
  PeerId from{};
  bool has_witness = false;  ///< True if another peer has confirmed the state.

  /// The largest norm of the state's parameters that we accept, as a multiple of the norm of our
  /// own parameters; 0 means no limit. A state that no other peer has confirmed may be forged.
  /// Models that begin with zeros grow fast, so only absurd norms are refused.
  double norm_cap() const { return has_witness ? 0 : 1000; }
};

/// Returns the peers, except `self`, that have the generation's state at its beginning, in the
/// generation's order.
std::vector<PeerId> holders_of(const Generation& generation, PeerId self);

/// Handles both ends of the transfer of a state. The generation determines which peer sends the
/// state to which. A peer that lacks the state requests it, and then asks the other peers that have
/// it for confirmation. If they do not confirm the state, the peer requests it from one of them. If
/// the source dies, the next generation may name another source, and the transfer continues if the
/// new source has the same bits. Pure.
class StateTransfer {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    std::size_t elements = 0;  ///< Number of floats in the state.
    /// Number of floats, from the beginning of the state, that other peers confirm.
    std::size_t compared = 0;
    std::pmr::memory_resource* memory = nullptr;  ///< See AllReduceOptions::memory.
  };

  StateTransfer(PeerId self, const Options& options, const Rng& draws);

  /// Call when the generation has begun and `source` has to send us the generation's state.
  /// `is_common` means that all peers with the generation's version have the same bits.
  void fetch(Time now, const Generation& generation, PeerId source, bool is_common, Effects& out);
  /// Call when the generation has begun and we already have its state.
  void need_nothing() { incoming_.reset(); }
  /// Gives up all transfers under way because their generation is over. Keeps the part of a state
  /// that has arrived.
  void leave_generation();

  /// True if we still lack the state, or if it has arrived but has not been taken.
  bool is_fetching() const { return fetching_; }
  bool fetches_from(PeerId peer) const { return fetching_ && download_.source() == peer; }
  /// Takes a block. Ignores it unless it belongs to the state that we are waiting for.
  void receive(Time now, PeerId from, const Block& block, Effects& out);
  /// Handles messages about states, except requests.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  /// Returns the state once, when it is complete.
  std::optional<ArrivedState> take();

  /// True if we have the generation's state, and `from` is one of the peers that lack it.
  bool may_ask(const Generation& generation, PeerId from, const TransferId& request) const;
  /// Notes that we have to send the peer the state, or a sketch of it.
  void owe(Time now, PeerId to, const StateRequest& request, Effects& out) {
    server_.ask(now, to, request, false, out);
  }
  void owe(PeerId to, const SketchRequest& request, Effects& out) {
    sketches_.ask(to, request, out);
  }
  bool owes(PeerId to) const { return server_.waits(to); }
  bool owes_any() const { return server_.is_waited_for() || sketches_.is_waited_for(); }
  /// Drops all requests, because every peer of the generation has the state now.
  void forget_debts() {
    server_.clear();
    sketches_.clear();
  }
  /// Returns a vector for a job that copies the state at this version.
  VectorPool::Vector blank(const ModelVersion& version);
  /// Sends the copied state, or sketches of it, to all peers that wait for them. Sends nothing if
  /// the generation no longer starts from that state. Returns the number of states sent. For
  /// `is_common`, see fetch().
  std::size_t send(const Generation& generation, const VectorPool::Vector& state, bool is_common,
                   Effects& out);

  /// Repeats requests where needed. Returns the source if it has stopped sending or refuses to
  /// send.
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
  PeerId source_{};  ///< The source named by the generation.
  ModelVersion coming_version_;
  VectorPool::Vector incoming_;  ///< The values that have arrived; null if no download needs them.
  ModelVersion taken_;           ///< The version of the state that a job copied last.
};

}  // namespace gv
