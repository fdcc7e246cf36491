// Bulk lanes between peers of one process: every kind of lane, and the refusal of strangers.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory_resource>
#include <numeric>

#include "net/bulk_lanes.hpp"
#include "net/lane_handshake.hpp"
#include "net/sealed_file.hpp"
#include "net/shared_buffer.hpp"
#include "net/shared_ring.hpp"
#include "tests/facts.hpp"
#include "tests/net/copied_descriptors.hpp"

namespace gv {
namespace {

using Security = BulkLanes::Security;

constexpr auto patience = std::chrono::seconds(20);

PeerId peer(std::uint64_t n) { return PeerId{100 + n}; }

/// Bytes that differ from place to place, so that a misplaced block is noticed.
std::shared_ptr<std::vector<std::byte>> pattern(std::size_t size, std::uint64_t seed) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  std::uint64_t state = seed;
  for (std::byte& byte : *bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

/// Peers that send each other invitations through the event loop instead of over control links.
class Swarm {
 public:
  struct Side {
    std::shared_ptr<SharedBuffer> lent = SharedBuffer::make();
    std::unique_ptr<BulkLanes> lanes;
    std::function<void(const Block&)> on_block = [](const Block&) {};
    std::function<std::span<std::byte>(std::uint64_t offset, std::size_t bytes)> place;
    std::map<PeerId, std::vector<std::byte>> received;  ///< All received bytes in order, by sender.
    std::vector<Message> messages;
    std::vector<Fact> facts;
    std::vector<PeerId> lost;
    std::vector<PeerId> refused;
    LaneInvite last_invite;  ///< The last invitation that this side sent.
  };

  Swarm(std::size_t peers, Security security, std::size_t lanes_max = 64) : sides_(peers) {
    char pattern[] = "/tmp/grapevine-lanes-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    for (std::size_t i = 0; i < peers; ++i) {
      sides_[i].lanes = std::make_unique<BulkLanes>(
          io_,
          BulkLanes::Options{.listen_host = "127.0.0.1",
                             .trusted_network = security == Security::plain,
                             .lent = sides_[i].lent,
                             .security = security,
                             .socket_folder = folder_,
                             .lanes_max = lanes_max},
          callbacks(i));
    }
  }
  ~Swarm() {
    sides_.clear();
    std::filesystem::remove_all(folder_);
  }

  Side& operator[](std::size_t i) { return sides_[i]; }

  /// Runs the loop until `holds()` is true. Returns false if that takes too long.
  template <class Condition>
  bool until(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(std::chrono::milliseconds(50));
    }
    return true;
  }

  void send(std::size_t from, std::size_t to, std::shared_ptr<std::vector<std::byte>> bytes,
            std::uint64_t number = 1) {
    send(from, to, {bytes, std::span(*bytes)}, number);
  }
  void send(std::size_t from, std::size_t to, Payload payload, std::uint64_t number) {
    sides_[from].lanes->send({peer(to), TransferId{peer(from), 1, number}, std::move(payload), 0});
  }

  template <class F>
  bool has_told(std::size_t i) const {
    return count_of<F>(sides_[i].facts) > 0;
  }

 private:
  BulkLanes::Callbacks callbacks(std::size_t i) {
    return {.block =
                [this, i](PeerId from, const Block& block) {
                  auto& so_far = sides_[i].received[from];
                  CHECK(block.offset == so_far.size());
                  so_far.insert(so_far.end(), block.bytes.begin(), block.bytes.end());
                  sides_[i].on_block(block);
                },
            .place =
                [this, i](PeerId, const TransferId&, std::uint64_t offset, std::size_t bytes) {
                  return sides_[i].place ? sides_[i].place(offset, bytes) : std::span<std::byte>();
                },
            .message = [this, i](const Envelope& e) { sides_[i].messages.push_back(e.message); },
            .lost = [this, i](PeerId from) { sides_[i].lost.push_back(from); },
            .refused = [this, i](PeerId from) { sides_[i].refused.push_back(from); },
            .fact = [this, i](Fact fact) { sides_[i].facts.push_back(std::move(fact)); },
            .send_invite =
                [this, i](PeerId to, const LaneInvite& invite) {
                  sides_[i].last_invite = invite;
                  const auto other = static_cast<std::size_t>(to) - 100;
                  if (other >= sides_.size()) return false;
                  asio::post(io_, [this, i, other, invite] {
                    sides_[other].lanes->receive_invite(peer(i), invite);
                  });
                  return true;
                }};
  }

