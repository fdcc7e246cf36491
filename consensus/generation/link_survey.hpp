// How fast the links from one peer to the others are, found out by a few blocks that are answered.
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

/// Measures the links from one peer to each other in its generation. A ring uses few links, so the
/// rest would never be known: in the first operations of a generation every peer sends one other a
/// small block and, when that was answered, a large one. In an operation all send to the peer that
/// stands the same number of places after them, so that nobody is sent two. The small one's time,
/// halved, is the latency; what the large one takes longer is its bytes'. Of the newest four
/// measurements the fastest counts, because all that disturbs makes them slower. Pure.
class LinkSurvey {
 public:
  /// Every link is measured so often in a generation.
  static constexpr std::size_t rounds = 4;
  /// A sum waits so long for a probe that is not answered, and no longer than sums take.
  static constexpr Duration quiet_max = std::chrono::milliseconds(250);

  /// Large blocks have what a link carries in an operation that sums `elements` floats, or as many
  /// bytes, but never more than one block can have.
  LinkSurvey(PeerId self, std::size_t elements);

  /// A generation begins. Only up to 65 peers are measured.
  void begin(const std::vector<PeerId>& order, std::uint64_t generation_key);
  void end();

  /// Sends the operation's probe, if it has one and the one before is over. The generation's first,
  /// 0, has none: models may still be on their way. `usual`: what an operation takes of late; 0 if
  /// that is not known.
  void operation_began(Time now, std::uint64_t operation, Duration usual, Effects& out);

  /// Answers a probe; false if the block is none.
  bool receive_block(PeerId from, const Block& block, Effects& out) const;
  void receive(Time now, PeerId from, const ProbeAck& message, Effects& out);
  /// The lane to the peer broke, and with it a probe on it.
  void lane_lost(PeerId peer);
  /// There is no lane to the peer.
  void lane_refused(PeerId peer);

  /// Other blocks should wait until then, so that they do not disturb the probe under way. Not
  /// later than now if there is none.
  Time quiet_until() const { return probe_ ? probe_->quiet_until : Time::min(); }

  /// Operations in which so many peers are measured, after a generation's first.
  static constexpr std::uint64_t operations(std::size_t peers) {
    return peers < 2 || peers > link_reports_max + 1 ? 0 : rounds * (peers - 1);
  }

  /// What is known of links, at most `link_reports_max`.
  std::vector<LinkReport> reports() const;

 private:
  /// The newest measurements of one kind, in seconds; infinity where none is.
  struct Samples {
    std::array<double, rounds> seconds;
    std::size_t next = 0;

    Samples();
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
  std::vector<PeerId> order_;  ///< Empty: nothing is measured.
  std::size_t rank_ = 0;
  std::uint64_t generation_key_ = 0;
  std::optional<Probe> probe_;
  std::map<PeerId, Known> known_;
};

}  // namespace gv
