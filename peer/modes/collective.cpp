// Makes one sum after another, and checks that each contains every peer's values exactly once.
#include "peer/modes/collective.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

/// The number of values in the contribution checksum. The checksum is part of every sum, and shows
/// whether a peer is missing or counted twice.
constexpr std::size_t lanes = 4;
/// Bytes for the bookkeeping of each sender's early blocks, in addition to two complete vectors.
constexpr std::size_t held_room = std::size_t{1} << 20;
/// Bytes for each sender's early blocks of arrays. Further blocks are lost, and the sum restarts.
constexpr std::size_t held_of_arrays = std::size_t{1} << 28;
/// Upper bound of a checksum's values, chosen so that their sums are exact in single precision.
constexpr std::uint64_t lane_limit = 1 << 14;

std::array<float, lanes> contribution_checksum(PeerId peer, std::uint64_t operation) {
  const std::uint64_t id = hash_combine(0, static_cast<std::uint64_t>(peer));
  const std::uint64_t both = hash_combine(id, operation);
  return {1, static_cast<float>(id % lane_limit), static_cast<float>(both % lane_limit),
          static_cast<float>(both / lane_limit % lane_limit)};
}

}  // namespace

Collective::Collective(PeerId self, std::size_t elements, const AllReduceOptions& options)
    : self_(self),
      options_(options),
      compressor_(options.compressor(elements)),
      held_(held_room + (options_.averages_arrays
                             ? held_of_arrays
                             : 2 * sizeof(float) * (compressor_->longest() + lanes))),
      gradients_(compressor_->longest() + lanes, options.memory),
      works_(compressor_->longest() + lanes, options.memory) {
  check(options_.bucket_elements > 0 && options_.segment_elements > 0, "pieces have elements");
  shape_.segment = options_.segment_elements;
  shape_.wire = compressor_->wire();
  shape_.norm_cap = options_.norm_cap;
  shape_.largest = options_.averages_arrays ? largest_in_array : largest_gradient;
}

/// Divides the values of a sum into buckets.
void Collective::cut() {
  shape_.parts = plan_.parts;
  const std::size_t gathered = shape_.parts.empty() ? 0 : shape_.parts.back().end;
  shape_.unweighted_from = plan_.elements;
  shape_.buckets.clear();
  // A piece's name has room for only `buckets_max` buckets, so longer vectors have larger buckets.
  const std::size_t total = checksum_at() + lanes;
  const std::size_t most = PieceName::buckets_max - (gathered > 0 ? 1 : 0);
  const std::size_t bucket = std::max(options_.bucket_elements, total / most + 1);
  for (std::size_t end = total; end > gathered;) {
    const std::size_t begin = end > gathered + bucket + lanes ? end - bucket : gathered;
    shape_.buckets.push_back({begin, end});
    end = begin;
  }
  if (gathered > 0) shape_.buckets.push_back({0, gathered});
}

void Collective::enter(const Generation& generation) {
  shape_.order = generation.order;
  shape_.generation = generation.key();
  shape_.algorithm = shape_.wire.is_plain() ? static_cast<ReduceAlgorithm>(generation.algorithm)
                                            : ReduceAlgorithm::ring;
  const auto rank = static_cast<std::size_t>(std::ranges::find(generation.order, self_) -
                                             generation.order.begin());
  sum_ = {.generation = generation.key(), .shares = generation.shares, .rank = rank};
  shares_ = generation.shares;
  share_ = generation.shares[rank];
  if (compressor_->depends_on_generation()) forget_gradient();
  samples_ = 0;
  before_ = 0;
  for (std::size_t i = 0; i < generation.shares.size(); ++i) {
    samples_ += generation.shares[i];
    if (i < rank) before_ += generation.shares[i];
  }
  // Weights are mostly 1, which leaves gradients unchanged. But if values are encoded, only
  // unweighted values are known to fit their codec. In that case the weights add up to 1, so that
  // no partial sum is larger than the largest value.
  const auto unit =
      static_cast<double>(shape_.wire.is_plain() ? generation.shares.front() : samples_);
  weight_ = static_cast<float>(static_cast<double>(share_) / unit);
  shape_.scale = static_cast<float>(unit / static_cast<double>(samples_));
}

void Collective::leave(std::uint64_t next_key) {
  awaits_array_ = false;
  if (reduce_) bytes_sent_ += reduce_->bytes_sent();
  reduce_.reset();
  held_.keep_only(next_key);
}

void Collective::begin(std::uint64_t step, std::uint64_t steps, std::uint64_t growth,
                       Effects& out) {
  steps_ = steps;
  growth_ = growth;
  has_unlike_ = false;
  sum_.step = step;
  sum_.local = options_.local.is_local(step);
  // A compressor may take into account how many samples each gradient is computed from.
  sum_.shares = shares_;
  for (std::uint32_t& share : sum_.shares) share *= static_cast<std::uint32_t>(growth);
  plan_ = compressor_->plan(sum_);
  cut();
  // A gradient is a mean over our share of the samples, so it must be computed again if our share
  // is different. A change by local steps is reused unaltered, because the share is only its
  // weight. With leased data, a gradient or a change must be computed again if we now have other
  // samples.
  const bool has_other_samples =
      options_.is_leased && (gradient_.first != first_sample() || gradient_.samples != share());
  const bool is_another = sum_.local ? gradient_.steps != steps_ : gradient_.samples != share();
  if (!gradient_.valid || has_other_samples || is_another) {
    gradient_.values.reset();
    gradient_ = {.values = gradients_.blank(),
                 .samples = share(),
                 .steps = steps_,
                 .first = first_sample(),
                 .begin = std::numeric_limits<std::size_t>::max(),
                 .job = 0,
                 .valid = true};
  }
  awaits_array_ = options_.averages_arrays && gradient_.array == 0;
  if (!awaits_array_) open(out);
}

