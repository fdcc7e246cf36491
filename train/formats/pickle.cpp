// A stack machine with a memo, like pickle's own, for the few instructions that state dicts need.
#include "train/formats/pickle.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "base/printable.hpp"

namespace gv {
namespace {

/// The longest name of a function or of a storage.
constexpr std::size_t name_length_max = 200;

/// Thrown when the interpreter refuses a pickle.
struct Refusal {
  std::string reason;
};

/// The instructions, by their names in Python's pickletools.
enum class Instruction : std::uint8_t {
  mark = '(',
  stop = '.',
  none = 'N',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  long1 = 0x8a,
  binfloat = 'G',
  newtrue = 0x88,
  newfalse = 0x89,
  binunicode = 'X',
  empty_list = ']',
  append = 'a',
  appends = 'e',
  empty_tuple = ')',
  tuple = 't',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  empty_dict = '}',
  setitem = 's',
  setitems = 'u',
  binput = 'q',
  long_binput = 'r',
  binget = 'h',
  long_binget = 'j',
  global = 'c',
  binpersid = 'Q',
  reduce = 'R',
  build = 'b',
  proto = 0x80,
};

struct KnownGlobal {
  std::string_view module;
  std::string_view name;
  PickleValue value;
};

const std::vector<KnownGlobal>& known_globals() {
  static const std::vector<KnownGlobal> known = {
      {"collections", "OrderedDict", PickleFunction::ordered_dict},
      {"torch._utils", "_rebuild_tensor_v2", PickleFunction::rebuild_tensor},
      {"torch._utils", "_rebuild_parameter", PickleFunction::rebuild_parameter},
      {"torch", "FloatStorage", PickleStorageType{NumberType::f32}},
      {"torch", "DoubleStorage", PickleStorageType{NumberType::f64}},
      {"torch", "HalfStorage", PickleStorageType{NumberType::f16}},
      {"torch", "BFloat16Storage", PickleStorageType{NumberType::bf16}},
      {"torch", "LongStorage", PickleStorageType{NumberType::i64}},
      {"torch", "IntStorage", PickleStorageType{NumberType::i32}},
      {"torch", "ShortStorage", PickleStorageType{NumberType::i16}},
      {"torch", "CharStorage", PickleStorageType{NumberType::i8}},
      {"torch", "ByteStorage", PickleStorageType{NumberType::u8}},
      {"torch", "BoolStorage", PickleStorageType{NumberType::boolean}},
  };
  return known;
}

/// Throws unless the tensor is within its storage and has no more elements than that storage.
void check_view(const PickledTensor& tensor) {
  std::uint64_t elements = 1;
  std::uint64_t last = tensor.offset;
  if (std::ranges::find(tensor.shape, std::size_t{0}) != tensor.shape.end()) return;
  const std::uint64_t all = tensor.storage.elements;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const std::uint64_t side = tensor.shape[i];
    if (elements > all / side) throw Refusal{"a tensor has more elements than its storage"};
    elements *= side;
    // Sizes have at most 63 bits, so the sum of two sizes does not overflow.
    const bool is_outside = last >= all || (side > 1 && tensor.strides[i] > all / (side - 1));
    if (!is_outside) last += tensor.strides[i] * (side - 1);
    if (is_outside || last >= all) throw Refusal{"a tensor does not lie in its storage"};
  }
  if (last >= all) throw Refusal{"a tensor does not lie in its storage"};
}

class Machine {
 public:
  explicit Machine(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Runs the pickle to its end and returns its value. Throws Refusal.
  PickleRef run() {
    if (take(2) != std::string_view("\x80\x02")) {
      throw Refusal{"it is no pickle of protocol 2, which torch.save() writes"};
    }
    while (true) {
      const auto instruction = static_cast<Instruction>(take(1).front());
      if (instruction == Instruction::stop) return pop();
      const bool known = push_constant(instruction) || collect(instruction) ||
                         remember(instruction) || call(instruction);
      if (!known) throw Refusal{"the instruction " + hex(instruction) + " is not known"};
    }
  }

  std::vector<PickleValue> take_values() { return std::move(values_); }
  std::size_t position() const { return at_; }

 private:
  static std::string hex(Instruction instruction) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "0x%02x", static_cast<unsigned>(instruction));
    return text.data();
  }

