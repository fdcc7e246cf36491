// A small world of two peers that exchange models.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "consensus/gossip/pair_exchange.hpp"
#include "tests/explore/wire.hpp"

namespace gv::explore {

/// The bounds of a world of exchanges.
struct ExchangeBound {
  Faults faults;
  int starts = 2;  ///< Number of exchanges that both peers begin in total.
};

/// Two peers with the production exchange and models of two values, sent in two blocks. Either peer
/// may begin an exchange whenever it can. The values make all sums exact. Each peer has its own
/// clock, which only its own timers move, and any set timer may fire next.
class ExchangeWorld {
 public:
  explicit ExchangeWorld(const ExchangeBound& bound);

  std::vector<Move> moves() const;
  void apply(const Move& move);
  const std::string& broken() const { return broken_; }
  bool is_outside() const { return false; }
  std::uint64_t hash() const;
  std::string text(const Move& move) const;

 private:
  static constexpr std::size_t elements = 2;
  using Values = std::array<double, elements>;
  struct Peer {
    std::optional<PairExchange> exchange;  ///< Empty if the peer is dead.
    Time now{};                            ///< The time on the peer's own clock.
    Values model{};
    std::map<TransferId, Values> forces;  ///< The forces that the peer has added, by exchange.
  };

  template <class Call>
  void feed(std::size_t number, Call call);
  void check_laws();
  void check_exchange(const TransferId& id);

  const ExchangeBound* bound_;
  std::array<Peer, 2> peers_;
  Wire wire_;
  Faults faults_;
  int starts_left_ = 0;
  bool knows_of_crash_ = false;
  std::string broken_;
};

}  // namespace gv::explore
