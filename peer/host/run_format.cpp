// Stores the format as a file with one number.
#include "peer/host/run_format.hpp"

#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

/// Raise this number when files of a run folder change their names or meaning.
constexpr int run_format = 2;
constexpr int unmarked_format = 1;  ///< The format of versions that did not mark their folders.
constexpr const char* file_name = "format";

/// Returns the folder's format, or nullopt if there is a mark that cannot be read.
std::optional<int> format_of(const std::filesystem::path& folder) {
  const std::filesystem::path mark = folder / file_name;
  std::error_code error;
  if (!std::filesystem::exists(mark, error) && !error) return unmarked_format;
  int format = 0;
  std::ifstream in(mark);
  if (!(in >> format)) return std::nullopt;
  return format;
}

}  // namespace

Problems run_format_problems(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "checkpoints", ignored)) return {};
  const std::optional<int> format = format_of(folder);
  if (format == run_format) return {};
  const std::string own = std::to_string(run_format);
  const std::string mark = (folder / file_name).string();
  const std::string repair = "if this version wrote the checkpoints, write " + own + " into ";
  if (!format) {
    return {{mark, "is empty or damaged, so the version that wrote the checkpoints is not known",
             repair + "this file; if not, begin a new run without --resume"}};
  }
  // A disk may also have lost the mark, so the remedy says how to keep the checkpoints in that
  // case.
  const bool is_unmarked = format == unmarked_format;
  return {{folder.string(),
           "is the folder of a run by another version of this program (format " +
               std::to_string(*format) + ", this one has " + own + ")",
           "go on with that version, or begin a new run without --resume" +
               (is_unmarked ? "; " + repair + mark : "")}};
}

Problems write_run_format(const std::filesystem::path& folder) {
  const std::filesystem::path mark = folder / file_name;
  const std::string text = std::to_string(run_format) + '\n';
  if (replace_file(mark, text, Readers::usual, Lasts::on_disk)) return {};
  // A resumed run has a mark already, so a full disk does not keep the peer from starting.
  if (format_of(folder) == run_format) return {};
  return {{mark.string(), "cannot be written, and a run without it cannot be resumed",
           "free some space on that disk, or choose another --folder"}};
}

}  // namespace gv
