// Makes the peers' keys, or reads those of an earlier run.
#include "sim/local/keys.hpp"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>
#include <system_error>

#include "net/identity.hpp"

namespace gv {

std::string peer_name(std::size_t number) { return fmt::format("peer-{}", number); }

void make_keys(const std::filesystem::path& folder, std::size_t peers) {
  std::string allow_list;
  for (std::size_t number = 0; number < peers; ++number) {
    const std::filesystem::path own = folder / peer_name(number);
    std::error_code error;
    std::filesystem::create_directories(own, error);
    if (error) {
      throw std::runtime_error(
          fmt::format("{} cannot be made a folder: {}", own.string(), error.message()));
    }
    KeyPair pair;
    if (std::filesystem::exists(own / "key")) {
      LoadedKeyPair loaded = load_key_pair(own / "key");
      if (!loaded.problems.empty()) throw std::runtime_error(to_string(loaded.problems.front()));
      pair = loaded.pair;
    } else {
      pair = generate_key_pair();
      const Problems problems = save_key_pair(own / "key", pair);
      if (!problems.empty()) throw std::runtime_error(to_string(problems.front()));
    }
    allow_list += peer_name(number) + " " + to_text(pair.public_key) + "\n";
  }
  std::ofstream(folder / "authorized_peers") << allow_list;
}

}  // namespace gv
