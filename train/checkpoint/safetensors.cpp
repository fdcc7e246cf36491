// The safetensors format: header length, JSON header, raw little-endian data.
#include "train/checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace gv {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t header_bytes_max = 16 << 20;
constexpr std::size_t alignment = 8;
constexpr std::size_t piece_numbers = 1 << 16;  ///< How many numbers are converted at a time.
constexpr const char* metadata_key = "__metadata__";
constexpr const char* data_sum_key = "crc32.data";
constexpr const char* header_sum_key = "crc32.header";

std::uint32_t add_to_sum(std::uint32_t sum, const void* data, std::size_t size) {
  return static_cast<std::uint32_t>(crc32_z(sum, static_cast<const Bytef*>(data), size));
}

std::string hex(std::uint32_t value) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

std::string failed(const std::string& what) { return what + ": " + std::strerror(errno); }

/// A file being written. The destructor closes it, and removes it unless keep() was called.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path name)
      : name_(std::move(name)),
        fd_(::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~NewFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!kept_) ::unlink(name_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  bool is_open() const { return fd_ >= 0; }

  bool write(const void* data, std::size_t size) {
    const char* at = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(fd_, at, size);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      at += written;
      size -= static_cast<std::size_t>(written);
    }
    return true;
  }

  /// Returns false if the file could not be synced or closed. If the sync fails, the data may never
  /// reach the disk, and a second attempt can falsely succeed.
  bool sync_and_close() {
    const bool synced = ::fsync(fd_) == 0;
    const bool closed = ::close(std::exchange(fd_, -1)) == 0;
    return synced && closed;
  }

  void keep() { kept_ = true; }

 private:
  std::filesystem::path name_;
  int fd_;
  bool kept_ = false;
};

bool sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  return synced;
}

/// Checksum of the header without its entry for this checksum.
std::uint32_t sum_of_header(Json header) {
  header[metadata_key].erase(header_sum_key);
  const std::string text = header.dump();
  return add_to_sum(0, text.data(), text.size());
}

/// The offset at which a tensor's data begin; 0 if the entry is malformed.
std::uint64_t begin_of(const Json& entry) {
  const auto range = entry.is_object() ? entry.find("data_offsets") : entry.end();
  const bool is_named = range != entry.end() && range->is_array() && !range->empty() &&
                        range->front().is_number_unsigned();
  return is_named ? range->front().get<std::uint64_t>() : 0;
}

std::optional<Tensor> parse_tensor(const std::string& name, const Json& entry,
                                   std::uint64_t& offset, std::uint64_t data_bytes,
                                   std::string& problem) {
  const auto refuse = [&](const std::string& why) {
    problem = "tensor '" + name + "' " + why;
    return std::nullopt;
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets") || entry.size() != 3) {
    return refuse("lacks dtype, shape or data_offsets");
  }
  const Json& type_name = entry["dtype"];
  const auto type = type_name.is_string() ? safetensors_type(type_name.get<std::string>())
                                          : std::optional<NumberType>();
  if (!type) return refuse("is of a type that is not known");
  if (!entry["shape"].is_array()) return refuse("has no shape");
  Tensor tensor{.name = name, .shape = {}, .values = {}, .type = *type};
  std::uint64_t count = 1;
  for (const Json& side : entry["shape"]) {
    if (!side.is_number_unsigned()) return refuse("has a shape that is not of whole numbers");
    const auto length = side.get<std::uint64_t>();
    if (length != 0 && count > data_bytes / length) return refuse("is larger than the file");
    count *= length;
    tensor.shape.push_back(length);
  }
  const Json& range = entry["data_offsets"];
  const bool pair = range.is_array() && range.size() == 2 && range[0].is_number_unsigned() &&
                    range[1].is_number_unsigned();
  if (!pair || range[0].get<std::uint64_t>() != offset ||
      range[1].get<std::uint64_t>() != offset + count * bytes_of(*type) ||
      offset + count * bytes_of(*type) > data_bytes) {
    return refuse(
        "does not lie where the one before it ends, or has another length than its shape");
  }
  offset += count * bytes_of(*type);
  tensor.values.resize(count);
  return tensor;
}

/// Scans a header without storing it. A parser compares each name with the earlier names in the
/// same table; this class counts these comparisons, and stops when there are too many.
class NameCount final : public nlohmann::json_sax<Json> {
 public:
  bool are_too_many() const { return comparisons_ > comparisons_max; }
  /// True if a name occurs twice in the outermost table.
  bool is_one_repeated() const { return is_one_repeated_; }

