// Keeps in memory the few blocks that a sampler currently uses, and reads others ahead of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "train/data_set.hpp"

namespace gv {

/// Thrown when samples in files cannot be read. what() names the file, the place in the file and
/// the remedy.
class DataError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Starts `work`, which must not throw, on another thread. The returned function waits until the
/// work has ended. It need not be called, and only one thread may call it.
using RunAside = std::function<std::function<void()>(std::function<void()> work)>;

/// Reads the blocks of one data set for one sampler. At most `held_max` blocks are in memory,
/// including blocks that are being read.
class BlockReader {
 public:
  static constexpr std::size_t held_max = 6;

  /// `data` must be in files. Without `aside`, blocks are read only when they are asked for.
  BlockReader(std::shared_ptr<const DataSet> data, RunAside aside);

  /// Returns the samples of block `number`, normalised with the data set's offset and scale. The
  /// reference is valid until the next call of any function of this class. Throws DataError if the
  /// block cannot be read; a later call then tries again.
  const DataSet& block(std::size_t number);

  /// Announces that block `number` will soon be needed, so that reading begins.
  void expect(std::size_t number);

 private:
  struct Held {
    std::size_t number = 0;
    std::uint64_t used = 0;                 ///< Value of `clock_` when the block was last used.
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
