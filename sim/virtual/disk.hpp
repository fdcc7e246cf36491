// A virtual peer's checkpoints: what a crash leaves of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "sim/virtual/workload.hpp"

namespace gv {

/// Checkpoints are written to a temporary name, synced and renamed, three are kept, and a torn one
/// is found out by its checksum: as the real ones.
class Disk {
 public:
  bool full = false;
  Duration slower{};  ///< Writing takes so much longer.

  /// The file is whole and renamed: what counts from now on.
  void commit(Image image);

  /// The machine dies while `writing` is on its way to the disk: none of it is left, a torn file
  /// is, or, if only the folder's own sync was missing, all of it.
  void crash(Image writing, Rng& rng);

  /// The newest that is whole; null when there is none. Torn ones are passed over and counted.
  std::shared_ptr<const Image> newest();
  std::uint64_t refused() const { return refused_; }

 private:
  struct File {
    std::shared_ptr<const Image> image;
    bool torn = false;
  };

  std::vector<File> files_;  ///< Oldest first.
  std::uint64_t refused_ = 0;
};

}  // namespace gv
