// Keys, key files and the allow-list: what is accepted and refused, and the messages to operators.
#include "net/identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/canonical.hpp"
#include "net/key_signer.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

namespace fs = std::filesystem;

struct Folder : TemporaryFolder {
  fs::path write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const fs::path file = path() / name;
    std::ofstream(file, std::ios::binary) << text;
    ::chmod(file.c_str(), mode);
    return file;
  }
};

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string text_of(const Problems& problems) {
  std::string text;
  for (const Problem& problem : problems) text += to_string(problem) + "\n";
  return text;
}

/// Something to sign.
struct Summary {
  std::uint64_t number = 0;
  std::string text;
};

std::string fresh_key() { return to_text(generate_key_pair().public_key); }

}  // namespace

TEST_CASE("a public key becomes text and back", "[unit]") {
  PublicKey counting{};
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<std::uint8_t>(i);
  // The text comes from another implementation of base64.
  const std::string text = "ed25519:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
  CHECK(to_text(counting) == text);
  CHECK(public_key_from_text(text) == counting);

  for (int i = 0; i < 100; ++i) {
    const PublicKey key = generate_key_pair().public_key;
    const std::string written = to_text(key);
    REQUIRE(written.size() == 51);
    REQUIRE(public_key_from_text(written) == key);
  }
}

TEST_CASE("text that is not exactly a key is refused", "[unit]") {
  const std::string good = "ed25519:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
  CHECK_FALSE(public_key_from_text(""));
  CHECK_FALSE(public_key_from_text(good + "="));
  CHECK_FALSE(public_key_from_text(good.substr(1)));
  // Keys had this form before peers signed with them.
  CHECK_FALSE(public_key_from_text(good.substr(8)));
  CHECK_FALSE(public_key_from_text(good + "A"));
  CHECK_FALSE(public_key_from_text(good.substr(0, 50) + "9"));  // Sets bits beyond the 256th.
  CHECK_FALSE(public_key_from_text(good.substr(0, 50) + "-"));  // Uses the URL alphabet.
  CHECK_FALSE(public_key_from_text(good.substr(0, 50) + " "));
  CHECK_FALSE(public_key_from_text(good.substr(0, 50) + std::string(1, '\0')));
}

TEST_CASE("a pair converts to the keys of a link as other programs convert them", "[unit]") {
  KeyPair pair;
  for (std::size_t i = 0; i < 32; ++i) pair.secret_key[i] = static_cast<std::uint8_t>(i);
  const auto bytes = [](std::string_view hex) {
    std::array<std::uint8_t, 32> key{};
    for (std::size_t i = 0; i < key.size(); ++i) {
      key[i] = static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(2 * i, 2)), nullptr, 16));
    }
    return key;
  };
  // The values come from PyNaCl with SigningKey(bytes(range(32))), and from the formulas of RFC
  // 8032 and 7748 by hand.
  pair.public_key = bytes("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8");
  const CurveKeyPair curve = curve_keys(pair);
  CHECK(curve.public_key ==
        bytes("4701d08488451f545a409fb58ae3e58581ca40ac3f7f114698cd71deac73ca01"));
  CHECK(curve.secret_key ==
        bytes("3894eea49c580aef816935762be049559d6d1440dede12e6a125f1841fff8e6f"));
  CHECK(curve_key(pair.public_key) == curve.public_key);
  CHECK_FALSE(curve_key(PublicKey{}));
}

TEST_CASE("keys of two signs that make one link key do not both stand in a list", "[unit]") {
  const Folder folder;
  const PublicKey key = generate_key_pair().public_key;
  PublicKey mirrored = key;
  mirrored[31] ^= 0x80;
  REQUIRE(curve_key(mirrored) == curve_key(key));
  const auto loaded = load_authorized_peers(
      folder.write("peers", "ada " + to_text(key) + "\nbob " + to_text(mirrored) + "\n"));
  CHECK(loaded.problems.size() == 1);
  CHECK(loaded.peers.size() == 1);
}

