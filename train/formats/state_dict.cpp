// Walks through the values of a pickle, and writes the pickle of a state dict.
#include "train/formats/state_dict.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

#include "base/check.hpp"
#include "base/printable.hpp"

namespace gv {
namespace {

/// The greatest depth of nested values. A model needs no more, and a value that contains itself
/// would have no end.
constexpr std::size_t depth_max = 32;
/// The most visits to values. A value that occurs several times is visited each time, so the number
/// of values does not limit the work.
constexpr std::size_t visits_max = 1 << 17;

class Walk {
 public:
  explicit Walk(const Pickle& pickle) : pickle_(pickle) {}

  StateDict run(const std::string& lone) {
    if (std::holds_alternative<PickledTensor>(pickle_.values[pickle_.root])) {
      visit(pickle_.root, lone, 0);
    } else {
      visit(pickle_.root, "", 0);
    }
    if (found_.problem.empty() && found_.tensors.empty()) found_.problem = "it has no tensors";
    return std::move(found_);
  }

 private:
  void visit(PickleRef ref, const std::string& name, std::size_t depth) {
    if (!found_.problem.empty()) return;
    if (depth > depth_max || ++visits_ > visits_max) {
      found_.problem = "its dictionaries are too deep or too large for a model";
      return;
    }
    const PickleValue& value = pickle_.values[ref];
    if (const auto* tensor = std::get_if<PickledTensor>(&value)) {
      add(name, *tensor);
    } else if (const auto* dict = std::get_if<PickleDict>(&value)) {
      for (const auto& [key, item] : dict->items) {
        visit(item, inside(name, text_of(pickle_.values[key])), depth + 1);
      }
    } else if (const auto* list = std::get_if<PickleList>(&value)) {
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        visit(list->items[i], inside(name, std::to_string(i)), depth + 1);
      }
    } else {
      found_.left_out.push_back(name);
    }
  }

  void add(const std::string& name, const PickledTensor& tensor) {
    if (!names_.insert(name).second) {
      found_.problem = "it has two tensors '" + printable(name, 200) + "'";
      return;
    }
    found_.tensors.emplace_back(name, tensor);
  }

  /// Returns a key in the form that it has as part of a tensor's name.
  std::string text_of(const PickleValue& key) {
    if (const auto* text = std::get_if<std::string>(&key)) return *text;
    if (const auto* number = std::get_if<std::int64_t>(&key)) return std::to_string(*number);
    found_.problem = "a key of a dictionary is neither a text nor a number";
    return {};
  }

  std::string inside(const std::string& name, const std::string& part) {
    constexpr std::size_t length_max = 1000;
    if (name.size() + part.size() > length_max) found_.problem = "a name in it is too long";
    return name.empty() ? part : name + "." + part;
  }

  const Pickle& pickle_;
  StateDict found_;
  std::set<std::string> names_;
  std::size_t visits_ = 0;
};

// ---- Writing ----

/// Appends the low `bytes` bytes of a number, in little-endian order.
void append_bytes(std::string& out, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    out += static_cast<char>((number >> (8 * i)) & 0xff);
  }
}

void append_whole(std::string& out, std::uint64_t number) {
  if (number < 256) {
    out += 'K';
    append_bytes(out, number, 1);
  } else if (number < (std::uint64_t{1} << 31)) {
    out += 'J';
    append_bytes(out, number, 4);
  } else {
    out += "\x8a\x08";
    append_bytes(out, number, 8);
  }
}

void append_text(std::string& out, std::string_view text) {
  out += 'X';
  append_bytes(out, text.size(), 4);
  out += text;
}

void append_tuple(std::string& out, const std::vector<std::size_t>& numbers) {
  out += '(';
  for (const std::size_t number : numbers) append_whole(out, number);
  out += 't';
}

std::string_view storage_class(NumberType type) {
  switch (type) {
    case NumberType::f32:
      return "FloatStorage";
    case NumberType::f16:
      return "HalfStorage";
    case NumberType::bf16:
      return "BFloat16Storage";
    default:
      check(false, "models are written as floats");
      return {};
  }
}

/// Returns the strides of a tensor whose elements are contiguous.
std::vector<std::size_t> dense_strides(const std::vector<std::size_t>& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

constexpr std::string_view ordered_dict = "ccollections\nOrderedDict\n)R";

}  // namespace

StateDict state_dict_of(const Pickle& pickle, const std::string& lone) {
  return Walk(pickle).run(lone);
}

std::string pickle_of(const std::vector<TensorView>& tensors, NumberType type) {
  std::string out = "\x80\x02";
  out += ordered_dict;
  out += '(';
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    append_text(out, tensors[i].name);
    out += "ctorch._utils\n_rebuild_tensor_v2\n((";
    append_text(out, "storage");
    out += "ctorch\n";
    out += storage_class(type);
    out += '\n';
    append_text(out, std::to_string(i));
    append_text(out, "cpu");
    append_whole(out, tensors[i].values.size());
    out += "tQK";  // The end of the tuple, the storage, and the offset 0.
    out += '\0';
    append_tuple(out, tensors[i].shape);
    append_tuple(out, dense_strides(tensors[i].shape));
    out += '\x89';  // The tensor needs no gradient, and has no hooks.
    out += ordered_dict;
    out += "tR";
  }
  out += "u.";
  return out;
}

}  // namespace gv
