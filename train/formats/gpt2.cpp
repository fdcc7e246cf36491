// Renames and transposes GPT-2's tensors, block by block.
#include "train/formats/gpt2.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/printable.hpp"

namespace gv {
namespace {

constexpr const char* prefix = "transformer.";

/// A tensor's name in GPT-2, its name in our models, and whether one matrix is the transpose of the
/// other.
struct Pair {
  std::string theirs;
  std::string ours;
  bool is_transposed = false;
};

/// The tensors of one transformer block. In our names, the block's two norms and its two dense
/// layers are numbered.
std::vector<Pair> pairs_of_block(std::size_t block) {
  const std::string h = "h." + std::to_string(block) + ".";
  const std::string attention = "attention" + std::to_string(block + 1);
  const std::string norms[] = {"norm" + std::to_string(2 * block + 1),
                               "norm" + std::to_string(2 * block + 2)};
  const std::string dense[] = {"dense" + std::to_string(2 * block + 1),
                               "dense" + std::to_string(2 * block + 2)};
  return {{h + "ln_1.weight", norms[0] + ".gain"},
          {h + "ln_1.bias", norms[0] + ".bias"},
          {h + "attn.c_attn.weight", attention + ".qkv.weight", true},
          {h + "attn.c_attn.bias", attention + ".qkv.bias"},
          {h + "attn.c_proj.weight", attention + ".out.weight", true},
          {h + "attn.c_proj.bias", attention + ".out.bias"},
          {h + "ln_2.weight", norms[1] + ".gain"},
          {h + "ln_2.bias", norms[1] + ".bias"},
          {h + "mlp.c_fc.weight", dense[0] + ".weight", true},
          {h + "mlp.c_fc.bias", dense[0] + ".bias"},
          {h + "mlp.c_proj.weight", dense[1] + ".weight", true},
          {h + "mlp.c_proj.bias", dense[1] + ".bias"}};
}

/// All tensors of a model with this number of transformer blocks, without its head, in the order of
/// its layers.
std::vector<Pair> pairs_of(std::size_t blocks) {
  std::vector<Pair> pairs = {{"wte.weight", "embedding1.tokens"},
                             {"wpe.weight", "embedding1.positions"}};
  for (std::size_t block = 0; block < blocks; ++block) {
    for (Pair& pair : pairs_of_block(block)) pairs.push_back(std::move(pair));
  }
  const std::string last = "norm" + std::to_string(2 * blocks + 1);
  pairs.push_back({"ln_f.weight", last + ".gain"});
  pairs.push_back({"ln_f.bias", last + ".bias"});
  return pairs;
}

std::string head_of(std::size_t blocks) { return "dense" + std::to_string(2 * blocks + 1); }

void transpose(Tensor& tensor) {
  const std::size_t rows = tensor.shape[0];
  const std::size_t columns = tensor.shape[1];
  tensor.shape = {columns, rows};
  // Return early, because a matrix without columns may claim any number of rows.
  if (tensor.values.empty()) return;
  std::vector<float> turned(tensor.values.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) turned[j * rows + i] = tensor.values[i * columns + j];
  }
  tensor.values = std::move(turned);
}

/// Tensors by name. Each can be taken once.
class Named {
 public:
  explicit Named(std::vector<Tensor> tensors) {
    for (Tensor& tensor : tensors) {
      std::string name = tensor.name;
      all_.insert_or_assign(std::move(name), std::move(tensor));
    }
  }

  bool has(const std::string& name) const { return all_.contains(name); }

  std::optional<Tensor> take(const std::string& name) {
    const auto node = all_.extract(name);
    if (!node) return std::nullopt;
    return std::move(node.mapped());
  }

  /// The name of a tensor that has not been taken; empty if all have been.
  std::string left() const { return all_.empty() ? std::string() : all_.begin()->first; }

 private:
  std::map<std::string, Tensor> all_;
};

RenamedTensors no_gpt2(std::string reason) {
  RenamedTensors result;
  result.reason = std::move(reason);
  result.remedy = "only GPT-2's stack can be read or written so: embedding, blocks, norm and head";
  return result;
}

/// Takes the tensor of a pair, renames it and transposes it if necessary. Returns the reason for a
/// failure, or an empty string.
std::string take_into(Named& from, const std::string& name, std::string new_name,
                      bool is_transposed, std::vector<Tensor>& into) {
  std::optional<Tensor> tensor = from.take(name);
  if (!tensor) return "it has no tensor '" + name + "'";
  if (is_transposed && tensor->shape.size() != 2) return "its tensor '" + name + "' is no matrix";
  if (is_transposed) transpose(*tensor);
  tensor->name = std::move(new_name);
  into.push_back(std::move(*tensor));
  return {};
}

/// Keeps only the first `positions` rows of the table, or all if `positions` is 0. Returns the
/// reason for a failure, or an empty string.
std::string cut(Tensor& table, std::size_t positions) {
  if (table.shape.size() != 2) return "its tensor 'wpe.weight' is no matrix";
  if (positions == 0) return {};
  if (table.shape[0] < positions) {
    return "it has " + std::to_string(table.shape[0]) + " positions, the model " +
           std::to_string(positions);
  }
  table.shape[0] = positions;
  table.values.resize(positions * table.shape[1]);
  return {};
}

bool is_mask(const std::string& name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

}  // namespace

bool is_gpt2(std::span<const Tensor> tensors) {
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(tensors, [&](const Tensor& tensor) {
      return tensor.name == name || tensor.name == prefix + name;
    });
  };
  return has("wte.weight") && has("h.0.attn.c_attn.weight");
}

