// Sends states, of whole models or of stages, to peers that ask for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/state_hash.hpp"
#include "base/time.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// The serving side of the download of a state (StateDownload is the other). A peer that has a part
/// of the state already, of the same version, is sent the rest. Pure.
class StateServer {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    std::size_t served_max = 4;  ///< Downloads served at a time; further peers are refused as busy.
    /// Peers that ask for a state which is not there wait until it is provided; otherwise they are
    /// refused as not ready.
    bool waits = false;
    Duration serve_deadline = std::chrono::minutes(10);  ///< After it a download is dropped.
  };

  /// A state as it can be sent.
  struct State {
    ModelVersion version;
    Payload payload;  ///< Floats. Held only as long as downloads of it last.
  };

  explicit StateServer(const Options& options) : options_(options) {}

  /// Takes a request or refuses it. Who may ask is the caller's affair, but that a peer asks for
  /// itself and has the same layout is checked here. True if it waits for provide() now, which may
  /// follow at once where the state `is_there`.
  bool ask(Time now, PeerId from, const StateRequest& request, bool is_there, Effects& out);
  /// Sends the state of the stage to all that wait for it. Returns how many.
  std::size_t provide(std::uint32_t stage, const State& state, Effects& out);
  /// Handles Resume, Ready and Abort about a state; ignores the rest.
  void receive(PeerId from, const Message& message, Effects& out);
  void lane_lost(PeerId peer, Effects& out);
  /// Nothing can be sent to that peer any more.
  void forget(PeerId peer);
  /// Forgets all downloads, without a message: their session is over.
  void clear() { served_.clear(); }
  void tick(Time now);
  Time deadline() const;

  /// Whether a peer waits for a state that was not provided yet.
  bool is_waited_for() const;
  bool waits(PeerId peer) const;
  /// Number of downloads served.
  std::size_t held() const { return served_.size(); }

  friend class Fields;
  static constexpr std::size_t field_count = 2;
  friend bool operator==(const StateServer& a, const StateServer& b) { return equal_states(a, b); }

 private:
  /// A download of another peer.
  struct Served {
    StateRequest request;
    std::optional<State> state;          ///< Empty: the peer waits for it.
    std::optional<std::uint64_t> asked;  ///< The offset that it last asked us to resume at.
    Time until{};
  };

  Served* find(PeerId from, const TransferId& id);
  static void accept(PeerId to, const Served& served, std::uint64_t layout_hash, Effects& out);
  static std::uint64_t offset_of(const StateRequest& request, const State& state);
  void send(PeerId to, Served& served, const State& state, Effects& out) const;

  Options options_;
  std::map<std::pair<PeerId, std::uint32_t>, Served> served_;  ///< By peer and stage.
};

}  // namespace gv
