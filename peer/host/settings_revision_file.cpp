// The ruling on disk.
#include "peer/host/settings_revision_file.hpp"

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

constexpr const char* file_name = "ruling";

}  // namespace

std::optional<Ruling> read_ruling(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / file_name, error)) return Ruling{};
  std::ifstream in(folder / file_name);
  Ruling ruling;
  if (!(in >> ruling.number) || in.get() != '\n' || ruling.number == 0) return std::nullopt;
  ruling.settings.assign(std::istreambuf_iterator<char>(in), {});
  if (ruling.settings.size() > ruling_bytes_max) return std::nullopt;
  return ruling;
}

bool write_ruling(const std::filesystem::path& folder, const Ruling& ruling) {
  if (ruling.number > 0) {
    return replace_file(folder / file_name, std::to_string(ruling.number) + '\n' + ruling.settings);
  }
  std::error_code error;
  std::filesystem::remove(folder / file_name, error);
  return !error;
}

}  // namespace gv
