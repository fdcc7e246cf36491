// Places for connections that have not proved themselves, and which gives way when all are taken.
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

/// Shares a bounded number of places among strangers, so that no number of them keeps a partner
/// out. If all places are taken, a connection of the source that has the most gives way: the oldest
/// if it has had its time of grace, else any of them by chance, as in OpenSSH's MaxStartups. A
/// source with fewer connections than its share therefore loses none.
class ProvingPlaces {
 public:
  using Id = std::uintptr_t;

  struct Options {
    std::size_t places = 128;
    std::size_t kept_max = 64;  ///< Connections beside these that never give way.
    /// A partner has shown what it is invited to by then.
    Duration grace = std::chrono::milliseconds(500);
    std::uint64_t seed = 1;
  };

  explicit ProvingPlaces(Options options);

  /// Gives a new connection a place. Returns the one that has to go for it, never itself, and one
  /// that came at the same moment only if no other can: what a partner has sent is read before it
  /// can lose its place to a later moment.
  std::optional<Id> enter(Time now, Id id, const std::string& source);

  /// This connection has named an invitation that exists: it no longer gives way to others, and
  /// takes no place from them. Without effect while too many are kept already.
  void keep(Id id);

  /// The connection is no stranger any more, or gone. Without effect if it is not here.
  void leave(Id id);

  /// Those that came before `time`.
  std::vector<Id> older_than(Time time) const;

  std::size_t size() const { return strangers_.size() + kept_.size(); }

 private:
  struct Stranger {
    Time since{};
    std::string source;
  };

  Options options_;
  Rng rng_;
  std::map<Id, Stranger> strangers_;
  std::map<Id, Stranger> kept_;
};

/// The places of a listener: of the descriptors that the process may have at most an eighth.
ProvingPlaces::Options usual_places();

}  // namespace gv
