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
/// The longest of them.
inline constexpr std::size_t ticket_address_bytes_max = 255;

/// What a ticket says. Its secret must never be logged or sent.
struct Ticket {
  std::vector<std::string> addresses;  ///< Where the inviting peer can be dialled; at least one.
  PublicKey swarm{};
  PublicKey inviter{};
  std::array<std::uint8_t, 16> secret{};
  std::uint64_t expires_s = 0;  ///< In seconds since 1970.
};

/// "gv1_" and letters, digits, dashes and underscores. The last of them are a checksum.
std::string to_text(const Ticket& ticket);

/// A ticket, valid only if `problem` is empty.
struct ReadTicket {
  Ticket ticket;
  std::string problem;  ///< A sentence without a full stop. It does not repeat the text.
};

/// Accepts only what to_text() returns, and white space around it. Does not look at the time.
ReadTicket read_ticket(std::string_view text);

/// A fresh secret from the system's randomness.
std::array<std::uint8_t, 16> generate_ticket_secret();

/// The keys by which a guest with this ticket proves that it has the secret: the inviter admits
/// them to the handshake of CURVE. They follow from the secret, the swarm and the inviter, so no
/// other peer can use what it sees of them.
KeyPair guest_keys(const Ticket& ticket);

/// The keys by which anyone who knows a swarm's public key may show certificates, and nothing else.
KeyPair visitor_keys(const PublicKey& swarm);

/// What a guest asks for over a link with its ticket's keys.
struct JoinRequest {
  PublicKey key{};    ///< The key that is to belong to the swarm.
  std::string name;   ///< The name that it would like.
  Signature proof{};  ///< Its own signature of request_bytes().

  std::string problem() const;
  friend bool operator==(const JoinRequest&, const JoinRequest&) = default;
};

/// What a guest signs: all keys of this meeting, so that the proof serves no other one.
std::vector<std::byte> request_bytes(const JoinRequest& request, const PublicKey& swarm,
                                     const PublicKey& inviter, const PublicKey& guest);

/// The longest config that a guest is given.
inline constexpr std::size_t config_bytes_max = 32 * 1024;

/// What the guest gets: a refusal, or all that it needs.
struct JoinAnswer {
  std::string refusal;                    ///< A sentence; empty: it is welcome.
  std::vector<Certificate> certificates;  ///< Its own first, then those on which it rests.
  std::vector<Revocation> revocations;
  std::vector<std::string> config;     ///< The text of the run's config, in pieces.
  std::vector<std::string> addresses;  ///< Of other peers, as NAME@HOST:PORT.

  std::string problem() const;
  friend bool operator==(const JoinAnswer&, const JoinAnswer&) = default;
};

/// The most certificates and revocations in an answer; the guest hears the others when it trains.
inline constexpr std::size_t answer_certificates_max = 60;
inline constexpr std::size_t answer_revocations_max = 10;
inline constexpr std::size_t answer_addresses_max = 16;

}  // namespace gv
