// A libFuzzer program. The build decides which target it feeds. If its only argument is
// --seeds=FOLDER, it writes the target's seeds there instead, and prints the maximum length of an
// input.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/target.hpp"

namespace {

const gv::fuzz::Target& target() {
  static const gv::fuzz::Target made = gv::fuzz::GRAPEVINE_FUZZ_TARGET();
  return made;
}

bool write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::size_t number = 0;
  for (const gv::fuzz::Bytes& seed : target().seeds()) {
    std::ofstream out(folder / ("seed" + std::to_string(number++)), std::ios::binary);
    out << gv::fuzz::text_of(seed) << std::flush;
    if (!out) return false;
  }
  std::cout << target().bytes_max << '\n';
  return true;
}

}  // namespace

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view option = "--seeds=";
  if (*argc != 2 || !std::string_view((*argv)[1]).starts_with(option)) return 0;
  std::exit(write_seeds((*argv)[1] + option.size()) ? 0 : 1);
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target().feed(std::as_bytes(std::span(data, size)));
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t size_max,
                                    unsigned seed) {
  if (target().mutated == nullptr) return LLVMFuzzerMutate(data, size, size_max);
  gv::Rng rng(seed);
  const gv::fuzz::Bytes made =
      target().mutated(std::as_bytes(std::span(data, size)), rng, LLVMFuzzerMutate);
  const std::size_t kept = std::min(made.size(), size_max);
  std::ranges::copy(std::span(made).first(kept), reinterpret_cast<std::byte*>(data));
  return kept;
}
}
