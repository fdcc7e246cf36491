// A virtual peer's disk: its checkpoints, and the effect of a crash on them.
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

/// The content of a checkpoint of a whole model.
struct Image {
  std::vector<float> parameters;
  OptimizerState optimizer;
  std::map<std::string, std::string> notes;
  std::uint64_t step = 0;
};
Image image_of(const Replica& replica);
/// Makes `replica` continue from the image, which a replica of the same kind has saved.
void restore(Replica& replica, const Image& image);

/// Models real checkpoints, which are written under a temporary name, synced and renamed. Keeps
/// three checkpoints, and detects torn ones as a checksum would.
class Disk {
 public:
  bool full = false;
  Duration slower{};  ///< Extra time for each write.

  /// Adds a checkpoint. Call when its file is complete and renamed.
  void commit(Image image);

  /// Call when the machine dies while it writes `writing`. Leaves no file, a torn file or the whole
  /// file. (The whole file is left if only the sync of the folder was missing.)
  void crash(Image writing, Rng& rng);

  /// Returns the newest undamaged image; null if there is none. Skips and counts torn images.
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
