// Reads and writes the settings revision on disk.
#include "peer/host/settings_revision_file.hpp"

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

constexpr const char* revision_name = "settings_revision";

}  // namespace

std::optional<SettingsRevision> read_revision(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / revision_name, error)) return SettingsRevision{};
  std::ifstream in(folder / revision_name);
  SettingsRevision revision;
  if (!(in >> revision.number) || in.get() != '\n' || revision.number == 0) return std::nullopt;
  revision.settings.assign(std::istreambuf_iterator<char>(in), {});
  if (!revision.problem().empty()) return std::nullopt;
  return revision;
}

bool write_revision(const std::filesystem::path& folder, const SettingsRevision& revision) {
  if (revision.number > 0) {
    return replace_file(folder / revision_name,
                        std::to_string(revision.number) + '\n' + revision.settings, Readers::usual,
                        Lasts::on_disk);
  }
  std::error_code error;
  std::filesystem::remove(folder / revision_name, error);
  return !error;
}

}  // namespace gv
