// Connects two network namespaces by a link with a delay. (On some kernels tc cannot add a delay.)
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t packet_max = 65536;
/// The largest number of packets read from one end before the other end has its turn.
constexpr int packets_at_once = 64;
/// The longest time that packets wait for bandwidth, as in a router. Packets that would wait longer
/// are dropped.
constexpr std::chrono::milliseconds queue_max{50};
/// At least this many bytes fit into the queue, because a shorter queue would drop bursts.
constexpr std::size_t burst = 256 * 1024;

int checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return result;
}

/// Creates a point-to-point device in the namespace that is open as `space`, and leaves the caller
/// in that namespace.
int device_in(int space, const std::string& name) {
  checked(::setns(space, CLONE_NEWNET), "setns");
  const int device = checked(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name.c_str());
  checked(::ioctl(device, TUNSETIFF, &request), "TUNSETIFF");
  return device;
}

int namespace_of(const std::string& name) {
  return checked(::open(("/var/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC), name.c_str());
}

/// One direction of the link.
class Way {
 public:
  Way(int from, int to, Clock::duration delay, double bytes_per_second, double loss)
      : from_(from), to_(to), delay_(delay), bytes_per_second_(bytes_per_second), lost_(loss) {}

  void take_in() {
    std::array<char, packet_max> bytes;
    for (int count = 0; count < packets_at_once; ++count) {
      const ssize_t size = ::read(from_, bytes.data(), bytes.size());
      if (size <= 0) return;
      const Clock::time_point now = Clock::now();
      free_at_ = std::max(free_at_, now);
      const Clock::duration room = std::max<Clock::duration>(queue_max, takes(burst));
      if (free_at_ - now > room || lost_(draws_)) continue;
      free_at_ += takes(static_cast<std::size_t>(size));
      packets_.push_back({free_at_ + delay_, {bytes.begin(), bytes.begin() + size}});
    }
  }

  void give_out() {
    while (!packets_.empty() && packets_.front().due <= Clock::now()) {
      // A full device drops the packet, as real devices do.
      const auto& bytes = packets_.front().bytes;
      [[maybe_unused]] const ssize_t written = ::write(to_, bytes.data(), bytes.size());
      packets_.pop_front();
    }
  }

  Clock::time_point due() const {
    return packets_.empty() ? Clock::time_point::max() : packets_.front().due;
  }

 private:
  struct Packet {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  Clock::duration takes(std::size_t bytes) const {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_));
  }

  int from_;
  int to_;
  Clock::duration delay_;
  double bytes_per_second_;
  std::bernoulli_distribution lost_;
  std::mt19937_64 draws_{std::random_device{}()};
  Clock::time_point free_at_{};
  std::deque<Packet> packets_;
};

}  // namespace

/// Arguments: NAMESPACE NAMESPACE DEVICE DELAY_MS MBIT SECONDS [LOSS_PERCENT]. Makes DEVICE in both
/// namespaces and forwards packets between them for SECONDS seconds, with a delay of DELAY_MS
/// milliseconds and at most MBIT megabits per second. Drops each packet with a probability of
/// LOSS_PERCENT percent. Prints a line once both devices exist.
int main(int argc, char** argv) try {
  if (argc != 7 && argc != 8) {
    throw std::invalid_argument("NAMESPACE NAMESPACE DEVICE DELAY_MS MBIT SECONDS [LOSS_PERCENT]");
  }
  const int first = device_in(namespace_of(argv[1]), argv[3]);
  const int second = device_in(namespace_of(argv[2]), argv[3]);
  const auto delay = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(std::atof(argv[4])));
  const double bytes_per_second = std::atof(argv[5]) * 1e6 / 8;
  const double loss = argc == 8 ? std::atof(argv[7]) / 100 : 0;
  std::array<Way, 2> ways = {Way(first, second, delay, bytes_per_second, loss),
                             Way(second, first, delay, bytes_per_second, loss)};
  std::puts("ready");
  std::fflush(stdout);
  const Clock::time_point end = Clock::now() + std::chrono::seconds(std::atoi(argv[6]));
  for (Clock::time_point now = Clock::now(); now < end; now = Clock::now()) {
    const Clock::time_point wake = std::min({end, ways[0].due(), ways[1].due()});
    const auto left = std::max(Clock::duration{}, wake - now);
    const auto whole = std::chrono::floor<std::chrono::seconds>(left);
    const timespec wait{whole.count(), std::chrono::nanoseconds(left - whole).count()};
    std::array<pollfd, 2> ends = {pollfd{first, POLLIN, 0}, pollfd{second, POLLIN, 0}};
    ::ppoll(ends.data(), ends.size(), &wait, nullptr);
    for (Way& way : ways) {
      way.take_in();
      way.give_out();
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "long_link: %s\n", error.what());
  return 1;
}
