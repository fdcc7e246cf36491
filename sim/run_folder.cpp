// Finds the next free number for a run's folder, and tries to make folders.
#include "sim/run_folder.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <system_error>

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

Problems problems_with_folder(const std::filesystem::path& given,
                              const std::filesystem::path& base) {
  const std::string place = given.empty() ? "run.folder" : "--folder";
  const std::filesystem::path& folder = given.empty() ? base : given;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string remedy = given.empty() ? "name another one with --folder" : "name another one";
  if (error) {
    return {{place, folder.string() + " cannot be a folder: " + error.message(), remedy}};
  }
  const std::filesystem::path probe = folder / ".can-be-written-to";
  std::filesystem::create_directory(probe, error);
  if (!error) std::filesystem::remove(probe, error);
  if (!error) return {};
  return {{place, folder.string() + " cannot be written to: " + error.message(), remedy}};
}

}  // namespace gv