  std::filesystem::path folder_;
  asio::io_context io_;
  std::vector<Side> sides_;
};

std::string kind_of(const Swarm::Side& side) {
  for (const Fact& fact : side.facts) {
    if (const auto* lane = std::get_if<LaneOpened>(&fact)) return lane->kind;
  }
  return "none";
}

TEST_CASE("models cross whole both ways at once, with words between the blocks") {
  const auto [security, kind] =
      GENERATE(std::pair(Security::automatic, "unix"), std::pair(Security::unix_socket, "unix"),
               std::pair(Security::plain, "plain"), std::pair(Security::tls, "tls"));
  Swarm swarm(2, security);
  // The first vector is longer than a ring and not a multiple of a block. The second is as short as
  // possible.
  const auto there = pattern((3 << 20) + 17, 1);
  const auto more = pattern(1, 2);
  const auto back = pattern((5 << 20) + 4, 3);
  swarm.send(0, 1, there);
  swarm.send(1, 0, back);
  REQUIRE(swarm.until([&] { return !swarm[0].received.empty(); }));
  const TransferId id{peer(0), 1, 7};
  for (int i = 0; i < 20; ++i) CHECK(swarm[0].lanes->send_message(peer(1), Ready{id}));
  REQUIRE(swarm.until([&] {
    return swarm[1].received[peer(0)].size() == there->size() &&
           swarm[0].received[peer(1)].size() == back->size() && swarm[1].messages.size() == 20;
  }));
  CHECK(swarm[1].received[peer(0)] == *there);
  CHECK(swarm[0].received[peer(1)] == *back);
  CHECK(std::get<Ready>(swarm[1].messages.back()).id == id);
  CHECK(kind_of(swarm[0]) == kind);
  CHECK(kind_of(swarm[1]) == kind);
  swarm[1].received.clear();
  swarm.send(0, 1, more, 2);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == 1; }));
  CHECK(swarm[1].received[peer(0)] == *more);
  // Each end counted every byte of the blocks, whether it travelled in a ring or over a socket.
  CHECK(swarm[0].lanes->counters().bytes_sent >= there->size() + more->size());
  CHECK(swarm[1].lanes->counters().bytes_received >= there->size() + more->size());
  CHECK(swarm[0].lanes->counters().lanes_opened == 1);
}

TEST_CASE("blocks come to where they are wanted") {
  Swarm swarm(2, Security::plain);
  const auto sent = pattern((8 << 20) + 1001, 1);
  std::vector<std::byte> wanted(sent->size());
  swarm[1].place = [&](std::uint64_t offset, std::size_t bytes) -> std::span<std::byte> {
    if (offset == 0) return {};  // This block may be read into any memory.
    return std::span(wanted).subspan(offset, bytes);
  };
  std::size_t in_place = 0;
  swarm[1].on_block = [&](const Block& block) {
    const bool placed = block.bytes.data() == wanted.data() + block.offset;
    CHECK((block.offset != 0 || !placed));
    in_place += placed ? 1 : 0;
  };
  swarm.send(0, 1, sent);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == sent->size(); }));
  CHECK(in_place > 0);
  CHECK(swarm[1].received[peer(0)] == *sent);
}

