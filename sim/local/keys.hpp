// The keys of a launched run's peers, and the allow-list that names all of them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace gv {

/// The name of a launched peer and of its folder, for example "peer-3".
std::string peer_name(std::size_t number);

/// Makes `folder`/peer-K/key for each of `peers` peers unless it exists, and writes
/// `folder`/authorized_peers. Throws std::runtime_error with a message for people.
void make_keys(const std::filesystem::path& folder, std::size_t peers);

}  // namespace gv
