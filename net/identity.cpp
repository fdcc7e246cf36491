// Key pairs, their files and the allow-list, with libsodium.
#include "net/identity.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <stdexcept>
#include <utility>

#include "net/small_file.hpp"

namespace gv {
namespace {

constexpr int base64_variant = sodium_base64_VARIANT_ORIGINAL_NO_PADDING;
constexpr std::string_view key_prefix = "ed25519:";
constexpr std::size_t base64_length = 43;
constexpr std::size_t peers_file_bytes_max = std::size_t{1} << 20;

constexpr SecretFileWords key_words{.what = "key pair", .command = "grapevine keygen"};

static_assert(crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_SEEDBYTES == 32 &&
              crypto_scalarmult_curve25519_BYTES == 32);

void need_sodium() {
  static const bool ready = sodium_init() >= 0;
  if (!ready) throw std::runtime_error("libsodium cannot be initialised on this machine");
}

/// Makes an operator's text safe to print on a terminal, and at most one line long.
std::string quoted(std::string_view text) {
  constexpr std::size_t shown = 64;
  std::string out = "\"";
  for (const char c : text.substr(0, shown)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > shown ? "...\"" : "\"");
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::size_t length = std::min(text.find_first_of(separators), text.size());
    words.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
}

/// Calls `use(number, words)` for every line that holds more than a comment.
template <class Use>
void for_each_line(std::string_view text, Use use) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const auto words = split(line, " \t\r");
    if (!words.empty()) use(number, words);
  }
}

/// True for a key in the old form without a prefix, which was used before peers signed with keys.
bool is_old_key(std::string_view text) {
  return text.size() == base64_length && !text.starts_with(key_prefix);
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_name_character(char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; }

/// Extracts the two keys from the text of a key file.
LoadedKeyPair parsed_key_pair(const std::string& text, const std::string& place,
                              const std::string& remedy) {
  LoadedKeyPair loaded;
  const auto problem = [&](std::string where, std::string reason, std::string what_to_do) {
    loaded.problems.push_back({std::move(where), std::move(reason), std::move(what_to_do)});
  };
  // The problems below never repeat text of the file, because it could be the secret.
  std::optional<PublicKey> public_key, secret_key;
  bool is_old = false;
  for_each_line(text, [&](std::size_t number, const std::vector<std::string_view>& words) {
    const std::string line = place + ":" + std::to_string(number);
    const bool is_public = words[0] == "public", is_secret = words[0] == "secret";
    if ((!is_public && !is_secret) || words.size() != 2) {
      problem(line, "is neither \"public KEY\" nor \"secret KEY\"", remedy);
      return;
    }
    auto& key = is_public ? public_key : secret_key;
    if (key) {
      problem(line, "the " + std::string(words[0]) + " key is here twice", remedy);
      return;
    }
    key = public_key_from_text(words[1]);
    if (key) return;
    key.emplace();  // The line exists, so it must not also be reported as missing.
    if (!is_old_key(words[1])) {
      problem(
          line,
          "the " + std::string(words[0]) + " key is not \"ed25519:\" and 43 characters of base64",
          remedy);
    } else if (!std::exchange(is_old, true)) {
      problem(line, "this is a key of an earlier version, which cannot sign",
              "make a new one with `grapevine keygen`, and replace its line in all allow-lists");
    }
  });
  if (!public_key) problem(place, "holds no public key", remedy);
  if (!secret_key) problem(place, "holds no secret key", remedy);
  if (loaded.problems.empty()) {
    const KeyPair derived = key_pair_of_seed(*secret_key);
    if (derived.public_key == *public_key) {
      loaded.pair = derived;
    } else {
      problem(place, "the public key does not belong to the secret key", remedy);
    }
  }
  if (secret_key) sodium_memzero(secret_key->data(), secret_key->size());
  return loaded;
}

/// The lines of an allow-list, read one after the other.
struct AllowListLines {
  const std::string& place;
  LoadedAuthorizedPeers loaded = {};
  std::map<std::string, std::size_t, std::less<>> line_of_name = {};
  std::map<CurveKey, std::size_t> line_of_key = {};

  void problem(std::string where, std::string reason, std::string remedy) {
    loaded.problems.push_back({std::move(where), std::move(reason), std::move(remedy)});
  }
  void read(std::size_t number, const std::vector<std::string_view>& words);
};

void AllowListLines::read(std::size_t number, const std::vector<std::string_view>& words) {
  const std::string line = place + ":" + std::to_string(number);
  const std::size_t problems_before = loaded.problems.size();

  const std::string_view name = words[0];
  if (!is_peer_name(name)) {
    problem(line, quoted(name) + " is not a name",
            "use 1 to 64 letters, digits, dots, dashes or underscores");
  } else if (const auto [at, fresh] = line_of_name.emplace(name, number); !fresh) {
    problem(line,
            "the name " + quoted(name) + " is on line " + std::to_string(at->second) + " already",
            "give every peer a name of its own");
  }

  PublicKey key{};
  if (words.size() < 2) {
    problem(line, "there is no public key", "write NAME PUBLIC-KEY [HOST:PORT]");
  } else if (const auto parsed = public_key_from_text(words[1]); !parsed) {
    if (is_old_key(words[1])) {
      problem(line, "the public key is of an earlier version, which cannot sign",
              "make a new key at that peer with `grapevine keygen`, and copy the line it prints");
    } else {
      problem(line, "the public key is not \"ed25519:\" and 43 characters of base64",
              "copy the key that `grapevine keygen` printed");
    }
  } else if (const auto curve = curve_key(*parsed); !curve) {
    problem(line, "the public key is one that anybody could use",
            "make a key pair with `grapevine keygen`");
  } else if (const auto [at, fresh] = line_of_key.emplace(*curve, number); !fresh) {
    problem(line, "the public key is on line " + std::to_string(at->second) + " already",
            "make a key pair for every peer");
  } else {
    key = *parsed;
  }

  const std::string_view address = words.size() > 2 ? words[2] : std::string_view();
  if (words.size() > 2 && !is_address(address)) {
    problem(line, quoted(address) + " is not an address",
            "write HOST:PORT or [IPV6]:PORT with a port from 1 to 65535");
  }
  if (words.size() > 3) {
    problem(line, "there is more after the address", "start a comment with #");
  }
  if (loaded.problems.size() == problems_before) {
    loaded.peers.push_back({std::string(name), key, std::string(address)});
  }
}

}  // namespace

