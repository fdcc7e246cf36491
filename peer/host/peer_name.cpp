// Asks the system for the machine's name.
#include "peer/host/peer_name.hpp"

#include <unistd.h>

#include <array>

#include "net/identity.hpp"

namespace gv {

std::string machine_name() {
  std::array<char, 256> buffer{};
  const std::string name =
      ::gethostname(buffer.data(), buffer.size() - 1) == 0 ? buffer.data() : "";
  return is_peer_name(name) ? name : "peer";
}

Problems problems_of_name(std::string_view name) {
  if (is_peer_name(name)) return {};
  return {
      {"--name", "this is not a name", "use 1 to 64 letters, digits, dots, dashes or underscores"}};
}

}  // namespace gv
