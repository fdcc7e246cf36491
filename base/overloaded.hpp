// One call with a body for each alternative of a variant.
#pragma once

namespace gv {

/// For std::visit: the functions that it is made of, as one with overloads.
template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // clang 14 does not deduce it by itself.

}  // namespace gv
