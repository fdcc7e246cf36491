// Stores a line for each ticket: the guest's key, the terms, the address in the ticket after "at=",
// and the keys already admitted.
#include "peer/host/ticket_book.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

constexpr std::uint64_t remembered_s = 24 * 3600;
/// Prefix of the field that holds the address. Earlier versions store no address and ignore this
/// field.
constexpr std::string_view address_mark = "at=";

}  // namespace

TicketBook::TicketBook(std::filesystem::path file, IsRevoked is_revoked)
    : file_(std::move(file)), is_revoked_(std::move(is_revoked)) {
  std::ifstream in(file_);
  std::string line;
  while (entries_.size() < tickets_max && std::getline(in, line)) {
    std::istringstream words(line);
    Entry entry;
    std::string guest, word;
    if (!(words >> guest >> entry.uses >> entry.expires_s >> entry.may_invite)) continue;
    const auto key = public_key_from_text(guest);
    if (!key || entry.uses > ticket_uses_max) continue;
    entry.guest = *key;
    while (entry.joined.size() < ticket_uses_max && words >> word) {
      if (word.starts_with(address_mark)) {
        entry.address = word.substr(address_mark.size());
      } else if (const auto one = public_key_from_text(word)) {
        entry.joined.push_back(*one);
      }
    }
    entries_.push_back(std::move(entry));
  }
}

const TicketBook::Entry* TicketBook::find(const PublicKey& guest) const {
  const auto found = std::ranges::find(entries_, guest, &Entry::guest);
  return found == entries_.end() ? nullptr : &*found;
}

std::optional<Ticket> TicketBook::make(const TicketTerms& terms, const std::string& address,
                                       const PublicKey& swarm, const PublicKey& inviter,
                                       std::uint64_t now_s) {
  if (entries_.size() == tickets_max) {
    const auto over = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return !refusal(entry, now_s).empty(); });
    if (over == entries_.end()) return std::nullopt;
    entries_.erase(over);
  }
  Ticket ticket{.addresses = {address},
                .swarm = swarm,
                .inviter = inviter,
                .secret = generate_ticket_secret(),
                .expires_s = now_s + terms.valid_s};
  entries_.push_back({.guest = guest_keys(ticket).public_key,
                      .uses = terms.uses,
                      .expires_s = ticket.expires_s,
                      .may_invite = terms.may_invite,
                      .address = address,
                      .joined = {}});
  write();
  return ticket;
}

std::string TicketBook::refusal(const Entry& entry, std::uint64_t now_s) const {
  if (now_s >= entry.expires_s) return "the ticket has expired";
  if (entry.joined.size() >= entry.uses) return "the ticket has been used";
  const bool is_known_outside = is_revoked_ && std::ranges::any_of(entry.joined, is_revoked_);
  return is_known_outside ? "a peer that joined with the ticket has been revoked" : "";
}

std::string TicketBook::refusal(const PublicKey& guest, const PublicKey& key,
                                std::uint64_t now_s) const {
  const Entry* entry = find(guest);
  if (entry == nullptr) return "this peer does not know the ticket";
  if (std::ranges::find(entry->joined, key) != entry->joined.end()) return {};
  return refusal(*entry, now_s);
}

bool TicketBook::may_invite(const PublicKey& guest) const {
  const Entry* entry = find(guest);
  return entry != nullptr && entry->may_invite;
}

void TicketBook::use(const PublicKey& guest, const PublicKey& key) {
  const auto entry = std::ranges::find(entries_, guest, &Entry::guest);
  if (entry == entries_.end()) return;
  if (std::ranges::find(entry->joined, key) != entry->joined.end()) return;
  entry->joined.push_back(key);
  write();
}

std::optional<TicketBook::Open> TicketBook::open_ticket(const std::string& address,
                                                        std::uint64_t now_s) const {
  std::optional<Open> longest;
  for (const Entry& entry : entries_) {
    if (entry.address != address || !refusal(entry, now_s).empty()) continue;
    const std::uint64_t left_s = entry.expires_s - now_s;
    if (longest && longest->left_s >= left_s) continue;
    longest = {.uses_left = entry.uses - static_cast<std::uint32_t>(entry.joined.size()),
               .left_s = left_s};
  }
  return longest;
}

std::vector<PublicKey> TicketBook::guests(std::uint64_t now_s) {
  const std::size_t before = entries_.size();
  std::erase_if(entries_,
                [&](const Entry& entry) { return entry.expires_s + remembered_s < now_s; });
  if (entries_.size() != before) write();
  std::vector<PublicKey> keys;
  for (const Entry& entry : entries_) keys.push_back(entry.guest);
  return keys;
}

/// Writes the file. Ignores failures: the tickets then last only as long as this process.
void TicketBook::write() const {
  std::string text;
  for (const Entry& entry : entries_) {
    text += fmt::format("{} {} {} {:d}", to_text(entry.guest), entry.uses, entry.expires_s,
                        entry.may_invite);
    if (!entry.address.empty()) text += fmt::format(" {}{}", address_mark, entry.address);
    for (const PublicKey& key : entry.joined) text += " " + to_text(key);
    text += '\n';
  }
  (void)replace_file(file_, text, Readers::owner, Lasts::on_disk);
}

}  // namespace gv
