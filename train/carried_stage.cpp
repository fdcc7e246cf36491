// Copies parts of a stage into and out of the parameters that a carrier holds.
#include "train/carried_stage.hpp"

#include <algorithm>
#include <utility>

#include "base/magnitude.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

GV_WIDE void add_up(float* __restrict x, const float* __restrict y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += y[i];
}

}  // namespace

const std::vector<HeldRun>& CarriedStage::runs_of(const PartOfStage& part) const {
  return part.slice ? held.own[*part.slice - held.slices.begin] : held.common;
}

void CarriedStage::copy_kept(const HeldParameters& other, std::span<float> values,
                             Optimizer& others) const {
  const auto vectors = others.state();
  for_each_kept(held, other, [&](std::size_t from, std::size_t to, std::size_t size) {
    std::copy_n(newest->data() + from, size, values.data() + to);
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      std::copy_n(optimizer.state()[v].data() + from, size, vectors[v].data() + to);
    }
  });
}

void CarriedStage::copy_state(const PartOfStage& part, std::size_t size,
                              std::span<float> out) const {
  std::size_t begin = 0;
  const auto copy = [&](std::span<const float> values) {
    for (const HeldRun& run : runs_of(part)) {
      std::ranges::copy(values.subspan(run.held, run.size), out.subspan(begin + run.part).begin());
    }
    begin += size;
  };
  copy(*newest);
  for (const std::span<const float> vector : optimizer.state()) copy(vector);
  out.back() = static_cast<float>(optimizer.updates());
}

void CarriedStage::adopt_state(const PartOfStage& part, std::size_t size,
                               std::span<const float> state) {
  std::size_t begin = 0;
  const auto adopt = [&](std::span<float> values, bool is_possible) {
    for (const HeldRun& run : runs_of(part)) {
      const auto to = values.subspan(run.held, run.size);
      std::ranges::fill(to, 0.0F);
      if (is_possible) std::ranges::copy(state.subspan(begin + run.part, run.size), to.begin());
    }
    begin += size;
  };
  newest = std::make_shared<std::vector<float>>(*newest);
  before = nullptr;
  adopt(*newest, true);
  const bool is_possible = optimizer.is_possible(state.subspan(size, state.size() - size - 1));
  for (const std::span<float> vector : optimizer.state()) adopt(vector, is_possible);
  const float updates = std::clamp(state.back(), 0.0F, largest_gradient);
  optimizer.set_updates(is_possible ? static_cast<std::uint64_t>(updates) : 0);
}

void CarriedStage::add_gradient(bool with_common, const HeldValues<float>& sum) const {
  const auto add_to = [&](std::span<float> values) {
    return [&, values](const HeldRun& run) {
      add_up(values.data() + run.part, gradient.data() + run.held, run.size);
    };
  };
  if (with_common) std::ranges::for_each(held.common, add_to(sum.common));
  held.for_each_sliced(add_to(sum.slices));
}

Flight CarriedStage::begin_flight() {
  Flight flight;
  if (spare_inputs.empty()) return flight;
  flight.inputs = std::move(spare_inputs.back());
  spare_inputs.pop_back();
  return flight;
}

void CarriedStage::keep_memory(Flight& flight) {
  spare_inputs.push_back(std::move(flight.inputs));
  if (flight.network) spare.push_back(std::move(flight.network));
  if (flight.group) spare_groups.push_back(std::move(flight.group));
}

void CarriedStage::abandon_run() {
  if (at_begin) {
    newest = std::exchange(at_begin, nullptr);
    optimizer = *std::move(optimizer_begin);
  }
  for (auto& [number, flight] : flights) keep_memory(flight);
  flights.clear();
  before = nullptr;
  version = 0;
}

}  // namespace gv
