// A sender that changes shared memory while a receiver reads it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/magnitude.hpp"
#include "consensus/allreduce/all_reduce.hpp"

namespace gv {
namespace {

/// Two pages of floats, of which only one can be read at a time. Reading the other one causes a
/// fault, and the signal handler then opens that page and closes the first. So each pass over the
/// memory causes at least two faults, and the memory can change between two passes.
struct Pages {
  float* begin = nullptr;
  std::size_t floats_in_page = 0;
  std::size_t faults = 0;
  std::size_t faults_before_change = 0;

  static constexpr float changed = 1e6F;
  /// After this many faults both pages stay open, so that a read across their border ends.
  static constexpr std::size_t faults_max = 100;

  std::size_t bytes_in_page() const { return floats_in_page * sizeof(float); }
};

/// This is global, because no argument of ours can be passed to a signal handler.
Pages pages;

void open_page(int, siginfo_t* info, void*) {
  const auto* address = static_cast<const float*>(info->si_addr);
  if (address < pages.begin || address >= pages.begin + 2 * pages.floats_in_page) {
    // This fault lies elsewhere. It will repeat and then end the process.
    std::signal(SIGSEGV, SIG_DFL);
    return;
  }
  const bool is_second = address >= pages.begin + pages.floats_in_page;
  float* const page = pages.begin + (is_second ? pages.floats_in_page : 0);
  float* const other = pages.begin + (is_second ? 0 : pages.floats_in_page);
  ++pages.faults;
  if (pages.faults < Pages::faults_max) ::mprotect(other, pages.bytes_in_page(), PROT_NONE);
  ::mprotect(page, pages.bytes_in_page(), PROT_READ | PROT_WRITE);
  if (pages.faults > pages.faults_before_change) *page = Pages::changed;
}

/// Maps the pages, full of ones, and handles their faults. The pages change after
/// `faults_before_change` faults.
class ChangingMemory {
 public:
  explicit ChangingMemory(std::size_t faults_before_change) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory =
        ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    pages = {.begin = static_cast<float*>(memory),
             .floats_in_page = page / sizeof(float),
             .faults_before_change = faults_before_change};
    std::fill_n(pages.begin, size(), 1.0F);
    ::mprotect(memory, 2 * page, PROT_NONE);
    struct sigaction action = {};
    action.sa_sigaction = open_page;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~ChangingMemory() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(pages.begin, 2 * pages.bytes_in_page());
  }
  ChangingMemory(const ChangingMemory&) = delete;
  ChangingMemory& operator=(const ChangingMemory&) = delete;

  static std::size_t size() { return 2 * pages.floats_in_page; }
  static std::span<const std::byte> bytes() {
    return std::as_bytes(std::span<const float>(pages.begin, size()));
  }

 private:
  struct sigaction before_ = {};
};

}  // namespace

TEST_CASE("a block that changes while it is read enters a sum only within the norm cap",
          "[allreduce][all_reduce]") {
  for (std::size_t faults = 0; faults < 8; ++faults) {
    CAPTURE(faults);
    double norm = 0;
    bool is_refused = false;
    double own_norm = 0;
    {
      const ChangingMemory memory(faults);
      const std::size_t size = ChangingMemory::size();
      const AllReduceShape shape{.order = {PeerId{1}, PeerId{2}},
                                 .generation = 99,
                                 .algorithm = ReduceAlgorithm::direct,
                                 .buckets = {{0, 2 * size}},
                                 .segment = size,
                                 .scale = 0.5F,
                                 .norm_cap = 10};
      const auto input = std::make_shared<const Floats>(2 * size, 1.0F);
      AllReduce honest(shape, PeerId{1}, 7, 1, input, std::make_shared<Floats>(2 * size));
      AllReduce hostile(shape, PeerId{2}, 7, 1, input, std::make_shared<Floats>(2 * size));
      Effects out;
      honest.ready(0, out);
      out = {};
      hostile.ready(0, out);
      REQUIRE(out.transfers.size() == 1);
      const TransferId id = out.transfers.front().id;
      const bool is_received = honest.receive(PeerId{2}, {id, 0, ChangingMemory::bytes()}, out);
      REQUIRE(is_received);
      is_refused = honest.unsound_from() == PeerId{2};
      norm = norm_of(std::span<const float>(*honest.result()).first(size));
      own_norm = norm_of(std::span<const float>(*input).first(size));
    }
    // The mean of our vector and one that is ten times as long is 5.5 times as long as ours.
    CHECK((is_refused || norm <= 5.5 * own_norm));
    if (faults == 0) CHECK(is_refused);
    if (faults == 7) CHECK_FALSE(is_refused);
  }
}

}  // namespace gv
