// Copies a program's tensors that the library cannot read in place, such as those on a GPU.
#pragma once

#include <functional>

#include "peer/library/grapevine.h"

namespace gv {

/// Copies tensors that the library cannot read, to and from host memory that the program provides.
struct TensorCopies {
  enum class Part { model, state };
  /// The library calls `out` before it reads a part, and `in` after it has written one. They return
  /// false on failure. Both are empty if all tensors are in host memory.
  std::function<bool(Part part)> out;
  std::function<bool(Part part)> in;
};

/// Returns functions that call the program's `copy`; both are empty if `copy` is null.
TensorCopies copies_by(gv_copy copy, void* context);

}  // namespace gv