bool Collective::receive_array(std::uint64_t job, std::size_t length, Effects& out) {
  if (!gradient_.valid || gradient_.job != job || length == 0) return false;
  gradient_.array = length;
  gradient_.begin = 0;
  if (std::exchange(awaits_array_, false)) open(out);
  return true;
}

/// Begins the sum with those parts of our gradient that are ready.
void Collective::open(Effects& out) {
  if (options_.averages_arrays) {
    plan_.elements = gradient_.array;
    shape_.stage = static_cast<std::uint32_t>(gradient_.array);
    cut();
  }
  const std::uint64_t step = sum_.step;
  std::ranges::copy(contribution_checksum(self_, step),
                    gradient_.values->begin() + static_cast<std::ptrdiff_t>(checksum_at()));
  Vector work = works_.blank();
  if (work->size() < gradient_.values->size()) {
    work->clear();
    work->resize(gradient_.values->size());
  }
  reduce_.emplace(shape_, self_, step, weight_, gradient_.values, std::move(work));
  offered_.assign(shape_.buckets.size(), false);
  offer_buckets(out);
  for (const EarlyBlocks::Held& piece : held_.take()) {
    const Block& block = piece.block;
    if (block.id.session != shape_.generation || reduce_->receive(piece.from, block, out)) continue;
    const std::uint64_t next = (step + steps_) % PieceName::operations;
    const std::optional<PieceName> named = piece_named(block.id);
    if (named->operation == next) held_.keep(piece.from, block);
    note_length(piece.from, block);
  }
}

std::optional<task::ComputeGradient> Collective::order(std::uint64_t job) {
  if ((!reduce_ && !awaits_array_) || !gradient_.valid || gradient_.job != 0) return std::nullopt;
  gradient_.job = job;
  task::ComputeGradient order{.samples = gradient_.samples,
                              .local_steps = sum_.local ? steps_ : 0,
                              .of_model = options_.averages_models,
                              .measures_square = options_.measures_noise,
                              .compressor = compressor_,
                              .plan = plan_,
                              .values = gradient_.values,
                              .behind_array = options_.averages_arrays ? 1 + lanes : 0};
  for (const Range& bucket : shape_.buckets) order.marks.push_back(bucket.begin);
  return order;
}

void Collective::ready(std::uint64_t job, std::size_t begin, Effects& out) {
  if (!gradient_.valid || gradient_.job != job || begin >= gradient_.begin) return;
  gradient_.begin = begin;
  offer_buckets(out);
}

void Collective::set_quiet(bool quiet, Effects& out) {
  quiet_ = quiet;
  offer_buckets(out);
}

void Collective::offer_buckets(Effects& out) {
  if (!reduce_ || !gradient_.valid || quiet_) return;
  for (std::size_t i = 0; i < offered_.size(); ++i) {
    if (offered_[i] || gradient_.begin > shape_.buckets[i].begin) continue;
    offered_[i] = true;
    reduce_->ready(i, out);
  }
}

std::span<std::byte> Collective::place(PeerId from, const TransferId& id, std::uint64_t offset,
                                       std::size_t bytes) {
  return reduce_ ? reduce_->place(from, id, offset, bytes) : std::span<std::byte>();
}

bool Collective::receive(PeerId from, const Block& block, Effects& out) {
  if (!reduce_) return false;
  if (reduce_->receive(from, block, out)) return true;
  note_length(from, block);
  return false;
}

/// Detects that the length of a peer's array differs from ours. A piece's name includes the length
/// of its array, so pieces of arrays with different lengths never enter one sum.
void Collective::note_length(PeerId from, const Block& block) {
  const std::optional<PieceName> named = piece_named(block.id);
  const bool is_of_this = options_.averages_arrays && named && block.id.owner == from &&
                          block.id.session == shape_.generation &&
                          named->operation == sum_.step % PieceName::operations;
  if (is_of_this && block.id.stage != shape_.stage) has_unlike_ = true;
}

Collective::Vector Collective::finish() {
  std::array<double, lanes> wanted{};
  for (const PeerId peer : shape_.order) {
    const std::array<float, lanes> its = contribution_checksum(peer, reduce_->operation());
    for (std::size_t i = 0; i < lanes; ++i) wanted[i] += static_cast<double>(its[i]);
  }
  Vector sum = reduce_->result();
  for (std::size_t i = 0; i < lanes; ++i) {
    if (static_cast<double>((*sum)[checksum_at() + i]) != wanted[i]) return nullptr;
  }
  bytes_sent_ += reduce_->bytes_sent();
  reduce_.reset();
  gradient_.valid = false;
  gradient_.array = 0;
  ++sum_.number;
  return sum;
}

bool Collective::is_untouched() const {
  return !reduce_ || std::ranges::none_of(offered_, std::identity{});
}

bool Collective::is_waiting() const {
  return reduce_ && !reduce_->done() && std::ranges::all_of(offered_, std::identity{});
}

}  // namespace gv
