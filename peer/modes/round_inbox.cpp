// Assembles messages from their blocks.
#include "peer/modes/round_inbox.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/state_hash.hpp"

namespace gv {
namespace {

/// Incomplete messages are held for at most this many generations: the present one, and those that
/// may follow because ballots about them are under way. If there are more, the messages of the
/// oldest generation other than the present one are dropped.
constexpr std::size_t keys_kept = 3;

/// If rounds are never closed, this many taken messages of each peer are remembered. A delayed
/// block is overtaken by fewer messages than this.
constexpr std::size_t taken_kept = 64;

/// If only the newest message of a sender is of use, this many are held. Fewer would do, but blocks
/// of several messages may arrive interleaved.
constexpr std::size_t newest_kept = 4;

}  // namespace

InboxLimit inbox_limit(const MixRule& rule, const RoundPlan& plan, bool serves) {
  if (is_in_step(rule)) return {.messages = plan.waiting_max()};
  const bool newest_suffices = traits_of(rule).newest_suffices && !serves;
  return {.messages = newest_suffices ? newest_kept : RoundInbox::messages_max,
          .keeps_newest = true,
          .is_loss = !newest_suffices};
}

void RoundInbox::enter(std::uint64_t key, std::span<const PeerId> order, const InboxLimit& limit) {
  key_ = key;
  order_.assign(order.begin(), order.end());
  limit_ = limit;
  received_ = 0;
  whole_.clear();
  open_from_ = 0;
  open_from_each_.clear();
  std::map<Name, Arriving> early;
  if (const auto found = coming_.find(key); found != coming_.end()) early.swap(found->second);
  coming_.clear();
  for (auto& [name, message] : early) {
    if (std::ranges::count(order_, name.first) == 0 || !make_room(key, name)) continue;
    const std::size_t size = message.bytes.size();
    coming_[key][name] = std::move(message);
    if (settle(name)) {
      received_ += size;
    } else {
      coming_[key].erase(name);
    }
  }
}

bool RoundInbox::receive(PeerId from, const Block& block) {
  const Name name{from, block.id.number};
  const std::uint64_t key = block.id.session;
  if (block.id.owner != from) return false;
  if (key == key_ && (is_over(name) || std::ranges::count(order_, from) == 0)) return false;
  if (!coming_.contains(key) && coming_.size() >= keys_kept) {
    auto oldest = coming_.begin();
    if (oldest->first == key_) ++oldest;
    coming_.erase(oldest);
  }
  const bool is_new = !coming_[key].contains(name);
  if (is_new && block.offset != 0) return false;
  if (is_new && !make_room(key, name)) return false;
  Arriving& message = coming_[key].try_emplace(name, Arriving{Reassembly(most_), {}}).first->second;
  if (message.blocks.take(block) != BlockFit::next) return false;
  message.bytes.insert(message.bytes.end(), block.bytes.begin(), block.bytes.end());
  if (key != key_) return true;
  if (!settle(name)) {
    message.blocks.go_back_to(block.offset);
    message.bytes.resize(block.offset);
    return false;
  }
  received_ += block.bytes.size();
  return true;
}

/// Returns the number of the peer's messages that have arrived, partly or completely, and were not
/// taken.
std::size_t RoundInbox::waiting(std::uint64_t key, PeerId from) const {
  const auto count = [from](const auto& messages, auto counts) {
    std::size_t found = 0;
    for (auto at = messages.lower_bound({from, 0}); at != messages.end(); ++at) {
      if (at->first.first != from) break;
      found += counts(at->second);
    }
    return found;
  };
  const auto coming = coming_.find(key);
  std::size_t found = 0;
  if (coming != coming_.end()) found += count(coming->second, [](const auto&) { return true; });
  if (key == key_) found += count(whole_, [](const auto& bytes) { return bytes != nullptr; });
  return found;
}

/// Makes room for a new message, if necessary by dropping an older one. Returns false if the new
/// message is beyond the limit for its sender.
bool RoundInbox::make_room(std::uint64_t key, const Name& name) {
  const std::size_t most = key == key_ ? limit_.messages : std::max(limit_.messages, early_max);
  if (waiting(key, name.first) < most) return true;
  if (limit_.is_loss) ++dropped_;
  return limit_.keeps_newest && drop_older(key, name);
}

/// Drops the peer's oldest message that was not taken. Returns false if no such message is older
/// than `name`.
bool RoundInbox::drop_older(std::uint64_t key, const Name& name) {
  auto& coming = coming_[key];
  const auto part = coming.lower_bound({name.first, 0});
  const bool has_part = part != coming.end() && part->first < name;
  if (key != key_) {
    if (has_part) coming.erase(part);
    return has_part;
  }
  auto whole = whole_.lower_bound({name.first, 0});
  while (whole != whole_.end() && whole->first < name && whole->second == nullptr) ++whole;
  const bool has_whole = whole != whole_.end() && whole->first < name;
  if (!has_part && !has_whole) return false;
  const bool is_part = has_part && (!has_whole || part->first < whole->first);
  // A repeated block of the dropped message must not start the message again.
  std::uint64_t& open_from = open_from_each_[name.first];
  open_from = std::max(open_from, (is_part ? part->first : whole->first).second + 1);
  if (is_part) {
    coming.erase(part);
  } else {
    whole_.erase(whole);
  }
  return true;
}

std::size_t RoundInbox::held() const {
  std::size_t held = whole_.size();
  for (const auto& [key, messages] : coming_) held += messages.size();
  return held;
}

bool RoundInbox::has_since(PeerId from, std::uint64_t round) const {
  const auto message = whole_.lower_bound({from, round});
  return message != whole_.end() && message->first.first == from;
}

bool RoundInbox::has_news() const {
  return std::ranges::any_of(whole_, [](const auto& one) { return one.second != nullptr; });
}

/// If a message of this generation has arrived completely, moves it to the complete messages.
/// Returns false if the message is too long.
bool RoundInbox::settle(const Name& name) {
  Arriving& message = coming_[key_][name];
  const auto size = size_(name.second, message.bytes);
  if (!size) return true;
  if (!message.blocks.end_at(*size)) return false;
  if (!message.blocks.is_whole()) {
    message.bytes.reserve(*size);
    return true;
  }
  whole_[name] = std::make_shared<const std::vector<std::byte>>(std::move(message.bytes));
  coming_[key_].erase(name);
  return true;
}

/// True if the message has arrived completely, or if its round is closed.
bool RoundInbox::is_over(const Name& name) const {
  const auto& [from, round] = name;
  const auto open = open_from_each_.find(from);
  return round < open_from_ || (open != open_from_each_.end() && round < open->second) ||
         whole_.contains(name);
}

std::vector<MixMessage> RoundInbox::take(std::uint64_t last) {
  std::vector<MixMessage> messages;
  std::map<PeerId, std::size_t> taken;
  for (auto& [name, bytes] : whole_) {
    if (bytes && name.second <= last) {
      const auto rank = std::ranges::find(order_, name.first) - order_.begin();
      messages.push_back({.from = static_cast<std::size_t>(rank),
                          .round = name.second,
                          .bytes = std::exchange(bytes, nullptr)});
    }
    taken[name.first] += bytes == nullptr;
  }
  std::erase_if(whole_, [&](const auto& message) {
    const auto& [from, round] = message.first;
    if (message.second || taken[from] <= taken_kept) return false;
    --taken[from];
    open_from_each_[from] = round + 1;
    return true;
  });
  return messages;
}

void RoundInbox::close_before(std::uint64_t round) {
  open_from_ = round;
  std::erase_if(whole_, [&](const auto& message) { return message.first.second < round; });
  std::erase_if(coming_[key_], [&](const auto& message) { return message.first.second < round; });
}

bool operator==(const RoundInbox& a, const RoundInbox& b) { return equal_states(a, b); }

}  // namespace gv
