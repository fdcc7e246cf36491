// Data files that tests write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace gv {

/// A folder for the data files of one test.
class DataFolder {
 public:
  std::string path(const std::string& name) const { return folder_.path() / name; }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  TemporaryFolder folder_;
};

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255);
  return bytes;
}

inline std::string little_endian(std::uint32_t value) {
  std::string bytes = big_endian(value);
  return {bytes.rbegin(), bytes.rend()};
}

inline std::string idx(const std::vector<std::uint32_t>& sides, const std::string& content) {
  std::string file = big_endian(0x800 + static_cast<std::uint32_t>(sides.size()));
  for (const std::uint32_t side : sides) file += big_endian(side);
  return file + content;
}

/// Gzip data with one stored block (RFC 1951, 1952), so that tests need no compressor. Takes at
/// most 65535 bytes.
inline std::string gzip(const std::string& content) {
  std::uint32_t crc = ~0u;
  for (const char c : content) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  const auto size = static_cast<std::uint32_t>(content.size());
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11) +
         little_endian(size | (~size & 0xffffu) << 16) + content + little_endian(~crc) +
         little_endian(size);
}

inline std::string cifar_record_of(char label, char pixel) {
  return std::string(1, label) + std::string(3 * 32 * 32, pixel);
}

}  // namespace gv
