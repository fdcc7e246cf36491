// The parts of a running peer. Included only by the sources of the host.
#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "net/bulk_lanes.hpp"
#include "net/control_links.hpp"
#include "net/examiner.hpp"
#include "net/key_signer.hpp"
#include "net/rate_limit.hpp"
#include "peer/config/task.hpp"
#include "peer/host/adaptive_spin_wait.hpp"
#include "peer/host/event_log.hpp"
#include "peer/host/host.hpp"
#include "peer/host/ledger_view.hpp"
#include "peer/host/member_cache.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/processors.hpp"
#include "peer/host/reading_thread.hpp"
#include "peer/host/rendezvous.hpp"
#include "peer/host/report.hpp"
#include "peer/host/settings_revision_file.hpp"
#include "peer/host/ticket_book.hpp"
#include "peer/host/worker.hpp"
#include "peer/node/node.hpp"

namespace gv {

/// True for messages about membership. They normally travel on control links, which check the
/// content of such messages.
bool is_membership(const Message& message);

/// Returns a random number from the system.
std::uint64_t random_number();

/// Keeps SIGHUP pending for this thread and for those that it starts, or lets it through again.
void hold_hangups(bool are_held);

/// A peer on this machine, with all its real parts and the loop in which they run.
class Host {
 public:
  Host(const HostOptions& options, Task task, SettingsRevision revision);

  /// Runs the peer to its end. `learner` is null for the built-in one. Returns the process's exit
  /// code.
  int run(std::unique_ptr<Learner> learner);

 private:
  struct Armed {
    Time at = never;
    std::uint64_t generation = 0;
  };
  struct Quarantine {
    Time until{};
    std::string what;  ///< Name of the event that reported the quarantine.
    std::string why;
  };

  /// How the peers of a cohort meet.
  struct Cohort {
    Rendezvous rendezvous;
    Time next_look{};
    Time next_waiting_line{};
    RateLimit dials;  ///< Limits dials to addresses from the rendezvous.
  };

  Time now() const {
    return Time(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began_));
  }

  /// Calls `input(now, effects)` on the node, carries out the effects, and sets the timer.
  template <class Input>
  void feed(Input input) {
    NodeEffects effects;
    input(now(), effects);
    carry_out(effects);
    arm();
  }

  /// Like feed(), for input that `from` sent on a lane. Such input must not end the process, so an
  /// exception counts against `from`, as on links.
  template <class Input>
  void feed_from(PeerId from, Input input) {
    try {
      feed(input);
    } catch (const std::exception& error) {
      control_->offend(from, error.what());
    }
  }

  void open_links();
  void open_lanes();
  void make_node(StartingPoint& point);
  void start_worker(std::unique_ptr<Replica> replica, ArraySource* arrays);
  void open_socket();
  /// Prepares the folder for this run; a new run moves the models of an earlier one aside. Call
  /// only after everything for which a start is refused, because that must leave the folder as it
  /// was.
  Problems take_over_folder(bool is_new_run) const;
  int refuse(const Problems& problems) const;
  bool join_others();
  void dial_listed();
  void open_rendezvous();
  void meet_cohort();

  void enter_swarm();
  void follow_certificates();
  void follow_accepted();
  void keep_certificates();
  void open_door();
  void show_certificates();
  std::optional<JoinAnswer> answer_guest(const PublicKey& guest, const JoinRequest& request);
  std::optional<Certificate> certificate_for(const PublicKey& guest, const JoinRequest& request);
  JoinAnswer refuse_guest(const std::string& why);
  std::string answer_swarm_command(const std::string& command);
  std::optional<std::string> make_ticket(const TicketTerms& terms);
  void offer_ticket(const TicketTerms& terms);
  std::uint64_t wall_us() const;
  std::uint64_t wall_s() const { return wall_us() / 1'000'000; }

  void carry_out(NodeEffects& effects);
  bool send(const Outgoing& outgoing);
  std::vector<PeerId> relays_to(PeerId to) const;
  bool dial_directly(PeerId peer);
  void leave_relays();
  void examine(ExamCall call);
  std::optional<LaneToken> pair_token_of(PeerId peer, std::uint64_t stream) const;
  void receive_of_members(Envelope envelope);
  void receive_on_lane(Envelope envelope);
  void note(const Fact& fact);
  void tell_people(const Fact& fact);
  void note_quarantine(const Fact& fact);
  void hold_against(const Fact& fact);
  bool follow_peer(const Fact& fact);
  void arm();
  std::size_t others() const;
  /// Joining fails if a peer has no contact for this long and knows no cached peer to try.
  static constexpr Duration join_deadline = std::chrono::seconds(30);
  bool needs_others() const;
  bool is_newcomer() const;
  Problems problems_of_joining() const;
  void every_second();
  void keep_place();
  void sync_addresses();
  void keep_revision();
  std::unique_ptr<Learner> make_learner();
  void stop_learner();
  void on_signal(int signal);
  void reload_authorized();
  void forget_unlisted(const std::vector<AuthorizedPeer>& before);
  std::string save(const Replica& replica, const task::Save& how);
  std::vector<std::pair<std::string, std::string>> agreed_settings() const;
  void wait_for_signal();
  void print_greeting(bool has_no_checkpoint) const;
  void print_waiting();
  void print_end() const;
  std::string end_reason() const;
  void warn_of_unread_shards(std::size_t peers) const;
  void warn(const std::string& line) const;
  bool is_guest() const { return options_.guest_says != nullptr; }
  std::string name_of(PeerId peer) const;
  std::vector<PeerId> authorized_ids() const;
  Report report() const;
  void write_result();

