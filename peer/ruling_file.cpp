// The ruling on disk.
#include "peer/ruling_file.hpp"

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace gv {
namespace {

constexpr const char* file_name = "ruling";

}  // namespace

std::optional<Ruling> read_ruling(const std::filesystem::path& folder) {
  std::ifstream in(folder / file_name);
  Ruling ruling;
  if (!(in >> ruling.number) || in.get() != '\n' || ruling.number == 0) return std::nullopt;
  ruling.settings.assign(std::istreambuf_iterator<char>(in), {});
  if (ruling.settings.size() > ruling_bytes_max) return std::nullopt;
  return ruling;
}

bool write_ruling(const std::filesystem::path& folder, const Ruling& ruling) {
  std::error_code error;
  const std::filesystem::path file = folder / file_name;
  if (ruling.number == 0) {
    std::filesystem::remove(file, error);
    return !error;
  }
  const std::filesystem::path temporary = file.string() + ".new";
  {
    std::ofstream out(temporary, std::ios::trunc);
    out << ruling.number << '\n' << ruling.settings;
    if (!out.flush()) return false;
  }
  std::filesystem::rename(temporary, file, error);
  return !error;
}

}  // namespace gv
