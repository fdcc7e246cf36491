// The keys of a launched run's peers and the allow-list that names them all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace gv {

/// "peer-3": the name of a launched peer, and of its folder.
std::string peer_name(std::size_t number);

/// Makes `folder`/peer-K/key for each of `peers` peers, where it is missing, and writes
/// `folder`/authorized_peers. Throws std::runtime_error with a sentence for people.
void make_keys(const std::filesystem::path& folder, std::size_t peers);

}  // namespace gv
