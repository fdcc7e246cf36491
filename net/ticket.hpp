// A ticket: one line of text with which a new machine joins a swarm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/identity.hpp"

namespace gv {

/// The most addresses in a ticket.
inline constexpr std::size_t ticket_addresses_max = 4;
/// The longest address in a ticket.
inline constexpr std::size_t ticket_address_bytes_max = 255;

/// The content of a ticket. Its secret must never be logged or sent.
struct Ticket {
  std::vector<std::string> addresses;  ///< Where the inviting peer can be dialled; at least one.
  PublicKey swarm{};
  PublicKey inviter{};
  std::array<std::uint8_t, 16> secret{};
  std::uint64_t expires_s = 0;  ///< Expiry in seconds since 1970.
};

/// Returns "gv1_" followed by letters, digits, dashes and underscores. The last characters are a
/// checksum.
std::string to_text(const Ticket& ticket);

/// A ticket that was read, valid only if `problem` is empty.
struct ReadTicket {
  Ticket ticket;
  std::string problem;  ///< A sentence without a full stop. It does not contain the ticket's text.
};

/// Reads a ticket. Accepts only the output of to_text(), possibly with white space around it. Does
/// not check whether the ticket has expired.
ReadTicket read_ticket(std::string_view text);

/// A fresh secret from the system's randomness.
std::array<std::uint8_t, 16> generate_ticket_secret();

/// The keys by which a guest with this ticket proves that it has the secret. The inviter admits
/// these keys to the CURVE handshake. They are derived from the secret, the swarm and the inviter,
/// so another peer that sees them cannot use them.
KeyPair guest_keys(const Ticket& ticket);

/// The keys of visitors. Anyone who knows a swarm's public key can compute them. These keys only
/// allow their user to show certificates.
KeyPair visitor_keys(const PublicKey& swarm);

/// A guest's request, sent over a link that uses its ticket's keys.
struct JoinRequest {
  PublicKey key{};    ///< The key to be admitted to the swarm.
  std::string name;   ///< The name that the guest wants.
  Signature proof{};  ///< The guest's own signature over request_bytes().

  std::string problem() const;
  friend bool operator==(const JoinRequest&, const JoinRequest&) = default;
};

/// The bytes that a guest signs. They contain all keys of this connection, so the proof is useless
/// on any other connection.
std::vector<std::byte> request_bytes(const JoinRequest& request, const PublicKey& swarm,
                                     const PublicKey& inviter, const PublicKey& guest);

/// The longest config that a guest may receive.
inline constexpr std::size_t config_bytes_max = 32 * 1024;

/// The answer to a guest: a refusal, or everything that it needs.
struct JoinAnswer {
  std::string refusal;                    ///< A sentence; empty if the guest is admitted.
  std::vector<Certificate> certificates;  ///< The guest's certificate, then those it depends on.
  std::vector<Revocation> revocations;
  std::vector<std::string> config;     ///< The text of the run's config, in pieces.
  std::vector<std::string> addresses;  ///< Addresses of other peers, as NAME@HOST:PORT.

  std::string problem() const;
  friend bool operator==(const JoinAnswer&, const JoinAnswer&) = default;
};

/// The most certificates and revocations in an answer. The guest receives the rest once it trains.
inline constexpr std::size_t answer_certificates_max = 60;
inline constexpr std::size_t answer_revocations_max = 10;
inline constexpr std::size_t answer_addresses_max = 16;

}  // namespace gv