TEST_CASE("what waits on a lane gives way to a newer one and what has begun does not") {
  const Security security = GENERATE(Security::unix_socket, Security::plain, Security::tls);
  Swarm swarm(2, security);
  constexpr std::uint64_t longest = 5;
  const auto size_of = [](std::uint64_t number) { return number == longest ? 8UL << 20 : 100UL; };
  const auto send = [&](std::uint64_t number, bool gives_way) {
    const auto bytes = pattern(size_of(number), number);
    swarm[0].lanes->send({.to = peer(1),
                          .id = {peer(0), 1, number},
                          .payload = {bytes, std::span(*bytes)},
                          .superseded_by_next = gives_way});
  };
  std::vector<std::uint64_t> came;  // Numbers of the transfers that arrived completely.
  bool begun = false;
  swarm[1].on_block = [&](const Block& block) {
    begun = begun || block.id.number == longest;
    if (block.offset + block.bytes.size() < size_of(block.id.number)) return;
    came.push_back(block.id.number);
    swarm[1].received.clear();
  };
  // There is no lane yet, so all transfers wait.
  for (const std::uint64_t number : {1, 2, 3}) send(number, true);
  send(4, false);
  send(longest, true);
  CHECK(swarm[0].lanes->counters().superseded == 3);
  REQUIRE(swarm.until([&] { return begun; }));
  for (const std::uint64_t number : {6, 7, 8}) send(number, true);
  REQUIRE(swarm.until([&] { return came.size() >= 3; }));
  CHECK(came.front() == 4);
  CHECK(std::ranges::count(came, longest) == 1);
  CHECK(came.back() == 8);
  CHECK(came.size() + swarm[0].lanes->counters().superseded == 8);
}

TEST_CASE("what waits on a lane from one generation gives way to what comes from a later one") {
  Swarm swarm(2, Security::plain);
  const auto bytes = pattern(100, 1);
  const auto send = [&](const TransferId& id) {
    swarm[0].lanes->send({.to = peer(1), .id = id, .payload = {bytes, std::span(*bytes)}});
  };
  std::vector<TransferId> came;
  swarm[1].on_block = [&](const Block& block) {
    came.push_back(block.id);
    swarm[1].received.clear();
  };
  const TransferId state = state_id(peer(1), 7, 1);
  const TransferId copy = copy_id(peer(0), 7, 1, 1);
  const TransferId first = mixing_id(peer(0), 8, 0), second = mixing_id(peer(0), 8, 1);
  const TransferId other_stage = state_id(peer(1), 6, 1, 2);
  // There is no lane yet, so all transfers wait. A peer downloads one state of a stage at a time,
  // so its second request ends the first.
  send(state_id(peer(1), 6, 1));
  send(other_stage);
  send(state);
  send(copy);
  send(piece_id(peer(0), 7, {.operation = 1}));
  send(piece_id(peer(0), 7, {.operation = 2}));
  CHECK(swarm[0].lanes->counters().superseded == 0);
  send(first);
  CHECK(swarm[0].lanes->counters().superseded == 2);
  send(second);
  REQUIRE(swarm.until([&] { return came.size() >= 5 && came.back() == second; }));
  CHECK(came == std::vector{other_stage, state, copy, first, second});
}

TEST_CASE("a transfer that can wait goes after all others") {
  const Security security = GENERATE(Security::unix_socket, Security::plain, Security::tls);
  Swarm swarm(2, security);
  std::vector<std::uint64_t> came;
  swarm[1].on_block = [&](const Block& block) {
    came.push_back(block.id.number);
    swarm[1].received.clear();
  };
  // There is no lane yet, so all transfers wait.
  for (std::uint64_t number = 1; number <= 5; ++number) {
    const auto bytes = pattern(100, number);
    swarm[0].lanes->send({.to = peer(1),
                          .id = {peer(0), 1, number},
                          .payload = {bytes, std::span(*bytes)},
                          .can_wait = number <= 2 || number == 4});
  }
  REQUIRE(swarm.until([&] { return came.size() == 5; }));
  CHECK(came == std::vector<std::uint64_t>{3, 5, 1, 2, 4});
}

TEST_CASE("a partner that ends is noticed, and what it still sent arrives") {
  Swarm swarm(2, Security::automatic);
  swarm.send(0, 1, pattern(1000, 1));
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == 1000; }));
  swarm[0].lanes.reset();
  REQUIRE(swarm.until([&] { return !swarm[1].lost.empty(); }));
  CHECK(swarm.has_told<LaneClosed>(1));
  CHECK_FALSE(swarm.has_told<LaneLost>(1));
}

