// Keeps a sampler's few current blocks in memory, and reads others ahead of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "train/data_set.hpp"

namespace gv {

/// Samples in files cannot be read. what() names the file, the place in it and the remedy.
class DataError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Starts `work`, which does not throw, on another thread. The returned function waits until the
/// work has ended; it may be called on one thread, and need not be called.
using RunAside = std::function<std::function<void()>(std::function<void()> work)>;

/// Reads the blocks of one data set for one sampler. At most `held_max` blocks are in memory,
/// including blocks that are being read.
class BlockReader {
 public:
  static constexpr std::size_t held_max = 6;

  /// `data` is in files. Without `aside`, blocks are read only when they are asked for.
  BlockReader(std::shared_ptr<const DataSet> data, RunAside aside);

  /// The samples of that block, normalised as `data` says. The reference is valid until the next
  /// call of a function. Throws DataError if it cannot be read; another call then tries again.
  const DataSet& block(std::size_t number);

  /// Announces that block `number` will soon be needed, so reading begins.
  void expect(std::size_t number);

 private:
  struct Held {
    std::size_t number = 0;
    std::uint64_t used = 0;                 ///< When the block was last used, by `clock_`.
    std::shared_ptr<LoadedDataSet> loaded;  ///< Shared with the thread that reads it.
    std::function<void()> wait;             ///< Null once the block has been read.
  };

  Held* find(std::size_t number);
  Held& add(std::size_t number);

  std::shared_ptr<const DataSet> data_;
  RunAside aside_;
  std::vector<Held> held_;
  std::uint64_t clock_ = 0;
};

}  // namespace gv
