// `grapevine bench`: measures this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/allreduce/bench_allreduce.hpp"
#include "bench/allreduce/reduce_peer.hpp"
#include "bench/convolution/bench_convolution.hpp"
#include "cli/commands.hpp"
#include "consensus/allreduce/all_reduce.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/peer_arguments.hpp"

namespace gv {
namespace {

/// Options that `bench allreduce` and its ranks share.
struct ReduceArguments {
  std::vector<std::string> sizes{"4KiB", "64KiB", "1MiB", "16MiB", "128MiB"};
  std::string lane = "auto";
  std::string algorithm = "auto";
  std::size_t repeats = 0;
  std::string segment = "254KiB";

  void add_to(CLI::App& command) {
    command
        .add_option("--sizes", sizes, "Sizes of the vectors: with B, KiB, MiB or GiB, 4 B to 1 GiB")
        ->delimiter(',')
        ->capture_default_str();
    command
        .add_option("--lane", lane,
                    "auto (shared memory on one machine), tls, plain (TCP without encryption), "
                    "unix")
        ->capture_default_str();
    command.add_option("--algorithm", algorithm, algorithm_names())->capture_default_str();
    command
        .add_option("--repeats", repeats,
                    "Operations timed for each size; 0: what a second allows, 5 to 1000")
        ->capture_default_str()
        ->check(CLI::Range(0, 1000000));
    command
        .add_option("--segment", segment, "Bytes of a block that is sent on at once, up to 256KiB")
        ->capture_default_str();
  }

  Problems read(ReduceTask& task) const {
    Problems problems;
    for (const std::string& size : sizes) {
      const auto bytes = bytes_from_text(size);
      if (bytes && *bytes >= sizeof(float) && *bytes <= std::size_t{1} << 30 &&
          *bytes % sizeof(float) == 0) {
        task.sizes.push_back(*bytes);
      } else {
        problems.push_back({"--sizes", fmt::format("'{}' is no size of a vector", size),
                            "write for example 64KiB: a multiple of 4 bytes, up to 1GiB"});
      }
    }
    if (const auto kind = lane_names.find(lane)) {
      task.lane = *kind;
    } else {
      problems.push_back(no_lane(lane));
    }
    task.algorithm = algorithm_named(algorithm);
    if (!task.algorithm && algorithm != "auto") {
      problems.push_back({"--algorithm", fmt::format("'{}' is no algorithm", algorithm),
                          "write " + algorithm_names()});
    }
    task.repeats = repeats;
    task.segment_bytes = bytes_from_text(segment).value_or(0);
    if (task.segment_bytes < sizeof(float) || task.segment_bytes > segment_bytes_max ||
        task.segment_bytes % sizeof(float) != 0) {
      problems.push_back({"--segment", fmt::format("'{}' is no size of a block", segment),
                          "write for example 64KiB: a multiple of 4 bytes, up to 256KiB"});
    }
    return problems;
  }
};

void add_allreduce(CLI::App& bench) {
  const auto sums = std::make_shared<ReduceArguments>();
  const auto options = std::make_shared<BenchAllreduceOptions>();
  options->peers = {2, 4, 8};
  auto* command = bench.add_subcommand(
      "allreduce", "How long sums over several processes take, by size and number of peers");
  command->add_option("-n,--peers", options->peers, "Numbers of peers, 2 to 64")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(2, 64));
  sums->add_to(*command);
  command->add_option("--json", options->json,
                      "A file for the rows as JSON, with the time of every operation");
  command->footer(
      "Example:\n  grapevine bench allreduce\n"
      "  grapevine bench allreduce -n 4 --sizes 64KiB,16MiB --lane plain --algorithm ring");
  command->callback([sums, options] {
    const Problems problems = sums->read(options->task);
    options->program = std::filesystem::read_symlink("/proc/self/exe");
    exit_with(problems.empty() ? bench_allreduce(*options) : fail(problems));
  });
}

/// Adds the command that each rank of `bench allreduce` runs. Help texts do not show it.
void add_allreduce_rank(CLI::App& bench) {
  const auto sums = std::make_shared<ReduceArguments>();
  const auto options = std::make_shared<ReducePeerOptions>();
  const auto folder = std::make_shared<std::string>();
  auto* command = bench.add_subcommand("allreduce-rank")->group("");
  command->add_option("FOLDER", *folder)->required();
  command->add_option("RANK", options->rank)->required();
  command->add_option("--listen", options->listen)->required();
  command->add_option("--lane-port", options->lane_port)->required();
  command->add_option("--join", options->join);
  sums->add_to(*command);
  command->callback([sums, options, folder] {
    options->folder = *folder;
    const Problems problems = sums->read(options->task);
    exit_with(problems.empty() ? run_reduce_peer(*options) : fail(problems));
  });
}

void add_convolution(CLI::App& bench) {
  const auto options = std::make_shared<BenchConvolutionOptions>();
  const auto shapes = std::make_shared<std::vector<std::string>>(usual_convolutions());
  auto* command = bench.add_subcommand(
      "convolution", "How long convolutions take by each method, by shape: which is the quickest");
  command
      ->add_option("--shapes", *shapes,
                   "Channels x height x width of the input, channels of the output, kernel, and if "
                   "you like s with the stride and p with the padding")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--batch", options->batch, "Samples in a pass")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--repeats", options->repeats,
                   "Passes timed of each method; 0: what a second allows, 3 to 1000")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command->add_option("--json", options->json,
                      "A file for the rows as JSON, with the time of every pass");
  command->footer(
      "Methods are the values of the setting convolution; bf16 is direct with precision = "
      "\"bf16\".\n"
      "A pass includes the conversion from and to the plain order of images. With up to 3 channels "
      "a\n"
      "layer is taken for the first one, which has no gradient of its inputs.\n\n"
      "Example:\n  grapevine bench convolution\n"
      "  grapevine bench convolution --shapes 64x28x28:64k3p1,3x224x224:64k7s2p3 --batch 16");
  command->callback([options, shapes] {
    Problems problems;
    for (const std::string& text : *shapes) {
      if (const auto shape = convolution_from_text(text)) {
        options->shapes.push_back(*shape);
      } else {
        problems.push_back({"--shapes", fmt::format("'{}' is no convolution", text),
                            "write for example 64x28x28:64k3p1"});
      }
    }
    exit_with(problems.empty() ? bench_convolution(*options) : fail(problems));
  });
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* bench = app.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);
  add_allreduce(*bench);
  add_allreduce_rank(*bench);
  add_convolution(*bench);
}

}  // namespace gv
