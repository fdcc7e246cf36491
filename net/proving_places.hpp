// A bounded number of places for unproved connections, and the choice of the one to close.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"

namespace gv {

/// Shares a bounded number of places among unproved connections, so that a flood of them cannot
/// keep a partner out. If all places are taken, the source with the most connections loses one: the
/// oldest if its grace period is over, else a random one, as in OpenSSH's MaxStartups. A source
/// with fewer connections than its share therefore loses none.
class ProvingPlaces {
 public:
  using Id = std::uintptr_t;

  struct Options {
    std::size_t places = 128;
    std::size_t kept_max = 64;  ///< Limit for keep(); kept connections take no place.
    /// Time that a partner has to name its invitation.
    Duration grace = std::chrono::milliseconds(500);
    std::uint64_t seed = 1;
  };

  explicit ProvingPlaces(Options options);
  ProvingPlaces(const ProvingPlaces&) = delete;
  ProvingPlaces& operator=(const ProvingPlaces&) = delete;

  /// Gives a new connection a place. Returns the connection that loses its place, if any. This is
  /// never the new one. Connections that came at the same moment are spared if there are other
  /// candidates, so that a partner's first bytes are read before a later connection can take its
  /// place.
  std::optional<Id> enter(Time now, Id id, const std::string& source);

  /// Call when the connection names an existing invitation. It can then no longer lose its place,
  /// and does not count against the limit. No effect if too many are kept already.
  void keep(Id id);

  /// Call when the connection has proved itself or is gone. No effect if it is unknown here.
  void leave(Id id);

  /// Connections that came before `time`.
  std::vector<Id> older_than(Time time) const;

  std::size_t size() const { return strangers_.size() + kept_.size(); }

 private:
  using Sources = std::map<std::string, std::size_t>;  ///< Number of strangers from each source.
  struct Stranger {
    Time since{};
    Sources::iterator source;
  };

  void forget(std::map<Id, Stranger>::iterator stranger);

  Options options_;
  Rng rng_;
  Sources sources_;
  std::map<Id, Stranger> strangers_;
  std::map<Id, Time> kept_;  ///< Kept connections, with the time at which each one came.
};

/// Returns the options for a listener. The places use at most an eighth of the descriptors that the
/// process may open, but there are at least four.
ProvingPlaces::Options usual_places();

}  // namespace gv
