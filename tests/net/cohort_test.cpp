// Cohorts: the file with the secret, and the keys that follow from the secret.
#include "net/cohort.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

namespace fs = std::filesystem;

CohortSecret counting_secret() {
  CohortSecret secret{};
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::uint8_t>(i);
  return secret;
}

/// Writes a file that only we may read, and returns the problems of loading it.
Problems problems_of(const TemporaryFolder& folder, const std::string& text) {
  const fs::path file = folder.path() / "cohort";
  std::ofstream(file, std::ios::binary) << text;
  ::chmod(file.c_str(), 0600);
  return load_cohort_secret(file).problems;
}

}  // namespace

TEST_CASE("keys of ranks are those that another implementation derives from the secret", "[unit]") {
  // Computed in Python with hashlib and PyNaCl:
  //   seed = hashlib.blake2b(digest_size=32, key=secret, salt=rank.to_bytes(8, "little"),
  //                          person=b"cohort 1").digest()
  //   base64.b64encode(bytes(nacl.signing.SigningKey(seed).verify_key))
  const CohortSecret secret = counting_secret();
  CHECK(to_text(key_pair_of_rank(secret, 0).public_key) ==
        "ed25519:3nEoRAxgLF4gGUyAfyWfNc1bMGYftmLV21GtRHpmzqg");
  CHECK(to_text(key_pair_of_rank(secret, 1).public_key) ==
        "ed25519:eDWEokCf55rc9oeUmo3du7L8/EnvLXjdoerWMt97i8k");
  CHECK(to_text(key_pair_of_rank(secret, 4095).public_key) ==
        "ed25519:9hFS/fYCQQfieaKaHfKul7zLN9Qbzdwo4EoXGc/7PE4");
}

TEST_CASE("every rank of every cohort has a key and a name of its own", "[unit]") {
  std::set<PublicKey> keys;
  std::set<std::string> names;
  for (const AuthorizedPeer& peer : peers_of_cohort(counting_secret(), 100)) {
    keys.insert(peer.key);
    names.insert(peer.name);
    CHECK(is_peer_name(peer.name));
    CHECK(curve_key(peer.key).has_value());
  }
  for (const AuthorizedPeer& peer : peers_of_cohort(generate_cohort_secret(), 100)) {
    keys.insert(peer.key);
  }
  CHECK(keys.size() == 200);
  CHECK(names.size() == 100);
  CHECK(names.contains("rank-99"));
}

TEST_CASE("the secret of a cohort becomes a file that only its owner may read and comes back",
          "[unit]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "cohort";
  const CohortSecret secret = generate_cohort_secret();
  REQUIRE(save_cohort_secret(file, secret).empty());
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  const LoadedCohortSecret loaded = load_cohort_secret(file);
  CHECK(loaded.problems.empty());
  CHECK(loaded.secret == secret);

  const Problems again = save_cohort_secret(file, secret);
  REQUIRE(again.size() == 1);
  CHECK(again[0].reason.find("never overwritten") != std::string::npos);
  ::chmod(file.c_str(), 0640);
  const Problems open = load_cohort_secret(file).problems;
  REQUIRE(open.size() == 1);
  CHECK(open[0].remedy == "chmod 600 " + file.string());
}

TEST_CASE("a file that is not the secret of a cohort is refused without showing it", "[unit]") {
  const TemporaryFolder folder;
  const std::string line = "cohort AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n";
  CHECK(problems_of(folder, "# a comment\n\n" + line).empty());
  CHECK(problems_of(folder, line.substr(0, line.size() - 1)).empty());
  for (const std::string& text :
       {std::string(), line + line, line.substr(0, 40) + "\n", "secret" + line.substr(6),
        std::string("cohort \n"), std::string(5000, '#'), line + "x\n"}) {
    const Problems problems = problems_of(folder, text);
    INFO(text.substr(0, 60));
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].remedy.find("grapevine keygen --cohort") != std::string::npos);
    CHECK(to_string(problems[0]).find("AAEC") == std::string::npos);
  }
}

}  // namespace gv
