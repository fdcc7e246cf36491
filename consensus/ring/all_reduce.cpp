// Plans carried out: every block that comes is added at once and, where the plan says so, sent on.
#include "consensus/ring/all_reduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "consensus/base/check.hpp"
#include "consensus/base/wide.hpp"

namespace gv {
namespace {

GV_WIDE void scale(float* __restrict to, const float* __restrict input, std::size_t n,
                   float weight) {
  for (std::size_t i = 0; i < n; ++i) to[i] = weight * input[i];
}

GV_WIDE void add_weighted(float* __restrict to, const float* __restrict came,
                          const float* __restrict input, std::size_t n, float weight) {
  for (std::size_t i = 0; i < n; ++i) to[i] = came[i] + weight * input[i];
}

GV_WIDE void add(float* __restrict to, const float* __restrict came, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] += came[i];
}

bool overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

bool is_receipt(const ReduceStep& step) { return step.kind != ReduceStep::Kind::send; }

}  // namespace

// 24 bits of the operation, 8 of the bucket, 12 of the round, 20 of the segment.
std::uint64_t PieceName::number() const {
  return operation % operations << 40 | static_cast<std::uint64_t>(bucket) << 32 |
         static_cast<std::uint64_t>(round) << 20 | static_cast<std::uint64_t>(segment);
}

PieceName PieceName::of(std::uint64_t number) {
  return {.operation = number >> 40,
          .bucket = static_cast<std::size_t>(number >> 32) % buckets_max,
          .round = static_cast<std::size_t>(number >> 20) % rounds_max,
          .segment = static_cast<std::size_t>(number) % segments_max};
}

AllReduce::AllReduce(const AllReduceOptions& options, PeerId self, std::uint64_t operation,
                     float weight, std::shared_ptr<const std::vector<float>> input, Vector work)
    : options_(options),
      self_(self),
      operation_(operation),
      weight_(weight),
      input_(std::move(input)),
      work_(std::move(work)) {
  const auto place = std::ranges::find(options_.order, self);
  check(place != options_.order.end(), "we take part in our own all-reduce");
  check(input_->size() == work_->size(), "the result is as long as the input");
  check(options_.buckets.size() <= PieceName::buckets_max, "buckets can be named");
  const auto rank = static_cast<std::size_t>(place - options_.order.begin());
  for (const Range& range : options_.buckets) {
    Bucket& bucket = buckets_.emplace_back();
    for (ReduceStep& what :
         reduce_plan(options_.algorithm, options_.order.size(), rank, range.size())) {
      what.range.begin += range.begin;
      what.range.end += range.begin;
      Step step{.what = what, .at = what.range.begin};
      for (std::size_t i = 0; i < bucket.steps.size(); ++i) {
        Step& earlier = bucket.steps[i];
        if (!overlap(earlier.what.range, what.range)) continue;
        step.first_touch = false;
        if (!is_receipt(earlier.what)) continue;
        step.after.push_back(i);
        earlier.before.push_back(bucket.steps.size());
      }
      bucket.steps.push_back(std::move(step));
    }
    left_ += bucket.steps.size() + 1;
  }
}

/// How far a step may go: as far as all earlier receipts of the same elements have.
std::size_t AllReduce::limit(const Bucket& bucket, const Step& step) const {
  std::size_t end = step.what.range.end;
  for (const std::size_t i : step.after) {
    const Step& earlier = bucket.steps[i];
    if (earlier.at < earlier.what.range.end) end = std::min(end, earlier.at);
  }
  return std::max(end, step.what.range.begin);
}

std::size_t AllReduce::segment_begin(const Step& step, std::size_t segment) const {
  return std::min(step.what.range.end, step.what.range.begin + segment * options_.segment);
}

void AllReduce::ready(std::size_t number, Effects& out) {
  Bucket& bucket = buckets_[number];
  check(!bucket.ready, "a bucket is ready once");
  bucket.ready = true;
  --left_;
  if (options_.order.size() == 1) {
    const Range& range = options_.buckets[number];
    bring_in(range.begin, range.end, nullptr);
  }
  for (std::size_t i = 0; i < bucket.steps.size(); ++i) go_on(number, i, out);
}

/// Lets a step do what it now can, and then those that wait for it.
void AllReduce::go_on(std::size_t number, std::size_t index, Effects& out) {
  Bucket& bucket = buckets_[number];
  Step& step = bucket.steps[index];
  if (step.at == step.what.range.end) return;
  const std::size_t before = step.at;
  if (is_receipt(step.what)) {
    take_early(number, index);
  } else {
    send(number, step, out);
  }
  if (step.at == before) return;
  finish_if_complete(step);
  for (const std::size_t later : step.before) go_on(number, later, out);
}

