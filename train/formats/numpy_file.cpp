// The format of NumPy's arrays: a line of text that describes the numbers, then the numbers.
#include "train/formats/numpy_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/printable.hpp"
#include "train/formats/archive.hpp"
#include "train/formats/encoded.hpp"
#include "train/formats/strided.hpp"

namespace gv {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t rank_max = 32;
constexpr std::size_t alignment = 64;
constexpr const char* save_array = "save it as np.save(file, array.astype(\"<f4\")) does";

struct TypeCode {
  std::string_view code;
  NumberType type;
};
constexpr std::array type_codes = {
    TypeCode{"<f4", NumberType::f32}, TypeCode{"<f2", NumberType::f16},
    TypeCode{"<f8", NumberType::f64}, TypeCode{"|i1", NumberType::i8},
    TypeCode{"<i2", NumberType::i16}, TypeCode{"<i4", NumberType::i32},
    TypeCode{"<i8", NumberType::i64}, TypeCode{"|u1", NumberType::u8},
    TypeCode{"<u2", NumberType::u16}, TypeCode{"<u4", NumberType::u32},
    TypeCode{"<u8", NumberType::u64}, TypeCode{"|b1", NumberType::boolean}};

/// The contents of an array's header.
struct Header {
  std::string code;
  bool is_column_major = false;
  std::vector<std::size_t> shape;
};

/// Reads the header's text, a dictionary as Python writes it:
/// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {}

  std::optional<Header> read() {
    Header header;
    std::size_t keys = 0;
    if (!skip('{')) return std::nullopt;
    while (!skip('}')) {
      const auto key = quoted();
      if (!key || !skip(':') || !read_value(*key, header)) return std::nullopt;
      // There are three keys, and each must occur once.
      keys |= *key == "descr" ? 1 : *key == "shape" ? 2 : 4;
      if (!skip(',') && !sees('}')) return std::nullopt;
    }
    skip_spaces();
    return keys == 7 && rest_.empty() ? std::optional(header) : std::nullopt;
  }

 private:
  void skip_spaces() {
    const std::size_t length = rest_.find_first_not_of(" \n");
    rest_.remove_prefix(std::min(length, rest_.size()));
  }

  bool sees(char c) {
    skip_spaces();
    return rest_.starts_with(c);
  }

