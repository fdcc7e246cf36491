// One complete peer, without sockets or threads: membership and a mode, wired together. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "consensus/membership/membership.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/mode.hpp"

namespace gv {

/// Protocol effects, and the jobs that a node requests. Jobs are done in the order of their
/// requests, and at most two are under way.
struct NodeEffects : Effects {
  std::vector<Job> jobs;
};

struct NodeOptions;
class SwitchableMode;
class Trust;

/// The complete interface of a peer: everything that the outside world can do to it, and all
/// effects that the peer asks for. The host connects a node to sockets and a worker thread, the
/// simulator to a virtual clock.
class Node {
 public:
  /// `self` contains id, key, name, address, layout hash and the first incarnation, which should be
  /// higher than those of the peer's earlier processes; `authorized` is the allow-list. `signer`
  /// has the key of `self` and must outlive the node.
  Node(Member self, std::vector<PeerId> authorized, std::uint64_t session,
       const NodeOptions& options, const Signer& signer, Rng rng);

  /// Call when the replica exists and is at `step`. With `joins_others`, training waits for a first
  /// contact.
  void start(Time now, std::uint64_t step, bool joins_others, NodeEffects& out);

  /// Call when a control link to `peer` is up.
  void contact(Time now, PeerId peer, NodeEffects& out);
  /// Call when the peer's process has restarted, so all work under way with that process is over.
  void restarted(Time now, PeerId peer, NodeEffects& out);
  void receive(Time now, const Envelope& envelope, NodeEffects& out);
  /// Call when the links with that peer are quarantined, so no work with it is possible for a
  /// while.
  void refuse(Time now, PeerId peer, NodeEffects& out);
  void receive_block(Time now, PeerId from, const Block& block, NodeEffects& out);
  /// Returns the memory for a block that is under way (Mode::place).
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes) {
    return mode_->place(from, id, offset, bytes);
  }
  void lane_lost(Time now, PeerId peer, NodeEffects& out);
  void lane_refused(Time now, PeerId peer, NodeEffects& out);
  /// Call when job `job` has made the gradient final from element `begin` on.
  void gradient_ready(Time now, std::uint64_t job, std::size_t begin, NodeEffects& out);
  void complete(Time now, JobDone done, NodeEffects& out);
  void authorize(Time now, std::vector<PeerId> authorized, NodeEffects& out);

  /// Makes the node admit peers with certificates as well as those on the allow-list. Call before
  /// start().
  void certify(Time now, Trust trust, NodeEffects& out);
  /// The certificates of the swarm; null if this peer uses only an allow-list.
  const Trust* trust() const { return trust_.get(); }
  /// See Trust. Only for a node with certificates.
  std::optional<Certificate> invite(Time now, const PeerKey& key, const std::string& name,
                                    bool may_invite, NodeEffects& out);
  Problems revoke(Time now, std::string_view name, bool with_invited, NodeEffects& out);
  /// Sets the time of the wall clock, in seconds since 1970.
  void set_wall(Time now, std::uint64_t wall_s);
  /// Takes certificates shown by a peer that may not have a link yet.
  void receive_certificates(Time now, const Certificates& shown, NodeEffects& out);

  /// Does the work that is due. Safe to call early, late or twice.
  void tick(Time now, NodeEffects& out);
  Time deadline() const;

  /// Makes all peers use these settings from an agreed round on (Mode::switch_to).
  Problems switch_to(Time now, std::string_view settings, NodeEffects& out);

  /// Ends training after the job under way, with a checkpoint and a message to the others.
  void leave(Time now, NodeEffects& out);
  bool is_leaving() const { return leaving_; }
  bool is_finished() const { return mode_->course().is_finished(); }
  /// See Mode.
  bool should_busy_poll() const { return mode_->should_busy_poll(); }
  std::optional<HostPlace> host_place() const { return mode_->host_place(); }

  const Membership& membership() const { return membership_; }
  const Mode& mode() const { return *mode_; }
  /// The mode, including its reports about switches between modes.
  const SwitchableMode& switchable() const { return *switchable_; }
  /// The mode as an `M`, for callers that need one kind of mode; null if it is of another kind.
  template <class M>
  const M* as() const {
    const auto* found = std::get_if<const M*>(&present_mode());
    return found != nullptr ? *found : nullptr;
  }
  const Generations* generations() const { return mode_->generations(); }

 private:
  const AnyMode& present_mode() const;
  void settle(Time now, NodeEffects& out);
  void follow_trust(Time now, NodeEffects& out);

  Membership membership_;
  std::unique_ptr<Mode> mode_;
  SwitchableMode* switchable_ = nullptr;  ///< `mode_`, by its concrete type.
  std::uint64_t incarnation_ = 0;
  Duration forgotten_after_;  ///< Others forget a peer that has been dead to them for this long.
  Time settled_at_ = never;   ///< When we last handled an input; `never` before the first.
  bool leaving_ = false;
  bool told_others_ = false;
  const Signer* signer_;
  std::vector<PeerId> listed_;  ///< The allow-list.
  /// Null without certificates. Not shared: a shared_ptr is used because it needs no complete type
  /// here.
  std::shared_ptr<Trust> trust_;
  std::uint64_t trusted_ = 0;    ///< The version of `trust_` that membership uses.
  std::set<PeerId> authorized_;  ///< The peers that membership admits, including those with
                                 ///< certificates.
};

}  // namespace gv
