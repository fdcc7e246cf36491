// The text of tickets, and the keys derived from them, with libsodium.
#include "net/ticket.hpp"

#include <sodium.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/canonical.hpp"
#include "base/check.hpp"

namespace gv {
namespace {

constexpr std::string_view ticket_prefix = "gv1_";
constexpr int ticket_base64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
constexpr std::size_t checksum_bytes = 4;
constexpr std::size_t fixed_bytes = 32 + 32 + 16 + 8 + 1;
constexpr std::size_t ticket_bytes_max =
    fixed_bytes + ticket_addresses_max * (1 + ticket_address_bytes_max) + checksum_bytes;

using TicketBytes = std::vector<std::uint8_t>;

std::array<std::uint8_t, checksum_bytes> checksum_of(const std::uint8_t* bytes, std::size_t size) {
  std::array<std::uint8_t, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), bytes, size, nullptr, 0);
  std::array<std::uint8_t, checksum_bytes> sum{};
  std::copy_n(hash.begin(), sum.size(), sum.begin());
  return sum;
}

/// Moves the first `count` bytes of `from` to `to`. Returns false if there are fewer.
template <class Output>
bool take(std::span<const std::uint8_t>& from, std::size_t count, Output to) {
  if (from.size() < count) return false;
  std::copy_n(from.begin(), count, to);
  from = from.subspan(count);
  return true;
}

/// Reads a ticket from its bytes without the checksum. Returns false if they are not a ticket.
bool fill_ticket(std::span<const std::uint8_t> bytes, Ticket& ticket) {
  std::array<std::uint8_t, 8> expires{};
  std::array<std::uint8_t, 1> count{};
  const bool is_long_enough = take(bytes, ticket.swarm.size(), ticket.swarm.begin()) &&
                              take(bytes, ticket.inviter.size(), ticket.inviter.begin()) &&
                              take(bytes, ticket.secret.size(), ticket.secret.begin()) &&
                              take(bytes, expires.size(), expires.begin()) &&
                              take(bytes, 1, count.begin());
  if (!is_long_enough || count[0] == 0 || count[0] > ticket_addresses_max) return false;
  for (std::size_t i = expires.size(); i-- > 0;) {
    ticket.expires_s = ticket.expires_s << 8 | expires[i];
  }
  for (std::size_t i = 0; i < count[0]; ++i) {
    std::array<std::uint8_t, 1> length{};
    std::string address;
    if (!take(bytes, 1, length.begin()) || !take(bytes, length[0], std::back_inserter(address)) ||
        !is_address(address)) {
      return false;
    }
    ticket.addresses.push_back(std::move(address));
  }
  return bytes.empty() && curve_key(ticket.inviter).has_value();
}

KeyPair pair_from(std::string_view domain, std::span<const std::uint8_t> key,
                  const std::vector<PublicKey>& parts) {
  crypto_generichash_state state;
  std::array<std::uint8_t, 32> seed{};
  crypto_generichash_init(&state, key.empty() ? nullptr : key.data(), key.size(), seed.size());
  crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(domain.data()),
                            domain.size());
  for (const PublicKey& part : parts) {
    crypto_generichash_update(&state, part.data(), part.size());
  }
  crypto_generichash_final(&state, seed.data(), seed.size());
  const KeyPair pair = key_pair_of_seed(seed);
  sodium_memzero(seed.data(), seed.size());
  return pair;
}

}  // namespace

std::string to_text(const Ticket& ticket) {
  check(!ticket.addresses.empty() && ticket.addresses.size() <= ticket_addresses_max,
        "a ticket has one to four addresses");
  TicketBytes bytes;
  const auto add = [&](const auto& part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
  add(ticket.swarm);
  add(ticket.inviter);
  add(ticket.secret);
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(ticket.expires_s >> (8 * i) & 0xff));
  }
  bytes.push_back(static_cast<std::uint8_t>(ticket.addresses.size()));
  for (const std::string& address : ticket.addresses) {
    check(address.size() <= ticket_address_bytes_max, "an address has at most 255 bytes");
    bytes.push_back(static_cast<std::uint8_t>(address.size()));
    add(address);
  }
  add(checksum_of(bytes.data(), bytes.size()));
  std::string text(sodium_base64_encoded_len(bytes.size(), ticket_base64), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(), ticket_base64);
  text.pop_back();  // Removes the zero byte that libsodium adds.
  sodium_memzero(bytes.data(), bytes.size());
  return std::string(ticket_prefix) + text;
}

ReadTicket read_ticket(std::string_view text) {
  ReadTicket read;
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (!text.starts_with(ticket_prefix)) {
    read.problem = "this is no ticket: one begins with \"gv1_\"";
    return read;
  }
  text.remove_prefix(ticket_prefix.size());
  const std::string damaged = "the ticket is cut off or mistyped: its checksum is wrong";
  TicketBytes bytes(ticket_bytes_max);
  std::size_t length = 0;
  const bool is_text = text.size() <= 2 * ticket_bytes_max &&
                       sodium_base642bin(bytes.data(), bytes.size(), text.data(), text.size(),
                                         nullptr, &length, nullptr, ticket_base64) == 0;
  if (!is_text || length <= fixed_bytes + checksum_bytes) {
    read.problem = damaged;
    return read;
  }
  const std::size_t content = length - checksum_bytes;
  const auto sum = checksum_of(bytes.data(), content);
  if (!std::equal(sum.begin(), sum.end(), bytes.begin() + static_cast<std::ptrdiff_t>(content))) {
    read.problem = damaged;
  } else if (!fill_ticket(std::span(bytes).first(content), read.ticket)) {
    read.ticket = {};
    read.problem = "the ticket is not one that a peer has made";
  }
  sodium_memzero(bytes.data(), bytes.size());
  return read;
}

std::array<std::uint8_t, 16> generate_ticket_secret() {
  std::array<std::uint8_t, 16> secret{};
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

KeyPair guest_keys(const Ticket& ticket) {
  return pair_from("grapevine ticket 1", ticket.secret, {ticket.swarm, ticket.inviter});
}

KeyPair visitor_keys(const PublicKey& swarm) {
  return pair_from("grapevine visitor 1", {}, {swarm});
}

std::string JoinRequest::problem() const {
  return is_peer_name(name) ? std::string() : "the name of a guest is not a name";
}

std::vector<std::byte> request_bytes(const JoinRequest& request, const PublicKey& swarm,
                                     const PublicKey& inviter, const PublicKey& guest) {
  CanonicalBytes bytes("grapevine join 1");
  bytes.add(request.key, request.name, swarm, inviter, guest);
  return bytes.bytes();
}

std::string JoinAnswer::problem() const {
  if (certificates.size() > answer_certificates_max ||
      revocations.size() > answer_revocations_max || addresses.size() > answer_addresses_max) {
    return "an answer to a guest says too much";
  }
  const std::size_t bytes =
      std::accumulate(config.begin(), config.end(), std::size_t{0},
                      [](std::size_t sum, const std::string& piece) { return sum + piece.size(); });
  return bytes > config_bytes_max ? "the config for a guest is too long" : std::string();
}

}  // namespace gv
