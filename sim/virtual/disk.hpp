// A virtual peer's checkpoints, and their state after a crash.
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
/// Makes an equal replica continue from the image.
void restore(Replica& replica, const Image& image);

/// Models real checkpoints, which are written to a temporary name, synced and renamed. Keeps three,
/// and detects a torn one as a checksum would.
class Disk {
 public:
  bool full = false;
  Duration slower{};  ///< Extra time for each write.

  /// Call when the file is complete and renamed; it counts from now on.
  void commit(Image image);

  /// Call when the machine dies while it writes `writing`. Leaves no file, a torn one, or the whole
  /// one if only the sync of the folder was missing.
  void crash(Image writing, Rng& rng);

  /// Returns the newest whole image; null if there is none. Skips and counts torn ones.
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