  HostOptions options_;
  Task task_;
  std::size_t samples_ = 0;    ///< Samples that this peer trains on.
  std::size_t state_ = 0;      ///< Number of values in the optimiser's state.
  SettingsRevision revision_;  ///< The settings revision on disk.
  /// The fingerprint of the user's own first model, as in CourseOptions; 0 if there is none.
  std::uint64_t first_model_ = 0;
  /// The layout of the model in words; empty for stages.
  std::string layout_;
  PeerId self_;
  std::uint64_t session_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  /// The memory that lanes share; null in mode `gossip` or without shared memory. Declared before
  /// everything that sends from it.
  std::shared_ptr<SharedBuffer> lent_;
  asio::io_context io_;
  AdaptiveSpinWait spin_wait_;
  Processors processors_;
  EventLog log_;
  KeySigner signer_;
  std::optional<ControlLinks> control_;
  std::optional<BulkLanes> lanes_;
  Examiner examiner_{
      io_,
      {.dial_from = options_.dial_from},
      {.wall_us = [this] { return wall_us(); },
       .offer = [this](ExamAnswer& answer) { lanes_->offer_echo(answer); },
       .ledger = [this](std::size_t most) { return ledger_part(report_json(report()), most); }}};
  std::optional<Node> node_;
  // This field and the next are declared before the worker, because the worker's destructor ends
  // jobs that use them.
  std::string config_text_;
  std::shared_ptr<ConservationChecksum> final_checksum_ = std::make_shared<ConservationChecksum>();
  std::optional<ReadingThread> reading_;  ///< Set if data stay in files. Outlives the worker.
  std::optional<Worker> worker_;
  Replica* replica_ = nullptr;  ///< The worker's replica. The host only asks it to stop.
  bool told_to_stop_ = false;   ///< True once we have asked the replica to stop.
  bool told_ready_ = false;     ///< True once the service manager need not be told.
  std::optional<PeerSocket> socket_;
  asio::steady_timer timer_{io_};
  asio::steady_timer second_{io_};
  std::optional<asio::signal_set> signals_;  ///< Empty if the peer is a part of another program.
  Armed armed_;
  std::optional<Cohort> cohort_;  ///< Set for a peer of a cohort.
  MemberCache cache_;
  std::map<PeerId, Member> cached_;           ///< Peers in the file of known members.
  std::map<PeerId, Quarantine> quarantined_;  ///< Each peer's current or last quarantine.
  std::map<PeerId, std::string> names_;
  std::map<PeerId, std::string> addresses_;
  std::set<PeerId> contacts_;
  std::set<PeerId> with_other_settings_;  ///< Peers whose hello had settings other than ours.
  /// When the first hello with different settings arrived.
  std::optional<Time> heard_other_settings_at_;
  Time next_report_{};
  int exit_code_ = 0;
  bool is_unsaved_ = false;    ///< True if the last save failed.
  bool told_unsaved_ = false;  ///< True if we have printed that saves fail.
  /// The step of the newest final model in the folder. Used by the worker's thread alone.
  std::uint64_t final_at_ = 0;
  std::optional<Time> interrupted_;
  bool ending_ = false;
  bool told_of_lost_stage_ = false;
  std::size_t missing_ = 0;                ///< The number of missing peers that we last printed.
  std::optional<KeySigner> swarm_signer_;  ///< Set if this peer founded the swarm.
  /// For each relayed peer, when it was last dialled directly.
  std::map<PeerId, Time> dialled_directly_;
  std::optional<TicketBook> tickets_;  ///< Set for a peer of a swarm with certificates.
  std::vector<PublicKey> guests_;      ///< The keys of guests that links admit.
  Time next_refusal_{};                ///< When a refused guest may be reported again.
  std::uint64_t followed_ = 0;  ///< The version of the certificates that links currently use.
  std::uint64_t kept_ = 0;      ///< The number of certificate changes that have been saved on disk.
};

}  // namespace gv
