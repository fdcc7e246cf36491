// Sends states, of whole models or of stages, to peers that ask for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// The serving side of the download of a state (StateDownload is the other). A peer that already
/// has a part of the same version gets only the rest. Pure.
class StateServer {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    std::size_t served_max = 4;  ///< Downloads served at a time; further peers are refused as busy.
    /// If true, a request for a missing state waits until the state is provided; otherwise it is
    /// refused as not ready.
    bool waits = false;
    /// A download is dropped this long after its request, and after each Resume that asks for more
    /// than the one before. In addition a state gets the time that a link of 1 Mbit/s needs for it.
    Duration serve_deadline = std::chrono::minutes(10);
  };

  /// A state in the form in which it can be sent.
  struct State {
    ModelVersion version;
    Payload payload;  ///< Its floats. Held only as long as downloads of it last.
  };

  explicit StateServer(const Options& options) : options_(options) {}

  /// Accepts or refuses a request. Checks that the peer asks for itself and has the same layout;
  /// the caller checks whether it may ask at all. Returns true if the request now waits for
  /// provide(), which the caller may call at once if the state `is_there`.
  bool ask(Time now, PeerId from, const StateRequest& request, bool is_there, Effects& out);
  /// Sends the state of the stage to all peers that are waiting for it. Returns their number.
  std::size_t provide(std::uint32_t stage, const State& state, Effects& out);
  /// Handles Resume, Ready and Abort about a state; ignores the rest. A Resume of a download that
  /// we do not serve any more is answered with Abort.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  void lane_lost(PeerId peer, Effects& out);
  /// Drops the downloads of a peer that can no longer be reached.
  void forget(PeerId peer);
  /// Drops all downloads without a message because their session is over.
  void clear() { served_.clear(); }
  void tick(Time now);
  Time deadline() const;

  /// True if any peer is waiting for a state that has not been provided yet.
  bool is_waited_for() const;
  bool waits(PeerId peer) const;
  /// Number of downloads served.
  std::size_t held() const { return served_.size(); }

  friend class Fields;
  static constexpr std::size_t field_count = 2;
  friend bool operator==(const StateServer& a, const StateServer& b);

 private:
  /// A download of another peer.
  struct Served {
    StateRequest request;
    std::optional<State> state;          ///< Empty: the peer is waiting for the state.
    std::optional<std::uint64_t> asked;  ///< The offset that it last asked us to resume at.
    std::uint64_t furthest = 0;          ///< The largest offset that it has asked for.
    Time until{};
  };

  Served* find(PeerId from, const TransferId& id);
  Duration time_for(const Served& served) const;
  static void accept(PeerId to, const Served& served, std::uint64_t layout_hash, Effects& out);
  static std::uint64_t offset_of(const StateRequest& request, const State& state);
  void send(PeerId to, Served& served, const State& state, Effects& out) const;

  Options options_;
  std::map<std::pair<PeerId, std::uint32_t>, Served> served_;  ///< Keyed by peer and stage.
};

}  // namespace gv
