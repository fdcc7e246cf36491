// Passes through stages by groups of members in lockstep, and by one peer.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/shares.hpp"
#include "tests/train/drawn.hpp"
#include "tests/train/dyadic.hpp"
#include "train/layers/group_network.hpp"
#include "train/layers/network.hpp"
#include "train/learner/group_place.hpp"

namespace gv {

using Doubles = std::vector<double>;

struct Work {
  ModelPlan plan;
  std::size_t batch = 3;
  bool wants_d_inputs = true;
  Doubles parameters, x, dy;
  std::vector<std::int32_t> labels;  ///< Needed if the last layer is cut by classes.

  Work(const ModelSpec& spec, SampleShape in) {
    Problems problems;
    plan = plan_model(spec, in, problems);
    REQUIRE(problems.empty());
  }

  static Work drawn(const ModelSpec& spec, SampleShape in) {
    Work work(spec, in);
    Rng rng(5);
    work.parameters = normals<double>(work.plan.layout.size(), rng);
    work.x = normals<double>(work.batch * elements(in), rng);
    work.dy = normals<double>(work.batch * work.plan.outputs, rng);
    return work;
  }

  static Work dyadic(const ModelSpec& spec, SampleShape in) {
    Work work(spec, in);
    work.parameters = dyadic_w.values<double>(work.plan.layout.size());
    work.x = dyadic_x.values<double>(work.batch * elements(in));
    work.dy = dyadic_dy.values<double>(work.batch * work.plan.outputs);
    return work;
  }
};

struct Passes {
  Doubles y, dx, gradient;

  friend bool operator==(const Passes&, const Passes&) = default;
};

/// The outputs of one peer in a test of the model, with running statistics and without dropout.
inline Doubles tested_alone(const Work& work) {
  const auto network = make_plain_network<double>(work.plan, work.batch);
  Rng unused(7);
  const auto y = network->forward(work.parameters, work.x, false, unused);
  return {y.begin(), y.end()};
}

inline Passes alone(const Work& work) {
  const auto network = make_plain_network<double>(work.plan, work.batch);
  Rng rng(7);
  Passes passes;
  const auto y = network->forward(work.parameters, work.x, true, rng);
  passes.y.assign(y.begin(), y.end());
  passes.gradient.resize(work.parameters.size());
  const auto dx =
      network->backward(work.parameters, work.dy, passes.gradient, {}, work.wants_d_inputs);
  passes.dx.assign(dx.begin(), dx.end());
  return passes;
}

/// Cuts the slices into ranges in proportion to speeds.
inline std::vector<Range> cut(const std::vector<double>& speeds, std::size_t slices) {
  std::vector<Range> ranges;
  std::size_t begin = 0;
  for (const std::uint32_t share : batch_shares(speeds, static_cast<std::uint32_t>(slices),
                                                static_cast<std::uint32_t>(slices))) {
    ranges.push_back({begin, begin + share});
    begin += share;
  }
  return ranges;
}

/// Members in lockstep. Each holds its own slices. Each sum is over the values of all members.
class Group {
 public:
  Group(const Work& work, const std::vector<double>& speeds)
      : work_(work), stage_(work.plan, slices_of_stage) {
    const std::vector<Range> all = cut(speeds, stage_.slices());
    for (const Range& slices : all) {
      if (slices.begin > 0 && (cuts_.empty() || cuts_.back() < slices.begin))
        cuts_.push_back(slices.begin);
    }
    for (const Range& slices : all) {
      const GroupPlace place{
          .slices = slices, .own = members_.size(), .members = all.size(), .cuts = cuts_};
      held_.push_back(stage_.held(slices));
      members_.emplace_back(stage_, held_.back(), work.batch, place, work.wants_d_inputs);
      own_.push_back(held_.back().take(std::span<const double>(work.parameters)));
      x_.push_back(rows_read(members_.size() - 1));
    }
  }

  Passes run() {
    Passes passes;
    passes.y = pass(
        group_sums(stage_, false, work_.wants_d_inputs),
        [&](std::size_t m) { return members_[m].begin(own_[m], x_[m], work_.labels, Rng(7)); },
        [&](std::size_t m, const Doubles& sum) { return members_[m].go_on(sum); });
    passes.dx = pass(
        group_sums(stage_, true, work_.wants_d_inputs),
        [&](std::size_t m) {
          return members_[m].begin_back(members_[m].loss() ? Doubles() : work_.dy);
        },
        [&](std::size_t m, const Doubles& sum) { return members_[m].go_on_back(sum); });
    passes.gradient.resize(work_.parameters.size());
    for (std::size_t m = 0; m < members_.size(); ++m) add_gradient(m, passes.gradient);
    return passes;
  }

