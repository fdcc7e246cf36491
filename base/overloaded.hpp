// One call with a body for each alternative of a variant.
#pragma once

namespace gv {

/// For std::visit: combines several functions into one with overloads.
template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // clang 14 does not deduce this by itself.

}  // namespace gv
