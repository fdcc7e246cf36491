// A secret that only two peers can compute, from their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/identity.hpp"
#include "net/lane_security.hpp"

namespace gv {

/// The token of a relayed lane. It is derived from the Diffie-Hellman secret of the two keys, the
/// stream, and the settings on which both must agree. So a lane opens only between these two peers,
/// and only if their settings are equal. Both ends get the same token. Returns nullopt for a key
/// that anyone could use.
std::optional<LaneToken> pair_token(
    const KeyPair& own, const PublicKey& other, std::uint64_t stream,
    const std::vector<std::pair<std::string, std::string>>& agreement);

}  // namespace gv