void AllReduce::finish_if_complete(const Step& step) {
  if (step.at == step.what.range.end) --left_;
}

void AllReduce::send(std::size_t number, Step& step, Effects& out) {
  const std::size_t end = limit(buckets_[number], step);
  const Range& range = step.what.range;
  while (step.at < range.end) {
    const std::size_t segment = (step.at - range.begin) / options_.segment;
    const std::size_t until = segment_begin(step, segment + 1);
    if (until > end) return;  // Whole segments only: blocks are few and all but one full.
    const std::size_t n = until - step.at;
    if (step.first_touch) bring_in(step.at, until, nullptr);
    const PieceName piece{
        .operation = operation_, .bucket = number, .round = step.what.round, .segment = segment};
    out.transfers.push_back(
        {.to = options_.order[step.what.peer],
         .id = {self_, options_.epoch, piece.number()},
         .payload = {work_, std::as_bytes(std::span<const float>(work_->data() + step.at, n))}});
    bytes_sent_ += n * sizeof(float);
    step.at = until;
  }
}

bool AllReduce::receive(PeerId from, const Block& block, Effects& out) {
  const PieceName piece = PieceName::of(block.id.number);
  const bool ours = block.id.owner == from && block.id.session == options_.epoch &&
                    piece.operation == operation_ % PieceName::operations && block.offset == 0 &&
                    piece.bucket < buckets_.size();
  if (!ours) return false;
  Bucket& bucket = buckets_[piece.bucket];
  const auto step = std::ranges::find_if(bucket.steps, [&](const Step& known) {
    return is_receipt(known.what) && known.what.round == piece.round &&
           options_.order[known.what.peer] == from;
  });
  if (step == bucket.steps.end()) return false;
  const std::size_t begin = segment_begin(*step, piece.segment);
  const std::size_t end = segment_begin(*step, piece.segment + 1);
  const auto index = static_cast<std::size_t>(step - bucket.steps.begin());
  const EarlyKey key{piece.bucket, index, piece.segment};
  if (begin < step->at || begin >= end || block.bytes.size() != (end - begin) * sizeof(float) ||
      early_.contains(key)) {
    return false;
  }
  progress_ += end - begin;
  const auto address = reinterpret_cast<std::uintptr_t>(block.bytes.data());
  const bool at_once = bucket.ready && step->at == begin && limit(bucket, *step) >= end &&
                       address % alignof(float) == 0;
  if (at_once) {
    merge(*step, {reinterpret_cast<const float*>(block.bytes.data()), end - begin});
    finish_if_complete(*step);
    for (const std::size_t later : step->before) go_on(piece.bucket, later, out);
  } else {
    std::vector<float> values(end - begin);
    std::memcpy(values.data(), block.bytes.data(), block.bytes.size());
    early_.emplace(key, std::move(values));
  }
  go_on(piece.bucket, index, out);
  return true;
}

void AllReduce::take_early(std::size_t number, std::size_t index) {
  Bucket& bucket = buckets_[number];
  Step& step = bucket.steps[index];
  while (bucket.ready && step.at < step.what.range.end && !early_.empty()) {
    const std::size_t segment = (step.at - step.what.range.begin) / options_.segment;
    const auto found = early_.find({number, index, segment});
    if (found == early_.end() || limit(bucket, step) < segment_begin(step, segment + 1)) return;
    merge(step, found->second);
    early_.erase(found);
  }
}

/// Puts our weighted input in place, added to what came if anything did.
void AllReduce::bring_in(std::size_t begin, std::size_t end, const float* came) {
  const std::size_t plain = std::clamp(options_.unweighted_from, begin, end);
  for (const auto& [from, to, weight] :
       {std::tuple(begin, plain, weight_), std::tuple(plain, end, 1.0f)}) {
    if (from == to) continue;
    float* target = work_->data() + from;
    const float* input = input_->data() + from;
    if (came == nullptr) {
      scale(target, input, to - from, weight);
    } else {
      add_weighted(target, came + (from - begin), input, to - from, weight);
    }
  }
}

bool AllReduce::involves(PeerId peer) const {
  return std::ranges::any_of(buckets_, [&](const Bucket& bucket) {
    return std::ranges::any_of(
        bucket.steps, [&](const Step& step) { return options_.order[step.what.peer] == peer; });
  });
}

/// The next elements of a receipt are here.
void AllReduce::merge(Step& step, std::span<const float> values) {
  float* to = work_->data() + step.at;
  if (step.what.kind == ReduceStep::Kind::copy) {
    std::ranges::copy(values, to);
  } else if (step.first_touch) {
    bring_in(step.at, step.at + values.size(), values.data());
  } else {
    add(to, values.data(), values.size());
  }
  step.at += values.size();
}

}  // namespace gv
