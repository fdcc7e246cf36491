// Carries out all-reduce plans: adds each block as it arrives, and passes it on if planned.
#include "consensus/allreduce/all_reduce.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/rng.hpp"
#include "base/state_hash.hpp"
#include "base/wide.hpp"
#include "consensus/codec/sparse_vector.hpp"

namespace gv {
namespace {

// The functions below also return the largest magnitude that they write. A separate pass over the
// result would slow down a sum of 1 MiB between two peers on one host by a quarter.

GV_WIDE float copy(float* __restrict to, const float* __restrict from, std::size_t n) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = from[i];
    largest = std::max(largest, magnitude_bits(from[i]));
  }
  return std::bit_cast<float>(largest);
}

GV_WIDE float multiply(float* __restrict to, const float* __restrict input, std::size_t n,
                       float weight, float scale) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = scale * (weight * input[i]);
    to[i] = value;
    largest = std::max(largest, magnitude_bits(value));
  }
  return std::bit_cast<float>(largest);
}

GV_WIDE float add_weighted(float* __restrict to, const float* __restrict came,
                           const float* __restrict input, std::size_t n, float weight,
                           float scale) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = scale * (came[i] + weight * input[i]);
    to[i] = value;
    largest = std::max(largest, magnitude_bits(value));
  }
  return std::bit_cast<float>(largest);
}

/// to[i] = scale * (to[i] + weight * more[i]), for n elements.
GV_WIDE float add(float* __restrict to, const float* __restrict more, std::size_t n, float weight,
                  float scale) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = scale * (to[i] + weight * more[i]);
    to[i] = value;
    largest = std::max(largest, magnitude_bits(value));
  }
  return std::bit_cast<float>(largest);
}

/// The larger of two magnitudes. NaN counts as the largest.
float larger(float a, float b) {
  return std::bit_cast<float>(std::max(magnitude_bits(a), magnitude_bits(b)));
}

/// Results of at least this many bytes have left a processor's cache before they are used.
constexpr std::size_t too_long_for_cache = 4 << 20;

/// A peer counts as hostile if its sum exceeds the limit by more than this factor. An honest peer's
/// sum is at most twice the limit: its own input, added to a sum that a hostile peer has brought to
/// the limit.
constexpr float excess = 4;

/// Clamps values to [-limit, limit]. `largest` is their largest magnitude. Returns false if a value
/// is not finite, or is larger than `most` and so cannot come from an honest peer.
bool bring_within(std::span<float> values, float largest, float limit, float most) {
  if (!(largest <= most)) return false;
  if (largest <= limit) return true;
  for (float& value : values) value = std::clamp(value, -limit, limit);
  return true;
}

/// Copies `from` to `to` past the cache. A plain copy would first fetch the memory to be
/// overwritten. Returns false if a value is not finite or larger than `most`. In measurements with
/// the source in the cache, this function took half as long as a plain copy.
bool copy_past_cache(float* to, std::span<const float> from, float most) {
#if defined(__SSE2__)
  const auto misplaced = reinterpret_cast<std::uintptr_t>(to) / sizeof(float) % 4;
  std::size_t i = std::min(from.size(), (4 - misplaced) % 4);
  bool within = copy(to, from.data(), i) <= most;
  const __m128i magnitude = _mm_set1_epi32(0x7fffffff);
  const __m128i largest = _mm_castps_si128(_mm_set1_ps(most));
  __m128i bad = _mm_setzero_si128();
  for (; i + 4 <= from.size(); i += 4) {
    const __m128 values = _mm_loadu_ps(from.data() + i);
    const __m128i of_values = _mm_and_si128(_mm_castps_si128(values), magnitude);
    bad = _mm_or_si128(bad, _mm_cmpgt_epi32(of_values, largest));
    _mm_stream_ps(to + i, values);
  }
  _mm_sfence();
  within &= _mm_movemask_epi8(bad) == 0;
  return copy(to + i, from.data() + i, from.size() - i) <= most && within;
#else
  return copy(to, from.data(), from.size()) <= most;
#endif
}