TEST_CASE("a partner that ends is noticed although a child made by fork has its descriptors") {
  const Security security = GENERATE(Security::unix_socket, Security::plain, Security::tls);
  Swarm swarm(2, security);
  swarm.send(0, 1, pattern(1000, 1));
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == 1000; }));
  const std::vector<Descriptor> of_child = copied_descriptors();
  swarm[0].lanes.reset();
  REQUIRE(swarm.until([&] { return !swarm[1].lost.empty(); }));
}

/// A payload in the shared buffer of `side`.
std::shared_ptr<std::pmr::vector<std::byte>> lent_pattern(const Swarm::Side& side, std::size_t size,
                                                          std::uint64_t seed) {
  const auto bytes = pattern(size, seed);
  return std::make_shared<std::pmr::vector<std::byte>>(bytes->begin(), bytes->end(),
                                                       side.lent.get());
}

TEST_CASE("what is lent stays until the partner is done with it") {
  Swarm swarm(2, Security::automatic);
  REQUIRE(swarm[0].lent);
  // One payload is in the shared buffer, and the other is not.
  const auto lent = lent_pattern(swarm[0], (2 << 20) + 5, 1);
  const auto copied = pattern((1 << 20) + 1, 2);
  std::vector<std::byte> all(lent->begin(), lent->end());
  all.insert(all.end(), copied->begin(), copied->end());
  bool kept = true;
  std::weak_ptr<std::pmr::vector<std::byte>> seen = lent;
  swarm[1].on_block = [&](const Block&) {
    const std::size_t so_far = swarm[1].received[peer(0)].size();
    if (so_far <= lent->size()) kept = kept && seen.use_count() > 1;
  };
  swarm.send(0, 1, {lent, std::span(*lent)}, 1);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == lent->size(); }));
  CHECK(kept);
  // No other record travels on the lane, so the report that the blocks were read must be sent by
  // itself.
  CHECK(swarm.until([&] { return lent.use_count() == 1; }));
  CHECK(std::ranges::equal(swarm[1].received[peer(0)], *lent));
  swarm[1].received.clear();
  swarm.send(0, 1, {lent, std::span(*lent)}, 2);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == lent->size(); }));
  swarm[1].received.clear();
  swarm.send(0, 1, copied, 3);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == copied->size(); }));
  CHECK(swarm[1].received[peer(0)] == *copied);
  CHECK(swarm.until([&] { return lent.use_count() == 1; }));
}

TEST_CASE("what is lent over a lane that was given up stays until the partner has heard of it") {
  Swarm swarm(2, Security::automatic);
  const auto lent = lent_pattern(swarm[0], 3 << 20, 1);
  bool kept = false;
  swarm[1].on_block = [&](const Block&) {
    if (kept) return;
    swarm[0].lanes->forget(peer(1));
    kept = lent.use_count() > 1;  // Blocks may be announced before they are read.
  };
  swarm.send(0, 1, {lent, std::span(*lent)}, 1);
  REQUIRE(swarm.until([&] { return !swarm[1].lost.empty(); }));
  CHECK(kept);
  const std::vector<std::byte>& got = swarm[1].received[peer(0)];
  CHECK(std::equal(got.begin(), got.end(), lent->begin()));
  CHECK(swarm.until([&] { return lent.use_count() == 1; }));
}

TEST_CASE("a block that somebody keeps stays lent, even over a lane that ends") {
  Swarm swarm(2, Security::automatic);
  const auto lent = lent_pattern(swarm[0], (1 << 20) + 3, 1);
  std::vector<Block> kept;
  swarm[1].on_block = [&](const Block& block) {
    if (block.id.number == 1) kept.push_back(block);
  };
  swarm.send(0, 1, {lent, std::span(*lent)}, 1);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == lent->size(); }));
  REQUIRE(kept.size() == lent->size() / block_bytes_max + 1);
  REQUIRE(kept.front().hold);

  // Blocks of a later payload are not kept, but the reports that they were read must wait for the
  // reports on the kept blocks.
  const auto later = lent_pattern(swarm[0], 1000, 2);
  swarm[1].received.clear();
  swarm.send(0, 1, {later, std::span(*later)}, 2);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == later->size(); }));

  const int who_ends_the_lane = GENERATE(-1, 0, 1);
  CAPTURE(who_ends_the_lane);
  if (who_ends_the_lane >= 0) {
    const auto ender = static_cast<std::size_t>(who_ends_the_lane);
    swarm[ender].lanes->forget(peer(1 - ender));
    REQUIRE(swarm.until([&] { return !swarm[1 - ender].lost.empty(); }));
  } else {
    swarm.send(1, 0, pattern(1000, 3), 3);
    REQUIRE(swarm.until([&] { return swarm[0].received[peer(1)].size() == 1000; }));
  }
  CHECK(lent.use_count() > 1);
  CHECK(later.use_count() > 1);
  std::vector<std::byte> read;
  for (const Block& block : kept) read.insert(read.end(), block.bytes.begin(), block.bytes.end());
  CHECK(std::ranges::equal(read, *lent));
  kept.clear();
  CHECK(swarm.until([&] { return lent.use_count() == 1 && later.use_count() == 1; }));
}

