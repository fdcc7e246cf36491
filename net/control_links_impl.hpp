// The state of the control link to each peer. Included only by the sources of the control links.
#pragma once

#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/conduct.hpp"
#include "net/allow_list.hpp"
#include "net/control_links.hpp"
#include "net/descriptor.hpp"
#include "net/host_address.hpp"
#include "net/link_connections.hpp"
#include "net/name_lookup.hpp"
#include "net/roster.hpp"
#include "net/socket_watch.hpp"
#include "net/steady_time.hpp"
#include "net/wire.hpp"

namespace gv {

/// The numeric address from which a message came; empty if ZeroMQ does not provide it.
inline std::string source_host(const zmq::message_t& message) {
  const char* from = ::zmq_msg_gets(message.handle(), "Peer-Address");
  return from == nullptr ? std::string() : plain_host(from);
}

inline constexpr const char* too_few_descriptors = "too few files may be open to dial it";

struct ControlLinks::Impl {
  using Clock = std::chrono::steady_clock;

  /// Most frames handled in one turn, so that other events get their turn.
  static constexpr int drained_at_once = 64;
  /// Most frames that ZeroMQ queues for each link and direction.
  static constexpr int high_water_mark = 256;
  static constexpr auto hello_again = std::chrono::milliseconds(100);
  /// A link is dialled again after this time, which is longer than a handshake may take.
  static constexpr auto dial_again_after = std::chrono::seconds(4);

  /// A connection that was used is checked after it has been silent for this long.
  static constexpr auto silence_max = std::chrono::seconds(1);
  /// Time allowed for the answer to the check of a silent connection.
  static constexpr auto check_patience = std::chrono::seconds(2);

  /// Shows whether one connection of a link still works. Silence alone proves nothing, because the
  /// other side may send over a connection of its own.
  struct Pulse {
    Clock::time_point heard;  ///< Time of the last frame received.
    Clock::time_point used;
    /// When we asked whether the connection still works; nullopt if not asked, or answered since.
    std::optional<Clock::time_point> asked;

    void hear() {
      heard = Clock::now();
      asked.reset();
    }
    bool is_in_doubt(Clock::time_point now) const {
      return !asked && used > heard && now - heard > silence_max;
    }
    bool is_overdue(Clock::time_point now) const { return asked && now - *asked > check_patience; }
  };

  /// A connection we opened.
  struct Dealer {
    std::shared_ptr<SocketWatch> watch;
    std::string address;
    bool has_connection = false;  ///< False while the name in its address is being looked up.
    bool up = false;            ///< True if the peer has answered our hello and its settings agree.
    Clock::time_point opened;   ///< When we began to wait for the link to come up.
    Clock::time_point dialled;  ///< When its socket was made.
    Clock::time_point said_hello;
    Pulse pulse;
    std::deque<std::vector<std::byte>> pending;
  };

  /// A connection that a peer opened to our router.
  struct Route {
    zmq::message_t id;  ///< Routing id of the peer's dealer; empty if there is no connection.
    Pulse pulse;

    bool is_known() const { return id.size() > 0; }
    /// False if there is no connection, or if it has not answered a check in time. In the second
    /// case, the next frame on the connection makes this true again.
    bool works() const { return is_known() && !pulse.is_overdue(Clock::now()); }
  };

  /// One authorised peer.
  struct Link {
    AuthorizedPeer peer;
    std::string address;  ///< Address to dial; empty if unknown.
    std::optional<Dealer> dealer;
    Route route;
    std::uint64_t session = 0;    ///< Session of the process that we are in contact with.
    std::uint64_t before = 0;     ///< Session of the process before the current one.
    int returns = 0;              ///< Number of times in a row that session `before` came back.
    bool refused = false;         ///< True if the peer's hello disagrees with ours.
    std::string claimed_address;  ///< The listening address in the peer's hello; may be empty.
    RateLimit frames{{}};
    RateLimit hellos{{.per_second = 50, .burst = 100}};
    RateLimit restarts{{.per_second = 1, .burst = 8}};
    RateLimit invitations{{.per_second = 100, .burst = 100}};
    RateLimit relay_steps{{.per_second = 100, .burst = 100}};
    RateLimit exams{{}};

    /// Returns false if the hello comes from another process of the peer than the last one, and the
    /// peer has restarted too often. The hello must then have no effect. An honest peer repeats it.
    bool may_begin_with(const Hello& hello) {
      const bool has_restarted = session != 0 && session != hello.session;
      return !has_restarted || restarts.take(steady_time());
    }
  };

  /// The remaining budget of all guests with one key.
  struct Guest {
    RateLimit frames;
    RateLimit exams;
  };

