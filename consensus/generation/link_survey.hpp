// Measures the links from one peer to all others with a few acknowledged blocks.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Measures the links from one peer to every other in its generation. A ring uses few links, so its
/// traffic cannot show the speed of the others. So in each of a generation's first collectives,
/// every peer sends one other peer a small block and, after the acknowledgement, a large block. In
/// one collective, all peers send to the peer at the same distance in rank, so no peer receives two
/// probes at once. The latency is half of the small block's time; the additional time of the large
/// block is due to its bytes. Disturbances only make measurements slower, so the fastest of the
/// newest four is used. Pure.
class LinkSurvey {
 public:
  /// Number of times that each link is measured in a generation.
  static constexpr std::size_t rounds = 4;
  /// The longest time that a collective waits for an unanswered probe. It also never waits longer
  /// than a collective usually takes.
  static constexpr Duration quiet_max = std::chrono::milliseconds(250);

  /// A large block has about as many bytes as a link carries in a sum of `elements` floats, but at
  /// least 16 KiB and at most `block_bytes_usual`.
  LinkSurvey(PeerId self, std::size_t elements);

  /// Begins a generation. With more than 65 peers no links are measured.
  void begin(const std::vector<PeerId>& order, std::uint64_t generation_key);
  void end();

  /// Sends the probe of this collective, if it has one and the previous probe is over. The
  /// generation's first collective, number 0, has none, because models may still be on their way.
  /// `usual` is the recent duration of a collective; 0 means unknown.
  void operation_began(Time now, std::uint64_t operation, Duration usual, Effects& out);

  /// Acknowledges a probe from a peer of this generation.
  void receive_block(PeerId from, const Block& block, Effects& out) const;
  void receive(Time now, PeerId from, const ProbeAck& message, Effects& out);
  /// Call when the lane to the peer has broken. Any probe on it is lost.
  void lane_lost(PeerId peer);
  /// Call when no lane to the peer can be opened. Its link is reported with 0 bytes a second.
  void lane_refused(PeerId peer);

  /// Other blocks should wait until this time, so that they do not disturb the probe under way. The
  /// time is in the past if no probe is under way.
  Time quiet_until() const { return probe_ ? probe_->quiet_until : Time::min(); }

  /// Number of collectives, after a generation's first, in which `peers` peers measure their links.
  static constexpr std::uint64_t operations(std::size_t peers) {
    return peers < 2 || peers > link_reports_max + 1 ? 0 : rounds * (peers - 1);
  }

  /// All measured links, at most `link_reports_max`.
  std::vector<LinkReport> reports() const;

  friend class Fields;
  static constexpr std::size_t field_count = 7;
  friend bool operator==(const LinkSurvey& a, const LinkSurvey& b);

 private:
  /// The newest measurements with blocks of one size, in seconds. Unused entries hold infinity.
  struct Samples {
    std::array<double, rounds> seconds = none();
    std::size_t next = 0;

    static std::array<double, rounds> none();
    void add(double measured);
    double fastest() const;
  };
  struct Known {
    Samples small;
    Samples large;
  };
  struct Probe {
    PeerId to{};
    std::uint64_t operation = 0;
    bool large = false;
    Time quiet_until{};
    Time sent{};
  };

  TransferId id_of(const Probe& probe) const;
  void send(Time now, bool large, Effects& out);
  void give_up(double seconds);

  PeerId self_;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
  std::vector<PeerId> order_;  ///< The peers of the generation by rank. Empty if no links are
                               ///< measured.
  std::size_t rank_ = 0;
  std::uint64_t generation_key_ = 0;
  std::optional<Probe> probe_;
  std::map<PeerId, Known> known_;
};

}  // namespace gv