TEST_CASE("a side that ends gives back at once what it had borrowed") {
  Swarm swarm(2, Security::automatic);
  const auto lent = lent_pattern(swarm[0], 1000, 1);
  swarm.send(0, 1, {lent, std::span(*lent)}, 1);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == 1000; }));
  CHECK(lent.use_count() > 1);
  swarm[1].lanes.reset();
  CHECK(swarm.until([&] { return lent.use_count() == 1; }));
}

TEST_CASE("a lane in use stays, an idle one makes room for another") {
  Swarm swarm(3, Security::automatic, 1);
  swarm.send(0, 1, pattern(1000, 1));
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == 1000; }));
  // The transfer is refused only while the first lane still has a message in transit.
  REQUIRE(swarm.until([&] {
    swarm[0].refused.clear();
    swarm.send(0, 2, pattern(1000, 2), 2);
    return swarm[0].refused.empty();
  }));
  REQUIRE(swarm.until(
      [&] { return swarm[2].received[peer(0)].size() == 1000 && swarm.has_told<LaneClosed>(1); }));

  const auto large = pattern(8 << 20, 3);
  swarm.send(0, 2, large, 3);
  swarm.send(0, 1, pattern(10, 4), 4);
  CHECK(swarm[0].refused == std::vector<PeerId>{peer(1)});
}

/// Connects to a Unix socket and sends `bytes`, together with `descriptor` unless that is -1.
Descriptor knock(const std::string& path, std::span<const std::byte> bytes, int descriptor) {
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  REQUIRE(::sendmsg(fd.get(), &message, MSG_NOSIGNAL) >= 0);
  return fd;
}

bool is_hung_up(int fd) {
  char byte = 0;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

TEST_CASE("who cannot prove an invitation is hung up on, and nobody else notices") {
  Swarm swarm(2, Security::automatic);
  swarm.send(0, 1, pattern(100, 1));
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == 100; }));
  const std::string path = swarm[0].last_invite.unix_path;
  const auto ring = RingWriter::make();
  REQUIRE(ring);
  std::vector<std::byte> forged(48);
  forged[0] = std::byte{'G'};
  forged[1] = std::byte{1};
  std::memcpy(forged.data() + 8, &swarm[0].last_invite.lane, 8);
  const auto garbage = pattern(64, 9);
  const Descriptor strangers[] = {
      knock(path, *garbage, -1), knock(path, forged, -1), knock(path, forged, ring->descriptor()),
      knock(path, std::span(forged).first(8), ring->descriptor()),  // It never sends the rest.
  };
  for (const Descriptor& stranger : strangers) {
    CHECK(swarm.until([&] { return is_hung_up(stranger.get()); }));
  }
  CHECK(swarm[0].lanes->counters().lanes_refused == std::size(strangers));
  swarm[1].received.clear();
  swarm.send(0, 1, pattern(100, 2), 2);
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == 100; }));
  CHECK(swarm[0].lanes->counters().lanes_opened == 1);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_CASE("any number of invitations to a listener that is full holds one connection for a while") {
  Swarm swarm(2, Security::plain);
  const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const address = reinterpret_cast<sockaddr*>(&where);
  socklen_t size = sizeof where;
  REQUIRE(::bind(listener.get(), address, size) == 0);
  REQUIRE(::getsockname(listener.get(), address, &size) == 0);
  REQUIRE(::listen(listener.get(), 0) == 0);
  // Connections that are never accepted prevent further ones.
  std::vector<Descriptor> full;
  for (int i = 0; i < 3; ++i) {
    full.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    static_cast<void>(::connect(full.back().get(), address, size));
  }
  const std::size_t before = open_descriptors();
  LaneInvite invite{.lane = 1000, .token = {1}};
  invite.address = "127.0.0.1:" + std::to_string(ntohs(where.sin_port));
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    --invite.lane;
    swarm[0].lanes->receive_invite(peer(1), invite);
    most = std::max(most, open_descriptors());
  }
  CHECK(most <= before + 2);
  CHECK(swarm.until([&] { return open_descriptors() <= before; }));
}

