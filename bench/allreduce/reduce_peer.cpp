// Runs one collective after another over control links and lanes like those of a peer.
#include "bench/allreduce/reduce_peer.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "consensus/allreduce/all_reduce.hpp"
#include "net/bulk_lanes.hpp"
#include "net/control_links.hpp"
#include "net/host_address.hpp"
#include "net/identity.hpp"
#include "peer/host/adaptive_spin_wait.hpp"
#include "peer/host/network_options.hpp"
#include "peer/host/processors.hpp"
#include "peer/modes/early_blocks.hpp"

namespace gv {
namespace {

using Clock = std::chrono::steady_clock;
using Vector = std::shared_ptr<Floats>;

constexpr auto meeting_deadline = std::chrono::seconds(30);
/// This wait is long, because a loaded machine is slow but not broken.
constexpr Duration patience = std::chrono::seconds(60);
constexpr Duration idle_close = std::chrono::hours(1);

constexpr std::uint64_t generation = 1;  ///< The only generation, because its members never change.

/// Number of elements in a bucket. Buckets are reduced in parallel.
constexpr std::size_t bucket_elements = 4 << 20;
/// Target for the total time of all timed collectives of one size.
constexpr double row_seconds = 1;
constexpr std::size_t repeats_max = 1000;

std::size_t repeats_min(std::size_t bytes) {
  if (bytes <= 1 << 20) return 20;
  return bytes <= 32 << 20 ? 10 : 5;
}

/// Element i of the vector of `rank`, and of the sum over `ranks` ranks. Elements are small whole
/// numbers, so sums are exact.
float input_value(std::size_t rank, std::size_t i) {
  return static_cast<float>(i % 251 + rank * (i % 7));
}
float sum_value(std::size_t ranks, std::size_t i) {
  return static_cast<float>(ranks * (i % 251) + ranks * (ranks - 1) / 2 * (i % 7));
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

std::uint64_t random_number() {
  std::uint64_t value = 0;
  randombytes_buf(&value, sizeof value);
  return value;
}

/// The vectors of a sum. They are reused for every repetition.
struct Sum {
  AllReduceShape shape;
  Vector input;               ///< Our contribution.
  std::vector<Vector> works;  ///< Buffers for results.

  /// Returns a result buffer from which nothing is being sent any more.
  Vector blank() {
    for (const Vector& work : works) {
      if (work.use_count() == 1) return work;
    }
    return works.emplace_back(std::make_shared<Floats>(input->size(), input->get_allocator()));
  }
};

class ReducePeer {
 public:
  explicit ReducePeer(const ReducePeerOptions& options);

  void run();

 private:
  void connect(KeyPair identity, std::vector<AuthorizedPeer> authorized);
  void meet();
  void keep_place();
  void await(const std::function<bool()>& holds);
  void fail(const std::string& why);
  void end();

  std::pmr::memory_resource* memory() const;
  Sum sum_of(std::size_t bytes) const;
  Vector operate(Sum& sum);
  void flush();
  void operate_checked(Sum& sum);
  void receive_block(PeerId from, const Block& block);
  void carry_out(Effects& effects);
  std::size_t agree_on_repeats(std::size_t bytes, double seconds);
  nlohmann::ordered_json measure(std::size_t bytes);
  std::string name_of(PeerId peer) const;

  ReducePeerOptions options_;
  pid_t parent_ = ::getppid();
  std::vector<std::string> names_;  ///< Names of the ranks.
  PeerId self_{};
  std::vector<PeerId> order_;
  std::shared_ptr<SharedBuffer> lent_;  ///< Must outlive everything that is sent.
  /// Blocks that are not sent yet share this pointer, so its use count shows whether any are left.
  std::shared_ptr<const bool> unsent_ = std::make_shared<bool>();
  asio::io_context io_;
  asio::signal_set signals_{io_, SIGTERM};
  std::optional<ControlLinks> control_;
  AdaptiveSpinWait spin_wait_;
  std::optional<BulkLanes> lanes_;
  Processors processors_;
  std::set<PeerId> contacts_;
  std::set<std::string> lane_kinds_;
  std::string failure_;
  /// True once all sizes are measured. From then on, lost lanes do not matter.
  bool measured_ = false;
  bool ended_ = false;

  std::uint64_t operation_ = 0;
  std::optional<AllReduce> reduce_;
  /// Early blocks of the next collective.
  EarlyBlocks held_{std::numeric_limits<std::size_t>::max()};
};

ReducePeer::ReducePeer(const ReducePeerOptions& options) : options_(options) {
  LoadedAuthorizedPeers authorized = load_authorized_peers(options_.folder / "authorized_peers");
  if (!authorized.problems.empty()) {
    throw std::runtime_error(to_string(authorized.problems.front()));
  }
  if (options_.rank >= authorized.peers.size()) throw std::runtime_error("no such rank");
  for (const AuthorizedPeer& peer : authorized.peers) {
    names_.push_back(peer.name);
    order_.push_back(peer_id(peer.key));
  }
  const LoadedKeyPair key = load_key_pair(options_.folder / names_[options_.rank] / "key");
  if (!key.problems.empty()) throw std::runtime_error(to_string(key.problems.front()));
  self_ = order_[options_.rank];
  keep_place();
  signals_.async_wait([this](asio::error_code error, int) {
    if (!error) end();
  });
  connect(key.pair, std::move(authorized.peers));
}

void ReducePeer::connect(KeyPair identity, std::vector<AuthorizedPeer> authorized) {
  control_.emplace(
      io_,
      ControlLinks::Options{.identity = identity,
                            .name = names_[options_.rank],
                            .authorized = std::move(authorized),
                            .listen = options_.listen,
                            .session = random_number(),
                            .idle_close = idle_close},
      ControlLinks::Callbacks{
          .message = [](const Envelope&) {},
          .invite = [this](PeerId from,
                           const LaneInvite& invite) { lanes_->receive_invite(from, invite); },
          .contact = [this](PeerId peer) { contacts_.insert(peer); },
          .restarted = [this](PeerId peer) { fail(name_of(peer) + " was started again"); },
          .fact = [](const Fact&) {}});
  lent_ = memory_to_share(options_.task.lane);
  lanes_.emplace(
      io_,
      BulkLanes::Options{.listen_host = host_of(control_->listening()),
                         .port = options_.lane_port,
                         .trusted_network = options_.task.lane == LaneKind::plain,
                         .lent = lent_,
                         .security = lane_security(options_.task.lane),
                         .socket_folder = options_.folder / names_[options_.rank] / "lanes",
                         .progress_deadline = patience,
                         .idle_close = idle_close},
      BulkLanes::Callbacks{
          .block = [this](PeerId from, const Block& block) { receive_block(from, block); },
          .place =
              [this](PeerId from, const TransferId& id, std::uint64_t offset, std::size_t bytes) {
                return reduce_ ? reduce_->place(from, id, offset, bytes) : std::span<std::byte>();
              },
          .message = [](const Envelope&) {},
          .lost = [this](PeerId peer) { fail("the lane to " + name_of(peer) + " broke"); },
          .refused =
              [this](PeerId peer) { fail("no lane to " + name_of(peer) + " can be opened"); },
          .fact =
              [this](const Fact& fact) {
                if (const auto* lane = std::get_if<LaneOpened>(&fact)) {
                  lane_kinds_.insert(lane->kind);
                }
              },
          .send_invite = [this](PeerId to,
                                const LaneInvite& invite) { return control_->send(to, invite); }});
}

std::string ReducePeer::name_of(PeerId peer) const {
  const auto place = std::ranges::find(order_, peer);
  return place == order_.end() ? to_string(peer)
                               : names_[static_cast<std::size_t>(place - order_.begin())];
}

void ReducePeer::fail(const std::string& why) {
  if (failure_.empty() && !measured_) failure_ = why;
}

void ReducePeer::end() {
  ended_ = true;
  fail("ended from outside");
  if (::getppid() == parent_) return;
  // The launcher is gone and cannot clean up. Each rank removes its own files, and the last rank
  // removes the shared ones.
  std::error_code ignored;
  std::filesystem::remove_all(options_.folder / names_[options_.rank], ignored);
  std::filesystem::remove(options_.folder / "authorized_peers", ignored);
  std::filesystem::remove(options_.folder, ignored);
}

/// Pins ranks to processors as mode `allreduce` pins peers. Like mpirun, it pins them even if there
/// are enough processors for all, because the scheduler would sometimes put two ranks on the same
/// one.
void ReducePeer::keep_place() {
  const HostPlace place{options_.rank, order_.size()};
  if (place.peers <= processors_.count()) {
    processors_.pin_cpu(place.place);
  } else {
    const bool alone = spin_wait_.is_awake(AdaptiveSpinWait::Clock::now());
    processors_.pin_cpu(alone ? processor_for(place, processors_.count()) : std::nullopt);
  }
}

/// Runs the loop until `holds` is true. Like a peer in mode `allreduce`, it busy-polls only during
/// sums, because ranks that are starting need the processor.
void ReducePeer::await(const std::function<bool()>& holds) {
  while (!holds()) {
    if (reduce_ && !reduce_->done()) {
      run_one_polling(io_, spin_wait_);
      keep_place();
    } else {
      io_.run_one();
    }
    if (!failure_.empty()) throw std::runtime_error(failure_);
  }
}

void ReducePeer::meet() {
  for (const std::string& address : options_.join) control_->join(address);
  asio::steady_timer deadline(io_, meeting_deadline);
  deadline.async_wait([this](asio::error_code error) {
    if (!error) fail("the ranks did not meet in time");
  });
  await([this] { return contacts_.size() + 1 >= order_.size(); });
}

void ReducePeer::run() {
  meet();
  for (const std::size_t bytes : options_.task.sizes) {
    fmt::print("{}\n", measure(bytes).dump());
    std::fflush(stdout);
  }
  measured_ = true;
  await([this] { return ended_; });
}

// ---- Collectives ----

std::pmr::memory_resource* ReducePeer::memory() const {
  return lent_ ? lent_.get() : std::pmr::get_default_resource();
}

/// Makes vectors of `bytes` bytes, and everything else needed to sum them.
Sum ReducePeer::sum_of(std::size_t bytes) const {
  const double crowd =
      static_cast<double>(order_.size()) / static_cast<double>(processors_.count());
  const std::size_t elements = bytes / sizeof(float);
  Sum sum{.shape = {.order = order_,
                    .generation = generation,
                    .algorithm = options_.task.algorithm.value_or(
                        fastest(order_.size(), elements,
                                {.link = lent_ ? memory_link : host_link,
                                 .peers_per_processor = crowd,
                                 .is_one_host = true,
                                 .shares_memory = lent_ != nullptr})),
                    .segment = options_.task.segment_bytes / sizeof(float)},
          .input = std::make_shared<Floats>(elements, memory())};
  for (std::size_t begin = 0; begin < elements; begin += bucket_elements) {
    sum.shape.buckets.push_back({begin, std::min(elements, begin + bucket_elements)});
  }
  for (int i = 0; i < 2; ++i) sum.works.push_back(std::make_shared<Floats>(elements, memory()));
  for (std::size_t i = 0; i < elements; ++i) (*sum.input)[i] = input_value(options_.rank, i);
  return sum;
}

/// Runs one all-reduce from its beginning to its result.
Vector ReducePeer::operate(Sum& sum) {
  ++operation_;
  reduce_.reset();
  reduce_.emplace(sum.shape, self_, operation_, 1.0f, sum.input, sum.blank());
  // Sending of the first buckets begins while later ones are prepared.
  for (std::size_t bucket = 0; bucket < sum.shape.buckets.size(); ++bucket) {
    Effects out;
    reduce_->ready(bucket, out);
    carry_out(out);
  }
  for (const EarlyBlocks::Held& piece : held_.take()) {
    Effects out;
    if (!reduce_->receive(piece.from, piece.block, out)) fail("a piece nobody expects");
    carry_out(out);
  }
  await([this] { return reduce_->done(); });
  return reduce_->result();
}

/// Waits until the lanes have sent all blocks of the last collective.
void ReducePeer::flush() {
  reduce_.reset();
  await([&] { return unsent_.use_count() == 1; });
}

void ReducePeer::operate_checked(Sum& sum) {
  flush();
  for (const Vector& work : sum.works) {
    std::ranges::fill(*work, std::numeric_limits<float>::quiet_NaN());
  }
  const Vector result = operate(sum);
  for (std::size_t i = 0; i < result->size(); ++i) {
    const float wanted = sum_value(order_.size(), i);
    if ((*result)[i] == wanted) continue;
    throw std::runtime_error(
        fmt::format("element {} of the sum is {} instead of {}", i, (*result)[i], wanted));
  }
}

/// Accepts a block. A rank is at most one collective ahead of another, because a sum needs all
/// ranks.
void ReducePeer::receive_block(PeerId from, const Block& block) {
  Effects out;
  const bool taken = reduce_ && reduce_->receive(from, block, out);
  if (taken) {
    carry_out(out);
  } else if (const auto piece = piece_named(block.id);
             piece && piece->operation == (operation_ + 1) % PieceName::operations) {
    held_.keep(from, block);
  } else {
    fail("a piece nobody expects");
  }
}

void ReducePeer::carry_out(Effects& effects) {
  using Held = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  for (Transfer& transfer : effects.transfers) {
    transfer.payload.owner = std::make_shared<Held>(transfer.payload.owner, unsent_);
    lanes_->send(std::move(transfer));
  }
}

// ---- Measurements ----

/// Chooses the number of repetitions. All ranks sum their measured times and use the sum, so all
/// choose the same number.
std::size_t ReducePeer::agree_on_repeats(std::size_t bytes, double seconds) {
  if (options_.task.repeats > 0) return options_.task.repeats;
  Sum votes{.shape = {.order = order_, .generation = generation, .buckets = {{0, 1}}},
            .input = std::make_shared<Floats>(1, static_cast<float>(seconds), memory())};
  const double mean =
      static_cast<double>(operate(votes)->front()) / static_cast<double>(order_.size());
  return std::clamp(static_cast<std::size_t>(row_seconds / std::max(mean, 1e-6)),
                    repeats_min(bytes), repeats_max);
}

nlohmann::ordered_json ReducePeer::measure(std::size_t bytes) {
  Sum sum = sum_of(bytes);
  operate_checked(sum);
  const std::size_t warm_up = repeats_min(bytes) / 2;
  const Clock::time_point warm_up_began = Clock::now();
  for (std::size_t i = 0; i < warm_up; ++i) operate(sum);
  const double warm_up_s = std::chrono::duration<double>(Clock::now() - warm_up_began).count();
  const std::size_t repeats = agree_on_repeats(bytes, warm_up_s / static_cast<double>(warm_up));

  flush();
  const std::uint64_t sent_before = lanes_->counters().bytes_sent;
  const double cpu_before = cpu_seconds();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < repeats; ++i) {
    const Clock::time_point began = Clock::now();
    operate(sum);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - began).count());
  }
  flush();
  const double cpu = cpu_seconds() - cpu_before;
  const std::uint64_t sent = lanes_->counters().bytes_sent - sent_before;
  operate_checked(sum);

  std::string lanes;
  for (const std::string& kind : lane_kinds_) lanes += (lanes.empty() ? "" : "+") + kind;
  const auto times = static_cast<double>(repeats);
  return {{"bytes", bytes},
          {"algorithm", to_string(sum.shape.algorithm)},
          {"lane", lanes},
          {"seconds", seconds},
          {"sent_bytes", static_cast<double>(sent) / times},
          {"cpu_seconds", cpu / times}};
}

}  // namespace

int run_reduce_peer(const ReducePeerOptions& options) {
  keep_small_memory(ModeKind::allreduce);
  try {
    ReducePeer(options).run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace gv
