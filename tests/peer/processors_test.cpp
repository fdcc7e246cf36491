// If peers outnumber the processors, each peer stays on one processor, which neighbouring peers
// share.
#include "peer/host/processors.hpp"

#include <sched.h>

#include <catch2/catch.hpp>
#include <future>
#include <optional>
#include <thread>
#include <vector>

namespace gv {
namespace {

/// The processors that the calling thread may use.
std::vector<int> allowed() {
  cpu_set_t mask;
  REQUIRE(::sched_getaffinity(0, sizeof mask, &mask) == 0);
  std::vector<int> found;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &mask)) found.push_back(processor);
  }
  return found;
}

}  // namespace

TEST_CASE("neighbours share a processor where each has as many peers") {
  for (std::size_t place = 0; place < 8; ++place) {
    CHECK(processor_for({place, 8}, 2) == place / 4);
    CHECK(processor_for({place, 8}, 4) == place / 2);
    CHECK(processor_for({place, 8}, 1) == std::size_t{0});
  }
}

TEST_CASE("peers that cannot be divided evenly, or are few, keep to no processor") {
  CHECK_FALSE(processor_for({0, 3}, 2));
  CHECK_FALSE(processor_for({6, 7}, 4));
  CHECK_FALSE(processor_for({1, 2}, 2));
  CHECK_FALSE(processor_for({0, 2}, 16));
}

TEST_CASE("all threads keep to one processor, later ones as well, until they may use any again") {
  const std::vector<int> all = allowed();
  Processors processors;
  REQUIRE(processors.count() == all.size());
  // A thread that started before pinning reads its allowed processors twice: while pinned, and
  // later while free.
  std::promise<void> kept;
  std::promise<void> looked;
  std::promise<void> freed;
  std::vector<int> of_other_kept;
  std::vector<int> of_other_free;
  std::thread other([&] {
    kept.get_future().wait();
    of_other_kept = allowed();
    looked.set_value();
    freed.get_future().wait();
    of_other_free = allowed();
  });

  processors.pin_cpu(all.size() - 1);
  kept.set_value();
  looked.get_future().wait();
  const std::vector<int> ours = allowed();
  std::vector<int> of_later;
  std::thread([&] { of_later = allowed(); }).join();
  processors.pin_cpu({});
  freed.set_value();
  other.join();

  const std::vector<int> last{all.back()};
  CHECK(ours == last);
  CHECK(of_other_kept == last);
  CHECK(of_later == last);
  CHECK(of_other_free == all);
  CHECK(allowed() == all);
}

}  // namespace gv
