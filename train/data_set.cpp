// Reads samples and takes subsets of data sets.
#include "train/data_set.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

GV_WIDE void scale_bytes(const std::uint8_t* __restrict from, float* __restrict to, std::size_t n,
                         float factor, float shift) {
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * factor - shift;
}

}  // namespace

void DataSet::normalise(float new_offset, float new_scale) {
  offset = new_offset;
  scale = new_scale;
  for (float& value : floats) value = (value - offset) * scale;
}

void DataSet::read(std::size_t index, std::span<float> out) const {
  const std::size_t width = features();
  check(!blocks, "a sample in memory is read");
  check(index < size() && out.size() == width, "a sample is read whole, from inside the data set");
  if (bytes.empty()) {
    std::copy_n(floats.data() + index * width, width, out.data());
    return;
  }
  scale_bytes(bytes.data() + index * width, out.data(), width, scale / 255.0f, offset * scale);
}

DataSet DataSet::subset(std::span<const std::uint32_t> indices) const {
  check(!blocks, "a subset is of samples in memory");
  DataSet part{.shape = shape, .bytes = {}, .floats = {}, .labels = {}, .targets = {}};
  part.classes = classes;
  part.predictions = predictions;
  part.target_width = target_width;
  part.offset = offset;
  part.scale = scale;
  const auto take = [&](const auto& from, auto& into, std::size_t width) {
    if (from.empty()) return;
    into.reserve(indices.size() * width);
    for (const std::uint32_t index : indices) {
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>(index * width);
      into.insert(into.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
    }
  };
  take(bytes, part.bytes, features());
  take(floats, part.floats, features());
  take(labels, part.labels, predictions);
  take(targets, part.targets, target_width);
  return part;
}

}  // namespace gv
