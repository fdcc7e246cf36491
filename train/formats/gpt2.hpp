// GPT-2's tensors under the names of Hugging Face's transformers, and as the built-in
// transformer's.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/safetensors.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// Tensors under other names. Usable only if `reason` is empty.
struct RenamedTensors {
  std::vector<Tensor> tensors;
  std::string reason;  ///< Why the tensors are not those of such a model.
  std::string remedy;
};

/// True if the names are those of a GPT-2 of Hugging Face: "wte.weight" and
/// "h.0.attn.c_attn.weight", perhaps below "transformer.".
bool is_gpt2(std::span<const Tensor> tensors);

/// What a GPT-2 is to be read into. 0 means all positions of the file, and a head of its own only
/// if it differs from the table.
struct Gpt2Use {
  std::size_t positions = 0;  ///< Positions of the model; those of the file may be more.
  bool has_own_head = false;  ///< The model's output layer has weights of its own.
};

/// The use in a model of this layout.
Gpt2Use use_in(const Layout& layout);

/// The tensors of a GPT-2 as those of the built-in transformer. Weights of its four kinds of
/// products are stored as (inputs, outputs) and are transposed. Causal masks are passed over. The
/// output layer gets biases of zero, which GPT-2 does not have, or those of "lm_head.bias".
RenamedTensors from_gpt2(std::vector<Tensor> tensors, const Gpt2Use& use);

/// The tensors of a built-in transformer under the names of GPT2LMHeadModel. Biases of the output
/// layer become "lm_head.bias", which only readers that know it take, or nothing if all are zero.
RenamedTensors to_gpt2(std::vector<Tensor> tensors);

}  // namespace gv
