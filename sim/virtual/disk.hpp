// A virtual peer's checkpoints, and what a crash leaves of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "peer/node/replica.hpp"

namespace gv {

/// Everything that a checkpoint holds of a whole model.
struct Image {
  std::vector<float> parameters;
  OptimizerState optimizer;
  std::map<std::string, std::string> notes;
  std::uint64_t step = 0;
};
Image image_of(const Replica& replica);
/// Makes an equal replica go on from it.
void restore(Replica& replica, const Image& image);

/// Works as real checkpoints do: written to a temporary name, synced and renamed. Three are kept,
/// and a checksum detects a torn one.
class Disk {
 public:
  bool full = false;
  Duration slower{};  ///< Extra time for each write.

  /// The file is complete and renamed: it counts from now on.
  void commit(Image image);

  /// The machine dies while `writing` is on its way to the disk. Leaves no file, a torn one, or, if
  /// only the folder's own sync was missing, the whole one.
  void crash(Image writing, Rng& rng);

  /// The newest whole image; null if there is none. Skips and counts torn ones.
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
