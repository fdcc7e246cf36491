// Zip archives, in which PyTorch and NumPy store models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct zip;  ///< The zip library's handle of an archive.

namespace gv {

/// One file in an archive.
struct ArchiveEntry {
  std::string name;
  std::uint64_t size = 0;  ///< Size of the unpacked file in bytes.
};

/// An archive that is open for reading. Before anything is unpacked, the archive is checked:
/// entries must have different names, must not overlap, and must together unpack to at most 32
/// times the size of the file or 256 MiB, whichever is more.
class Archive {
 public:
  explicit Archive(const std::filesystem::path& file);

  /// Why the archive cannot be used. Empty if it can.
  const std::string& problem() const { return problem_; }

  /// The entries, in the order of the archive.
  const std::vector<ArchiveEntry>& entries() const { return entries_; }

  /// The position of an entry in entries(); nullopt if no entry has that name.
  std::optional<std::size_t> find(std::string_view name) const;

  /// Unpacks an entry into `out` and compares its checksum. Returns the reason for a failure, or an
  /// empty string.
  std::string read(std::size_t entry, std::vector<std::byte>& out);

 private:
  struct Closer {
    void operator()(::zip* archive) const;
  };
  std::string list_entries(std::uint64_t file_bytes);

  std::unique_ptr<::zip, Closer> archive_;
  std::vector<ArchiveEntry> entries_;
  std::string problem_;
};

/// An entry to write: `head` and then `bytes`, which the caller owns.
struct ArchivePart {
  std::string name;
  std::string head;
  std::span<const std::byte> bytes;
};

/// Writes an archive without compression under a temporary name, and then renames it. Returns the
/// reason for a failure, or an empty string. After a failure, `file` is unchanged.
std::string write_archive(const std::filesystem::path& file, const std::vector<ArchivePart>& parts);

}  // namespace gv
