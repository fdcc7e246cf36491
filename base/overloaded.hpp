// Lets one call of std::visit have a body for each alternative of a variant.
#pragma once

namespace gv {

/// Combines several functions into one overloaded function, for std::visit.
template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;  // clang 14 does not deduce the template arguments by
                                         // itself.

}  // namespace gv
