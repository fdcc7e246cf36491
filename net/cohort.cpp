// The secret of a cohort, its file, and the keys derived from it, with libsodium.
#include "net/cohort.hpp"

#include <sodium.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "net/small_file.hpp"

namespace gv {
namespace {

constexpr SecretFileWords words{.what = "cohort's secret", .command = "grapevine keygen --cohort"};
constexpr int cohort_base64 = sodium_base64_VARIANT_ORIGINAL_NO_PADDING;
constexpr std::size_t secret_letters = 43;
constexpr std::string_view prefix = "cohort ";
constexpr char context[] = "cohort 1";

static_assert(sizeof context == crypto_kdf_CONTEXTBYTES + 1 && crypto_kdf_KEYBYTES == 32);

/// Finds the secret in a file's text. All other lines must be empty or begin with '#'.
std::optional<CohortSecret> secret_in(std::string_view text) {
  std::optional<CohortSecret> secret;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (secret || !line.starts_with(prefix)) return std::nullopt;
    line.remove_prefix(prefix.size());
    std::size_t length = 0;
    secret.emplace();
    if (line.size() != secret_letters ||
        sodium_base642bin(secret->data(), secret->size(), line.data(), line.size(), nullptr,
                          &length, nullptr, cohort_base64) != 0 ||
        length != secret->size()) {
      return std::nullopt;
    }
  }
  return secret;
}

}  // namespace

CohortSecret generate_cohort_secret() {
  CohortSecret secret{};
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

void write_cohort_secret(const CohortSecret& secret, SecretText& content) {
  content.text.reserve(secret_file_bytes_max);
  content.text = "# grapevine cohort: anyone who has this file can be any of its peers\n" +
                 std::string(prefix);
  SecretText line;
  line.text.resize(secret_letters + 1);  // Room for the zero byte that libsodium adds.
  sodium_bin2base64(line.text.data(), line.text.size(), secret.data(), secret.size(),
                    cohort_base64);
  content.text.append(line.text, 0, secret_letters);
  content.text += '\n';
}

Problems save_cohort_secret(const std::filesystem::path& file, const CohortSecret& secret) {
  SecretText content;
  write_cohort_secret(secret, content);
  return write_secret_file(file, content, words);
}

LoadedCohortSecret load_cohort_secret(const std::filesystem::path& file) {
  LoadedCohortSecret loaded;
  SecretText content;
  loaded.problems = read_secret_file(file, words, content);
  if (!loaded.problems.empty()) return loaded;
  std::optional<CohortSecret> secret = secret_in(content.text);
  if (!secret) {
    // The problem does not quote the file, because its text could be the secret.
    loaded.problems.push_back(
        {file.string(), "holds no line \"cohort \" and 43 characters of base64, or more than that",
         "copy the file from a machine that has it, or make another for all peers with `" +
             std::string(words.command) + "`"});
    return loaded;
  }
  loaded.secret = *secret;
  sodium_memzero(secret->data(), secret->size());
  return loaded;
}

KeyPair key_pair_of_rank(const CohortSecret& secret, std::size_t rank) {
  std::array<std::uint8_t, 32> seed{};
  crypto_kdf_derive_from_key(seed.data(), seed.size(), rank, context, secret.data());
  const KeyPair pair = key_pair_of_seed(seed);
  sodium_memzero(seed.data(), seed.size());
  return pair;
}

std::string name_of_rank(std::size_t rank) { return "rank-" + std::to_string(rank); }

std::vector<AuthorizedPeer> peers_of_cohort(const CohortSecret& secret, std::size_t ranks) {
  std::vector<AuthorizedPeer> peers;
  peers.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    KeyPair pair = key_pair_of_rank(secret, rank);
    peers.push_back({.name = name_of_rank(rank), .key = pair.public_key, .address = {}});
    sodium_memzero(pair.secret_key.data(), pair.secret_key.size());
  }
  return peers;
}

}  // namespace gv