TEST_CASE("an invitation leads to the socket of a peer and to no other one of this host") {
  Swarm swarm(2, Security::automatic);
  swarm.send(0, 1, pattern(10, 1));
  REQUIRE(swarm.until([&] { return swarm[1].received[peer(0)].size() == 10; }));
  const auto [name, is_dialled] = GENERATE(std::pair("lane-1-2", true), std::pair("other", false),
                                           std::pair("lane-1-2.sock", false));
  const std::filesystem::path path =
      std::filesystem::path(swarm[0].last_invite.unix_path).parent_path() / name;
  const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::strcpy(where.sun_path, path.c_str());
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
  REQUIRE(::listen(listener.get(), 4) == 0);
  LaneInvite invite{.lane = 5, .token = {1}, .host = swarm[0].last_invite.host};
  invite.unix_path = path.string();
  // The invitation comes from a peer that has no lane yet.
  swarm[0].lanes->receive_invite(peer(7), invite);
  Descriptor came;
  const bool is_over = swarm.until([&] {
    came = Descriptor(::accept(listener.get(), nullptr, nullptr));
    return came || swarm.has_told<LaneRefused>(0);
  });
  CHECK(is_over);
  CHECK(static_cast<bool>(came) == is_dialled);
}

TEST_CASE("only memory that stays as it is becomes a ring") {
  CHECK_FALSE(RingReader::map(Descriptor()));
  const auto file = [](std::size_t size, int seals) {
    Descriptor made(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(made.get(), static_cast<off_t>(size)) == 0);
    if (seals != 0) REQUIRE(::fcntl(made.get(), F_ADD_SEALS, seals) == 0);
    return made;
  };
  constexpr int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  CHECK(RingReader::map(file(ring_bytes, all)));
  CHECK_FALSE(RingReader::map(file(ring_bytes, 0)));
  CHECK_FALSE(RingReader::map(file(ring_bytes, F_SEAL_GROW)));
  CHECK_FALSE(RingReader::map(file(ring_bytes / 2, all)));
  // One more seal is allowed, because the system itself may add one.
  CHECK(is_sealed_file(file(ring_bytes, all | F_SEAL_WRITE), ring_bytes));
  CHECK_FALSE(is_sealed_file(file(ring_bytes, F_SEAL_WRITE | F_SEAL_GROW), ring_bytes));
}

TEST_CASE("a ring gives back what was put in, in order, and counts its slots") {
  auto writer = RingWriter::make();
  REQUIRE(writer);
  auto reader = RingReader::map(Descriptor(::fcntl(writer->descriptor(), F_DUPFD_CLOEXEC, 0)));
  REQUIRE(reader);
  CHECK_FALSE(writer->release(1));
  for (std::uint64_t round = 0; round < 3 * ring_slots; ++round) {
    const auto block = pattern(block_bytes_max - round, round);
    writer->put(*block);
    CHECK(writer->free_slots() == ring_slots - 1);
    CHECK(std::ranges::equal(reader->take(block->size()), *block));
    CHECK(writer->release(1));
  }
  while (writer->free_slots() > 0) writer->put({});
  CHECK_FALSE(writer->release(ring_slots + 1));
  CHECK(writer->release(ring_slots));
}

}  // namespace
}  // namespace gv
