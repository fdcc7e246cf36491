// The tickets that this peer has made: which guests they admit, and how often.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "net/ticket.hpp"

namespace gv {

/// The terms of a ticket: how often, how long and for what it is valid.
struct TicketTerms {
  std::uint32_t uses = 1;        ///< How many machines may join with it.
  std::uint64_t valid_s = 3600;  ///< How long it lasts.
  bool may_invite = true;        ///< True if the machines that join may invite others and revoke.
};

/// The most tickets that a peer remembers.
inline constexpr std::size_t tickets_max = 64;
/// The most machines that may join with one ticket.
inline constexpr std::uint32_t ticket_uses_max = 256;

/// The tickets in a file that only its owner may read. The file holds the public keys of guests and
/// no secrets, so a ticket cannot be rebuilt from it. Expired tickets stay for a day, so that a
/// guest is told why it is refused.
class TicketBook {
 public:
  /// Reads the file, if there is one. Ignores invalid lines.
  explicit TicketBook(std::filesystem::path file);

  /// Records a new ticket. If there are too many, drops the one that expires first.
  Ticket make(const TicketTerms& terms, const std::string& address, const PublicKey& swarm,
              const PublicKey& inviter, std::uint64_t now_s);

  /// Why the guest with these keys may not join with `key`, as a sentence; empty if it may. A key
  /// that was admitted may ask again, because it may not have received the answer.
  std::string refusal(const PublicKey& guest, const PublicKey& key, std::uint64_t now_s) const;
  bool knows(const PublicKey& guest) const { return find(guest) != nullptr; }
  bool may_invite(const PublicKey& guest) const;
  void use(const PublicKey& guest, const PublicKey& key);

  /// The ticket that can still admit another machine and lasts longest; nullopt if there is none.
  struct Open {
    std::uint32_t uses_left = 0;
    std::uint64_t left_s = 0;
  };
  std::optional<Open> open_ticket(std::uint64_t now_s) const;

  /// The keys of guests that may get an answer. Forgets old tickets.
  std::vector<PublicKey> guests(std::uint64_t now_s);

 private:
  struct Entry {
    PublicKey guest{};
    std::uint32_t uses = 0;
    std::uint64_t expires_s = 0;
    bool may_invite = false;
    std::vector<PublicKey> joined;
  };

  const Entry* find(const PublicKey& guest) const;
  void write() const;

  std::filesystem::path file_;
  std::vector<Entry> entries_;
};

}  // namespace gv
