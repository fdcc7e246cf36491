// Writes a new file, then renames it.
#include "peer/host/replace_file.hpp"

#include <fstream>
#include <system_error>

namespace gv {

bool replace_file(const std::filesystem::path& file, std::string_view text) {
  const std::filesystem::path temporary = file.string() + ".new";
  {
    std::ofstream out(temporary, std::ios::trunc);
    out << text;
    if (!out.flush()) return false;
  }
  std::error_code error;
  std::filesystem::rename(temporary, file, error);
  return !error;
}

}  // namespace gv