Gpt2Use use_in(const Layout& layout) {
  const auto& slots = layout.slots();
  const auto find = [&](const std::string& name) {
    return std::ranges::find(slots, name, &TensorSlot::name);
  };
  Gpt2Use use;
  const auto table = find("embedding1.positions");
  if (table == slots.end()) return use;
  use.positions = table->shape[0];
  // The biases of the output layer are the model's last tensor.
  const std::string last = slots.back().name;
  use.has_own_head = find(last.substr(0, last.find('.')) + ".weight") != slots.end();
  return use;
}

RenamedTensors from_gpt2(std::vector<Tensor> tensors, const Gpt2Use& use) {
  std::erase_if(tensors, [](Tensor& tensor) {
    if (tensor.name.starts_with(prefix)) tensor.name.erase(0, std::string_view(prefix).size());
    return is_mask(tensor.name);
  });
  Named from(std::move(tensors));
  std::size_t blocks = 0;
  while (from.has("h." + std::to_string(blocks) + ".ln_1.weight")) ++blocks;
  RenamedTensors result;
  for (const Pair& pair : pairs_of(blocks)) {
    std::string problem =
        take_into(from, pair.theirs, pair.ours, pair.is_transposed, result.tensors);
    if (problem.empty() && pair.theirs == "wpe.weight") {
      problem = cut(result.tensors.back(), use.positions);
    }
    if (!problem.empty()) return no_gpt2(problem);
  }
  const std::string head = head_of(blocks);
  const Tensor& table = result.tensors.front();
  if (table.shape.size() != 2) return no_gpt2("its tensor 'wte.weight' is no matrix");
  // Refuse an empty table. A table without columns may claim any number of tokens, and memory is
  // needed for a bias of each token.
  if (table.values.empty()) return no_gpt2("its tensor 'wte.weight' is empty");
  Tensor own = from.take("lm_head.weight").value_or(table);
  const bool is_own = own.shape != table.shape || own.values != table.values;
  if (is_own && use.positions > 0 && !use.has_own_head) {
    return no_gpt2("its output layer has weights of its own, and the config's model is tied");
  }
  Tensor biases = from.take("lm_head.bias")
                      .value_or(Tensor{.shape = {table.shape[0]},
                                       .values = std::vector<float>(table.shape[0])});
  own.name = head + ".weight";
  biases.name = head + ".bias";
  if (is_own || use.has_own_head) result.tensors.push_back(std::move(own));
  result.tensors.push_back(std::move(biases));
  if (!from.left().empty()) {
    return no_gpt2("its tensor '" + printable(from.left(), 200) + "' is none of GPT-2's");
  }
  return result;
}

RenamedTensors to_gpt2(std::vector<Tensor> tensors) {
  Named from(std::move(tensors));
  std::size_t blocks = 0;
  while (from.has("attention" + std::to_string(blocks + 1) + ".qkv.weight")) ++blocks;
  RenamedTensors result;
  for (const Pair& pair : pairs_of(blocks)) {
    const std::string problem =
        take_into(from, pair.ours, prefix + pair.theirs, pair.is_transposed, result.tensors);
    if (!problem.empty()) return no_gpt2(problem);
  }
  const std::string head = head_of(blocks);
  Tensor weights = from.take(head + ".weight").value_or(result.tensors.front());
  weights.name = "lm_head.weight";
  result.tensors.push_back(std::move(weights));
  if (std::optional<Tensor> biases = from.take(head + ".bias")) {
    biases->name = "lm_head.bias";
    const bool is_zero = std::ranges::all_of(biases->values, [](float b) { return b == 0; });
    if (!is_zero) result.tensors.push_back(std::move(*biases));
  }
  if (!from.left().empty()) {
    return no_gpt2("its tensor '" + printable(from.left(), 200) + "' is none of a transformer's");
  }
  return result;
}

}  // namespace gv
