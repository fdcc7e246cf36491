// Counts offences of peers and decides which peers are quarantined.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "base/time.hpp"

namespace gv {

/// Records the offences of each peer. A peer with too many offences within a certain time is
/// quarantined. Its record is clean once the quarantine ends.
class Conduct {
 public:
  struct Options {
    int offences_max = 3;  ///< Number of offences at which a quarantine begins.
    Duration memory = std::chrono::minutes(1);  ///< Offences add up only within this time.
    Duration quarantine = std::chrono::minutes(1);

    friend bool operator==(const Options&, const Options&) = default;
  };

  explicit Conduct(Options options) : options_(options) {
    check(options.offences_max > 0, "a peer may offend at least once");
  }

  /// Counts an offence of `peer`. Returns true if it begins a quarantine. Offences during a
  /// quarantine do not prolong it.
  bool offend(Time now, PeerId peer) {
    if (is_quarantined(now, peer)) return false;
    Record& record = records_.try_emplace(peer, Record{.since = now}).first->second;
    if (record.is_over(now, options_)) record = {.since = now};
    if (++record.offences < options_.offences_max) return false;
    record.quarantined_until = now + options_.quarantine;
    return true;
  }

  bool is_quarantined(Time now, PeerId peer) const {
    const auto found = records_.find(peer);
    return found != records_.end() && now < found->second.quarantined_until;
  }

  /// Starts a full quarantine of `peer` now, whatever its record.
  void quarantine(Time now, PeerId peer) {
    records_[peer] = {.since = now, .quarantined_until = now + options_.quarantine};
  }

  /// Forgets records that no longer count. Returns the number of records left.
  std::size_t tick(Time now) {
    std::erase_if(records_, [&](const auto& entry) { return entry.second.is_over(now, options_); });
    return records_.size();
  }

  friend class Fields;
  static constexpr std::size_t field_count = 2;
  friend bool operator==(const Conduct&, const Conduct&) = default;

 private:
  struct Record {
    int offences = 0;
    Time since{};  ///< Time of the first offence that counts.
    Time quarantined_until{};

    friend bool operator==(const Record&, const Record&) = default;
    bool is_over(Time now, const Options& options) const {
      if (quarantined_until != Time{}) return now >= quarantined_until;
      return now - since >= options.memory;
    }
  };

  Options options_;
  std::map<PeerId, Record> records_;
};

}  // namespace gv
