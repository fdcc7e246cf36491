// Parsers of the data formats. Whatever the bytes are, the result is data or a message about them.
#include "train/data/readers.hpp"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

namespace gv {
namespace {

/// Larger files are refused instead of read into memory.
constexpr std::size_t bytes_max = std::size_t{4} << 30;
constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
constexpr std::size_t problems_max = 20;  ///< The most problems listed for one file.
constexpr std::size_t cifar_record = 1 + 3 * 32 * 32;
constexpr std::size_t label_max = 100000;

/// A file read through zlib, compressed or not.
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

  /// A truncated compressed file looks like a short one; only closing it reveals the truncation.
  bool close() { return gzclose(std::exchange(file_, nullptr)) == Z_OK; }

 private:
  gzFile file_;
};

/// Reports what went wrong with the last read; false if nothing did.
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
    if (bytes.size() > bytes_max) reason = "it is larger than 4 GiB";
    if (read == 0) break;
  }
  if (!in.close() && reason.empty()) reason = "it ends in the middle of compressed data";
  if (reason.empty()) return bytes;
  problems.push_back({file, reason, "fetch it again"});
  return std::nullopt;
}

std::uint32_t big_endian(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 |
         static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | bytes[at + 3];
}

constexpr std::size_t idx_header_bytes(std::size_t dimensions) { return 4 + 4 * dimensions; }

/// The dimensions in the header of an IDX file of bytes. If it is not one, adds a problem and
/// returns an empty list.
std::vector<std::size_t> idx_dimensions(const std::string& file,
                                        const std::vector<std::uint8_t>& bytes,
                                        std::size_t expected, Problems& problems) {
  const auto refuse = [&](std::string reason) {
    problems.push_back(
        {file, std::move(reason),
         expected == 3 ? "name an IDX file of images" : "name an IDX file of labels"});
    return std::vector<std::size_t>();
  };
  if (bytes.size() < idx_header_bytes(expected)) return refuse("it is too short for an IDX file");
  if (big_endian(bytes, 0) != 0x800u + expected) {
    return refuse("it is not an IDX file of bytes with " + std::to_string(expected) +
                  " dimensions");
  }
  std::vector<std::size_t> dimensions;
  std::size_t product = 1;
  for (std::size_t i = 0; i < expected; ++i) {
    const std::size_t side = big_endian(bytes, 4 + 4 * i);
    if (side == 0 || side > bytes_max / product) return refuse("its dimensions make no sense");
    product *= side;
    dimensions.push_back(side);
  }
  return dimensions;
}