  bool key(string_t& name) override {
    comparisons_ += tables_.back()++;
    if (tables_.size() == 1) is_one_repeated_ = !names_.insert(name).second || is_one_repeated_;
    return !are_too_many();
  }
  bool start_object(std::size_t) override {
    tables_.push_back(0);
    return true;
  }
  bool end_object() override {
    tables_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  /// Enough comparisons for the names of all tensors, the names in each tensor's table, and the
  /// names in the metadata.
  static constexpr std::uint64_t comparisons_max =
      tensors_in_file_max * (tensors_in_file_max / 2 + 100);

  std::vector<std::uint64_t> tables_;  ///< The number of names in each open table.
  std::set<std::string> names_;        ///< Names in the outermost table.
  std::uint64_t comparisons_ = 0;
  bool is_one_repeated_ = false;
};

/// Reads the header of a file of `size` bytes. Puts its text into `text`, and the parsed form into
/// `header`. Returns the reason for a failure, or an empty string.
std::string read_header(std::ifstream& in, std::uint64_t size, std::string& text, Json& header) {
  std::uint64_t length = 0;
  if (size < sizeof length || !in.read(reinterpret_cast<char*>(&length), sizeof length)) {
    return "it is too short for a safetensors file";
  }
  if (length > header_bytes_max || length > size - sizeof length) {
    return "its header has an impossible length";
  }
  text.assign(length, ' ');
  if (!in.read(text.data(), static_cast<std::streamsize>(length))) return "its header is cut off";
  NameCount count;
  // If the text is not JSON, the parser below reports the reason.
  static_cast<void>(Json::sax_parse(text, &count));
  if (count.are_too_many()) {
    return "its header has too many names; up to " + std::to_string(tensors_in_file_max) +
           " tensors can be read";
  }
  header = Json::parse(text);
  if (!header.is_object() || count.is_one_repeated()) {
    return "its header is not a table of different names";
  }
  return {};
}

/// Reads the values of a tensor and adds their bytes to the checksum. Returns the reason for a
/// failure, or an empty string.
std::string read_values(std::ifstream& in, Tensor& tensor, std::uint32_t& sum) {
  const std::size_t bytes_each = bytes_of(tensor.type);
  std::vector<std::byte> piece(std::min(tensor.values.size(), piece_numbers) * bytes_each);
  std::span<float> left(tensor.values);
  while (!left.empty()) {
    const std::span<float> values = left.first(std::min(left.size(), piece_numbers));
    const std::span<std::byte> bytes = std::span(piece).first(values.size() * bytes_each);
    if (!in.read(reinterpret_cast<char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()))) {
      return "it is cut off in tensor '" + tensor.name + "'";
    }
    sum = add_to_sum(sum, bytes.data(), bytes.size());
    if (!read_numbers(tensor.type, bytes, values)) {
      return "tensor '" + tensor.name + "' has whole numbers that a float32 cannot hold";
    }
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
      return "tensor '" + tensor.name + "' holds values that are not finite";
    }
    left = left.subspan(values.size());
  }
  return {};
}

/// Reads the tensors that the header names, and the metadata. Returns the reason for a failure, or
/// an empty string.
std::string read_tensors(std::ifstream& in, const Json& header, std::uint64_t data_bytes,
                         LoadedTensors& loaded, std::uint32_t& sum) {
  // A header may list the tensors in a different order than their data.
  struct Named {
    std::uint64_t begin;
    std::string name;
    const Json* entry;
  };
  std::vector<Named> names;
  for (const auto& [name, entry] : header.items()) {
    if (name == metadata_key) {
      loaded.metadata = entry.get<std::map<std::string, std::string>>();
    } else {
      names.push_back({begin_of(entry), name, &entry});
    }
  }
  std::ranges::stable_sort(names, {}, &Named::begin);
  std::uint64_t offset = 0;
  for (const auto& [begin, name, entry] : names) {
    std::string problem;
    std::optional<Tensor> tensor = parse_tensor(name, *entry, offset, data_bytes, problem);
    if (!tensor) return problem;
    problem = read_values(in, *tensor, sum);
    if (!problem.empty()) return problem;
    loaded.tensors.push_back(*std::move(tensor));
  }
  return offset != data_bytes ? "it has bytes after its last tensor" : "";
}

/// Checks a file's checksums, if it has any, and sets `loaded.checksummed`. Returns the problem, or
/// an empty string. `sum` is the checksum of the data that were read.
std::string problem_of_sums(LoadedTensors& loaded, const Json& header, const std::string& text,
                            std::uint32_t sum) {
  const auto data_sum = loaded.metadata.find(data_sum_key);
  const auto header_sum = loaded.metadata.find(header_sum_key);
  loaded.checksummed = data_sum != loaded.metadata.end() && header_sum != loaded.metadata.end();
  // A damaged checksum name must not switch the checks off.
  if (!loaded.checksummed && data_sum != header_sum) {
    return "it has only one of its two checksums";
  }
  if (loaded.checksummed && data_sum->second != hex(sum)) {
    return "its data does not match its checksum";
  }
  // Compare the text itself, so that added spaces or other spellings of a number count as changes.
  std::string canonical = header.dump();
  canonical.resize((canonical.size() + alignment - 1) / alignment * alignment, ' ');
  if (loaded.checksummed &&
      (header_sum->second != hex(sum_of_header(header)) || text != canonical)) {
    return "its header does not match its checksum";
  }
  return {};
}

