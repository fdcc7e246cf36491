// The files of a peer in a swarm with certificates: keys, certificates and revocations.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/problems.hpp"
#include "net/identity.hpp"

namespace gv {

/// The files in the folder "swarm" of a run folder: "key", "certificates", "config.toml", "data"
/// and, at the peer that has begun the swarm, "swarm_key".
struct SwarmFiles {
  PublicKey swarm{};
  KeyPair identity;
  std::optional<KeyPair> swarm_key;
  std::vector<Certificate> certificates;
  std::vector<Revocation> revocations;
  Problems problems;
};

std::filesystem::path swarm_folder(const std::filesystem::path& run_folder);

/// True if this run folder belongs to a peer of a swarm with certificates.
bool has_swarm(const std::filesystem::path& run_folder);

/// Reads the files. Unreadable certificates are a problem; Trust checks their content.
SwarmFiles read_swarm(const std::filesystem::path& run_folder);

/// Returns the key pair in the file `name` of that folder. If there is none, writes a new pair
/// first, so that an interrupted start continues with the same keys.
LoadedKeyPair keep_swarm_key(const std::filesystem::path& run_folder, const std::string& name);

/// Replaces the file of certificates. Returns false if that fails.
bool write_certificates(const std::filesystem::path& run_folder, const PublicKey& swarm,
                        const std::vector<Certificate>& certificates,
                        const std::vector<Revocation>& revocations);

/// Where a peer that joined by a ticket has its data.
struct DataPlace {
  std::string folder;          ///< The folder that its operator has named; empty: none.
  bool is_in_program = false;  ///< True if the program that it is a part of brings the data.
};

/// Writes where the data are, so that doctor can look at the same ones. The peer itself never reads
/// this file. Returns false if that fails.
bool write_data_place(const std::filesystem::path& run_folder, const DataPlace& place);

/// Reads that file. Empty if there is none.
DataPlace read_data_place(const std::filesystem::path& run_folder);

/// Converts certificates to the text of their file. The reverse returns nullopt for any other text.
std::string certificates_text(const PublicKey& swarm, const std::vector<Certificate>& certificates,
                              const std::vector<Revocation>& revocations);
std::optional<SwarmFiles> certificates_from_text(std::string_view text);

}  // namespace gv
