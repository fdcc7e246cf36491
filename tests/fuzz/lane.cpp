// The target `lane`: any bytes from a peer that has proved itself, on a lane within one host.
#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "net/bulk_lanes.hpp"
#include "net/lane_handshake.hpp"
#include "net/wire.hpp"
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {
namespace {

constexpr PeerId own{1};
constexpr PeerId partner{2};
constexpr int idle_polls = 3;
constexpr std::size_t blocks_in_ring = 2;

/// A peer with lanes, and its partner's handshake, in one loop. Lives as long as the process.
class Lane {
 public:
  static Lane& instance() {
    static Lane lane;
    return lane;
  }

  /// Opens a lane, sends these bytes on it, and closes it.
  void feed(std::span<const std::byte> bytes) {
    lost_ = false;
    const auto payload = std::make_shared<const Bytes>(100);
    lanes_.send({.to = partner, .id = {own, 1, ++number_}, .payload = {payload, *payload}});
    settle();
    check(connection_ != nullptr && !lost_, "a lane within the process opens");
    for (std::size_t i = 0; i < blocks_in_ring && !bytes.empty(); ++i) {
      connection_->ring_out->put(bytes.first(std::min<std::size_t>(bytes.size(), 2000)));
    }
    const int socket = connection_->socket.native_handle();
    while (!bytes.empty() && !lost_) {
      const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
      settle();
      if (sent <= 0) break;
    }
    ::shutdown(socket, SHUT_WR);
    settle();
    check(lost_, "a lane that its partner closes is lost");
    lanes_.forget(partner);
    connection_->close();
    connection_.reset();
    settle();
  }

 private:
  Lane()
      : folder_(made_folder()),
        doors_(io_, {.remote = false, .socket_folder = folder_, .lent = SharedBuffer::make()},
               {.accepted = {}, .fact = [](Fact) {}}),
        lanes_(io_,
               {.listen_host = {},
                .lent = SharedBuffer::make(),
                .security = BulkLanes::Security::unix_socket,
                .socket_folder = folder_},
               callbacks()) {}
  ~Lane() { std::filesystem::remove_all(folder_); }

  static std::filesystem::path made_folder() {
    std::string pattern = "/tmp/grapevine-fuzz-XXXXXX";
    check(::mkdtemp(pattern.data()) != nullptr, "there is room for a folder");
    return pattern;
  }

  BulkLanes::Callbacks callbacks() {
    return {.block =
                [this](PeerId, const Block& block) {
                  read_ += std::accumulate(block.bytes.begin(), block.bytes.end(), std::size_t{0},
                                           [](std::size_t sum, std::byte b) {
                                             return sum + std::to_integer<std::size_t>(b);
                                           });
                },
            .place =
                [this](PeerId, const TransferId& id, std::uint64_t, std::size_t bytes) {
                  const bool wanted = id.number % 2 == 0 && bytes <= place_.size();
                  return wanted ? std::span(place_).first(bytes) : std::span<std::byte>();
                },
            .message = [](Envelope) {},
            .lost = [this](PeerId) { lost_ = true; },
            .refused = [this](PeerId) { lost_ = true; },
            .fact = [](Fact) {},
            .send_invite =
                [this](PeerId, const LaneInvite& invite) {
                  doors_.expect(invite.lane, invite.token);
                  doors_.dial(invite,
                              [this](ConnectionPtr made) { connection_ = std::move(made); });
                  return true;
                }};
  }

  /// Runs the loop until nothing more happens. Within a process nothing is in transit for long.
  void settle() {
    for (int idle = 0; idle < idle_polls;) idle = io_.poll() > 0 ? 0 : idle + 1;
  }

  asio::io_context io_;
  std::filesystem::path folder_;
  LaneHandshake doors_;
  std::vector<std::byte> place_ = std::vector<std::byte>(block_bytes_max);
  std::size_t read_ = 0;
  std::uint64_t number_ = 0;
  bool lost_ = false;
  ConnectionPtr connection_;
  BulkLanes lanes_;
};

void feed(std::span<const std::byte> bytes) { Lane::instance().feed(bytes); }

void append(Bytes& out, RecordKind kind, std::uint32_t length, const Bytes& content) {
  const RecordHeader header{.length = length, .kind = kind, .number = out.size() % 2};
  const auto head = std::as_bytes(std::span(&header, 1));
  out.insert(out.end(), head.begin(), head.end());
  out.insert(out.end(), content.begin(), content.end());
}

std::vector<Bytes> seeds() {
  const Bytes frame = encode(Message(Ping{.sequence = 1}));
  const auto frame_bytes = static_cast<std::uint32_t>(frame.size());
  std::vector<Bytes> found(8);
  append(found[0], RecordKind::block, 300, Bytes(300));
  append(found[0], RecordKind::block, 7, Bytes(7));
  append(found[1], RecordKind::message, frame_bytes, frame);
  append(found[2], RecordKind::ring_block, 1000, {});
  append(found[2], RecordKind::ring_block, 10, {});
  append(found[3], RecordKind::ring_done, 1, {});
  append(found[4], RecordKind::lent_block, 64, Bytes(sizeof(LentPlace)));
  append(found[5], RecordKind::lent_done, 1, {});
  append(found[6], RecordKind::over, 1, {});
  for (const std::size_t part : {0, 1, 2, 4}) {
    found[7].insert(found[7].end(), found[part].begin(), found[part].end());
  }
  return found;
}

}  // namespace

Target lane_target() { return {.name = "lane", .feed = feed, .seeds = seeds, .bytes_max = 8192}; }

}  // namespace gv::fuzz
