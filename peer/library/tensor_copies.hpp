// Tensors of a program that the library cannot read where they are, such as those on a GPU.
#pragma once

#include <functional>

#include "peer/library/grapevine.h"

namespace gv {

/// Copies such tensors to the memory that the program has named for them, or back.
struct TensorCopies {
  enum class Part { model, state };
  /// Called before a part is read, and after it was written. Returns false if that has failed.
  /// Empty: all tensors are where the program has named.
  std::function<bool(Part part)> out;
  std::function<bool(Part part)> in;
};

/// Copies by the program's function, which may be null.
TensorCopies copies_by(gv_copy copy, void* context);

}  // namespace gv