KeyPair generate_key_pair() {
  need_sodium();
  KeyPair pair;
  std::array<std::uint8_t, crypto_sign_SECRETKEYBYTES> whole{};
  crypto_sign_keypair(pair.public_key.data(), whole.data());
  crypto_sign_ed25519_sk_to_seed(pair.secret_key.data(), whole.data());
  sodium_memzero(whole.data(), whole.size());
  return pair;
}

KeyPair key_pair_of_seed(const std::array<std::uint8_t, 32>& seed) {
  need_sodium();
  KeyPair pair{.public_key = {}, .secret_key = seed};
  std::array<std::uint8_t, crypto_sign_SECRETKEYBYTES> whole{};
  crypto_sign_seed_keypair(pair.public_key.data(), whole.data(), seed.data());
  sodium_memzero(whole.data(), whole.size());
  return pair;
}

CurveKeyPair curve_keys(const KeyPair& pair) {
  need_sodium();
  CurveKeyPair curve;
  PublicKey derived{};
  std::array<std::uint8_t, crypto_sign_SECRETKEYBYTES> whole{};
  crypto_sign_seed_keypair(derived.data(), whole.data(), pair.secret_key.data());
  crypto_sign_ed25519_sk_to_curve25519(curve.secret_key.data(), whole.data());
  sodium_memzero(whole.data(), whole.size());
  crypto_scalarmult_curve25519_base(curve.public_key.data(), curve.secret_key.data());
  return curve;
}

std::optional<CurveKey> curve_key(const PublicKey& key) {
  need_sodium();
  CurveKey curve{};
  if (crypto_sign_ed25519_pk_to_curve25519(curve.data(), key.data()) != 0) return std::nullopt;
  return curve;
}

PeerId peer_id(const PublicKey& key) {
  need_sodium();
  std::array<std::uint8_t, 32> hash{};
  crypto_generichash(hash.data(), hash.size(), key.data(), key.size(), nullptr, 0);
  std::uint64_t id = 0;
  for (int i = 7; i >= 0; --i) id = id << 8 | hash[static_cast<std::size_t>(i)];
  return PeerId{id};
}

std::string to_text(const PublicKey& key) {
  need_sodium();
  // A single allocation, because the text may be a secret. libsodium ends it with a zero byte.
  std::string text(key_prefix.size() + base64_length + 1, '\0');
  key_prefix.copy(text.data(), key_prefix.size());
  sodium_bin2base64(text.data() + key_prefix.size(), base64_length + 1, key.data(), key.size(),
                    base64_variant);
  text.pop_back();
  return text;
}