TEST_CASE("keys of earlier versions are refused in one line with the remedy", "[unit]") {
  const Folder folder;
  const std::string old = fresh_key().substr(8);
  const LoadedKeyPair pair =
      load_key_pair(folder.write("key", "public " + old + "\nsecret " + old + "\n"));
  REQUIRE(pair.problems.size() == 1);
  CHECK(pair.problems[0].remedy.find("grapevine keygen") != std::string::npos);
  const auto list = load_authorized_peers(folder.write("peers", "ada " + old + "\n"));
  REQUIRE(list.problems.size() == 1);
  CHECK(list.problems[0].reason.find("earlier version") != std::string::npos);
  CHECK(list.problems[0].remedy.find("grapevine keygen") != std::string::npos);
}

TEST_CASE("a signature holds for its key and its bytes alone", "[unit]") {
  const KeyPair us = generate_key_pair();
  const KeyPair them = generate_key_pair();
  const KeySigner ours(us, {{.name = "them", .key = them.public_key}});
  KeySigner theirs(them, {{.name = "us", .key = us.public_key}});
  const std::vector<std::byte> bytes = canonical_bytes("a domain", Summary{7, "text"});
  const Signature signature = ours.sign(bytes);
  CHECK(theirs.verify(peer_id(us.public_key), bytes, signature));
  CHECK(ours.verify(peer_id(us.public_key), bytes, signature));
  CHECK_FALSE(theirs.verify(peer_id(them.public_key), bytes, signature));
  CHECK_FALSE(theirs.verify(peer_id(us.public_key), canonical_bytes("a domain", Summary{8, "text"}),
                            signature));
  CHECK_FALSE(theirs.verify(peer_id(us.public_key),
                            canonical_bytes("another domain", Summary{7, "text"}), signature));
  Signature damaged = signature;
  damaged[40] ^= 1;
  CHECK_FALSE(theirs.verify(peer_id(us.public_key), bytes, damaged));
  // A peer that has left the list is no longer believed, although its key is valid.
  theirs.authorize({});
  CHECK_FALSE(theirs.verify(peer_id(us.public_key), bytes, signature));
}

TEST_CASE("a peer id is a fixed function of the key", "[unit]") {
  PublicKey counting{};
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<std::uint8_t>(i);
  // The first 8 bytes of Python's hashlib.blake2b(bytes(range(32)), digest_size=32), little-endian.
  CHECK(peer_id(counting) == PeerId{0x57e1ffc60512fcbULL});
  CHECK(peer_id(generate_key_pair().public_key) != peer_id(generate_key_pair().public_key));
}

TEST_CASE("names and addresses are told from what only looks like them", "[unit]") {
  for (const char* good : {"a", "node-1", "A.b_c-9"}) CHECK(is_peer_name(good));
  CHECK(is_peer_name(std::string(64, 'x')));
  CHECK_FALSE(is_peer_name(std::string(65, 'x')));
  for (const char* bad : {"", "a b", "a@b", "a/b", "\xc3\xa9"}) CHECK_FALSE(is_peer_name(bad));

  for (const char* good :
       {"host:1", "10.0.0.7:65535", "a-b.example_x:7400", "[::1]:9", "[2001:db8::7]:7400"}) {
    INFO(good);
    CHECK(is_address(good));
  }
  for (const char* bad : {"",         ":",         "host",       "host:",
                          ":80",      "host:0",    "host:65536", "host:99999999999",
                          "host:+1",  "host:-1",   "host:080",   "host:80 ",
                          "ho st:80", "*:80",      "::1:80",     "[::1]",
                          "[]:80",    "[host]:80", "[::1:80",    "tcp://host:80",
                          "host:8x"}) {
    INFO(bad);
    CHECK_FALSE(is_address(bad));
  }
}

TEST_CASE("a key pair survives its file and the file is private", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "key";
  const KeyPair pair = generate_key_pair();
  const mode_t old_mask = ::umask(0777);  // The file has the promised mode even with this umask.
  const Problems problems = save_key_pair(file, pair);
  ::umask(old_mask);
  CHECK(text_of(problems).empty());

  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  CHECK(read(file).starts_with("# grapevine key pair: keep this file to yourself\npublic " +
                               to_text(pair.public_key) + "\nsecret "));

  const LoadedKeyPair loaded = load_key_pair(file);
  CHECK(text_of(loaded.problems).empty());
  CHECK(loaded.pair.public_key == pair.public_key);
  CHECK(loaded.pair.secret_key == pair.secret_key);
}

