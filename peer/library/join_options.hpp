// Makes the options of a host from a program's description of its peer.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/problems.hpp"
#include "peer/host/host.hpp"
#include "peer/library/grapevine.h"

namespace gv {

/// Returns a copy of the struct as the library declares it, with zeros for fields that an older
/// header of the program does not have. Throws if the struct's size is unset.
template <class Struct>
Struct known(const Struct* given, const char* name) {
  if (given == nullptr || given->size < sizeof given->size) {
    const std::string struct_name = name;
    throw std::invalid_argument(struct_name + ": set its field `size` to sizeof(" + struct_name +
                                ")");
  }
  Struct all{};
  std::memcpy(&all, given, std::min(given->size, sizeof all));
  return all;
}

inline std::string text_or(const char* text, std::string otherwise) {
  return text != nullptr ? text : std::move(otherwise);
}

/// Thrown if the peer that made the ticket has not answered within the program's patience. The text
/// is a sentence for the user that names the inviting peer and says when the ticket expires.
class InviterIsLate : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Makes the host's options, and reports their problems. With a ticket, asks the inviting peer for
/// admission, which may take ten seconds for each of that peer's addresses. While no address
/// answers, asks again as long as `patience_s` and the ticket allow, and then throws InviterIsLate.
/// Throws std::invalid_argument if fields exclude each other.
HostOptions options_of(const gv_options& given, Problems& problems);

/// Returns the problems as text, one per line.
std::string joined_text(const Problems& problems);

}  // namespace gv