bool overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

bool is_receipt(const ReduceStep& step) { return step.kind != ReduceStep::Kind::send; }

}  // namespace

AllReduce::AllReduce(const AllReduceShape& options, PeerId self, std::uint64_t operation,
                     float weight, std::shared_ptr<const Floats> input, Vector work)
    : options_(options),
      self_(self),
      operation_(operation),
      weight_(weight),
      input_(std::move(input)),
      work_(std::move(work)) {
  const auto place = std::ranges::find(options_.order, self);
  check(place != options_.order.end(), "we take part in our own all-reduce");
  check(elements() <= input_->size() && input_->size() <= work_->size(),
        "the result is as long as the input");
  check(options_.buckets.size() <= PieceName::buckets_max, "buckets can be named");
  rank_ = static_cast<std::size_t>(place - options_.order.begin());
  check(options_.parts.empty() || options_.wire.is_plain(), "what is gathered is written as it is");
  buckets_.reserve(options_.buckets.size());
  for (const Range& range : options_.buckets) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.has_parts = !options_.parts.empty() && range.begin == options_.parts.front().begin;
    const std::vector<ReduceStep> plan = plan_of(bucket, range);
    bucket.steps.reserve(plan.size());
    for (const ReduceStep& what : plan) {
      // If parts are gathered, ready() copies our own part into the result. Parts that are dealt
      // out are sent from the input.
      Step step{.what = what,
                .at = what.range.begin,
                .first_touch = !bucket.has_parts || options_.is_dealt,
                .is_gathered = bucket.has_parts && !options_.is_dealt};
      for (std::size_t i = 0; i < bucket.steps.size(); ++i) {
        Step& earlier = bucket.steps[i];
        if (!overlap(earlier.what.range, what.range)) continue;
        const bool was_sent = !is_receipt(earlier.what);
        if (!was_sent || !sends_input(earlier)) step.first_touch = false;
        // Only an addition can change values that an earlier step sends. A final value cannot
        // arrive before we have sent the values from which it is computed.
        if (was_sent && what.kind != ReduceStep::Kind::add) continue;
        if (was_sent) earlier.is_added_to_later = true;
        step.after.push_back(i);
        earlier.before.push_back(bucket.steps.size());
      }
      bucket.steps.push_back(std::move(step));
    }
    left_ += bucket.steps.size() + 1;
  }
}

std::vector<ReduceStep> AllReduce::plan_of(const Bucket& bucket, Range range) const {
  if (bucket.has_parts) {
    return options_.is_dealt ? deal_plan(options_.parts, rank_)
                             : gather_plan(options_.parts, rank_);
  }
  auto steps = reduce_plan(options_.algorithm, options_.order.size(), rank_, range.size());
  for (ReduceStep& step : steps) {
    step.range.begin += range.begin;
    step.range.end += range.begin;
  }
  return steps;
}

/// The largest end of any bucket. It belongs to the first or the last one, because buckets are in
/// ascending or descending order.
std::size_t AllReduce::elements() const {
  const std::vector<Range>& buckets = options_.buckets;
  return buckets.empty() ? 0 : std::max(buckets.front().end, buckets.back().end);
}

/// The end of the elements that `step` may process now: all earlier steps that it waits for have
/// processed them.
std::size_t AllReduce::limit(const Bucket& bucket, const Step& step) const {
  std::size_t end = step.what.range.end;
  for (const std::size_t i : step.after) {
    const Step& earlier = bucket.steps[i];
    if (earlier.at < earlier.what.range.end) end = std::min(end, earlier.at);
  }
  return std::max(end, step.what.range.begin);
}