  /// An address to join, with one dealer for each key that is tried there.
  struct Join {
    std::string address;
    std::string name;  ///< The only peer wanted there; empty means any authorised one.
    std::map<PeerId, Dealer> dealers;
    std::optional<PeerId> last;  ///< The last key that got a dealer. The keys after it are next.
    Clock::time_point sought;    ///< When keys were last given dealers.
    Clock::time_point began = Clock::now();
    bool told = false;
  };

  /// Our own descriptor of the port that ZeroMQ listens on. Its end closes the port, even if
  /// children made by fork() have copies of ZeroMQ's descriptor.
  struct Port {
    Descriptor descriptor;

    ~Port() {
      if (descriptor) ::shutdown(descriptor.get(), SHUT_RDWR);
    }
  };

  Impl(asio::io_context& loop, Options given, Callbacks calls);
  ~Impl();

  void listen();
  void self_test();
  void allow(const std::vector<AuthorizedPeer>& authorized);
  void set_keys();
  Dealer dealer_to(PeerId peer, const PublicKey& key, const std::string& address);
  std::optional<Dealer> dial(PeerId peer, const PublicKey& key, const std::string& address);
  bool connect(zmq::socket_t& socket, const std::string& address);
  void connect_by_name(PeerId peer, Dealer& dealer);
  void open(PeerId peer, Link& link);
  void dial_again(PeerId peer, const PublicKey& key, Dealer& dealer);
  Hello hello(bool answer) const;
  std::string disagreement(const Hello& theirs) const;
  bool admit(PeerId peer, Link& link, const Hello& theirs);

  bool send(PeerId to, const Frame& frame);
  bool put(SocketWatch& watch, const std::vector<std::byte>& bytes);
  bool put_routed(Route& route, const std::vector<std::byte>& bytes);
  void say_hello(Dealer& dealer);

  void read_dealer(PeerId peer, SocketWatch& watch);
  void read_router();
  void read_monitor();
  void on_dealer_frame(PeerId peer, SocketWatch& watch, const zmq::message_t& bytes);
  void on_routed_frame(zmq::message_t route, const zmq::message_t& bytes);
  void on_frame_of(PeerId peer, Link& link, zmq::message_t route, const zmq::message_t& bytes);
  void on_guest_frame(const PublicKey& key, zmq::message_t route, const zmq::message_t& bytes);
  void on_exam(const PublicKey& key, RateLimit& budget, bool is_guest, zmq::message_t route,
               const zmq::message_t& bytes, const ExamRequest& request);
  void show(const PublicKey& there, const std::string& address, const PublicKey& swarm,
            const Certificates& chain);
  bool is_within_budget(PeerId peer, Link& link, const zmq::message_t& bytes);
  void deliver(PeerId from, Link& link, Frame frame, const zmq::message_t& bytes);
  void offend(PeerId peer, const std::string& why);
  void cut(PeerId peer);
  bool is_quarantined(PeerId peer) const { return conduct.is_quarantined(steady_time(), peer); }
  void seek(Join& join);
  void joined(PeerId peer, SocketWatch* watch);
  void tend_joins();
  void ask_again(PeerId peer, Link& link);
  void doubt(PeerId peer);
  void tend_routes();
  void refuse(std::optional<PeerId> peer, std::string detail);

  /// Handles input from a peer. Input must not end the process, so an exception counts against the
  /// peer.
  template <class Handle>
  void heed(PeerId peer, Handle handle) {
    try {
      handle();
    } catch (const std::exception& error) {
      offend(peer, error.what());
    }
  }
  void housekeeping();
  Dealer* dealer_of(PeerId peer, const SocketWatch* watch);

  asio::io_context& io;
  Options options;
  Callbacks callbacks;
  /// Declared before `context`: if the port closed while ZeroMQ listens, ZeroMQ would abort.
  Port port;
  zmq::context_t context;
  AllowList allow_list;
  std::shared_ptr<SocketWatch> router;
  std::shared_ptr<SocketWatch> monitor;
  std::string listening;
  std::string advertised;
  PeerId self;
  std::map<PeerId, Link> links;
  std::vector<Join> joins;
  std::shared_ptr<asio::steady_timer> timer;
  Clock::time_point first_contact{};
  Clock::time_point refusal_told{};
  bool own_knock = false;  ///< True until the monitor has reported the connection of our self-test.
  bool was_dialled = false;
  bool told_unreachable = false;
  Counters counters;
  Roster roster;
  Conduct conduct;
  LinkConnections connections{{.places = usual_places()}};
  NameLookup names{io};
  std::map<PublicKey, Guest> guests;
  /// Sockets on which certificates are shown, and when each was opened.
  std::deque<std::pair<Clock::time_point, zmq::socket_t>> shows;
  bool has_quarantined = false;  ///< True while the allow-list leaves out quarantined keys.

  static std::string endpoint(const std::string& address) { return "tcp://" + address; }
  static std::chrono::milliseconds milliseconds(Duration duration) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration);
  }
};

}  // namespace gv