std::optional<PublicKey> public_key_from_text(std::string_view text) {
  need_sodium();
  PublicKey key{};
  std::size_t length = 0;
  if (!text.starts_with(key_prefix)) return std::nullopt;
  text.remove_prefix(key_prefix.size());
  if (text.size() != base64_length ||
      sodium_base642bin(key.data(), key.size(), text.data(), text.size(), nullptr, &length, nullptr,
                        base64_variant) != 0 ||
      length != key.size()) {
    return std::nullopt;
  }
  return key;
}

bool is_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);

  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || port.front() == '0' ||
      number > 65535) {
    return false;
  }

  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    const std::string inner(host.substr(1, host.size() - 2));
    in6_addr parsed;
    return inner.find('\0') == std::string::npos &&
           inet_pton(AF_INET6, inner.c_str(), &parsed) == 1;
  }
  // ZeroMQ accepts no host that begins with a punctuation mark.
  return !host.empty() && host.size() <= 253 && is_letter_or_digit(host.front()) &&
         std::ranges::all_of(host, is_name_character);
}

Problems save_key_pair(const std::filesystem::path& file, const KeyPair& pair) {
  SecretText content;
  content.text.reserve(secret_file_bytes_max);
  content.text = "# grapevine key pair: keep this file to yourself\npublic ";
  content.text += to_text(pair.public_key);
  content.text += "\nsecret ";
  {
    SecretText secret;
    secret.text = to_text(pair.secret_key);
    content.text += secret.text;
  }
  content.text += '\n';

  return write_secret_file(file, content, key_words);
}

LoadedKeyPair load_key_pair(const std::filesystem::path& file) {
  const std::string place = file.string();

  SecretText content;
  Problems problems = read_secret_file(file, key_words, content);
  if (!problems.empty()) return {.problems = std::move(problems)};
  const std::string remedy = "restore it from a copy, or make a new one with `grapevine keygen`";
  return parsed_key_pair(content.text, place, remedy);
}

LoadedAuthorizedPeers load_authorized_peers(const std::filesystem::path& file) {
  const std::string place = file.string();
  LoadedAuthorizedPeers failed;
  const auto problem = [&](std::string where, std::string reason, std::string remedy) {
    failed.problems.push_back({std::move(where), std::move(reason), std::move(remedy)});
  };

  const File in(file, O_RDONLY | O_NONBLOCK);
  if (!in.is_open()) {
    const int error = errno;
    if (error == ENOENT) {
      problem(
          place, "no such file",
          "write one line \"NAME PUBLIC-KEY [HOST:PORT]\" per peer; `grapevine keygen` prints the "
          "public key");
    } else {
      problem(place, "cannot be opened: " + error_text(error), "check its owner and mode");
    }
    return failed;
  }
  struct stat status {};
  if (::fstat(in.fd(), &status) != 0 || !S_ISREG(status.st_mode)) {
    problem(place, "is not a regular file", "name the allow-list itself");
    return failed;
  }
  std::string content(peers_file_bytes_max + 1, '\0');
  if (!in.read(content)) {
    problem(place, "cannot be read: " + error_text(errno), "");
    return failed;
  }
  if (content.size() > peers_file_bytes_max) {
    problem(place, "is longer than 1 MiB", "check that this is the allow-list");
    return failed;
  }

  AllowListLines lines{.place = place};
  for_each_line(content, [&](std::size_t number, const std::vector<std::string_view>& words) {
    lines.read(number, words);
  });
  return std::move(lines.loaded);
}

Problems problems_of_change(const std::string& place, const std::vector<AuthorizedPeer>& current,
                            const std::vector<AuthorizedPeer>& next, const PublicKey& own) {
  const auto has = [](const std::vector<AuthorizedPeer>& list, const PublicKey& key) {
    return std::ranges::find(list, key, &AuthorizedPeer::key) != list.end();
  };
  Problems problems;
  if (has(current, own) && !has(next, own)) {
    problems.push_back({place, "this peer's own key is no longer in it",
                        "write the whole list, or end this peer if it is to leave the run"});
  }
  const auto is_other = [&](const AuthorizedPeer& peer) { return peer.key != own; };
  const bool had_others = std::ranges::any_of(current, is_other);
  const bool keeps_one = std::ranges::any_of(
      current, [&](const AuthorizedPeer& peer) { return is_other(peer) && has(next, peer.key); });
  if (had_others && !keeps_one) {
    problems.push_back({place, "none of the other peers so far is in it",
                        "write the whole list; to begin with other peers, start again"});
  }
  return problems;
}

}  // namespace gv