/// The number of segments of a step. A short tail, of up to a quarter of a segment, is appended to
/// the last full segment: as a block of its own it would take as much work as a full block.
std::size_t AllReduce::segments(const Step& step) const {
  const std::size_t elements = step.what.range.size();
  const std::size_t rest = std::min(options_.segment / segment_rest, elements - 1);
  return (elements - rest + options_.segment - 1) / options_.segment;
}

std::size_t AllReduce::segment_begin(const Step& step, std::size_t segment) const {
  const Range& range = step.what.range;
  return segment < segments(step) ? range.begin + segment * options_.segment : range.end;
}

/// The segment that begins at the step's position.
std::size_t AllReduce::segment_at(const Step& step) const {
  return (step.at - step.what.range.begin) / options_.segment;
}

void AllReduce::ready(std::size_t number, Effects& out) {
  Bucket& bucket = buckets_[number];
  check(!bucket.ready, "a bucket is ready once");
  bucket.ready = true;
  --left_;
  if (bucket.has_parts) {
    const Range& own = options_.parts[rank_];
    const bool is_input = !options_.is_dealt || rank_ == 0;
    if (is_input) std::copy_n(input_->data() + own.begin, own.size(), work_->data() + own.begin);
  } else if (options_.order.size() == 1) {
    const Range& range = options_.buckets[number];
    bring_in(range.begin, range.end, nullptr, options_.scale);
  }
  for (std::size_t i = 0; i < bucket.steps.size(); ++i) go_on(number, i, out);
}

/// Advances a step as far as possible, and then the steps that wait for it.
void AllReduce::go_on(std::size_t number, std::size_t index, Effects& out) {
  Bucket& bucket = buckets_[number];
  Step& step = bucket.steps[index];
  if (step.at == step.what.range.end || unsound_from_) return;
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
    const std::size_t segment = segment_at(step);
    const std::size_t until = segment_begin(step, segment + 1);
    if (until > end)
      return;  // Sends complete segments only, so that there are few blocks and all but one are
               // full.
    if (step.first_touch && !sends_input(step)) bring_in(step.at, until, nullptr, 1);
    const PieceName piece{
        .operation = operation_, .bucket = number, .round = step.what.round, .segment = segment};
    Payload written = payload(step, until, piece);
    bytes_sent_ += written.bytes.size();
    out.transfers.push_back({.to = options_.order[step.what.peer],
                             .id = piece_id(self_, options_.generation, piece, options_.stage),
                             .payload = std::move(written),
                             .can_wait = options_.is_dealt});
    step.at = until;
  }
}

/// True if the step sends complete sums. In a ring of n ranks, the first n - 1 rounds send partial
/// sums.
bool AllReduce::is_final(const Step& step) const {
  return step.what.round + 1 >= options_.order.size();
}

/// True if elements are sent from the input itself, because nothing has been added to them.
bool AllReduce::sends_input(const Step& step) const {
  return step.first_touch && weight_ == 1 && options_.wire.is_plain();
}

/// The elements from the step's position to `end`, as they are sent. Their memory is shared and not
/// copied, unless they may change before they arrive.
Payload AllReduce::payload(const Step& step, std::size_t end, const PieceName& piece) {
  if (!options_.wire.is_plain()) return coded_payload(step, end, piece);
  const std::shared_ptr<const Floats> owner = sends_input(step) ? input_ : work_;
  const auto values = std::span(*owner).subspan(step.at, end - step.at);
  if (owner == input_ || !step.is_added_to_later) return {owner, std::as_bytes(values)};
  const auto copy = std::make_shared<Floats>(values.begin(), values.end(), work_->get_allocator());
  return {copy, std::as_bytes(std::span(*copy))};
}

