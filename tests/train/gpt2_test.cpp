// A round trip through GPT-2's names and shapes, and tensors that only look like GPT-2's.
#include "train/formats/gpt2.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/formats/layout_fit.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

constexpr std::size_t vocabulary = 5;
constexpr std::size_t many = std::size_t{1} << 62;

/// The tensors of a model with two blocks, whose parameters count up.
std::vector<Tensor> transformer_tensors(bool tied) {
  const ModelSpec spec =
      transformer({.blocks = 2, .width = 4, .heads = 2, .tied = tied}, vocabulary);
  const Model model(spec, {3, 1, 1}, 1);
  std::vector<Tensor> tensors;
  float next = 1;
  for (const TensorSlot& slot : model.layout().slots()) {
    Tensor tensor{.name = slot.name, .shape = slot.shape};
    for (std::size_t i = 0; i < slot.size; ++i) tensor.values.push_back(next++);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Tensor& named(std::vector<Tensor>& tensors, const std::string& name) {
  for (Tensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  FAIL("no tensor " << name);
  return tensors.front();
}

}  // namespace

TEST_CASE("a transformer under GPT-2's names comes back as it was") {
  for (const bool tied : {true, false}) {
    const std::vector<Tensor> tensors = transformer_tensors(tied);
    RenamedTensors theirs = to_gpt2(tensors);
    REQUIRE(theirs.reason.empty());
    CHECK(is_gpt2(theirs.tensors));
    CHECK(!is_gpt2(tensors));
    // Weight matrices are stored as (inputs, outputs).
    const Tensor& product = named(theirs.tensors, "transformer.h.1.mlp.c_fc.weight");
    CHECK(product.shape == std::vector<std::size_t>{4, 16});
    std::vector<Tensor> ours = tensors;
    CHECK(product.values[1] == named(ours, "dense3.weight").values[4]);
    const Model model(transformer({.blocks = 2, .width = 4, .heads = 2, .tied = tied}, vocabulary),
                      {3, 1, 1}, 1);
    const Gpt2Use use = use_in(model.layout());
    CHECK(use.positions == 3);
    CHECK(use.has_own_head == !tied);
    const RenamedTensors back = from_gpt2(theirs.tensors, use);
    REQUIRE(back.reason.empty());
    const LayoutFit fit = fit_to(model.layout(), back.tensors);
    REQUIRE(fit.problem.empty());
    for (std::size_t i = 0; i < fit.parameters.size(); ++i) {
      CHECK(fit.parameters[i] == static_cast<float>(i + 1));
    }
  }
}

TEST_CASE("an empty matrix is transposed at once however many rows it has") {
  std::vector<Tensor> tensors = to_gpt2(transformer_tensors(true)).tensors;
  const std::string attention = "transformer.h.0.attn.c_attn.weight";
  named(tensors, attention) = {.name = attention, .shape = {many, 0}};
  RenamedTensors ours = from_gpt2(std::move(tensors), {.positions = 3});
  REQUIRE(ours.reason.empty());
  CHECK(named(ours.tensors, "attention1.qkv.weight").shape == std::vector<std::size_t>{0, many});
}

TEST_CASE("tensors that are not a GPT-2's are refused with their name") {
  const std::vector<Tensor> sound = to_gpt2(transformer_tensors(true)).tensors;
  const auto reason_of = [&](const std::function<void(std::vector<Tensor>&)>& change) {
    std::vector<Tensor> tensors = sound;
    change(tensors);
    return from_gpt2(std::move(tensors), {.positions = 3}).reason;
  };
  const std::string attention = "transformer.h.0.attn.c_attn.weight";
  CHECK(reason_of([](auto&) {}).empty());
  CHECK(reason_of([](auto& t) { t.front().shape = {4, 5}; }).empty() == false);
  CHECK(reason_of([&](auto& t) { named(t, attention).shape = {48}; }).find("no matrix") !=
        std::string::npos);
  CHECK(reason_of([&](auto& t) { named(t, attention).name = "x"; }).find("c_attn") !=
        std::string::npos);
  CHECK(reason_of([](auto& t) { named(t, "transformer.wte.weight").shape = {20}; }).find("wte") !=
        std::string::npos);
  CHECK(reason_of([](auto& t) {
          named(t, "transformer.wte.weight") = {.name = "wte.weight", .shape = {many, 0}};
        }).find("'wte.weight' is empty") != std::string::npos);
  CHECK(reason_of([](auto& t) { named(t, "transformer.wpe.weight").shape = {12}; }).find("wpe") !=
        std::string::npos);
  CHECK(reason_of([](auto& t) {
          t.push_back({.name = "more", .shape = {1}, .values = {1}});
        }).find("'more'") != std::string::npos);
  CHECK(from_gpt2({}, {}).reason.find("wte.weight") != std::string::npos);
  CHECK(to_gpt2({}).reason.find("embedding1.tokens") != std::string::npos);
}

}  // namespace gv
