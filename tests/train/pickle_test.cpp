// Pickles of state dicts are read the way PyTorch reads them, and all other pickles are refused.
#include "train/formats/pickle.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/formats/state_dict.hpp"

namespace gv {
namespace {

using namespace std::string_literals;

const std::string begin = "\x80\x02"s;
const std::string ordered_dict = "ccollections\nOrderedDict\n)R"s;

Pickle read(const std::string& text) { return read_pickle(std::as_bytes(std::span(text))); }

std::string number(std::uint8_t value) { return "K"s + static_cast<char>(value); }

std::string text(const std::string& value) {
  return "X"s + static_cast<char>(value.size()) + "\0\0\0"s + value;
}

/// A storage of `elements` floats with the key "0".
std::string storage(std::uint8_t elements, const std::string& type = "FloatStorage") {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text("0") + text("cpu") +
         number(elements) + "tQ";
}

std::string tensor(const std::string& stored, std::uint8_t offset, const std::string& shape,
                   const std::string& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + stored + number(offset) + shape + strides +
         "\x89" + ordered_dict + "tR";
}

/// A tensor of the shape (2, 3) in a storage of six floats.
std::string six() {
  return tensor(storage(6), 0, number(2) + number(3) + "\x86", number(3) + number(1) + "\x86");
}

/// The reason why a pickle is refused, either when it is read or as a state dict.
std::string refusal(const std::string& text) {
  const Pickle pickle = read(text);
  return pickle.problem.empty() ? state_dict_of(pickle, "lone").problem : pickle.problem;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a state dict as PyTorch writes it is read with its attributes and its memory",
          "[unit]") {
  // The pickle stores the dictionary, "storage" and the functions in its memo, and uses them again.
  const std::string pickle = begin + "ccollections\nOrderedDict\nq\0)Rq\1("s + text("0.weight") +
                             "ctorch._utils\n_rebuild_tensor_v2\nq\3(("s + text("storage") +
                             "q\4ctorch\nFloatStorage\n"s + text("0") + text("cuda:0") + number(6) +
                             "tQ" + number(0) + number(2) + number(3) + "\x86" + number(3) +
                             number(1) + "\x86\x89h\0)RtR"s + text("0.steps") +
                             "h\3((h\4ctorch\nLongStorage\n"s + text("1") + text("cpu") +
                             number(1) + "tQ" + number(0) + "))\x89h\0)RtRu}"s + text("_metadata") +
                             "h\0)R("s + text("") + "}" + text("version") + number(1) + "susb.";
  const Pickle read_back = read(pickle);
  REQUIRE(read_back.problem.empty());
  const StateDict dict = state_dict_of(read_back, "lone");
  REQUIRE(dict.problem.empty());
  CHECK(dict.left_out.empty());
  REQUIRE(dict.tensors.size() == 2);
  CHECK(dict.tensors[0].first == "0.weight");
  const PickledTensor& weight = dict.tensors[0].second;
  CHECK(weight.shape == std::vector<std::size_t>{2, 3});
  CHECK(weight.strides == std::vector<std::uint64_t>{3, 1});
  CHECK(weight.storage.key == "0");
  CHECK(weight.storage.elements == 6);
  CHECK(weight.storage.type == NumberType::f32);
  CHECK(dict.tensors[1].first == "0.steps");
  CHECK(dict.tensors[1].second.shape.empty());
  CHECK(dict.tensors[1].second.storage.type == NumberType::i64);
}

TEST_CASE("tensors inside dictionaries and lists are named by the way to them", "[unit]") {
  const std::string pickle = begin + "}(" + text("model") + "}" + text("w") + six() + "s" +
                             text("list") + "](" + six() + "Ne" + text("by") + "}" + number(7) +
                             six() + "s" + text("epoch") + number(3) + text("rate") +
                             "G\x3f\xf0\0\0\0\0\0\0"s + "u.";
  const StateDict dict = state_dict_of(read(pickle), "lone");
  REQUIRE(dict.problem.empty());
  std::vector<std::string> names;
  for (const auto& [name, own] : dict.tensors) names.push_back(name);
  CHECK(names == std::vector<std::string>{"model.w", "list.0", "by.7"});
  CHECK(dict.left_out == std::vector<std::string>{"list.1", "epoch", "rate"});
}

TEST_CASE("a lone tensor and a parameter are read", "[unit]") {
  const StateDict lone = state_dict_of(read(begin + six() + "."), "file");
  REQUIRE(lone.tensors.size() == 1);
  CHECK(lone.tensors[0].first == "file");
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n" + six() + "\x88" + ordered_dict + "\x87R";
  const StateDict dict = state_dict_of(read(begin + "}" + text("p") + parameter + "s."), "lone");
  REQUIRE(dict.problem.empty());
  REQUIRE(dict.tensors.size() == 1);
  CHECK(dict.tensors[0].second.shape == std::vector<std::size_t>{2, 3});
}

TEST_CASE("numbers of all lengths are read", "[unit]") {
  const Pickle pickle = read(begin +
                             "(K\xffM\1\2J\xff\xff\xff\xff\x8a\0\x8a\2\0\xff\x8a\10"
                             "\1\0\0\0\0\0\0\0t."s);
  REQUIRE(pickle.problem.empty());
  std::vector<std::int64_t> numbers;
  for (const PickleRef item : std::get<PickleList>(pickle.values[pickle.root]).items) {
    numbers.push_back(std::get<std::int64_t>(pickle.values[item]));
  }
  CHECK(numbers == std::vector<std::int64_t>{255, 513, -1, 0, -256, 1});
  CHECK(contains(read(begin + "\x8a\11"s + std::string(9, '\1') + ".").problem, "64 bits"));
}

TEST_CASE("a pickle that would run something is refused by the name of it", "[unit]") {
  CHECK(contains(refusal(begin + "cos\nsystem\n" + text("rm -rf /") + "\x85R."), "os.system"));
  CHECK(contains(refusal(begin + "c__torch__\nNet\n)\x81."), "__torch__.Net"));
  // Control characters in a name do not reach a terminal.
  CHECK(contains(refusal(begin + "cos\n\x1b[2Jx\n."), "\\x1b"));
  // These are other functions of the same modules, and storages that are not functions.
  CHECK(contains(refusal(begin + "ccollections\nCounter\n)R."), "collections.Counter"));
  CHECK(contains(refusal(begin + "ctorch\nFloatStorage\n)R."), "a function"));
  CHECK(contains(refusal(begin + ordered_dict.substr(0, ordered_dict.size() - 2) + "]\x85R."),
                 "ordered dictionary"));
  for (const char* other : {"\x81", "\x93", "i", "o", "P0\n", "S'x'\n", "0", "1", "2", "\x95"}) {
    INFO(static_cast<int>(static_cast<unsigned char>(other[0])));
    CHECK(contains(refusal(begin + other + "."), "is not known"));
  }
  for (const char* other : {"\x80\x04", "\x80\x03", "}]"}) {
    CHECK(contains(refusal(other + "}."s), "protocol 2"));
  }
}

TEST_CASE("a tensor that does not lie in its storage is refused", "[unit]") {
  const auto one = [](std::uint8_t side, std::uint8_t stride, std::uint8_t offset = 0) {
    return begin + tensor(storage(6), offset, number(side) + "\x85", number(stride) + "\x85") + ".";
  };
  CHECK(refusal(one(6, 1)).empty());
  CHECK(refusal(one(3, 2)).empty());
  CHECK(refusal(one(2, 5)).empty());
  CHECK(refusal(one(2, 3, 2)).empty());
  CHECK(refusal(one(0, 200, 200)).empty());  // Without elements, no stride is out of bounds.
  CHECK(refusal(one(1, 200, 5)).empty());    // With one element, the stride is never used.
  CHECK(contains(refusal(one(7, 1)), "more elements"));
  CHECK(contains(refusal(one(200, 0)), "more elements"));
  CHECK(contains(refusal(one(6, 1, 1)), "does not lie"));
  CHECK(contains(refusal(one(2, 6)), "does not lie"));
  CHECK(contains(refusal(one(1, 1, 6)), "does not lie"));
  const std::string scalar = begin + tensor(storage(0), 0, ")", ")") + ".";
  CHECK(contains(refusal(scalar), "does not lie"));
  // The products of these sizes wrap around in 64 bits.
  const std::string huge = "\x8a\10\0\0\0\0\0\0\0\x40"s;
  CHECK(!refusal(begin + tensor(storage(6), 0, number(5) + "\x85", huge + "\x85") + ".").empty());
  CHECK(!refusal(begin +
                 tensor(storage(6), 0, huge + number(4) + "\x86", number(0) + number(0) + "\x86") +
                 ".")
             .empty());
  CHECK(
      contains(refusal(begin + tensor(storage(6), 0, "\x8a\1\xff\x85"s, number(1) + "\x85") + "."),
               "negative"));
  CHECK(contains(refusal(begin + tensor(storage(6), 0, number(1) + "\x85", ")") + "."),
                 "as many strides"));
}

TEST_CASE("a pickle that is cut off anywhere is refused", "[unit]") {
  const std::string whole = begin + "}(" + text("a") + six() + text("b") + six() + "u.";
  REQUIRE(refusal(whole).empty());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    INFO(length);
    CHECK(!refusal(whole.substr(0, length)).empty());
  }
}

TEST_CASE("values of the wrong kind and stacks that run empty are refused", "[unit]") {
  for (const std::string& bad : {"."s,
                                 "t."s,
                                 "u."s,
                                 "e."s,
                                 "R."s,
                                 "Q."s,
                                 "q\0."s,
                                 "h\0."s,
                                 "}K\1s."s,
                                 "](K\1K\1u."s,
                                 "}(K\1u."s,
                                 "(](K\1t"s,
                                 "]b."s,
                                 "}]b."s,
                                 "NQ."s,
                                 ")Q."s,
                                 "N]R."s,
                                 "](a."s,
                                 "(."s,
                                 "ctorch\n"s,
                                 "c"s + std::string(300, 'x'),
                                 "X\xff\xff\xff\xff."s,
                                 "X\5\0\0\0ab."s,
                                 "\x86."s}) {
    INFO(bad);
    CHECK(!refusal(begin + bad).empty());
  }
}

TEST_CASE("dictionaries without end cost little and are refused", "[unit]") {
  // A list that contains itself.
  CHECK(contains(refusal(begin + "]q\0h\0a."s), "too deep"));
  // Lists within lists, deeper than in any model.
  const std::string deep = begin + std::string(40, ']') + std::string(39, 'a') + ".";
  CHECK(contains(refusal(deep), "too deep"));
  // Each list contains the one before it ten times. Together they have ten billion tensors.
  std::string laughs = begin + six() + "q\0"s;
  for (int level = 0; level < 10; ++level) {
    laughs += "](";
    for (int i = 0; i < 10; ++i) laughs += "h\0"s;
    laughs += "eq\0"s;
  }
  CHECK(contains(refusal(laughs + "."), "too large"));
  CHECK(contains(refusal(begin + "(" + std::string(pickle_values_max + 1, 'N') + "t."),
                 "too many values"));
  CHECK(contains(read(std::string(pickle_bytes_max + 1, 'N')).problem, "longer"));
}

TEST_CASE("a long key of a storage is refused because each use would copy it", "[unit]") {
  const auto with_key = [](std::size_t length) {
    const std::string stored = "(" + text("storage") + "ctorch\nFloatStorage\n" +
                               text(std::string(length, 'k')) + text("cpu") + number(6) + "tQ";
    return refusal(begin + tensor(stored, 0, number(6) + "\x85", number(1) + "\x85") + ".");
  };
  CHECK(with_key(200).empty());
  CHECK(contains(with_key(201), "a storage's key is too long"));
}

TEST_CASE("names that would be lost or confused are refused", "[unit]") {
  CHECK(contains(refusal(begin + "}(" + text("a") + six() + text("a") + six() + "u."),
                 "two tensors 'a'"));
  CHECK(contains(refusal(begin + "}" + "N" + six() + "s."), "neither a text nor a number"));
  CHECK(contains(refusal(begin + "}."), "no tensors"));
  std::string nested = six();
  for (int i = 0; i < 10; ++i) nested = "}" + text(std::string(120, 'n')) + nested + "s";
  CHECK(contains(refusal(begin + nested + "."), "too long"));
}

TEST_CASE("a pickle that is written is read back", "[unit]") {
  const std::vector<float> values(300);
  const NumberType type = GENERATE(NumberType::f32, NumberType::f16, NumberType::bf16);
  const std::vector<TensorView> tensors = {
      {"w", {30, 10}, values}, {"b", {}, std::span(values).first(1)}, {"none", {0, 4}, {}}};
  const StateDict dict = state_dict_of(read(pickle_of(tensors, type)), "lone");
  REQUIRE(dict.problem.empty());
  REQUIRE(dict.tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CHECK(dict.tensors[i].first == tensors[i].name);
    CHECK(dict.tensors[i].second.shape == tensors[i].shape);
    CHECK(dict.tensors[i].second.storage.type == type);
    CHECK(dict.tensors[i].second.storage.key == std::to_string(i));
    CHECK(dict.tensors[i].second.storage.elements == tensors[i].values.size());
  }
  CHECK(dict.tensors[0].second.strides == std::vector<std::uint64_t>{10, 1});
}

}  // namespace gv