Payload AllReduce::coded_payload(const Step& step, std::size_t end, const PieceName& piece) {
  const std::span<float> values(work_->data() + step.at, end - step.at);
  const auto came = written_.find(step.at);
  if (is_final(step) && came != written_.end()) return written_.extract(came).mapped();
  const std::size_t coded = std::clamp(options_.unweighted_from, step.at, end) - step.at;
  Rng rng = Rng(options_.generation).fork(static_cast<std::uint64_t>(self_)).fork(piece.number());
  auto bytes = std::make_shared<std::vector<std::byte>>();
  if (options_.wire.sparse) {
    std::vector<std::size_t> places;
    std::vector<float> present;
    for (std::size_t i = 0; i < coded; ++i) {
      if (values[i] == 0) continue;
      places.push_back(i);
      present.push_back(values[i]);
    }
    const SparseVector stream = SparseVector::sparse(coded, places, std::move(present));
    *bytes = encode(compact(stream, options_.wire.codec), options_.wire.codec, rng);
  } else {
    bytes->resize(encoded_size(options_.wire.codec, coded));
    encode(options_.wire.codec, values.first(coded), rng, *bytes);
  }
  const auto exact = std::as_bytes(values.subspan(coded));
  bytes->insert(bytes->end(), exact.begin(), exact.end());
  // Keep the values as all others will decode them. If they cannot be decoded, no peer gets a sum.
  if (is_final(step)) read(*bytes, step.at, values);
  const std::span<const std::byte> all(*bytes);
  return {std::move(bytes), all};
}

/// Decodes `bytes` into `values`, the elements from `begin` on. Returns false if the bytes do not
/// encode exactly these elements.
bool AllReduce::read(std::span<const std::byte> bytes, std::size_t begin,
                     std::span<float> values) const {
  std::size_t coded = values.size();
  if (options_.wire.is_plain()) {
    coded = 0;
  } else if (options_.unweighted_from < begin + values.size()) {
    coded = std::max(options_.unweighted_from, begin) - begin;
  }
  const std::size_t exact = (values.size() - coded) * sizeof(float);
  if (bytes.size() < exact) return false;
  const auto written = bytes.first(bytes.size() - exact);
  if (exact > 0) std::memcpy(values.data() + coded, bytes.data() + written.size(), exact);
  if (options_.wire.is_plain()) return written.empty();
  const std::span<float> target = values.first(coded);
  if (!options_.wire.sparse) return decode(options_.wire.codec, written, target);
  const std::optional<SparseVector> stream = decode(written, coded);
  if (!stream) return false;
  std::ranges::fill(target, 0.0f);
  stream->add_to(target);
  return true;
}

std::optional<AllReduce::Awaited> AllReduce::awaited(PeerId from, const TransferId& id,
                                                     std::uint64_t offset) const {
  const std::optional<PieceName> named = piece_named(id);
  const bool ours = named && id.owner == from && id.session == options_.generation &&
                    id.stage == options_.stage && offset == 0 &&
                    named->operation == operation_ % PieceName::operations &&
                    named->bucket < buckets_.size();
  if (!ours) return std::nullopt;
  const PieceName piece = *named;
  const std::vector<Step>& steps = buckets_[piece.bucket].steps;
  const auto step = std::ranges::find_if(steps, [&](const Step& known) {
    return is_receipt(known.what) && known.what.round == piece.round &&
           options_.order[known.what.peer] == from;
  });
  if (step == steps.end()) return std::nullopt;
  const Range range{segment_begin(*step, piece.segment), segment_begin(*step, piece.segment + 1)};
  const auto index = static_cast<std::size_t>(step - steps.begin());
  const Awaited found{piece.bucket, index, piece.segment, range};
  const bool is_there = range.begin < step->at || early_.contains(found.key());
  return range.begin >= range.end || is_there ? std::nullopt : std::optional(found);
}

