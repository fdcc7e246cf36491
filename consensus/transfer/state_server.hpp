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

/// The serving side of a state's download (StateDownload is the requesting side). A peer that
/// already has part of the same version gets only the bytes that it lacks. Pure.
class StateServer {
 public:
  struct Options {
    std::uint64_t layout_hash = 0;
    /// Number of downloads served at a time. Further peers are refused as busy.
    std::size_t served_max = 4;
    /// If true, a request for a missing state waits until the state is provided. If false, the
    /// request is refused as not ready.
    bool waits = false;
    /// Time after which a download is dropped, counted from its request or from its last Resume
    /// with a larger offset than before. The time that a link of 1 Mbit/s needs for the state is
    /// added.
    Duration serve_deadline = std::chrono::minutes(10);
  };

  /// A state in the form in which it can be sent.
  struct State {
    ModelVersion version;
    /// The floats of the state. The server holds them only until their downloads end, and the end
    /// of a download also cancels the transfer.
    Payload payload;
  };

  explicit StateServer(const Options& options) : options_(options) {}

  /// Accepts or refuses a request. Checks that the peer asks in its own name and has the same
  /// layout. The caller must have checked that the peer may ask at all. `is_there` says whether the
  /// state is available. Returns true if the request now waits for provide(). If the state is
  /// available, the caller may call provide() at once.
  bool ask(Time now, PeerId from, const StateRequest& request, bool is_there, Effects& out);
  /// Sends the state of the stage to all peers that are waiting for it. Returns their number.
  std::size_t provide(std::uint32_t stage, const State& state, Effects& out);
  /// Handles Resume, Ready and Abort about a state, and ignores all other messages. A Resume of a
  /// download that we no longer serve is answered with Abort.
  void receive(Time now, PeerId from, const Message& message, Effects& out);
  void lane_lost(PeerId peer, Effects& out);
  /// Drops the downloads of a peer that can no longer be reached.
  void forget(PeerId peer);
  /// Drops all downloads and sends no message, because the session is over.
  void clear() { served_.clear(); }
  /// Drops the downloads whose time is over.
  void tick(Time now, Effects& out);
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
    std::optional<State> state;  ///< Empty while the peer is waiting for the state.
    /// The offset at which the peer last asked us to resume, if it has.
    std::optional<std::uint64_t> asked;
    std::uint64_t furthest = 0;  ///< The largest offset at which the peer has asked us to resume.
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
