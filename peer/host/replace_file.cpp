// Writes a new file, then renames it.
#include "peer/host/replace_file.hpp"

#include <fstream>
#include <system_error>

namespace gv {

bool replace_file(const std::filesystem::path& file, std::string_view text, Readers readers) {
  const std::filesystem::path temporary = file.string() + ".new";
  {
    std::ofstream out(temporary, std::ios::trunc);
    if (readers == Readers::owner) {
      using std::filesystem::perms;
      std::error_code error;
      std::filesystem::permissions(temporary, perms::owner_read | perms::owner_write, error);
      if (error) return false;
    }
    out << text;
    if (!out.flush()) return false;
  }
  std::error_code error;
  std::filesystem::rename(temporary, file, error);
  return !error;
}

}  // namespace gv