  // ---- Input, stack and values ----

  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) throw Refusal{"it is cut off"};
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  /// Reads an unsigned little-endian number of `size` bytes.
  std::uint64_t take_number(std::size_t size) {
    std::uint64_t number = 0;
    std::memcpy(&number, take(size).data(), size);
    return number;
  }

  std::string_view take_line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_,
                                std::min(bytes_.size() - at_, name_length_max));
    const std::size_t length = rest.find('\n');
    if (length == std::string_view::npos) throw Refusal{"a name does not end"};
    return take(length + 1).substr(0, length);
  }

  void push(PickleValue value) {
    if (values_.size() >= pickle_values_max) throw Refusal{"it has too many values"};
    stack_.push_back(static_cast<PickleRef>(values_.size()));
    values_.push_back(std::move(value));
  }

  PickleRef pop() {
    // Values above a mark belong to the list that began at the mark.
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) throw Refusal{"it takes more values than there are"};
    const PickleRef top = stack_.back();
    stack_.pop_back();
    return top;
  }

  std::vector<PickleRef> pop_many(std::size_t count) {
    std::vector<PickleRef> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  std::vector<PickleRef> pop_to_mark() {
    if (marks_.empty()) throw Refusal{"it takes more values than there are"};
    std::vector<PickleRef> items = pop_many(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  /// Returns the value as a `Kind`. Throws if it has another type; `what` is the value's name in
  /// the refusal.
  template <class Kind>
  Kind& as(PickleRef ref, const char* what) {
    Kind* value = std::get_if<Kind>(&values_[ref]);
    if (value == nullptr) throw Refusal{std::string("it has another value in place of ") + what};
    return *value;
  }

  /// Returns the value on top of the stack as a `Kind`, and leaves it there.
  template <class Kind>
  Kind& top(const char* what) {
    const PickleRef ref = pop();
    stack_.push_back(ref);
    return as<Kind>(ref, what);
  }

  // ---- Instructions. Each of these groups returns false for an instruction of another group. ----

  bool push_constant(Instruction instruction) {
    using enum Instruction;
    switch (instruction) {
      case none:
        push(std::monostate());
        return true;
      case newtrue:
      case newfalse:
        push(instruction == newtrue);
        return true;
      case binint1:
      case binint2:
        push(static_cast<std::int64_t>(take_number(instruction == binint1 ? 1 : 2)));
        return true;
      case binint:
        push(std::int64_t{static_cast<std::int32_t>(take_number(4))});
        return true;
      case long1:
        push(take_long());
        return true;
      case binfloat:
        push(take_double());
        return true;
      case binunicode:
        push(std::string(take(take_number(4))));
        return true;
      default:
        return false;
    }
  }

  std::int64_t take_long() {
    const std::size_t size = take_number(1);
    if (size > sizeof(std::int64_t)) throw Refusal{"a number has more than 64 bits"};
    if (size == 0) return 0;
    const std::size_t unused = 8 * (sizeof(std::int64_t) - size);
    return static_cast<std::int64_t>(take_number(size) << unused) >> unused;
  }

  /// Reads a float. Floats are big-endian, unlike everything else in a pickle.
  double take_double() {
    std::array<char, sizeof(double)> bytes{};
    std::ranges::reverse_copy(take(bytes.size()), bytes.begin());
    return std::bit_cast<double>(bytes);
  }

  bool collect(Instruction instruction) {
    using enum Instruction;
    switch (instruction) {
      case mark:
        marks_.push_back(stack_.size());
        return true;
      case empty_list:
      case empty_tuple:
        push(PickleList());
        return true;
      case empty_dict:
        push(PickleDict());
        return true;
      case tuple:
        push(PickleList{pop_to_mark()});
        return true;
      case tuple1:
      case tuple2:
      case tuple3:
        push(PickleList{pop_many(1 + static_cast<std::size_t>(instruction) -
                                 static_cast<std::size_t>(tuple1))});
        return true;
      case append:
        extend(pop_many(1));
        return true;
      case appends:
        extend(pop_to_mark());
        return true;
      case setitem:
        set_items(pop_many(2));
        return true;
      case setitems:
        set_items(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  void extend(const std::vector<PickleRef>& items) {
    auto& list = top<PickleList>("a list").items;
    list.insert(list.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<PickleRef>& items) {
    if (items.size() % 2 != 0) throw Refusal{"a dictionary has a key without a value"};
    auto& dict = top<PickleDict>("a dictionary").items;
    for (std::size_t i = 0; i < items.size(); i += 2) dict.emplace_back(items[i], items[i + 1]);
  }

  bool remember(Instruction instruction) {
    using enum Instruction;
    switch (instruction) {
      case binput:
      case long_binput: {
        const std::uint64_t place = take_number(instruction == binput ? 1 : 4);
        const PickleRef ref = pop();
        stack_.push_back(ref);
        memory_[place] = ref;
        if (memory_.size() > pickle_values_max) throw Refusal{"it has too many values"};
        return true;
      }
      case binget:
      case long_binget: {
        const auto found = memory_.find(take_number(instruction == binget ? 1 : 4));
        if (found == memory_.end()) throw Refusal{"it uses a value that it has not stored"};
        stack_.push_back(found->second);
        return true;
      }
      default:
        return false;
    }
  }

  bool call(Instruction instruction) {
    using enum Instruction;
    switch (instruction) {
      case global:
        push_global();
        return true;
      case binpersid:
        push_storage(as<PickleList>(pop(), "a storage's description").items);
        return true;
      case reduce: {
        const PickleRef arguments = pop();
        const auto function = as<PickleFunction>(pop(), "a function");
        // Pass a copy, because adding new values moves the existing ones in memory.
        apply(function, PickleList(as<PickleList>(arguments, "arguments")).items);
        return true;
      }
      case build:
        // Drop the attributes of an ordered dictionary, which are the version numbers of modules.
        (void)as<PickleDict>(pop(), "attributes");
        (void)top<PickleDict>("a dictionary");
        return true;
      default:
        return false;
    }
  }

  void push_global() {
    const std::string_view module = take_line();
    const std::string_view name = take_line();
    for (const KnownGlobal& known : known_globals()) {
      if (known.module == module && known.name == name) return push(known.value);
    }
    throw Refusal{"it asks for " + printable(std::string(module) + "." + std::string(name)) +
                  ", which a state dict does not need"};
  }

  /// Pushes the storage that a persistent id describes: ("storage", type, key, device, number of
  /// elements).
  void push_storage(const std::vector<PickleRef>& items) {
    if (items.size() != 5 || as<std::string>(items[0], "a storage's description") != "storage") {
      throw Refusal{"it describes something stored that is no storage"};
    }
    // Every storage and tensor has a copy of the key, so the key's length is limited. torch.save()
    // writes a small number as the key.
    const std::string& key = as<std::string>(items[2], "a storage's key");
    if (key.size() > name_length_max) throw Refusal{"a storage's key is too long"};
    PickledStorage storage{.type = as<PickleStorageType>(items[1], "a storage's type").type,
                           .key = key,
                           .elements = whole(items[4])};
    push(std::move(storage));
  }

  std::uint64_t whole(PickleRef ref) {
    const std::int64_t number = as<std::int64_t>(ref, "a whole number");
    if (number < 0) throw Refusal{"a size is negative"};
    return static_cast<std::uint64_t>(number);
  }

  void apply(PickleFunction function, const std::vector<PickleRef>& arguments) {
    const std::size_t count = arguments.size();
    if (function == PickleFunction::ordered_dict) {
      if (count != 0) throw Refusal{"it makes an ordered dictionary of arguments"};
      push(PickleDict());
    } else if (function == PickleFunction::rebuild_parameter) {
      if (count != 3) throw Refusal{"a parameter has another number of arguments"};
      push(PickledTensor(as<PickledTensor>(arguments[0], "a parameter's tensor")));
    } else {
      push_tensor(arguments);
    }
  }

  /// Pushes the tensor with these arguments: (storage, offset, shape, strides, whether it has a
  /// gradient, hooks[, metadata]).
  void push_tensor(const std::vector<PickleRef>& arguments) {
    if (arguments.size() != 6 && arguments.size() != 7) {
      throw Refusal{"a tensor has another number of arguments"};
    }
    PickledTensor tensor{.storage = as<PickledStorage>(arguments[0], "a storage"),
                         .offset = whole(arguments[1])};
    const auto& shape = as<PickleList>(arguments[2], "a shape").items;
    const auto& strides = as<PickleList>(arguments[3], "strides").items;
    if (shape.size() != strides.size() || shape.size() > tensor_rank_max) {
      throw Refusal{"a tensor has as many strides as dimensions, and not too many"};
    }
    for (const PickleRef side : shape) tensor.shape.push_back(whole(side));
    for (const PickleRef stride : strides) tensor.strides.push_back(whole(stride));
    check_view(tensor);
    push(std::move(tensor));
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::vector<PickleValue> values_;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;  ///< The size of the stack at each mark.
  std::map<std::uint64_t, PickleRef> memory_;
};

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes) {
  Pickle pickle;
  if (bytes.size() > pickle_bytes_max) {
    pickle.problem = "its pickle is longer than that of any state dict";
    return pickle;
  }
  Machine machine(bytes);
  try {
    pickle.root = machine.run();
    pickle.values = machine.take_values();
  } catch (const Refusal& refusal) {
    pickle.problem =
        "its pickle, at byte " + std::to_string(machine.position()) + ": " + refusal.reason;
  }
  return pickle;
}

}  // namespace gv
