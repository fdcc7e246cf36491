// Samples that stay in files and are read in blocks.
#pragma once

#include <cstddef>

namespace gv {

struct LoadedDataSet;

/// Memory of one block, in bytes, unless a single sample takes more. Large enough that a disk reads
/// blocks in random order nearly as fast as in sequence.
inline constexpr std::size_t data_block_bytes = std::size_t{4} << 20;

/// Size of the largest sample, in bytes. Larger samples are refused, because several blocks are in
/// memory at once.
inline constexpr std::size_t sample_bytes_max = std::size_t{64} << 20;

/// The training samples of some files, cut into blocks in the order of the files. All blocks have
/// the same number of samples, except that the last one may have fewer. Immutable.
class SampleBlocks {
 public:
  virtual ~SampleBlocks() = default;
  SampleBlocks(const SampleBlocks&) = delete;
  SampleBlocks& operator=(const SampleBlocks&) = delete;

  /// Number of samples, at least one.
  std::size_t samples() const { return samples_; }
  /// Number of samples in every block except the last, which may have fewer.
  std::size_t block_samples() const { return block_samples_; }
  std::size_t count() const { return (samples_ + block_samples_ - 1) / block_samples_; }

  /// Reads block `number` into memory, with the checks that a reader of whole files makes. On
  /// failure, for example because a file has become shorter, the problem names the file and the
  /// place in it. Any thread may call this, and several may at once.
  virtual LoadedDataSet read(std::size_t number) const = 0;

 protected:
  SampleBlocks(std::size_t samples, std::size_t block_samples)
      : samples_(samples), block_samples_(block_samples) {}

  /// Index of a block's first sample. For block count(), the number of all samples.
  std::size_t begin_of(std::size_t number) const {
    return number < count() ? number * block_samples_ : samples_;
  }

 private:
  std::size_t samples_;
  std::size_t block_samples_;
};

/// Returns the number of samples, at least one, in a block of at most `block_bytes` bytes. Each
/// sample takes `sample_bytes` bytes (at least 1). The number is a power of two, because BlockOrder
/// then computes its orders fastest.
std::size_t samples_of_block(std::size_t sample_bytes, std::size_t block_bytes);

}  // namespace gv
