// Times Gloo's all-reduces over TCP on one machine, with one process for each rank.
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Run = std::function<void()>;

std::unique_ptr<gloo::Algorithm> algorithm(const std::string& name,
                                           const std::shared_ptr<gloo::Context>& context,
                                           std::vector<float>& values) {
  const std::vector<float*> pointers{values.data()};
  const int count = static_cast<int>(values.size());
  if (name == "ring") return std::make_unique<gloo::AllreduceRing<float>>(context, pointers, count);
  if (name == "ring_chunked") {
    return std::make_unique<gloo::AllreduceRingChunked<float>>(context, pointers, count);
  }
  if (name == "halving_doubling") {
    return std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, pointers, count);
  }
  throw std::invalid_argument("no algorithm " + name);
}

double seconds_of(const Run& run) {
  const Clock::time_point began = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

/// Arguments: RANK RANKS FOLDER ALGORITHM ROW_SECONDS BYTES... Prints one JSON line for each size,
/// with this rank's time for every sum. The ranks find each other through FOLDER.
int main(int argc, char** argv) try {
  if (argc < 7) throw std::invalid_argument("RANK RANKS FOLDER ALGORITHM ROW_SECONDS BYTES...");
  const int rank = std::atoi(argv[1]);
  const int ranks = std::atoi(argv[2]);
  gloo::rendezvous::FileStore store(argv[3]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  context->connectFullMesh(store, device);
  const std::string name = argv[4];
  const double row_seconds = std::atof(argv[5]);
  for (int i = 6; i < argc; ++i) {
    const long bytes = std::atol(argv[i]);
    std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = float(k % 251 + rank * (k % 7));
    const auto sum = algorithm(name, context, values);
    sum->run();
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[k] != float(ranks * (k % 251) + ranks * (ranks - 1) / 2 * (k % 7))) {
        throw std::runtime_error("a sum is wrong");
      }
    }
    // Zeros stay zero however often they are summed.
    std::fill(values.begin(), values.end(), 0.0f);
    const int least = bytes <= 1 << 20 ? 20 : bytes <= 32 << 20 ? 10 : 5;
    const double warm_up = seconds_of([&] {
      for (int k = 0; k < least / 2; ++k) sum->run();
    });
    std::vector<float> mean{static_cast<float>(warm_up / (least / 2))};
    algorithm("ring", context, mean)->run();
    const int repeats =
        std::clamp(int(row_seconds * ranks / std::max(mean[0], 1e-6f)), least, 1000);
    std::printf("{\"bytes\": %ld, \"seconds\": [", bytes);
    std::vector<double> seconds;
    for (int k = 0; k < repeats; ++k) seconds.push_back(seconds_of([&] { sum->run(); }));
    for (int k = 0; k < repeats; ++k) std::printf("%s%.9f", k == 0 ? "" : ", ", seconds[k]);
    std::printf("]}\n");
    std::fflush(stdout);
  }
  // A rank that leaves closes connections that other ranks may still be waiting on.
  store.set("done" + std::to_string(rank), {1});
  std::vector<std::string> all;
  for (int other = 0; other < ranks; ++other) all.push_back("done" + std::to_string(other));
  store.wait(all);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
