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
/// and, at the peer that began the swarm, "swarm_key".
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

/// Reads the files. Reports unreadable certificates as a problem. Does not verify certificates;
/// that is the job of Trust.
SwarmFiles read_swarm(const std::filesystem::path& run_folder);

/// Returns the key pair in the file `name` of swarm_folder(). If there is none, first writes a new
/// pair, so that a peer whose start is interrupted keeps the same keys.
LoadedKeyPair keep_swarm_key(const std::filesystem::path& run_folder, const std::string& name);

/// Replaces the file of certificates. Returns false if that fails.
bool write_certificates(const std::filesystem::path& run_folder, const PublicKey& swarm,
                        const std::vector<Certificate>& certificates,
                        const std::vector<Revocation>& revocations);

/// Where a peer that joined with a ticket finds its data.
struct DataPlace {
  std::string folder;          ///< The folder that the operator named; empty if none was named.
  bool is_in_program = false;  ///< True if the program that contains the peer provides the data.
};

/// Records where the data are, so that `grapevine doctor` can check the same data. The peer itself
/// never reads this record. Returns false if it cannot be written.
bool write_data_place(const std::filesystem::path& run_folder, const DataPlace& place);

/// Reads the record of write_data_place(). Returns an empty place if the file does not exist.
DataPlace read_data_place(const std::filesystem::path& run_folder);

/// Converts certificates to the text of their file, and back. certificates_from_text() returns
/// nullopt if it cannot read the text.
std::string certificates_text(const PublicKey& swarm, const std::vector<Certificate>& certificates,
                              const std::vector<Revocation>& revocations);
std::optional<SwarmFiles> certificates_from_text(std::string_view text);

}  // namespace gv
