// Keeps the tickets that this peer has made, and decides which guests they admit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "net/ticket.hpp"

namespace gv {

/// The terms of a ticket: how many machines may use it, for how long, and what it permits.
struct TicketTerms {
  std::uint32_t uses = 1;        ///< The number of machines that may join with the ticket.
  std::uint64_t valid_s = 3600;  ///< How long the ticket is valid, in seconds.
  bool may_invite = true;  ///< True if the machines that join may also invite and revoke others.
};

/// The largest number of tickets that a peer remembers.
inline constexpr std::size_t tickets_max = 64;
/// The largest number of machines that may join with one ticket.
inline constexpr std::uint32_t ticket_uses_max = 256;

/// The tickets of this peer, kept in a file that only its owner may read. The file holds public
/// keys of guests but no secrets, so no ticket can be rebuilt from it. An expired ticket is kept
/// for a day, so that its guests learn why they are refused. Once a key that joined with a ticket
/// is revoked, the ticket admits no more machines, because the holder of that key has the ticket.
class TicketBook {
 public:
  using IsRevoked = std::function<bool(const PublicKey&)>;

  /// Reads the file, if there is one. Ignores invalid lines. Without `is_revoked`, no key counts as
  /// revoked.
  explicit TicketBook(std::filesystem::path file, IsRevoked is_revoked = {});

  /// Records a new ticket. If the book is full, forgets a ticket that admits no more machines, or
  /// returns nullopt if there is no such ticket.
  std::optional<Ticket> make(const TicketTerms& terms, const std::string& address,
                             const PublicKey& swarm, const PublicKey& inviter, std::uint64_t now_s);

  /// Returns a sentence that says why the guest may not join with `key`; empty if the guest may
  /// join. A key that was admitted once may ask again, because the answer may have been lost.
  std::string refusal(const PublicKey& guest, const PublicKey& key, std::uint64_t now_s) const;
  bool knows(const PublicKey& guest) const { return find(guest) != nullptr; }
  bool may_invite(const PublicKey& guest) const;
  void use(const PublicKey& guest, const PublicKey& key);

  /// The ticket that stays valid longest among those that name this address and can still admit a
  /// machine; nullopt if there is none. Tickets in a file of an earlier version have no known
  /// address.
  struct Open {
    std::uint32_t uses_left = 0;
    std::uint64_t left_s = 0;
  };
  std::optional<Open> open_ticket(const std::string& address, std::uint64_t now_s) const;

  /// Returns the guest keys of all remembered tickets; requests signed with these keys may be
  /// answered. Forgets old tickets.
  std::vector<PublicKey> guests(std::uint64_t now_s);

 private:
  struct Entry {
    PublicKey guest{};
    std::uint32_t uses = 0;
    std::uint64_t expires_s = 0;
    bool may_invite = false;
    std::string address;  ///< The address in the ticket; empty if it is not known.
    std::vector<PublicKey> joined;
  };

  const Entry* find(const PublicKey& guest) const;
  /// Returns why the ticket admits no more machines; empty if it still admits some.
  std::string refusal(const Entry& entry, std::uint64_t now_s) const;
  void write() const;

  std::filesystem::path file_;
  IsRevoked is_revoked_;
  std::vector<Entry> entries_;
};

}  // namespace gv
