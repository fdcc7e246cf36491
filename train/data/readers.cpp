// Parsers of the data formats. Whatever bytes a file holds, the result is data or a problem.
#include "train/data/readers.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "train/data/csv_rows.hpp"
#include "train/data/image_files.hpp"

namespace gv {
namespace {

/// The largest file, in bytes, that is read into memory. Larger files are refused.
constexpr std::size_t bytes_max = std::size_t{4} << 30;
constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

/// A file that is read through zlib. It may be compressed or not.
class GzFile {
 public:
  GzFile(const std::string& file, Problems& problems) : file_(gzopen(file.c_str(), "rb")) {
    if (file_ != nullptr) return;
    problems.push_back({file, "the file cannot be opened",
                        "check data.folder and the file names; Fashion-MNIST is Debian's package "
                        "dataset-fashion-mnist"});
  }
  ~GzFile() {
    if (file_ != nullptr) gzclose(file_);
  }
  GzFile(const GzFile&) = delete;
  GzFile& operator=(const GzFile&) = delete;

  gzFile get() const { return file_; }

  /// Returns false if the file was damaged. A truncated compressed file looks like a short one
  /// until it is closed.
  bool close() { return gzclose(std::exchange(file_, nullptr)) == Z_OK; }

 private:
  gzFile file_;
};

/// Returns true, and adds a problem, if the last read failed.
bool report_failure(gzFile in, const std::string& file, Problems& problems) {
  int code = Z_OK;
  const char* reason = gzerror(in, &code);
  if (code == Z_OK || code == Z_STREAM_END) return false;
  problems.push_back({file,
                      code == Z_BUF_ERROR ? std::string("it ends in the middle of compressed data")
                                          : std::string("it cannot be read: ") + reason,
                      "fetch it again"});
  return true;
}

Problem too_large(const std::string& file) {
  return {file, std::string(too_large_for_memory), "use a smaller file"};
}

/// Reads a whole file, and decompresses it if necessary.
std::optional<std::vector<std::uint8_t>> read_whole(const std::string& file, Problems& problems) {
  GzFile in(file, problems);
  if (in.get() == nullptr) return std::nullopt;
  std::vector<std::uint8_t> bytes;
  std::string reason;
  while (reason.empty()) {
    const std::size_t before = bytes.size();
    bytes.resize(before + chunk_bytes);
    const int read = gzread(in.get(), bytes.data() + before, static_cast<unsigned>(chunk_bytes));
    bytes.resize(before + static_cast<std::size_t>(std::max(read, 0)));
    int code = Z_OK;
    if (read < 0) reason = std::string("it cannot be read: ") + gzerror(in.get(), &code);
    if (bytes.size() > bytes_max) {
      problems.push_back(too_large(file));
      return std::nullopt;
    }
    if (read == 0) break;
  }
  if (!in.close() && reason.empty()) reason = "it ends in the middle of compressed data";
  if (reason.empty()) return bytes;
  problems.push_back({file, reason, "fetch it again"});
  return std::nullopt;
}

/// The most bytes that a file can hold once decompressed. Deflate expands one byte to at most 1,032
/// bytes.
std::uintmax_t content_max(const std::string& file) {
  std::error_code is_no_file;
  const std::uintmax_t bytes = std::filesystem::file_size(file, is_no_file);
  return bytes < bytes_max ? bytes * 1032 : bytes;
}

/// Reads the remaining records of a file and keeps the wanted ones: record `wanted[i].first` goes
/// to place `wanted[i].second` of `into`. `wanted` must be sorted. Returns the number of bytes
/// read.
std::size_t read_records(gzFile in, std::size_t record_bytes,
                         const std::vector<std::pair<std::uint32_t, std::uint32_t>>& wanted,
                         std::vector<std::uint8_t>& into) {
  const std::size_t records_at_once = std::max<std::size_t>(1, chunk_bytes / record_bytes);
  std::vector<std::uint8_t> chunk(records_at_once * record_bytes);
  std::size_t total = 0;
  std::size_t record = 0;
  auto next = wanted.begin();
  while (true) {
    const int read = gzread(in, chunk.data(), static_cast<unsigned>(chunk.size()));
    if (read <= 0) return total;
    total += static_cast<std::size_t>(read);
    for (std::size_t at = 0; at + record_bytes <= static_cast<std::size_t>(read);
         at += record_bytes, ++record) {
      for (; next != wanted.end() && next->first == record; ++next) {
        std::copy_n(chunk.begin() + static_cast<std::ptrdiff_t>(at), record_bytes,
                    into.begin() + static_cast<std::ptrdiff_t>(next->second * record_bytes));
      }
    }
  }
}

}  // namespace

LoadedDataSet read_idx(const std::string& images, const std::string& labels, const Choose& choose) {
  LoadedDataSet loaded;
  Problems& problems = loaded.problems;
  const auto marks = read_whole(labels, problems);
  const GzFile in(images, problems);
  std::vector<std::uint8_t> header(idx_header_bytes(3));
  if (in.get() != nullptr) {
    const int read = gzread(in.get(), header.data(), static_cast<unsigned>(header.size()));
    header.resize(static_cast<std::size_t>(std::max(read, 0)));
    if (read < 0) report_failure(in.get(), images, problems);
  }
  if (!problems.empty()) return loaded;
  const auto sides = idx_dimensions(images, header, 3, problems);
  const auto count = idx_dimensions(labels, *marks, 1, problems);
  if (!problems.empty()) return loaded;
  if (sides[0] * sides[1] * sides[2] > bytes_max) {
    problems.push_back(too_large(images));
    return loaded;
  }
  check_idx_length(labels, count[0], marks->size() - idx_header_bytes(1), problems);
  check_idx_counts(labels, count[0], sides[0], problems);
  if (!problems.empty()) return loaded;

  DataSet all;
  all.shape = {1, sides[1], sides[2]};
  all.labels.assign(marks->begin() + idx_header_bytes(1), marks->end());
  all.classes = static_cast<std::size_t>(*std::ranges::max_element(all.labels)) + 1;
  std::vector<std::uint32_t> kept(sides[0]);
  std::iota(kept.begin(), kept.end(), 0u);
  if (choose) kept = choose(all);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> wanted;
  for (std::uint32_t place = 0; place < kept.size(); ++place) {
    wanted.emplace_back(kept[place], place);
  }
  std::ranges::sort(wanted);
  auto data = std::make_shared<DataSet>(all.subset(kept));
  const std::size_t announced = sides[0] * data->features();
  std::size_t held = 0;
  if (announced <= content_max(images)) {
    data->bytes.resize(kept.size() * data->features());
    held = read_records(in.get(), data->features(), wanted, data->bytes);
  } else {
    // A header alone must not cause a large allocation. So the bytes are read without being kept,
    // only to state their number in the message.
    held = read_records(in.get(), 1, {}, data->bytes);
  }
  if (!report_failure(in.get(), images, problems)) {
    check_idx_length(images, announced, held, problems);
  }
  if (problems.empty()) loaded.data = std::move(data);
  return loaded;
}

LoadedDataSet read_cifar10(const std::vector<std::string>& files) {
  LoadedDataSet loaded;
  auto data = std::make_shared<DataSet>();
  data->shape = {3, 32, 32};
  data->classes = cifar_classes;
  for (const std::string& file : files) {
    const auto bytes = read_whole(file, loaded.problems);
    if (!bytes) continue;
    if (bytes->empty() || bytes->size() % cifar_record != 0) {
      loaded.problems.push_back(not_cifar_records(file, bytes->size()));
      continue;
    }
    for (std::size_t at = 0; at < bytes->size(); at += cifar_record) {
      const std::uint8_t label = (*bytes)[at];
      if (label >= cifar_classes) {
        loaded.problems.push_back(bad_cifar_label(file, at / cifar_record, label));
        break;
      }
      data->labels.push_back(label);
      const auto begin = bytes->begin() + static_cast<std::ptrdiff_t>(at);
      data->bytes.insert(data->bytes.end(), begin + 1, begin + cifar_record);
    }
  }
  if (loaded.problems.empty() && data->labels.empty()) {
    loaded.problems.push_back(
        {"data", "no files are named", "set data.train_files and test_files"});
  }
  if (loaded.problems.empty()) loaded.data = std::move(data);
  return loaded;
}

LoadedDataSet read_csv(const std::string& file, std::size_t targets, InputScale scale) {
  LoadedDataSet loaded;
  const auto bytes = read_whole(file, loaded.problems);
  if (!bytes) return loaded;
  auto data = std::make_shared<DataSet>();
  std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  // Spreadsheets begin files with a byte order mark, which would make a first sample look like a
  // heading.
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  CsvRows rows(targets, scale);
  while (!text.empty() && loaded.problems.size() < csv_problems_max) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (auto problem = rows.add(text.substr(0, end), *data)) {
      problem->place = file + ":" + std::to_string(rows.number());
      loaded.problems.push_back(*std::move(problem));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (loaded.problems.empty() && data->floats.empty()) {
    loaded.problems.push_back({file, "it has no samples", "give it rows of numbers"});
  }
  if (!loaded.problems.empty()) return loaded;
  rows.describe(*data);
  if (targets == 0) {
    data->classes = static_cast<std::size_t>(*std::ranges::max_element(data->labels)) + 1;
  }
  loaded.data = std::move(data);
  return loaded;
}

void describe_text(std::size_t context, DataSet& data) {
  data.shape = {context, 1, 1};
  data.classes = 256;
  data.predictions = context;
  data.scale = 255;  // Bytes are ids, not brightness. A scale of 255 leaves them unchanged.
}

Problem text_too_short(const std::string& file, std::size_t bytes, std::size_t context) {
  return {file,
          "of it " + std::to_string(bytes) + " bytes are read, too few for a context of " +
              std::to_string(context) + " and what follows it",
          "use a longer text or a smaller data.context"};
}

LoadedDataSet read_text(const std::vector<std::string>& files, std::size_t context, TextPart part) {
  LoadedDataSet loaded;
  auto data = std::make_shared<DataSet>();
  describe_text(context, *data);
  for (const std::string& file : files) {
    const auto bytes = read_whole(file, loaded.problems);
    if (!bytes) continue;
    const std::size_t cut = bytes->size() - bytes->size() / 10;
    const std::size_t begin = part == TextPart::last_tenth ? cut : 0;
    const std::size_t end = part == TextPart::but_last_tenth ? cut : bytes->size();
    if (end - begin <= context) {
      loaded.problems.push_back(text_too_short(file, end - begin, context));
      continue;
    }
    for (std::size_t at = begin; at + context < end; at += context) {
      const auto first = bytes->begin() + static_cast<std::ptrdiff_t>(at);
      const auto last = first + static_cast<std::ptrdiff_t>(context);
      data->bytes.insert(data->bytes.end(), first, last);
      data->labels.insert(data->labels.end(), first + 1, last + 1);
    }
  }
  if (loaded.problems.empty()) loaded.data = std::move(data);
  return loaded;
}

}  // namespace gv