TEST_CASE("an existing file is never overwritten with a key", "[unit]") {
  const Folder folder;
  const fs::path file = folder.write("key", "precious");
  const Problems problems = save_key_pair(file, generate_key_pair());
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].place == file.string());
  CHECK_FALSE(problems[0].remedy.empty());
  CHECK(read(file) == "precious");

  // A dangling link must be refused, because it would decide where the secret is written.
  fs::create_symlink(folder.path() / "elsewhere", folder.path() / "link");
  CHECK(save_key_pair(folder.path() / "link", generate_key_pair()).size() == 1);
  CHECK_FALSE(fs::exists(folder.path() / "elsewhere"));
  CHECK(save_key_pair(folder.path() / "no" / "such", generate_key_pair()).size() == 1);
}

TEST_CASE("a key file others can reach is refused with its remedy", "[unit]") {
  const Folder folder;
  const fs::path file = folder.path() / "key";
  REQUIRE(save_key_pair(file, generate_key_pair()).empty());
  for (const mode_t mode : {0601, 0602, 0604, 0610, 0620, 0640, 0700, 0644, 0666, 04600}) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    const LoadedKeyPair loaded = load_key_pair(file);
    INFO(std::oct << mode);
    REQUIRE(loaded.problems.size() == 1);
    CHECK(loaded.problems[0].remedy == "chmod 600 " + file.string());
    CHECK(loaded.pair.secret_key == KeyPair{}.secret_key);
  }
  REQUIRE(::chmod(file.c_str(), 0400) == 0);
  CHECK(load_key_pair(file).problems.empty());
  if (::geteuid() == 0) {  // Only root can give a file to another user.
    REQUIRE(::chown(file.c_str(), 1, 1) == 0);
    CHECK(load_key_pair(file).problems.size() == 1);
  }
}

TEST_CASE("a key file is a plain file and not a link or a pipe", "[unit]") {
  const Folder folder;
  REQUIRE(save_key_pair(folder.path() / "key", generate_key_pair()).empty());
  fs::create_symlink("key", folder.path() / "link");
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK(load_key_pair(folder.path() / "link").problems.size() == 1);
  CHECK(load_key_pair(folder.path() / "pipe").problems.size() == 1);
  CHECK(load_key_pair(folder.path()).problems.size() == 1);

  const LoadedKeyPair missing = load_key_pair(folder.path() / "none");
  REQUIRE(missing.problems.size() == 1);
  CHECK(missing.problems[0].remedy.find("grapevine keygen") != std::string::npos);
}

TEST_CASE("a damaged key file is refused without showing the secret", "[unit]") {
  const Folder folder;
  REQUIRE(save_key_pair(folder.path() / "key", generate_key_pair()).empty());
  const std::string good = read(folder.path() / "key");
  const std::size_t at = good.find("secret ");
  const std::string public_line = "public " + fresh_key() + "\n";
  const std::string secret_line = good.substr(at), secret = good.substr(at + 7, 51);

  const std::vector<std::string> damaged = {"",                           // Both keys are missing.
                                            good.substr(0, at),           // No secret.
                                            secret_line,                  // No public key.
                                            public_line + secret_line,    // Keys of two pairs.
                                            good + secret_line,           // The secret twice.
                                            good + "more\n",              // An extra line.
                                            good.substr(0, at) + secret,  // A missing keyword.
                                            good.substr(0, good.size() - 2),  // Cut short.
                                            good + std::string(5000, '\n'),   // Too long.
                                            good.substr(0, at) + "secret " + secret + " " + secret};
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    const LoadedKeyPair loaded =
        load_key_pair(folder.write("damaged" + std::to_string(i), damaged[i]));
    INFO(damaged[i]);
    CHECK_FALSE(loaded.problems.empty());
    CHECK(text_of(loaded.problems).find(secret.substr(8, 8)) == std::string::npos);
    CHECK(loaded.pair.secret_key == KeyPair{}.secret_key);
  }
}

