// The state of the bulk lanes to each peer. Included only by the sources of the bulk lanes.
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/bulk_lanes.hpp"
#include "net/draining_connections.hpp"
#include "net/echo_service.hpp"
#include "net/lane_connection.hpp"
#include "net/lane_handshake.hpp"
#include "net/rate_limit.hpp"
#include "net/relay_service.hpp"

namespace gv {

struct BulkLanes::Impl {
  using Clock = LaneConnection::Clock;

  /// The lane to one peer.
  struct Lane {
    enum class State { none, invited, dialling, open };

    PeerId peer{};
    State state = State::none;
    std::uint64_t id = 0;
    ConnectionPtr connection;
    std::deque<Transfer> queue;
    std::deque<std::vector<std::byte>> messages;
    /// Slots of the peer's ring that we have read but not yet reported.
    std::size_t slots_read = 0;
    /// Blocks of the peer's shared buffer that we have read but not yet reported.
    std::size_t lent_read = 0;
    std::size_t lent_bytes_read = 0;  ///< Bytes in the blocks that `lent_read` counts.
    bool writing = false;
    /// The latest of three times: the last byte read, the last complete write, and the invitation.
    Clock::time_point progress;
    Clock::time_point heard;  ///< Time of the last byte received; initially the time of opening.
    std::optional<PeerId> relay;  ///< The peer that relays this lane; empty if the lane is direct.
    /// For a relayed lane: the time at which a direct lane began to seem possible.
    std::optional<Clock::time_point> gives_way;

    bool is_busy() const {
      return writing || !queue.empty() || !messages.empty() ||
             (connection && connection->reader.is_amid_record());
    }
    /// Time at which the last byte moved in either direction on an open lane.
    Clock::time_point moved() const { return std::max(progress, connection->moved); }
    void reset_stream() {
      writing = false;
      slots_read = lent_read = lent_bytes_read = 0;
    }
  };

  /// The attempts to reach a peer through another one.
  struct Detour {
    Clock::time_point first_failed;  ///< When the peer became unreachable.
    Clock::time_point last_failed;
    /// Number of requests to relays so far. It determines which relay is asked next.
    std::size_t asked = 0;
    std::optional<PeerId> last_asked;  ///< The relay that was asked last.
    Clock::time_point next_ask;
    Clock::time_point next_offer;  ///< Offers before this time are ignored.
  };

  /// After a direct lane has failed to replace a relayed one, no direct lane is tried for this
  /// long.
  static constexpr auto blocked_for = std::chrono::minutes(10);

  /// The change from a relayed lane to a direct one.
  struct Move {
    bool is_under_way = false;     ///< True if the relayed lane has ended and no other is open yet.
    Clock::time_point not_before;  ///< No direct lane is tried before this time.
    /// When a direct lane was last refused.
    std::optional<Clock::time_point> refused;
  };

  /// Counts the offers of one relay that led to no lane with one other peer.
  struct VainOffers {
    std::size_t in_a_row = 0;
    Clock::time_point not_before;  ///< These offers are refused until this time.
  };

  Impl(asio::io_context& loop, Options given, Callbacks calls);
  ~Impl();

  void invite(Lane& lane);
  void answer(PeerId peer, const LaneInvite& theirs);
  void dial(PeerId peer, const LaneInvite& invite);
  void dial_failed(PeerId peer, const LaneInvite& invite);
  bool is_out_of_reach(PeerId peer);
  bool ask_relay(PeerId peer);
  void refused_by_relay(PeerId peer);
  void meet(PeerId relay, const RelayStep& step);
  void meet_at(PeerId relay, const RelayStep& step, const LaneToken& token, Lane& lane);
  bool is_unwanted(PeerId relay, PeerId other) const;
  void offer_was_vain(PeerId relay, PeerId other);
  bool is_blocked(PeerId peer) const;
  bool can_give_way(const Lane& lane) const;
  void move_lane(PeerId peer);
  bool is_taken(std::uint64_t number) const;
  void give_up(const Lane& lane);
  void accepted(const LaneHandshake::Proved& proved, ConnectionPtr connection);
  void opened(PeerId peer, std::uint64_t id, ConnectionPtr connection);
  void refused(PeerId peer);
  void broken(PeerId peer, const ConnectionPtr& connection, const std::string& why);

  bool prepare_write(Lane& lane, bool tell);
  void write_next(PeerId peer, bool tell = false);
  void share_blocks(Lane& lane);
  void fill_socket(Lane& lane);
  void read_on(PeerId peer);
  void read_what_is_there(PeerId peer, const ConnectionPtr& connection);
  bool take(PeerId peer, const ConnectionPtr& connection, asio::error_code error, std::size_t read);
  static void count_read(Lane& lane);
  bool take_records(PeerId peer, const ConnectionPtr& connection);
  static bool is_expected(Lane& lane, const RecordHeader& header);
  bool arrived(PeerId peer, const ConnectionPtr& connection, const Record& record);
  bool take_message(PeerId peer, const ConnectionPtr& connection, std::span<const std::byte> bytes);
  void unsound(PeerId peer, const ConnectionPtr& connection, const std::string& why);
  void give_block(PeerId peer, const RecordHeader& header, std::span<const std::byte> bytes,
                  std::shared_ptr<const void> hold = nullptr);
  /// Handles input from a peer. An exception ends only the lane on which the input came, never the
  /// process.
  template <class Handle>
  void heed(PeerId peer, const ConnectionPtr& connection, Handle handle) {
    try {
      handle();
    } catch (const std::exception& error) {
      broken(peer, connection, error.what());
    }
  }
  void housekeeping();
  bool make_room();
  LaneInvite make_invite(PeerId peer, std::uint64_t id, const LaneToken& token) const;
  Lane* current(PeerId peer, const ConnectionPtr& connection);

  asio::io_context& io;
  Options options;
  Callbacks callbacks;
  Counters counters;
  LaneHandshake doors;
  RelayService relaying;
  EchoService echoing;
  std::map<PeerId, Detour> detours;
  std::map<PeerId, Move> moves;
  std::map<std::pair<PeerId, PeerId>, VainOffers> vain_offers;  ///< By relay and other peer.
  std::map<PeerId, Lane> lanes;
  std::map<PeerId, std::uint64_t> previous;  ///< The number of each peer's last open lane.
  /// Each peer's message limit; a peer that is absent has its full budget.
  std::map<PeerId, RateLimit> budgets;
  DrainingConnections retired;
  std::shared_ptr<asio::steady_timer> timer;
  /// Handlers hold a weak pointer to this. Once it has expired, the objects that they use are gone.
  std::shared_ptr<int> alive = std::make_shared<int>(0);
};

}  // namespace gv
