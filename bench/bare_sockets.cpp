// Measures a lower bound for all-reduce times: sends the same bytes over TCP, without adding
// numbers.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::span<char>;

/// The most bytes sent or received by one call: four TCP segments of a local connection. A
/// remainder smaller than a segment would need its own packet.
constexpr std::size_t scratch_bytes = 4 * 65464;

int checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + " failed");
  return result;
}

/// A TCP socket without pacing. The congestion control is set before connecting, because a socket
/// that was ever paced remains so.
int unpaced_socket() {
  const int socket = checked(::socket(AF_INET, SOCK_STREAM, 0), "socket");
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  return socket;
}

void tune(int socket) {
  constexpr int on = 1;
  constexpr int buffer = 1 << 20;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Connects to the ranks at distance 1, 2, 4 and so on. Returns the sockets by rank.
std::map<int, int> connections(int rank, int ranks, const std::filesystem::path& folder) {
  const int door = unpaced_socket();
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  checked(::bind(door, reinterpret_cast<sockaddr*>(&address), size), "bind");
  checked(::listen(door, ranks), "listen");
  checked(::getsockname(door, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  const auto file = [&](int which) { return folder / std::to_string(which); };
  std::ofstream(file(rank).string() + ".new") << ntohs(address.sin_port) << '\n';
  std::filesystem::rename(file(rank).string() + ".new", file(rank));
  std::map<int, int> found;
  int to_accept = 0;
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int other = rank ^ distance;
    if (other > rank) {
      ++to_accept;
      continue;
    }
    const Clock::time_point give_up = Clock::now() + std::chrono::seconds(20);
    while (!std::filesystem::exists(file(other))) {
      if (Clock::now() > give_up) throw std::runtime_error("a rank is missing");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::uint16_t port = 0;
    std::ifstream(file(other)) >> port;
    const int socket = unpaced_socket();
    address = loopback(port);
    checked(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
    checked(static_cast<int>(::send(socket, &rank, sizeof rank, 0)), "send");
    found[other] = socket;
  }
  for (; to_accept > 0; --to_accept) {
    const int socket = checked(::accept(door, nullptr, nullptr), "accept");
    int other = 0;
    checked(static_cast<int>(::recv(socket, &other, sizeof other, MSG_WAITALL)), "recv");
    found[other] = socket;
  }
  for (const auto& [other, socket] : found) tune(socket);
  return found;
}

/// Sends `out` and receives `expected` bytes at the same time. Bytes beyond the size of `into`
/// overwrite its beginning. Busy-polls and yields, because sleeping would only lose time.
void exchange(int socket, Bytes out, Bytes into, std::size_t expected) {
  std::size_t sent = 0;
  std::size_t got = 0;
  while (sent < out.size() || got < expected) {
    bool moved = false;
    if (sent < out.size()) {
      const ssize_t n =
          ::send(socket, out.data() + sent, std::min(scratch_bytes, out.size() - sent),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n), moved = true;
    }
    if (got < expected) {
      const std::size_t at = got % into.size();
      const ssize_t n =
          ::recv(socket, into.data() + at,
                 std::min({scratch_bytes, into.size() - at, expected - got}), MSG_DONTWAIT);
      if (n == 0) throw std::runtime_error("a rank ended");
      if (n > 0) got += static_cast<std::size_t>(n), moved = true;
    }
    if (!moved) ::sched_yield();
  }
}

/// Recursive halving into `scratch`, then doubling in place. With m bytes and P ranks, each rank
/// sends and receives 2m(P-1)/P bytes, in the fewest possible messages.
void move_all(const std::map<int, int>& to, int rank, int ranks, Bytes values, Bytes scratch) {
  std::size_t begin = 0;
  std::size_t size = values.size();
  std::vector<std::size_t> begins;
  for (int distance = ranks / 2; distance > 0; distance /= 2) {
    begins.push_back(begin);
    size /= 2;
    const bool upper = (rank & distance) != 0;
    exchange(to.at(rank ^ distance), values.subspan(begin + (upper ? 0 : size), size), scratch,
             size);
    if (upper) begin += size;
  }
  for (int distance = 1; distance < ranks; distance *= 2) {
    const bool upper = (rank & distance) != 0;
    const std::size_t whole = begins.back();
    begins.pop_back();
    exchange(to.at(rank ^ distance), values.subspan(whole + (upper ? size : 0), size),
             values.subspan(whole + (upper ? 0 : size), size), size);
    size *= 2;
  }
}

}  // namespace

/// Arguments: RANK RANKS FOLDER ROW_SECONDS BYTES... Prints one JSON line for each size, with this
/// rank's time for every sum. The ranks find each other through FOLDER.
int main(int argc, char** argv) try {
  if (argc < 6) throw std::invalid_argument("RANK RANKS FOLDER ROW_SECONDS BYTES...");
  const int rank = std::atoi(argv[1]);
  const int ranks = std::atoi(argv[2]);
  if ((ranks & (ranks - 1)) != 0) throw std::invalid_argument("only for powers of two");
  const auto to = connections(rank, ranks, argv[3]);
  const double row_seconds = std::atof(argv[4]);
  std::vector<char> scratch(scratch_bytes);
  for (int i = 5; i < argc; ++i) {
    const long bytes = std::atol(argv[i]);
    std::vector<char> values(static_cast<std::size_t>(bytes), 1);
    const int least = bytes <= 1 << 20 ? 20 : bytes <= 32 << 20 ? 10 : 5;
    const auto once = [&] { move_all(to, rank, ranks, values, scratch); };
    const Clock::time_point began = Clock::now();
    for (int k = 0; k < least / 2; ++k) once();
    double mean = std::chrono::duration<double>(Clock::now() - began).count() / (least / 2);
    // All ranks agree on the longest time.
    for (int distance = 1; distance < ranks; distance *= 2) {
      double other = 0;
      exchange(to.at(rank ^ distance), {reinterpret_cast<char*>(&mean), sizeof mean},
               {reinterpret_cast<char*>(&other), sizeof other}, sizeof other);
      mean = std::max(mean, other);
    }
    const int repeats = std::clamp(int(row_seconds / std::max(mean, 1e-6)), least, 1000);
    std::printf("{\"bytes\": %ld, \"seconds\": [", bytes);
    for (int k = 0; k < repeats; ++k) {
      const Clock::time_point start = Clock::now();
      once();
      std::printf("%s%.9f", k == 0 ? "" : ", ",
                  std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::printf("]}\n");
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
