// Transfers whole states within a generation, from peers that have the newest to those that do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>

#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/state_download.hpp"
#include "consensus/transfer/state_server.hpp"
#include "peer/modes/vector_pool.hpp"

namespace gv {

/// How states travel in modes with generations: the source makes a copy first, and one that stops
/// sending is given up, so that a ballot can name another.
StateDownload::Options generation_download(std::uint64_t layout_hash, std::size_t elements,
                                           std::uint32_t stage = 0);
StateServer::Options generation_server(std::uint64_t layout_hash);

/// A state that has arrived completely.
struct ArrivedState {
  VectorPool::Vector values;
  ModelVersion version;
  PeerId from{};
};

/// Both ends of the transfer of a state. The generation says which peer sends to which; the peer
/// that lacks the state asks. If the source dies, the next generation may name another, and the
/// transfer goes on there if that peer has the same bits. Pure.
class StateTransfer {
 public:
  /// `memory` as in AllReduceOptions.
  StateTransfer(PeerId self, std::uint64_t layout_hash, std::size_t elements,
                std::pmr::memory_resource* memory);

  /// The generation has begun, and `source` has to send us its state. `is_common`: all peers at the
  /// generation's version have the same bits.
  void fetch(Time now, const Generation& generation, PeerId source, bool is_common, Effects& out);
  /// The generation has begun, and we have the state.
  void need_nothing() { incoming_.reset(); }
  /// Gives up all transfers under way because their generation is over. Keeps the part of a state
  /// that has arrived.
  void leave_generation();

  /// True if we lack the state, or it has arrived and was not taken yet.
  bool is_fetching() const { return fetching_; }
  bool fetches_from(PeerId peer) const { return fetching_ && peer == source_; }
  /// Takes a block, if it is of the state we wait for.
  void receive(Time now, PeerId from, const Block& block, Effects& out);
  /// Handles messages about states, except requests.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  /// The state, once it is complete.
  std::optional<ArrivedState> take();

  /// True if this message asks us for a state in that generation, and the generation makes us its
  /// source.
  bool is_asked(const Generation& generation, PeerId from, const StateRequest& request) const;
  /// Notes that we owe the state to the peer that asked.
  void owe(Time now, PeerId to, const StateRequest& request, Effects& out) {
    server_.ask(now, to, request, false, out);
  }
  bool owes(PeerId to) const { return server_.waits(to); }
  bool owes_any() const { return server_.is_waited_for(); }
  /// Drops all requests, because every peer of the generation has the state.
  void forget_debts() { server_.clear(); }
  /// A vector into which a job copies the state. The state is then at `version`.
  VectorPool::Vector blank(const ModelVersion& version);
  /// Sends the copied state to all peers that wait for it, if the generation still starts from it.
  /// Returns their number. `is_common` as in fetch().
  std::size_t send(const Generation& generation, const VectorPool::Vector& state, bool is_common,
                   Effects& out);

  /// Asks again where needed. Returns the source if it has begun and stopped sending, or refuses.
  std::optional<PeerId> tick(Time now, Effects& out);
  Time deadline() const { return download_.deadline(); }

 private:
  PeerId self_;
  VectorPool states_;
  StateDownload download_;
  StateServer server_;
  bool fetching_ = false;
  PeerId source_{};
  ModelVersion coming_version_;
  VectorPool::Vector incoming_;  ///< The values that `download_` has received; null: none.
  ModelVersion taken_;           ///< Version of the state that a job copied last.
};

}  // namespace gv
