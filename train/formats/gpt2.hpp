// Converts between GPT-2's tensors, as Hugging Face's transformers name them, and the built-in
// transformer's.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/safetensors.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// The tensors under their new names. Usable only if `reason` is empty.
struct RenamedTensors {
  std::vector<Tensor> tensors;
  std::string reason;  ///< Why the tensors cannot be converted.
  std::string remedy;
};

/// True if the names are those of a GPT-2 from Hugging Face: "wte.weight" and
/// "h.0.attn.c_attn.weight", possibly with the prefix "transformer.".
bool is_gpt2(std::span<const Tensor> tensors);

/// Properties of the model for which a GPT-2 is converted. If `positions` is 0, there is no such
/// model: all positions of the file are kept, and the head is separate only if it differs from the
/// table of tokens.
struct Gpt2Use {
  std::size_t positions = 0;  ///< Positions of the model. The file may have more.
  bool has_own_head = false;  ///< True if the model's output layer has its own weights.
};

/// Returns the Gpt2Use for a model with this layout.
Gpt2Use use_in(const Layout& layout);

/// Converts the tensors of a GPT-2 to those of the built-in transformer. GPT-2 stores the weights
/// of its four kinds of matrix products as (inputs, outputs), so they are transposed. Causal masks
/// are left out. The output layer gets the biases in "lm_head.bias", or zeros if there are none, as
/// in GPT-2.
RenamedTensors from_gpt2(std::vector<Tensor> tensors, const Gpt2Use& use);

/// Converts the tensors of a built-in transformer to those of GPT2LMHeadModel. Biases of the output
/// layer become "lm_head.bias", which only some programs read, and are left out if all are zero.
RenamedTensors to_gpt2(std::vector<Tensor> tensors);

}  // namespace gv
