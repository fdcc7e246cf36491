// Shuffles the samples of each epoch, and gathers batches.
#include "train/data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {

Sampler::Sampler(std::shared_ptr<const DataSet> shard, std::uint64_t seed,
                 std::optional<std::uint64_t> peer, RunAside aside)
    : shard_(std::move(shard)), seed_(seed), peer_(peer) {
  check(shard_->size() > 0, "a sampler has samples to draw");
  check(!shard_->blocks || !peer_, "data in files are leased");
  if (shard_->blocks) reader_.emplace(shard_, std::move(aside));
}

std::uint64_t Sampler::begin_of(std::uint64_t position, std::size_t size) const {
  if (!peer_) return position;
  const std::uint64_t used = position % shard_->size();
  const bool fits = used == 0 || used + size <= shard_->size();
  return fits ? position : position - used + shard_->size();
}

std::uint64_t Sampler::after(std::uint64_t position, std::size_t size) const {
  if (size == 0) return position;
  if (!peer_) return position + size;
  return begin_of(position, size) + std::min(size, shard_->size());
}

std::uint64_t Sampler::after_batches(std::uint64_t count, std::size_t size) const {
  if (!peer_) return count * size;
  const std::uint64_t per_epoch = std::max<std::uint64_t>(1, shard_->size() / size);
  return count / per_epoch * shard_->size() + count % per_epoch * size;
}

const std::vector<std::uint32_t>& Sampler::order(std::uint64_t epoch) {
  if (epoch_ != epoch) {
    epoch_ = epoch;
    order_.resize(shard_->size());
    std::iota(order_.begin(), order_.end(), 0u);
    Rng rng = Rng(seed_).fork("order").fork(*peer_).fork(epoch);
    rng.shuffle(std::span(order_));
  }
  return order_;
}

/// Returns the index of sample `number` in the batch that begins at position `begin`.
std::uint64_t Sampler::sample_at(std::uint64_t begin, std::size_t number) {
  if (peer_) {
    const std::vector<std::uint32_t>& samples = order(begin / shard_->size());
    return samples[(begin % shard_->size() + number) % samples.size()];
  }
  return leased_sample(begin + number);
}

/// Returns the index of the sample at a position in the order that all peers share.
std::uint64_t Sampler::leased_sample(std::uint64_t position) {
  const std::uint64_t epoch = position / shard_->size();
  if (epoch_ != epoch) {
    epoch_ = epoch;
    if (reader_) {
      file_order_ = block_order(epoch);
    } else {
      const std::uint64_t key = Rng(seed_).fork("leased order").fork(epoch).next();
      shared_order_.emplace(shard_->size(), key);
    }
  }
  const std::uint64_t place = position % shard_->size();
  return reader_ ? file_order_->at(place) : shared_order_->at(place);
}

BlockOrder Sampler::block_order(std::uint64_t epoch) const {
  const std::uint64_t key = Rng(seed_).fork("order of blocks").fork(epoch).next();
  return {shard_->size(), shard_->blocks->block_samples(), key};
}

/// Starts reading the blocks that hold the sample at that position and the samples near it.
void Sampler::expect_blocks_at(std::uint64_t position) {
  const std::uint64_t epoch = position / shard_->size();
  const std::uint64_t place = position % shard_->size();
  const std::vector<std::uint64_t> blocks =
      epoch_ == epoch ? file_order_->blocks_near(place) : block_order(epoch).blocks_near(place);
  for (const std::uint64_t block : blocks) reader_->expect(block);
}

Sampler::Gathered& Sampler::gather(std::uint64_t begin, std::size_t size) {
  check(size > 0, "a batch has samples");
  for (std::size_t i = 0; i < gathered_.size(); ++i) {
    if (gathered_[i].begin != begin || gathered_[i].size != size) continue;
    // Mark this buffer as newest, or the next call would overwrite the views returned now.
    newest_ = i;
    return gathered_[i];
  }
  newest_ = 1 - newest_;
  Gathered& buffer = gathered_[newest_];
  const std::size_t width = shard_->features();
  const std::size_t labels = shard_->classes > 0 ? shard_->predictions : 0;
  const std::size_t targets = shard_->target_width;
  // The buffer holds no batch until it is filled, because a block may turn out to be unreadable.
  buffer.begin.reset();
  buffer.size = size;
  buffer.inputs.resize(size * width);
  buffer.labels.resize(size * labels);
  buffer.targets.resize(size * targets);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t sample = sample_at(begin, i);
    const DataSet* from = shard_.get();
    if (reader_) {
      const std::size_t block = sample / shard_->blocks->block_samples();
      sample %= shard_->blocks->block_samples();
      from = &reader_->block(block);
    }
    from->read(sample, std::span(buffer.inputs).subspan(i * width, width));
    std::copy_n(from->labels.begin() + static_cast<std::ptrdiff_t>(sample * labels), labels,
                buffer.labels.begin() + static_cast<std::ptrdiff_t>(i * labels));
    std::copy_n(from->targets.begin() + static_cast<std::ptrdiff_t>(sample * targets), targets,
                buffer.targets.begin() + static_cast<std::ptrdiff_t>(i * targets));
  }
  buffer.begin = begin;
  // The samples one block further on are in the second of the two blocks now in use, and in the
  // block after it. Start reading these blocks now.
  if (reader_) expect_blocks_at(begin + size - 1 + shard_->blocks->block_samples());
  return buffer;
}

Batch Sampler::batch(std::uint64_t position, std::size_t size) {
  const Gathered& ready = gather(begin_of(position, size), size);
  return {.inputs = ready.inputs, .labels = ready.labels, .targets = ready.targets, .size = size};
}

void Sampler::prefetch(std::uint64_t position, std::size_t size) {
  try {
    gather(begin_of(position, size), size);
  } catch (const DataError&) {
    // Ignored here: the step that needs these samples will also fail to read them, and will report
    // the error.
  }
}

}  // namespace gv