  /// The outputs of the group in a test of the model.
  Doubles test() {
    return pass(
        sums_in_tests(group_sums(stage_, false, work_.wants_d_inputs)),
        [&](std::size_t m) {
          return members_[m].begin(own_[m], x_[m], work_.labels, Rng(7), false);
        },
        [&](std::size_t m, const Doubles& sum) { return members_[m].go_on(sum); });
  }

  const std::optional<LossSum>& loss(std::size_t m) const { return members_[m].loss(); }
  std::size_t members() const { return members_.size(); }

  /// Adds the gradient of a member's slices, and the member's part of the gradient of parameters
  /// that all members hold.
  void add_gradient(std::size_t m, Doubles& whole) {
    Doubles own(own_[m].size());
    members_[m].write_gradient(own);
    std::vector<bool> is_sliced(whole.size());
    for (std::size_t slice = 0; slice < stage_.slices(); ++slice) {
      for (const Range& range : stage_.ranges_of_slice(slice)) {
        for (std::size_t i = range.begin; i < range.end; ++i) is_sliced[i] = true;
      }
    }
    std::size_t at = 0;
    for (const Range& range : held_[m].ranges) {
      for (std::size_t i = range.begin; i < range.end; ++i, ++at) {
        if (is_sliced[i] || members_[m].adds_to_common()) whole[i] += own[at];
      }
    }
  }

 private:
  /// The inputs, with NaN in the rows that the member does not read.
  Doubles rows_read(std::size_t member) const {
    const std::vector<Range> by_slice = rows_read_at_first(stage_);
    if (by_slice.empty()) return work_.x;
    const std::size_t rows = work_.plan.in[1];
    const std::size_t width = work_.plan.in[2];
    const Range own = range_of_member(by_slice, cuts_, member);
    Doubles x(work_.x.size(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t row = i / width % rows;
      if (row >= own.begin && row < own.end) x[i] = work_.x[i];
    }
    return x;
  }

  template <class Begin, class GoOn>
  Doubles pass(const std::vector<GroupSum>& sums, Begin begin, GoOn go_on) {
    std::vector<Doubles> results;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const auto result = begin(m);
      results.emplace_back(result.begin(), result.end());
    }
    for (const GroupSum& sum : sums) {
      REQUIRE(results.front().size() == sum.times(work_.batch).size(cuts_));
      Doubles total(results.front().size());
      for (const Doubles& summand : results) {
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += summand[i];
      }
      for (std::size_t m = 0; m < members_.size(); ++m) {
        const auto result = go_on(m, total);
        results[m].assign(result.begin(), result.end());
      }
    }
    for (const Doubles& result : results) CHECK(result == results.front());
    return results.front();
  }

  const Work& work_;
  SlicedStage stage_;
  std::vector<std::size_t> cuts_;
  std::vector<HeldParameters> held_;
  std::vector<GroupNetwork<double>> members_;
  std::vector<Doubles> own_;
  std::vector<Doubles> x_;
};

inline std::vector<GroupSum> sums_of(const ModelPlan& plan, bool backward, bool wants_d_inputs) {
  return group_sums(SlicedStage(plan, slices_of_stage), backward, wants_d_inputs);
}

inline bool are_near(const Doubles& a, const Doubles& b) {
  double largest = 1;
  for (const double value : a) largest = std::max(largest, std::abs(value));
  return std::ranges::equal(a, b,
                            [&](double x, double y) { return std::abs(x - y) <= 1e-12 * largest; });
}

inline const std::vector<std::vector<double>> groups_of_speeds = {
    {1}, {1, 1}, {3, 1}, {8, 8, 4, 2}, {1, 2, 3, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};

/// Groups of all sizes compute what one peer does.
inline void check_groups(const Work& work) {
  const Passes serial = alone(work);
  for (const std::vector<double>& speeds : groups_of_speeds) {
    INFO(speeds.size() << " members");
    const Passes passes = Group(work, speeds).run();
    CHECK(are_near(serial.y, passes.y));
    CHECK(are_near(serial.dx, passes.dx));
    CHECK(are_near(serial.gradient, passes.gradient));
  }
}

inline LayerSpec dense(std::size_t units, bool per_position = false) {
  return {.kind = LayerKind::dense, .units = units, .per_position = per_position};
}

inline LayerSpec conv(std::size_t units, std::size_t kernel, std::size_t stride,
                      std::size_t padding, LayerSplit split = LayerSplit::rows) {
  return {.kind = LayerKind::conv2d,
          .units = units,
          .kernel = kernel,
          .stride = stride,
          .padding = padding,
          .split = split};
}

inline const LayerSpec relu{.kind = LayerKind::relu};

}  // namespace gv
