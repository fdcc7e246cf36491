// Writes a new file, then renames it.
#include "peer/host/replace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

namespace gv {
namespace {

/// Waits until the file or folder is on the disk.
bool sync(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_synced = ::fsync(file) == 0;
  ::close(file);
  return is_synced;
}

}  // namespace

bool replace_file(const std::filesystem::path& file, std::string_view text, Readers readers,
                  Lasts lasts) {
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
  // Without this, a power cut could leave an empty file under the new name.
  if (lasts == Lasts::on_disk && !sync(temporary)) return false;
  std::error_code error;
  std::filesystem::rename(temporary, file, error);
  if (error || lasts == Lasts::until_crash) return !error;
  return sync(file.parent_path().empty() ? "." : file.parent_path());
}

}  // namespace gv
