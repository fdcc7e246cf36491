// Reads the headers of IDX files, and describes the problems of image files.
#include "train/data/image_files.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gv {
namespace {

std::uint32_t big_endian(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 |
         static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | bytes[at + 3];
}

}  // namespace

std::vector<std::size_t> idx_dimensions(const std::string& file,
                                        const std::vector<std::uint8_t>& bytes,
                                        std::size_t expected, Problems& problems) {
  const auto refuse = [&](std::string reason) {
    problems.push_back(
        {file, std::move(reason),
         expected == 3 ? "name an IDX file of images" : "name an IDX file of labels"});
    return std::vector<std::size_t>();
  };
  if (bytes.size() < idx_header_bytes(expected)) return refuse("it is too short for an IDX file");
  if (big_endian(bytes, 0) != 0x800u + expected) {
    return refuse("it is not an IDX file of bytes with " + std::to_string(expected) +
                  " dimensions");
  }
  std::vector<std::size_t> dimensions;
  std::size_t product = 1;
  for (std::size_t i = 0; i < expected; ++i) {
    const std::size_t side = big_endian(bytes, 4 + 4 * i);
    if (side == 0 || side > idx_values_max / product) return refuse("its dimensions make no sense");
    product *= side;
    dimensions.push_back(side);
  }
  return dimensions;
}

void check_idx_length(const std::string& file, std::size_t announced, std::size_t held,
                      Problems& problems) {
  if (announced == held) return;
  problems.push_back(
      {file,
       "it announces " + std::to_string(announced) + " bytes and holds " + std::to_string(held),
       "fetch it again"});
}

void check_idx_counts(const std::string& labels, std::size_t label_count, std::size_t image_count,
                      Problems& problems) {
  if (label_count == image_count) return;
  problems.push_back({labels,
                      "it has " + std::to_string(label_count) + " labels for " +
                          std::to_string(image_count) + " images",
                      "name files that belong together"});
}

Problem not_cifar_records(const std::string& file, std::size_t bytes) {
  return {file,
          "its " + std::to_string(bytes) + " bytes are not whole records of " +
              std::to_string(cifar_record),
          "name a file of CIFAR-10's binary version"};
}

Problem bad_cifar_label(const std::string& file, std::size_t record, std::uint8_t label) {
  return {file, "record " + std::to_string(record) + " has the label " + std::to_string(label),
          "name a file of CIFAR-10's binary version"};
}

}  // namespace gv
