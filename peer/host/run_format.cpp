// Stores the format as a file with one number.
#include "peer/host/run_format.hpp"

#include <fstream>
#include <string>
#include <system_error>

#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

/// Raise this number when files of a run folder change their names or meaning. Folders without a
/// mark have format 1.
constexpr int run_format = 2;
constexpr const char* file_name = "format";

}  // namespace

Problems run_format_problems(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "checkpoints", ignored)) return {};
  int format = 1;
  std::ifstream(folder / file_name) >> format;
  if (format == run_format) return {};
  return {{folder.string(),
           "is the folder of a run by another version of this program (format " +
               std::to_string(format) + ", this one has " + std::to_string(run_format) + ")",
           "go on with that version, or begin a new run without --resume"}};
}

void write_run_format(const std::filesystem::path& folder) {
  static_cast<void>(replace_file(folder / file_name, std::to_string(run_format) + '\n'));
}

}  // namespace gv
