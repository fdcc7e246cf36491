// Orders of epochs and gathering of batches.
#include "train/data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "consensus/base/check.hpp"
#include "consensus/base/rng.hpp"

namespace gv {

Sampler::Sampler(std::shared_ptr<const DataSet> shard, std::size_t batch, std::uint64_t seed,
                 std::uint64_t peer)
    : shard_(std::move(shard)), batch_(batch), seed_(seed), peer_(peer) {
  check(batch_ > 0 && shard_->size() > 0, "a sampler has samples to draw");
  for (Gathered& buffer : gathered_) {
    buffer.inputs.resize(batch_ * shard_->features());
    if (shard_->classes > 0) buffer.labels.resize(batch_);
    buffer.targets.resize(batch_ * shard_->target_width);
  }
}

std::size_t Sampler::batches_per_epoch() const {
  return std::max<std::size_t>(1, shard_->size() / batch_);
}

const std::vector<std::uint32_t>& Sampler::order(std::uint64_t epoch) {
  if (epoch_ != epoch) {
    epoch_ = epoch;
    order_.resize(shard_->size());
    std::iota(order_.begin(), order_.end(), 0u);
    Rng rng = Rng(seed_).fork("order").fork(peer_).fork(epoch);
    rng.shuffle(std::span(order_));
  }
  return order_;
}

Sampler::Gathered& Sampler::gather(std::uint64_t step) {
  for (std::size_t i = 0; i < gathered_.size(); ++i) {
    if (gathered_[i].step != step) continue;
    newest_ = i;  // Or the next call would overwrite the views that this one hands out.
    return gathered_[i];
  }
  newest_ = 1 - newest_;
  Gathered& buffer = gathered_[newest_];
  buffer.step = step;
  const std::vector<std::uint32_t>& samples = order(step / batches_per_epoch());
  const std::size_t begin = step % batches_per_epoch() * batch_;
  const std::size_t width = shard_->features();
  const std::size_t targets = shard_->target_width;
  for (std::size_t i = 0; i < batch_; ++i) {
    const std::uint32_t sample = samples[(begin + i) % samples.size()];
    shard_->read(sample, std::span(buffer.inputs).subspan(i * width, width));
    if (!buffer.labels.empty()) buffer.labels[i] = shard_->labels[sample];
    std::copy_n(shard_->targets.begin() + static_cast<std::ptrdiff_t>(sample * targets), targets,
                buffer.targets.begin() + static_cast<std::ptrdiff_t>(i * targets));
  }
  return buffer;
}

Batch Sampler::batch(std::uint64_t step) {
  const Gathered& ready = gather(step);
  return {.inputs = ready.inputs, .labels = ready.labels, .targets = ready.targets, .size = batch_};
}

void Sampler::prefetch(std::uint64_t step) { gather(step); }

}  // namespace gv
