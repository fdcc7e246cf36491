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

/// The struct as the program's header declares it, with zeros for fields that the program does not
/// know yet. Throws if its size is unset.
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

/// The peer that has made the ticket has not answered within the program's patience. The text is a
/// sentence for the user: which peer does not answer, and when the ticket expires.
class InviterIsLate : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The options of the host, and their problems. With a ticket it asks the inviting peer, which may
/// take ten seconds for each of its addresses. While none answers, it asks again as long as
/// `patience_s` and the ticket allow, and then throws InviterIsLate. Throws std::invalid_argument
/// if fields exclude each other.
HostOptions options_of(const gv_options& given, Problems& problems);

/// Problems as text, a line for each.
std::string joined_text(const Problems& problems);

}  // namespace gv