/// Calls `use` with the bytes of all tensors, piece by piece. Returns false once `use` has returned
/// false, or if a value is too large for the type.
template <class Use>
bool for_each_piece(const std::vector<TensorView>& tensors, NumberType type, Use use) {
  std::vector<std::byte> piece;
  for (const TensorView& tensor : tensors) {
    std::span<const float> left = tensor.values;
    while (!left.empty()) {
      const std::span<const float> values = left.first(std::min(left.size(), piece_numbers));
      piece.resize(values.size() * bytes_of(type));
      if (!write_numbers(type, values, piece) || !use(std::span<const std::byte>(piece))) {
        return false;
      }
      left = left.subspan(values.size());
    }
  }
  return true;
}

/// Returns the header of a file whose data have the checksum `sum`. Throws if a string is not
/// UTF-8.
std::string header_text(const std::vector<TensorView>& tensors,
                        const std::map<std::string, std::string>& metadata, NumberType type,
                        std::uint32_t sum) {
  Json header;
  header[metadata_key] = metadata;
  header[metadata_key][data_sum_key] = hex(sum);
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const std::uint64_t end = offset + tensor.values.size() * bytes_of(type);
    header[tensor.name] = {{"dtype", facts_of(type).safetensors},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  header[metadata_key][header_sum_key] = hex(sum_of_header(header));
  std::string text = header.dump();
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  return text;
}

/// Writes the contents of `file` to `temporary`, and syncs it. Returns the reason for a failure, or
/// an empty string. After a failure there is no `temporary`.
std::string write_temporary(const std::filesystem::path& file,
                            const std::filesystem::path& temporary,
                            const std::vector<TensorView>& tensors,
                            const std::map<std::string, std::string>& metadata, NumberType type) {
  if (tensors.size() > tensors_in_file_max) {
    return file.string() + ": it would have more than " + std::to_string(tensors_in_file_max) +
           " tensors, and could not be read again";
  }
  std::uint32_t sum = 0;
  const bool fits = for_each_piece(tensors, type, [&sum](std::span<const std::byte> bytes) {
    sum = add_to_sum(sum, bytes.data(), bytes.size());
    return true;
  });
  if (!fits) {
    return file.string() + ": a value is too large for " + std::string(to_string(type));
  }
  std::string text;
  try {
    text = header_text(tensors, metadata, type, sum);
  } catch (const std::exception& error) {
    return file.string() + ": the metadata cannot be written: " + error.what();
  }
  const std::uint64_t length = text.size();

  NewFile out(temporary);
  if (!out.is_open()) return failed(temporary.string() + ": cannot be created");
  const bool written = out.write(&length, sizeof length) && out.write(text.data(), text.size()) &&
                       for_each_piece(tensors, type, [&out](std::span<const std::byte> bytes) {
                         return out.write(bytes.data(), bytes.size());
                       });
  if (!written) return failed(temporary.string() + ": cannot be written");
  if (!out.sync_and_close()) return failed(temporary.string() + ": cannot be synced to disk");
  out.keep();
  return {};
}

}  // namespace

PreparedTensors::PreparedTensors(std::filesystem::path file, const std::vector<TensorView>& tensors,
                                 const std::map<std::string, std::string>& metadata,
                                 NumberType type)
    : file_(std::move(file)),
      temporary_(file_.string() + "." + std::to_string(::getpid()) + ".tmp"),
      problem_(write_temporary(file_, temporary_, tensors, metadata, type)) {}

PreparedTensors::~PreparedTensors() {
  if (!is_renamed_) ::unlink(temporary_.c_str());
}

std::string PreparedTensors::rename() {
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) {
    return failed(file_.string() + ": cannot be renamed");
  }
  is_renamed_ = true;
  if (!sync_folder(file_.parent_path())) {
    return failed(file_.parent_path().string() + ": cannot be synced to disk");
  }
  return {};
}

std::string write_safetensors(const std::filesystem::path& file,
                              const std::vector<TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata, NumberType type) {
  PreparedTensors prepared(file, tensors, metadata, type);
  return prepared.problem().empty() ? prepared.rename() : prepared.problem();
}

LoadedTensors read_safetensors(const std::filesystem::path& file) {
  LoadedTensors loaded;
  const auto refuse = [&](std::string why) {
    loaded = {};
    loaded.problem = std::move(why);
    return loaded;
  };
  try {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(file, error);
    if (error) return refuse("it cannot be opened: " + error.message());
    std::ifstream in(file, std::ios::binary);
    std::string text;
    Json header;
    std::string problem = read_header(in, size, text, header);
    if (!problem.empty()) return refuse(problem);
    const std::uint64_t data_bytes = size - sizeof(std::uint64_t) - text.size();
    std::uint32_t sum = 0;
    problem = read_tensors(in, header, data_bytes, loaded, sum);
    if (problem.empty()) problem = problem_of_sums(loaded, header, text, sum);
    if (!problem.empty()) return refuse(problem);
    loaded.metadata.erase(data_sum_key);
    loaded.metadata.erase(header_sum_key);
  } catch (const std::exception& error) {
    return refuse(std::string("its header cannot be read: ") + error.what());
  }
  return loaded;
}

}  // namespace gv
