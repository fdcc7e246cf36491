// Peers that make one pipeline run in memory, and can be copied at any moment.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/overloaded.hpp"
#include "base/rng.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/pipeline_options.hpp"
#include "peer/modes/pipeline_run.hpp"
#include "peer/node/job.hpp"
#include "peer/node/stage_mixers.hpp"
#include "tests/consensus/value_swarm.hpp"

namespace gv {

inline constexpr std::uint64_t run_seed = 7;

/// Peers that make one run, and everything under way between them. It is a value: a copy continues
/// independently.
struct RunWorld {
  /// Bytes on their way. They are copied when they are sent, because a copied world must not read
  /// the memory of the original.
  struct Stream {
    PeerId to{};
    TransferId id;
    std::vector<std::byte> bytes;
    std::size_t arrived = 0;
  };

  RunWorld(const PipelineOptions& of_all, const Generation& generation)
      : options(of_all), order(generation.order), jobs(order.size()) {
    // Small segments and buckets make many blocks.
    options.segment_elements = 1;
    options.bucket_elements = 3;
    for (const PeerId peer : order) {
      runs.emplace_back(peer, run_seed, options).enter(generation);
    }
  }

  /// Does one randomly chosen thing that can be done now. Returns false if there is none.
  bool step(Rng& rng) {
    std::vector<std::size_t> choices(2 * runs.size() + streams.size());
    std::iota(choices.begin(), choices.end(), std::size_t{0});
    rng.shuffle(std::span(choices));
    return std::ranges::any_of(choices, [this](std::size_t choice) {
      if (choice < runs.size()) return work(choice);
      choice -= runs.size();
      return choice < runs.size() ? report(choice) : deliver(choice - runs.size());
    });
  }

  bool is_over() const {
    return are_taken && streams.empty() && std::ranges::all_of(runs, [](const PipelineRun& run) {
             return run.is_complete() && run.counts_once();
           });
  }

  /// Begins the run, or requests and carries out a task. Returns false if neither is possible.
  bool work(std::size_t rank) {
    PipelineRun& run = runs[rank];
    if (!run.is_begun()) {
      Effects out;
      run.begin(0, options.test_samples > 0, out);
      collect(out);
      return true;
    }
    if (jobs[rank].size() == 2) return false;
    const std::optional<Job::Task> task = run.next();
    if (!task) return false;
    std::visit(Overloaded{[&](const task::StagePass& pass) { compute(run, pass); },
                          [&](const task::CopyParameters& copy) {
                            const auto counts = std::span(*copy.sum).subspan(stage_size);
                            const auto own = static_cast<float>(rank);
                            std::ranges::copy(counts,
                                              std::fill_n(copy.out->begin(), stage_size, own));
                          },
                          [&](const task::SendStage& send) {
                            const std::vector<std::size_t> sizes(options.stages.size(), stage_size);
                            const std::vector<float> own(stage_size, static_cast<float>(rank));
                            StageMixers(options.rule, run_seed, sizes).send(send, own);
                          },
                          [](const auto&) {}},
               *task);
    jobs[rank].emplace_back().add(*task);
    return true;
  }

  /// The gradients are whole numbers, so their sums do not depend on the order of additions.
  void compute(const PipelineRun& run, const task::StagePass& pass) const {
    const PipelineInstruction& what = pass.what;
    const auto& sums = options.stages[what.stage].forward_sums;
    // Of values that are dealt out, only our own part has a meaning.
    const bool is_dealt = pass.part > 0 && !sums[pass.part - 1].dealt.empty();
    const float value =
        static_cast<float>(what.micro_batch + 1) + (pass.in && !is_dealt ? pass.in->front() : 0);
    if (pass.out) std::ranges::fill(*pass.out, value);
    if (!pass.sum) return;
    for (std::size_t i = 0; i < stage_size; ++i) (*pass.sum)[i] += value;
    (*pass.sum)[stage_size + pass.counted_at] += 1;
    if (!pass.slices) return;
    const std::size_t counts = run.own_slices(what.stage).size() * options.micro_batches;
    const auto values = std::span(*pass.slices).first(pass.slices->size() - counts);
    for (float& sliced : values) sliced += value;
    for (std::size_t i = what.micro_batch; i < counts; i += options.micro_batches) {
      (*pass.slices)[values.size() + i] += 1;
    }
  }

  /// Reports the oldest job as done.
  bool report(std::size_t rank) {
    if (jobs[rank].empty()) return false;
    Effects out;
    runs[rank].done(jobs[rank].front(), out);
    jobs[rank].pop_front();
    collect(out);
    return true;
  }

  /// Delivers a piece, or four bytes of anything else.
  bool deliver(std::size_t number) {
    Stream& stream = streams[number];
    const std::size_t rest = stream.bytes.size() - stream.arrived;
    const std::size_t size =
        stream.id.kind == TransferKind::piece ? rest : std::min(rest, sizeof(float));
    const auto bytes = std::span<const std::byte>(stream.bytes).subspan(stream.arrived, size);
    const auto rank = static_cast<std::size_t>(std::ranges::find(order, stream.to) - order.begin());
    Effects out;
    const Block block{stream.id, stream.arrived, bytes};
    are_taken = runs[rank].receive(stream.id.owner, block, out) && are_taken;
    stream.arrived += size;
    if (size == rest) streams.erase(streams.begin() + static_cast<std::ptrdiff_t>(number));
    collect(out);
    return true;
  }

  void collect(const Effects& out) {
    for (const Transfer& sent : out.transfers) {
      const auto bytes = sent.payload.bytes;
      streams.push_back({.to = sent.to, .id = sent.id, .bytes = {bytes.begin(), bytes.end()}});
    }
  }

  /// All stages of these worlds have this many parameters outside slices.
  static constexpr std::size_t stage_size = 4;

  PipelineOptions options;
  std::vector<PeerId> order;
  std::vector<PipelineRun> runs;
  std::vector<std::deque<Job>> jobs;  ///< Jobs that are carried out but not reported.
  std::vector<Stream> streams;
  bool are_taken = true;  ///< True if no block was refused.
};

/// Copies a world after every step. Each step must give another state, and no copy may change while
/// the original or a copy of the copy goes on. Some copies go on in an order of their own, and must
/// end like the original.
inline void check_copies(const PipelineOptions& options, const Generation& generation) {
  struct Copied {
    RunWorld world;
    std::uint64_t hash = 0;
  };
  RunWorld world(options, generation);
  std::deque<Copied> copies;
  Rng rng(1);
  do {
    copies.push_back({world, hash_of(world.runs, Time{})});
  } while (world.step(rng));
  REQUIRE(world.is_over());
  for (std::size_t i = 1; i < copies.size(); ++i) {
    INFO("step " << i << " of " << copies.size() - 1);
    CHECK(copies[i].hash != copies[i - 1].hash);
    CHECK_FALSE(equal_states(copies[i].world.runs, copies[i - 1].world.runs));
    CHECK(hash_of(copies[i].world.runs, Time{}) == copies[i].hash);
    if (i % 5 != 0) continue;
    RunWorld other = copies[i].world;
    Rng order(i + 1);
    while (other.step(order)) {
    }
    CHECK(other.is_over());
    CHECK(equal_states(other.runs, world.runs));
    CHECK(hash_of(other.runs, Time{}) == copies.back().hash);
    CHECK(hash_of(copies[i].world.runs, Time{}) == copies[i].hash);
  }
  CHECK(hash_of(world.runs, Time{}) == copies.back().hash);
}

}  // namespace gv
