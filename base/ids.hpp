// Identifiers with types of their own, so that an id cannot be confused with another integer.
#pragma once

#include <cstdint>
#include <string>

namespace gv {

/// A peer's id, derived from its public key. Whichever process holds the private key acts as the
/// peer.
enum class PeerId : std::uint64_t {};

/// Returns sixteen hexadecimal digits.
std::string to_string(PeerId id);

}  // namespace gv
