// Tensors of a program that the library cannot read in place, such as those on a GPU.
#pragma once

#include <functional>

#include "peer/library/grapevine.h"

namespace gv {

/// Copies such tensors to the host memory that the program has provided, or back.
struct TensorCopies {
  enum class Part { model, state };
  /// Called before a part is read, and after it was written. Returns false on failure. Empty: all
  /// tensors are in host memory.
  std::function<bool(Part part)> out;
  std::function<bool(Part part)> in;
};

/// Copies by the program's function, which may be null.
TensorCopies copies_by(gv_copy copy, void* context);

}  // namespace gv