/// A block may be read directly into the result in two cases. Either it holds final values, and no
/// earlier receipt can still write there. Or it holds the first values of a range, and our input is
/// then added to them.
std::span<std::byte> AllReduce::place(PeerId from, const TransferId& id, std::uint64_t offset,
                                      std::size_t bytes) {
  const std::optional<Awaited> piece = awaited(from, id, offset);
  if (!piece || !options_.wire.is_plain()) return {};
  if (bytes != piece->range.size() * sizeof(float)) return {};
  const Bucket& bucket = buckets_[piece->bucket];
  const Step& step = bucket.steps[piece->step];
  const bool is_free = step.what.kind == ReduceStep::Kind::copy
                           ? bucket.ready && limit(bucket, step) >= piece->range.end
                           : step.first_touch;
  if (!is_free) return {};
  return std::as_writable_bytes(std::span(*work_).subspan(piece->range.begin, piece->range.size()));
}

bool AllReduce::receive(PeerId from, const Block& block, Effects& out) {
  const std::optional<Awaited> piece = awaited(from, block.id, block.offset);
  if (!piece || unsound_from_) return false;
  Bucket& bucket = buckets_[piece->bucket];
  Step* const step = &bucket.steps[piece->step];
  const auto [begin, end] = piece->range;
  const auto address = reinterpret_cast<std::uintptr_t>(block.bytes.data());
  const bool in_place = options_.wire.is_plain() && address % alignof(float) == 0;
  const auto floats_in = [](std::span<const std::byte> bytes) {
    return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
  };
  Early came;
  if (in_place) {
    if (block.bytes.size() != (end - begin) * sizeof(float)) return false;
    came.values = floats_in(block.bytes);
  } else {
    const auto decoded = std::make_shared<std::vector<float>>(end - begin);
    if (!read(block.bytes, begin, *decoded)) return false;
    came = {*decoded, decoded};
  }
  if (!options_.wire.is_plain() && step->what.kind == ReduceStep::Kind::copy) {
    auto bytes = std::make_shared<std::vector<std::byte>>(block.bytes.begin(), block.bytes.end());
    const std::span<const std::byte> all(*bytes);
    written_[begin] = {std::move(bytes), all};
  }
  progress_ += end - begin;
  if (bucket.ready && step->at == begin && limit(bucket, *step) >= end) {
    merge(*step, came.values);
    if (unsound_from_) return true;
    finish_if_complete(*step);
    for (const std::size_t later : step->before) go_on(piece->bucket, later, out);
  } else {
    if (came.values.data() == work_->data() + begin) {
      came.values = {};
    } else if (in_place) {
      const Block own = kept(block);
      came = {floats_in(own.bytes), own.hold};
    }
    early_.emplace(piece->key(), std::move(came));
  }
  go_on(piece->bucket, piece->step, out);
  return true;
}

void AllReduce::take_early(std::size_t number, std::size_t index) {
  Bucket& bucket = buckets_[number];
  Step& step = bucket.steps[index];
  while (bucket.ready && step.at < step.what.range.end && !early_.empty() && !unsound_from_) {
    const std::size_t segment = segment_at(step);
    const auto found = early_.find({number, index, segment});
    const std::size_t end = segment_begin(step, segment + 1);
    if (found == early_.end() || limit(bucket, step) < end) return;
    const std::span<const float> came = found->second.values;
    merge(step, came.empty() ? std::span(*work_).subspan(step.at, end - step.at) : came);
    early_.erase(found);
  }
}

/// Sets elements [begin, end) of the result to `scale` times the sum of our weighted input and the
/// received values `came`. `came` may point into the result; if it is null, nothing is added to our
/// input. Returns the largest magnitude written.
float AllReduce::bring_in(std::size_t begin, std::size_t end, const float* came, float scale) {
  float largest = 0;
  const std::size_t plain = std::clamp(options_.unweighted_from, begin, end);
  for (const auto& [from, to, weight, times] :
       {std::tuple(begin, plain, weight_, scale), std::tuple(plain, end, 1.0f, 1.0f)}) {
    if (from == to) continue;
    float* target = work_->data() + from;
    const float* input = input_->data() + from;
    const std::size_t count = to - from;
    if (came == nullptr) {
      largest = larger(largest, multiply(target, input, count, weight, times));
    } else if (came == work_->data() + begin) {
      largest = larger(largest, add(target, input, count, weight, times));
    } else {
      const float* theirs = came + (from - begin);
      largest = larger(largest, add_weighted(target, theirs, input, count, weight, times));
    }
  }
  return largest;
}

