// A cohort: peers whose keys are all derived from one secret, so that each peer can compute all
// keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/problems.hpp"
#include "net/identity.hpp"
#include "net/small_file.hpp"

namespace gv {

/// The common secret of all peers of a cohort. Must never be logged or sent: anyone who has it can
/// impersonate any peer of the cohort.
using CohortSecret = std::array<std::uint8_t, 32>;

/// A fresh secret from the system's randomness.
CohortSecret generate_cohort_secret();

/// Fills `content`, which must be empty, with the text of a file that holds `secret`.
void write_cohort_secret(const CohortSecret& secret, SecretText& content);

/// Creates `file` with mode 0600; refuses if it exists.
Problems save_cohort_secret(const std::filesystem::path& file, const CohortSecret& secret);

/// A secret, valid only if there are no problems.
struct LoadedCohortSecret {
  CohortSecret secret{};
  Problems problems;
};

/// Loads the secret from a regular file that we own and whose mode is 0600 or stricter. Refuses any
/// other file.
LoadedCohortSecret load_cohort_secret(const std::filesystem::path& file);

/// The key pair of a rank. Its seed is subkey number `rank` of the secret in the context "cohort 1"
/// (libsodium's crypto_kdf: keyed BLAKE2b with the number as its salt). The key of one rank reveals
/// neither the secret nor the key of another rank.
KeyPair key_pair_of_rank(const CohortSecret& secret, std::size_t rank);

/// Returns a name such as "rank-3".
std::string name_of_rank(std::size_t rank);

/// The allow-list of a cohort: ranks 0 to `ranks` - 1 in this order, without addresses.
std::vector<AuthorizedPeer> peers_of_cohort(const CohortSecret& secret, std::size_t ranks);

}  // namespace gv
