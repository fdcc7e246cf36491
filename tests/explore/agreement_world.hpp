// A small world of peers that agree on generations and sum synchronously.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "tests/explore/wire.hpp"
#include "tests/signers.hpp"

namespace gv::explore {

/// The bounds of a world of agreements.
struct AgreementBound {
  static constexpr std::size_t peers = 3;
  Faults faults;
  std::uint64_t steps = 2;    ///< Largest number of collectives of each peer.
  std::uint64_t ballots = 3;  ///< Largest number of ballots of all living peers together.
};

/// Peers with the production agreement, and a planner that does what all modes do: all peers that
/// answered continue from the newest version. Messages take any time and overtake each other. Only
/// the outcome of a collective is modelled: a peer can finish it once all peers of its generation
/// have begun it. A state that a peer needs can arrive once its source has it.
///
/// The following simplifications hide no broken law. Each peer has its own clock, which only its
/// own timers move, and any set timer may fire next. So every order of timers and arrivals that
/// real clocks allow can occur, and so can further orders. A peer sleeps through the moments at
/// which it only repeats a question, unless a message was lost. All other repetitions are
/// duplicates within the bound. Times more than 4 s ago have the same hash, because no rule looks
/// further back than 10 patiences, which are 3 s. The patience is fixed, and the measured average
/// behind it is set to zero. A peer joins its generation's collective at once, which only lets more
/// peers finish.
class AgreementWorld {
 public:
  explicit AgreementWorld(const AgreementBound& bound);

  std::vector<Move> moves() const;
  void apply(const Move& move);
  const std::string& broken() const { return broken_; }
  bool is_outside() const;
  std::uint64_t hash() const;
  std::string text(const Move& move) const;

 private:
  static constexpr std::size_t n = AgreementBound::peers;
  /// A collective, named by its generation's key and its step.
  using Collective = std::pair<std::uint64_t, std::uint64_t>;
  struct Peer {
    std::optional<Agreement> agreement;  ///< Empty if the peer is dead.
    Time now{};                          ///< The time on the peer's own clock.
    std::uint64_t key = 0;               ///< Key of the peer's generation; 0: none.
    std::uint64_t newest_key = 0;        ///< Key of the newest generation that the peer was in.
    bool knows_of_crash = false;
  };
  enum Act : std::size_t { finish, fetch, invite, repeat };

  void wake(std::size_t number, bool to_repeat);
  template <class Call>
  void feed(std::size_t number, Call call);
  void settle(std::size_t number);
  void begin(std::size_t number, const Generation& generation);
  bool can_finish(std::size_t number) const;
  bool can_fetch(std::size_t number) const;
  bool can_invite(std::size_t number) const;
  void do_act(std::size_t number, std::size_t what);
  void join(std::size_t number);
  void check_results();
  std::vector<PeerId> candidates(std::size_t number) const;

  const AgreementBound* bound_;
  std::array<Peer, n> peers_;
  Wire wire_;
  Faults faults_;
  std::map<std::uint64_t, std::uint64_t> generations_;  ///< The hash of each generation, by key.
  std::map<Collective, std::uint32_t> begun_;           ///< The peers that have joined, as bits.
  std::map<Collective, ModelVersion> results_;
  std::string broken_;
};

}  // namespace gv::explore
