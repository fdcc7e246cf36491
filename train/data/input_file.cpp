// Reads bytes and lines, and reports where reading failed.
#include "train/data/input_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace gv {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;
/// The longest line, in bytes. A longer one is refused instead of read into memory.
constexpr std::size_t line_bytes_max = std::size_t{64} << 20;

std::string because_of(int error) { return std::generic_category().message(error); }

}  // namespace

InputFile::InputFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InputFile::~InputFile() { ::close(descriptor_); }

std::shared_ptr<const InputFile> InputFile::open(const std::string& path, Problems& problems) {
  const auto refuse = [&](std::string reason, std::string remedy) {
    problems.push_back({path, std::move(reason), std::move(remedy)});
    return nullptr;
  };
  // Files that are not regular might make open() or read() wait for ever.
  std::error_code error;
  const bool is_regular = std::filesystem::is_regular_file(path, error);
  const int descriptor = is_regular ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1;
  if (descriptor < 0) {
    return refuse("the file cannot be opened", "check data.folder and the file names");
  }
  const std::shared_ptr<InputFile> file(new InputFile(path, descriptor));
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  if (size < 0) return refuse("its size cannot be found: " + because_of(errno), "use another disk");
  file->size_ = static_cast<std::uint64_t>(size);
  std::array<std::uint8_t, 2> first{};
  if (file->size_ < first.size()) return file;
  if (auto problem = file->read(0, first)) {
    problems.push_back(*std::move(problem));
    return nullptr;
  }
  if (first[0] == 0x1f && first[1] == 0x8b) {
    return refuse("it is compressed, and a compressed file cannot be read in blocks",
                  "decompress it with gunzip and name the result in data.train_files, or write "
                  "in_memory = true below [data]");
  }
  return file;
}

std::optional<Problem> InputFile::read(std::uint64_t offset, std::span<std::uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    const std::string place = "at byte " + std::to_string(offset);
    if (got < 0) {
      return Problem{path_, "it cannot be read " + place + ": " + because_of(errno),
                     "check the disk or the network that it is on"};
    }
    if (got == 0) {
      return Problem{
          path_,
          "it ends " + place + ", and had " + std::to_string(size_) + " bytes when it was opened",
          "restore the file, and leave data files alone while peers train on them"};
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

InputLines::InputLines(const InputFile& file, std::uint64_t begin, std::uint64_t end)
    : file_(file), position_(begin), end_(end), offset_(begin) {}

/// Appends the next piece of the file to `bytes_`. Returns false at the end of the file, or after a
/// problem.
bool InputLines::read_more() {
  if (bytes_.size() - taken_ > line_bytes_max) {
    problem_ =
        Problem{file_.path(),
                "the line that begins at byte " +
                    std::to_string(position_ - (bytes_.size() - taken_)) + " is longer than 64 MiB",
                "write one sample in each line"};
    return false;
  }
  const std::uint64_t left = end_ - position_;
  if (left == 0) return false;
  bytes_.erase(0, std::exchange(taken_, 0));
  const std::size_t before = bytes_.size();
  const auto more = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, left));
  bytes_.resize(before + more);
  problem_ = file_.read(position_, {reinterpret_cast<std::uint8_t*>(bytes_.data()) + before, more});
  if (problem_) return false;
  position_ += more;
  return true;
}

std::optional<std::string_view> InputLines::next() {
  std::size_t searched = taken_;
  std::size_t end = bytes_.find('\n', searched);
  while (end == std::string::npos) {
    searched = bytes_.size() - taken_;
    if (!read_more()) break;
    end = bytes_.find('\n', searched);
  }
  if (problem_ || taken_ == bytes_.size()) return std::nullopt;
  offset_ = position_ - (bytes_.size() - taken_);
  std::string_view line = std::string_view(bytes_).substr(
      taken_, end == std::string::npos ? std::string::npos : end - taken_);
  taken_ = end == std::string::npos ? bytes_.size() : end + 1;
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (offset_ == 0 && line.starts_with(byte_order_mark)) {
    line.remove_prefix(byte_order_mark.size());
  }
  return line;
}

}  // namespace gv