void check_idx_length(const std::string& file, std::size_t announced, std::size_t held,
                      Problems& problems) {
  if (announced == held) return;
  problems.push_back(
      {file,
       "it announces " + std::to_string(announced) + " bytes and holds " + std::to_string(held),
       "fetch it again"});
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

struct CsvRow {
  std::vector<double> values;
  bool numeric = true;         ///< True if every field is a number that a float can hold.
  bool starts_numeric = true;  ///< True if the first field is any kind of number, even "nan".
};

CsvRow parse_row(std::string_view line) {
  CsvRow row;
  while (true) {
    const std::size_t comma = std::min(line.find(','), line.size());
    std::string_view field = line.substr(0, comma);
    while (!field.empty() && (field.front() == ' ' || field.front() == '\t'))
      field.remove_prefix(1);
    while (!field.empty() &&
           (field.back() == ' ' || field.back() == '\t' || field.back() == '\r')) {
      field.remove_suffix(1);
    }
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    const bool whole = error != std::errc::invalid_argument && end == field.data() + field.size();
    if (row.values.empty()) row.starts_numeric = whole;
    // A value that a float cannot hold would become infinity in training. For nan the comparison is
    // false, too.
    row.numeric = row.numeric && whole && error == std::errc() &&
                  std::abs(value) <= std::numeric_limits<float>::max();
    row.values.push_back(value);
    if (comma == line.size()) return row;
    line.remove_prefix(comma + 1);
  }
}

bool is_label(double value) {
  return value >= 0 && value <= static_cast<double>(label_max) && value == std::floor(value);
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
  check_idx_length(labels, count[0], marks->size() - idx_header_bytes(1), problems);
  if (sides[0] != count[0]) {
    problems.push_back({labels,
                        "it has " + std::to_string(count[0]) + " labels for " +
                            std::to_string(sides[0]) + " images",
                        "name files that belong together"});
  }
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
  data->bytes.resize(kept.size() * data->features());
  const std::size_t held = read_records(in.get(), data->features(), wanted, data->bytes);
  if (!report_failure(in.get(), images, problems)) {
    check_idx_length(images, sides[0] * data->features(), held, problems);
  }
  if (problems.empty()) loaded.data = std::move(data);
  return loaded;
}

LoadedDataSet read_cifar10(const std::vector<std::string>& files) {
  LoadedDataSet loaded;
  auto data = std::make_shared<DataSet>();
  data->shape = {3, 32, 32};
  data->classes = 10;
  for (const std::string& file : files) {
    const auto bytes = read_whole(file, loaded.problems);
    if (!bytes) continue;
    if (bytes->empty() || bytes->size() % cifar_record != 0) {
      loaded.problems.push_back({file,
                                 "its " + std::to_string(bytes->size()) +
                                     " bytes are not whole records of " +
                                     std::to_string(cifar_record),
                                 "name a file of CIFAR-10's binary version"});
      continue;
    }
    for (std::size_t at = 0; at < bytes->size(); at += cifar_record) {
      const std::uint8_t label = (*bytes)[at];
      if (label >= 10) {
        loaded.problems.push_back({file,
                                   "record " + std::to_string(at / cifar_record) +
                                       " has the label " + std::to_string(label),
                                   "name a file of CIFAR-10's binary version"});
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

LoadedDataSet read_csv(const std::string& file, std::size_t targets) {
  LoadedDataSet loaded;
  const auto bytes = read_whole(file, loaded.problems);
  if (!bytes) return loaded;
  auto data = std::make_shared<DataSet>();
  const std::size_t last_columns = std::max<std::size_t>(1, targets);
  std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  // Spreadsheets begin files with a byte order mark, which would make a first sample look like
  // headings.
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::size_t width = 0;
  std::size_t number = 0;
  const auto refuse = [&](std::string reason, std::string remedy) {
    loaded.problems.push_back(
        {file + ":" + std::to_string(number), std::move(reason), std::move(remedy)});
  };
  while (!text.empty() && loaded.problems.size() < problems_max) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line == "\r") continue;
    const CsvRow row = parse_row(line);
    // Only the first field decides whether a line is a heading, so a bad field further on is
    // reported.
    if (number == 1 && !row.starts_numeric) continue;
    if (!row.numeric) {
      refuse("not every field is a finite number", "write numbers separated by commas");
      continue;
    }
    if (width == 0) width = row.values.size();
    if (row.values.size() != width || width <= last_columns) {
      refuse("it has " + std::to_string(row.values.size()) + " columns, " +
                 (width <= last_columns ? "too few for features and targets"
                                        : "the first row has " + std::to_string(width)),
             "give every row the same columns: features, then the label or the targets");
      continue;
    }
    const std::size_t features = width - last_columns;
    for (std::size_t i = 0; i < features; ++i)
      data->floats.push_back(static_cast<float>(row.values[i]));
    if (targets == 0 && !is_label(row.values.back())) {
      refuse("the last column is not a label",
             "write whole numbers from 0, or set data.csv_targets for regression");
      continue;
    }
    if (targets == 0) {
      data->labels.push_back(static_cast<std::int32_t>(row.values.back()));
    } else {
      for (std::size_t i = features; i < width; ++i) {
        data->targets.push_back(static_cast<float>(row.values[i]));
      }
    }
  }
  if (loaded.problems.empty() && data->floats.empty()) {
    loaded.problems.push_back({file, "it has no samples", "give it rows of numbers"});
  }
  if (!loaded.problems.empty()) return loaded;
  data->shape = {width - last_columns, 1, 1};
  data->target_width = targets;
  if (targets == 0) {
    data->classes = static_cast<std::size_t>(*std::ranges::max_element(data->labels)) + 1;
  }
  loaded.data = std::move(data);
  return loaded;
}

LoadedDataSet read_text(const std::vector<std::string>& files, std::size_t context, TextPart part) {
  LoadedDataSet loaded;
  auto data = std::make_shared<DataSet>();
  data->shape = {context, 1, 1};
  data->classes = 256;
  data->predictions = context;
  data->scale = 255;  // Bytes are ids, not brightness. A scale of 255 leaves them unchanged.
  for (const std::string& file : files) {
    const auto bytes = read_whole(file, loaded.problems);
    if (!bytes) continue;
    const std::size_t cut = bytes->size() - bytes->size() / 10;
    const std::size_t begin = part == TextPart::last_tenth ? cut : 0;
    const std::size_t end = part == TextPart::but_last_tenth ? cut : bytes->size();
    if (end - begin <= context) {
      loaded.problems.push_back({file,
                                 "of it " + std::to_string(end - begin) +
                                     " bytes are read, too few for a context of " +
                                     std::to_string(context) + " and what follows it",
                                 "use a longer text or a smaller data.context"});
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
