// Finds the next free number for a run's folder.
#include "sim/run_folder.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace gv {

std::filesystem::path new_run_folder(const std::filesystem::path& base) {
  for (int number = 1; number < 100000; ++number) {
    auto folder = base / fmt::format("run-{:03}", number);
    std::error_code ignored;
    std::filesystem::create_directories(base, ignored);
    std::error_code error;
    if (std::filesystem::create_directory(folder, error)) return folder;
    if (error) throw std::runtime_error(folder.string() + ": " + error.message());
  }
  throw std::runtime_error(base.string() + ": too many runs; delete old ones");
}

}  // namespace gv
