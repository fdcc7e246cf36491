// Commits files, tears them in a crash, and finds the newest undamaged one.
#include "sim/virtual/disk.hpp"

#include <utility>

#include "base/check.hpp"

namespace gv {
namespace {

constexpr std::size_t files_kept = 3;

}  // namespace

Image image_of(const Replica& replica) {
  ReplicaPart whole = std::move(replica.parts().front());
  return {{whole.parameters.begin(), whole.parameters.end()},
          std::move(whole.optimizer),
          std::move(whole.notes),
          replica.step()};
}

void restore(Replica& replica, const Image& image) {
  const std::string problem = replica.restore({.stage = {},
                                               .parameters = image.parameters,
                                               .optimizer = image.optimizer,
                                               .notes = image.notes});
  check(problem.empty(), "a virtual peer's own image fits it");
}

void Disk::commit(Image image) {
  std::erase_if(files_, [](const File& file) { return file.torn; });
  files_.push_back({std::make_shared<const Image>(std::move(image))});
  if (files_.size() > files_kept) files_.erase(files_.begin());
}

void Disk::crash(Image writing, Rng& rng) {
  const std::uint64_t left = rng.below(3);
  if (left == 0) return;
  files_.push_back({std::make_shared<const Image>(std::move(writing)), left == 1});
}

std::shared_ptr<const Image> Disk::newest() {
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    if (!file->torn) return file->image;
    ++refused_;
  }
  return nullptr;
}

}  // namespace gv