  bool skip(char c) {
    if (!sees(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool skip_word(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string_view> quoted() {
    if (!skip('\'')) return std::nullopt;
    const std::size_t length = rest_.find('\'');
    if (length == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(length + 1);
    return text;
  }

  bool read_value(std::string_view key, Header& header) {
    if (key == "descr") {
      const auto code = quoted();
      if (code) header.code = *code;
      return code.has_value();
    }
    if (key == "fortran_order") {
      header.is_column_major = skip_word("True");
      return header.is_column_major || skip_word("False");
    }
    return key == "shape" && read_shape(header.shape);
  }

  bool read_shape(std::vector<std::size_t>& shape) {
    if (!skip('(')) return false;
    while (!skip(')')) {
      skip_spaces();
      std::size_t side = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), side);
      if (error != std::errc() || shape.size() == rank_max) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      shape.push_back(side);
      if (!skip(',') && !sees(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

/// Returns the strides of an array that lies in memory without gaps, in elements.
std::vector<std::uint64_t> strides_of(const Header& header) {
  const std::size_t rank = header.shape.size();
  std::vector<std::uint64_t> strides(rank, 1);
  for (std::size_t i = 1; i < rank; ++i) {
    if (header.is_column_major) {
      strides[i] = strides[i - 1] * header.shape[i - 1];
    } else {
      strides[rank - 1 - i] = strides[rank - i] * header.shape[rank - i];
    }
  }
  return strides;
}

/// Returns the number of elements; nullopt if they cannot fit into `bytes` bytes.
std::optional<std::size_t> elements_of(const Header& header, std::size_t bytes) {
  std::size_t elements = 1;
  for (const std::size_t side : header.shape) {
    if (side != 0 && elements > bytes / side) return std::nullopt;
    elements *= side;
  }
  return elements;
}

/// Removes the header from the front of `bytes` and returns its text; nullopt if there is no
/// header.
std::optional<std::string_view> take_header(std::string_view& bytes) {
  if (!bytes.starts_with(magic) || bytes.size() < magic.size() + 4) return std::nullopt;
  const char version = bytes[magic.size()];
  if (version < 1 || version > 3) return std::nullopt;
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  bytes.remove_prefix(magic.size() + 2);
  if (bytes.size() < length_bytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  bytes.remove_prefix(length_bytes);
  if (length > bytes.size()) return std::nullopt;
  const std::string_view text = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return text;
}

/// Returns the header of a .npy file of format 1.0: all bytes before the numbers.
std::string header_of(const TensorView& tensor, NumberType type) {
  std::string shape;
  for (const std::size_t side : tensor.shape) shape += std::to_string(side) + ", ";
  if (tensor.shape.size() == 1) shape.pop_back();
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string text = "{'descr': '" + std::string(type == NumberType::f16 ? "<f2" : "<f4") +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const std::size_t before = magic.size() + 4;
  const std::size_t whole = (before + text.size() + alignment) / alignment * alignment;
  text.resize(whole - before - 1, ' ');
  text += '\n';
  std::string header(magic);
  header += {1, 0, static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace

ModelContents read_npy(std::span<const std::byte> bytes, const std::string& name) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto text = take_header(rest);
  const auto header = text ? HeaderReader(*text).read() : std::nullopt;
  const std::string shown = "array '" + printable(name, 200) + "' ";
  if (!header) return refused(shown + "has no header of NumPy that is understood", save_array);
  const auto known = std::ranges::find(type_codes, header->code, &TypeCode::code);
  if (known == type_codes.end()) {
    return refused(shown + "is of type '" + printable(header->code, 40) + "'", save_array);
  }
  const NumberType type = known->type;
  const auto elements = elements_of(*header, rest.size());
  if (!elements || *elements * bytes_of(type) != rest.size()) {
    return refused(shown + "has another size than its header says", save_array);
  }
  std::vector<float> values(*elements);
  if (!read_numbers(type, bytes.last(rest.size()), values)) {
    return refused(shown + "has whole numbers that a float32 cannot hold", save_array);
  }
  ModelContents contents;
  contents.tensors.push_back({.name = name, .shape = header->shape, .values = {}, .type = type});
  const std::string problem = gather(values, 0, strides_of(*header), contents.tensors.back());
  return problem.empty() ? contents : refused(problem, save_array);
}

ModelContents read_npy_file(const std::filesystem::path& file) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(file, error);
  if (error) return refused("it cannot be opened: " + error.message(), "name a .npy file");
  std::ifstream in(file, std::ios::binary);
  std::vector<std::byte> bytes(size);
  if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size))) {
    return refused("it cannot be read", "name a .npy file");
  }
  return read_npy(bytes, file.stem().string());
}

ModelContents read_npz_file(const std::filesystem::path& file) {
  constexpr std::string_view ending = ".npy";
  Archive archive(file);
  if (!archive.problem().empty()) {
    return refused(archive.problem(), "write it again with np.savez");
  }
  ModelContents contents;
  for (std::size_t i = 0; i < archive.entries().size(); ++i) {
    const std::string& name = archive.entries()[i].name;
    if (!name.ends_with(ending)) {
      contents.left_out.push_back(name);
      continue;
    }
    std::vector<std::byte> bytes;
    const std::string problem = archive.read(i, bytes);
    if (!problem.empty()) return refused(problem, "write it again with np.savez");
    ModelContents array = read_npy(bytes, name.substr(0, name.size() - ending.size()));
    if (!array.reason.empty()) return array;
    contents.tensors.push_back(std::move(array.tensors.front()));
  }
  if (contents.tensors.empty()) return refused("it has no arrays", "write it with np.savez");
  return contents;
}

std::string write_npy_file(const std::filesystem::path& file, const TensorView& tensor,
                           NumberType type) {
  const std::string header = header_of(tensor, type);
  const EncodedValues values(tensor.values, type);
  const std::filesystem::path temporary = file.string() + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out << header;
  out.write(reinterpret_cast<const char*>(values.bytes().data()),
            static_cast<std::streamsize>(values.bytes().size()));
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, file, error);
  if (out && !error) return {};
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  return "it cannot be written";
}

std::string write_npz_file(const std::filesystem::path& file,
                           const std::vector<TensorView>& tensors, NumberType type) {
  std::vector<EncodedValues> encoded;
  for (const TensorView& tensor : tensors) encoded.emplace_back(tensor.values, type);
  std::vector<ArchivePart> parts;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parts.push_back({tensors[i].name + ".npy", header_of(tensors[i], type), encoded[i].bytes()});
  }
  return write_archive(file, parts);
}

}  // namespace gv
