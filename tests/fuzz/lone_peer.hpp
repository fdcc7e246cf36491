// One node with a cheap replica and no host. Tests and fuzzers play the other peers of its swarm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "net/record_reader.hpp"
#include "net/roster.hpp"
#include "peer/modes/modes.hpp"
#include "peer/node/node.hpp"
#include "sim/virtual/simulator.hpp"
#include "tests/fuzz/inputs.hpp"

namespace gv::fuzz {

/// Number of peers in a swarm. The allow-list has one more peer, which never appears.
inline constexpr std::size_t swarm_peers = 4;
inline constexpr std::size_t listed_peers = swarm_peers + 1;

/// A kind of peer, with everything that all peers of the kind share.
struct PeerKind {
  std::string_view name;
  NodeOptions options;
  MakeWorkload make;
  bool bounds_models = false;  ///< True if the mode promises that models stay finite.
};
const std::vector<PeerKind>& peer_kinds();

/// The id under which others authenticate peer `number`.
PeerId listed_id(std::size_t number);

/// Everything that a peer sends to others.
struct Sent {
  std::vector<Outgoing> messages;
  std::vector<Transfer> transfers;
};

/// A peer without a host. Aborts if the node breaks a promise. Violations are a message that cannot
/// be sent, more than two jobs, a timer that is always due, and a model that is not finite.
class LonePeer {
 public:
  LonePeer(const PeerKind& kind, std::size_t number);

  /// Moves the time to `until`, and does everything that is due before then.
  void advance(Time until);
  /// Does a step, `wait_ms` after the previous one.
  void apply(const Step& step);
  /// The peer that `from` in a step stands for.
  PeerId other(std::uint8_t from) const;
  std::uint8_t number_of_other(PeerId peer) const;

  Sent take_sent() { return std::exchange(sent_, {}); }
  std::size_t jobs() const { return jobs_.size(); }
  std::uint64_t jobs_done() const { return jobs_done_; }
  Time now() const { return now_; }
  const Node& node() const { return *node_; }
  bool is_over() const { return node_->is_finished(); }
  bool is_finite() const;

 private:
  void receive_frame(PeerId from, std::span<const std::byte> bytes);
  void receive_records(PeerId from, std::span<const std::byte> bytes);
  void receive_record(PeerId from, const Record& record);
  void finish_job();
  void carry_out(NodeEffects& out);
  template <class Call>
  void call(Call call) {
    NodeEffects out;
    call(*node_, out);
    carry_out(out);
  }

  const PeerKind& kind_;
  std::size_t number_;
  Time now_{};
  Roster roster_;
  std::unique_ptr<Replica> work_;
  std::unique_ptr<Node> node_;
  std::deque<Job> jobs_;
  std::uint64_t jobs_done_ = 0;
  std::array<RecordReader, listed_peers> readers_;
  Sent sent_;
};

}  // namespace gv::fuzz
