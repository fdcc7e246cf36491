// Reads and writes zip archives with libzip, and checks an archive's claims about its entries.
#include "train/formats/archive.hpp"

#include <zip.h>

#include <algorithm>
#include <array>
#include <memory>
#include <system_error>

#include "base/printable.hpp"

namespace gv {
namespace {

constexpr std::size_t entries_max = 200'000;
constexpr std::uint64_t unpacked_max = std::uint64_t{256} << 20;
constexpr std::uint64_t unpacked_per_byte = 32;
/// 1 January 1980, the first date that zip archives can store. With a fixed date, equal models give
/// equal files.
constexpr zip_uint16_t first_date = (1 << 5) | 1;

/// Returns the library's text for one of its error codes.
std::string words_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string words = zip_error_strerror(&error);
  zip_error_fini(&error);
  return words;
}

std::string words_of(zip_t* archive) { return zip_strerror(archive); }

struct FileCloser {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

/// Returns why an entry cannot be unpacked, judged by the archive's description of it. Returns an
/// empty string if it can be unpacked.
std::string problem_of(const zip_stat_t& entry) {
  constexpr zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                  ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((entry.valid & needed) != needed) return "is not described completely";
  if (entry.encryption_method != ZIP_EM_NONE) return "is encrypted";
  const bool is_stored = entry.comp_method == ZIP_CM_STORE;
  if (!is_stored && entry.comp_method != ZIP_CM_DEFLATE) return "is compressed in an unusual way";
  if (is_stored && entry.comp_size != entry.size) return "has two different sizes";
  return {};
}

/// Adds an entry to an archive. The entry's bytes are read only when the archive is closed, so they
/// must live until then. Returns the reason for a failure, or an empty string.
std::string add(zip_t* archive, const ArchivePart& part) {
  // The library never writes to a buffer that it does not own, so it is safe to cast const away.
  auto* const head = reinterpret_cast<zip_uint8_t*>(const_cast<char*>(part.head.data()));
  auto* const body = reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(part.bytes.data()));
  std::vector<zip_buffer_fragment_t> pieces;
  if (!part.head.empty()) pieces.push_back({head, part.head.size()});
  if (!part.bytes.empty()) pieces.push_back({body, part.bytes.size()});
  // The library cannot read an empty list of fragments, so an empty entry is a plain buffer.
  zip_source_t* const source =
      pieces.empty() ? zip_source_buffer(archive, "", 0, 0)
                     : zip_source_buffer_fragment(archive, pieces.data(), pieces.size(), 0);
  if (source == nullptr) return words_of(archive);
  const zip_int64_t entry = zip_file_add(archive, part.name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (entry < 0) {
    zip_source_free(source);
    return "the entry '" + printable(part.name, 200) + "' cannot be added: " + words_of(archive);
  }
  const auto index = static_cast<zip_uint64_t>(entry);
  const bool is_set = zip_set_file_compression(archive, index, ZIP_CM_STORE, 0) == 0 &&
                      zip_file_set_dostime(archive, index, 0, first_date, 0) == 0;
  return is_set ? "" : words_of(archive);
}

std::string named(std::string_view name) { return "'" + printable(name, 200) + "'"; }

}  // namespace

void Archive::Closer::operator()(::zip* archive) const { zip_discard(archive); }

Archive::Archive(const std::filesystem::path& file) {
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(file, error);
  if (error) {
    problem_ = "it cannot be opened: " + error.message();
    return;
  }
  int code = 0;
  archive_.reset(zip_open(file.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  problem_ = archive_ ? list_entries(bytes) : "it is no sound zip archive: " + words_of(code);
  if (!problem_.empty()) entries_.clear();
}

std::string Archive::list_entries(std::uint64_t file_bytes) {
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  if (count < 0 || static_cast<std::size_t>(count) > entries_max) return "it has too many entries";
  const std::uint64_t bound = std::max(unpacked_max, unpacked_per_byte * file_bytes);
  std::uint64_t unpacked = 0;
  std::uint64_t packed = 0;
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(count); ++i) {
    zip_stat_t entry;
    if (zip_stat_index(archive_.get(), i, 0, &entry) != 0) {
      return "one of its entries cannot be read: " + words_of(archive_.get());
    }
    const std::string problem = problem_of(entry);
    if (!problem.empty()) return "its entry " + std::to_string(i) + " " + problem;
    if (entry.comp_size > file_bytes - packed) return "its entries overlap";
    packed += entry.comp_size;
    if (entry.size > bound - unpacked) return "it would unpack to far more than its size";
    unpacked += entry.size;
    entries_.push_back({entry.name, entry.size});
  }
  return {};
}

std::optional<std::size_t> Archive::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &ArchiveEntry::name);
  if (found == entries_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - entries_.begin());
}

std::string Archive::read(std::size_t entry, std::vector<std::byte>& out) {
  const std::string failed = "its entry " + named(entries_[entry].name) + " cannot be unpacked: ";
  const std::unique_ptr<zip_file_t, FileCloser> file(zip_fopen_index(archive_.get(), entry, 0));
  if (!file) return failed + words_of(archive_.get());
  out.resize(entries_[entry].size);
  std::span<std::byte> left(out);
  while (!left.empty()) {
    const zip_int64_t read = zip_fread(file.get(), left.data(), left.size());
    if (read < 0) return failed + zip_file_strerror(file.get());
    if (read == 0) return failed + "it is shorter than the archive says";
    left = left.subspan(static_cast<std::size_t>(read));
  }
  // Read past the end, because the library compares the checksum only when it reaches the end of
  // the entry.
  std::array<std::byte, 1> more{};
  const zip_int64_t behind = zip_fread(file.get(), more.data(), more.size());
  if (behind < 0) return failed + zip_file_strerror(file.get());
  return behind > 0 ? failed + "it is longer than the archive says" : "";
}

std::string write_archive(const std::filesystem::path& file,
                          const std::vector<ArchivePart>& parts) {
  int code = 0;
  std::unique_ptr<zip_t, void (*)(zip_t*)> archive(
      zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code), zip_discard);
  if (!archive) return "it cannot be created: " + words_of(code);
  for (const ArchivePart& part : parts) {
    const std::string problem = add(archive.get(), part);
    if (!problem.empty()) return problem;
  }
  if (zip_close(archive.get()) != 0) return "it cannot be written: " + words_of(archive.get());
  (void)archive.release();
  return {};
}

}  // namespace gv