TEST_CASE("the allow-list is read with comments and optional addresses", "[unit]") {
  const Folder folder;
  const std::string a = fresh_key(), b = fresh_key(), c = fresh_key();
  const LoadedAuthorizedPeers loaded = load_authorized_peers(
      folder.write("peers", "# our machines\n\nada " + a + "\n  bob\t" + b +
                                "   host.example:7400 # rack 2\r\ncyd " + c + " [::1]:7401"));
  CHECK(text_of(loaded.problems).empty());
  REQUIRE(loaded.peers.size() == 3);
  CHECK(loaded.peers[0].name == "ada");
  CHECK(to_text(loaded.peers[0].key) == a);
  CHECK(loaded.peers[0].address.empty());
  CHECK(loaded.peers[1].name == "bob");
  CHECK(to_text(loaded.peers[1].key) == b);
  CHECK(loaded.peers[1].address == "host.example:7400");
  CHECK(loaded.peers[2].address == "[::1]:7401");
}

TEST_CASE("every bad line of the allow-list is reported at once with its number", "[unit]") {
  const Folder folder;
  const std::string a = fresh_key(), b = fresh_key();
  const fs::path file = folder.write("peers",
                                     "ada " + a + "\n" +                            // 1 good
                                         "# a comment\n" +                          // 2 a comment
                                         "b@d " + fresh_key() + "\n" +              // 3 bad name
                                         "cyd\n" +                                  // 4 no key
                                         "dan short\n" +                            // 5 bad key
                                         "eve " + fresh_key() + " host\n" +         // 6 bad address
                                         "fay " + fresh_key() + " host:1 more\n" +  // 7 extra text
                                         "ada " + fresh_key() + "\n" +              // 8 same name
                                         "gus " + a + "\n" +                        // 9 same key
                                         "hal ed25519:" + std::string(43, 'A') + "\n" +  // 10 zero
                                         "\x1b[31m worse host:0\n" +    // 11 three faults at once
                                         "ivy " + b + " host:7400\n");  // 12 good
  const LoadedAuthorizedPeers loaded = load_authorized_peers(file);

  std::vector<std::string> places, expected;
  for (const Problem& problem : loaded.problems) {
    places.push_back(problem.place);
    CHECK_FALSE(problem.reason.empty());
    CHECK_FALSE(problem.remedy.empty());
    CHECK(std::ranges::all_of(to_string(problem), [](char c) { return c >= ' ' && c <= '~'; }));
  }
  for (const int line : {3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 11}) {
    expected.push_back(file.string() + ":" + std::to_string(line));
  }
  CHECK(places == expected);
  CHECK(loaded.problems.at(5).reason.find("line 1 already") != std::string::npos);
  CHECK(loaded.problems.at(6).reason.find("line 1 already") != std::string::npos);
  REQUIRE(loaded.peers.size() == 2);
  CHECK(loaded.peers[1].name == "ivy");
}

TEST_CASE("an allow-list that is missing or huge or no file is a problem", "[unit]") {
  const Folder folder;
  const LoadedAuthorizedPeers missing = load_authorized_peers(folder.path() / "none");
  REQUIRE(missing.problems.size() == 1);
  CHECK(missing.problems[0].remedy.find("grapevine keygen") != std::string::npos);

  constexpr std::size_t limit = std::size_t{1} << 20;
  CHECK(load_authorized_peers(folder.write("full", std::string(limit, '\n'))).problems.empty());
  CHECK(load_authorized_peers(folder.write("over", std::string(limit + 1, '\n'))).problems.size() ==
        1);
  CHECK(load_authorized_peers(folder.path()).problems.size() == 1);
}

TEST_CASE("a list that shuts out the reader or everybody else does not replace another") {
  const AuthorizedPeer own{.name = "own", .key = generate_key_pair().public_key};
  const AuthorizedPeer first{.name = "first", .key = generate_key_pair().public_key};
  const AuthorizedPeer second{.name = "second", .key = generate_key_pair().public_key};
  const auto problems = [&](const std::vector<AuthorizedPeer>& current,
                            const std::vector<AuthorizedPeer>& next) {
    return problems_of_change("list", current, next, own.key).size();
  };
  CHECK(problems({own, first, second}, {}) == 2);
  CHECK(problems({own, first, second}, {own}) == 1);
  CHECK(problems({own, first}, {own, second}) == 1);
  CHECK(problems({own, first, second}, {first, second}) == 1);
  CHECK(problems({own, first, second}, {own, second}) == 0);
  CHECK(problems({own}, {own, first}) == 0);
  // A peer whose shard is set explicitly need not be on the list.
  CHECK(problems({first, second}, {second}) == 0);
}

}  // namespace gv