bool AllReduce::involves(PeerId peer) const {
  return std::ranges::any_of(buckets_, [&](const Bucket& bucket) {
    return std::ranges::any_of(
        bucket.steps, [&](const Step& step) { return options_.order[step.what.peer] == peer; });
  });
}

/// The largest allowed magnitude after a step: `largest` for complete sums, which are scaled
/// already, otherwise `largest` / `scale`.
float AllReduce::largest_sum(const Step& step) const {
  const bool is_whole = step.what.completes || step.what.kind == ReduceStep::Kind::copy;
  return is_whole ? options_.largest : options_.largest / options_.scale;
}

/// True if the norms of blocks are limited.
bool AllReduce::has_norm_cap() const {
  return options_.norm_cap > 0 && options_.algorithm == ReduceAlgorithm::direct;
}

/// True if the norm of `values`, the next values of the step, is above the limit that `norm_cap`
/// sets.
bool AllReduce::is_too_long(const Step& step, std::span<const float> values) const {
  const std::size_t end = step.at + values.size();
  const std::size_t plain = std::clamp(options_.unweighted_from, step.at, end) - step.at;
  const double own = norm_of(std::span<const float>(*input_).subspan(step.at, plain));
  return norm_of(values.first(plain)) > options_.norm_cap * std::max(own, 1.0);
}

/// Merges the next received elements of a step into the result. The sender may change shared memory
/// at any time, so each element is read only once, and the values in the result are checked. If
/// norms are limited, the values are needed twice, so a private copy of them is made first. A sum
/// that is passed on is clamped to the limit, so that the next peer does not consider us hostile
/// because of the values that we have received. A final sum that another peer has completed is left
/// unchanged, because it must have the same bits at all peers.
void AllReduce::merge(Step& step, std::span<const float> values) {
  const std::size_t end = step.at + values.size();
  const float scale = step.what.completes ? options_.scale : 1;
  float* to = work_->data() + step.at;
  const std::span<float> result(to, values.size());
  std::vector<float> own;
  if (has_norm_cap()) {
    if (values.data() != to) {
      own.assign(values.begin(), values.end());
      values = own;
    }
    if (is_too_long(step, values)) {
      unsound_from_ = options_.order[step.what.peer];
      return;
    }
  }
  const float limit = largest_sum(step);
  const float most = std::min(excess * limit, std::numeric_limits<float>::max());
  bool sound = true;
  if (step.what.kind == ReduceStep::Kind::copy) {
    if (values.data() == to) {
      sound = largest_magnitude(result) <= most;  // The block was read directly into place.
    } else if (elements() * sizeof(float) < too_long_for_cache) {
      sound = copy(to, values.data(), values.size()) <= most;
    } else {
      sound = copy_past_cache(to, values, most);
    }
  } else if (step.first_touch) {
    const float largest = bring_in(step.at, end, values.data(), scale);
    sound = bring_within(result, largest, limit, most);
  } else {
    const std::size_t plain = std::clamp(options_.unweighted_from, step.at, end) - step.at;
    const float first = add(to, values.data(), plain, 1, scale);
    const float second = add(to + plain, values.data() + plain, values.size() - plain, 1, 1);
    sound = bring_within(result, larger(first, second), limit, most);
  }
  if (sound || step.is_gathered) {
    step.at = end;
  } else {
    unsound_from_ = options_.order[step.what.peer];
  }
}

bool operator==(const AllReduce& a, const AllReduce& b) { return equal_states(a, b); }

}  // namespace gv
