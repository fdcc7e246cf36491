// The member table: the state of each member, its unsent changes, and deadlines.
#include <algorithm>
#include <cmath>

#include "consensus/membership/membership_state.hpp"

namespace gv {
namespace {

constexpr std::size_t rumors_max = 8;  ///< The most rumours in one probe or answer.
/// Shortest time between two of our statements that differ only in progress.
constexpr Duration renewal_period = std::chrono::seconds(5);
/// Between two push-pulls, a peer that has finished training waits one period for every group of
/// this many other members.
constexpr std::size_t others_a_period = 16;

}  // namespace

/// When the suspicion of a member ends. Every further independent accuser makes it shorter
/// (Lifeguard, section 4).
Time Membership::State::suspicion_deadline(const Entry& entry) const {
  const double n = static_cast<double>(view.size());
  const double least = seconds(options.suspicion_min) * std::max(1.0, std::log10(n));
  const double most = least * options.suspicion_max_factor;
  const int expected = std::min(confirmations_max, static_cast<int>(view.size()) - 2);
  double timeout = least;
  if (expected >= 1) {
    // The first accuser starts the clock, and only further ones shorten the suspicion.
    const double confirmed =
        std::min<double>(expected, static_cast<double>(entry.suspected_by.size()) - 1);
    timeout = most - (most - least) * std::log(confirmed + 1) / std::log(expected + 1.0);
  }
  return entry.suspected_at + from_seconds(std::max(least, timeout));
}

/// The time between two comparisons of tables. A table has a row for each member, so in a large
/// swarm comparisons are most of what an idle peer sends. A peer that has finished can compare less
/// often, because rumours report changes to it, and peers that still train go on asking it.
Duration Membership::State::push_pull_period() const {
  if (self.member.progress.phase != Phase::done) return options.push_pull_period;
  const std::size_t periods = std::max<std::size_t>(1, others.size() / others_a_period);
  return options.push_pull_period * static_cast<int>(periods);
}

Time Membership::State::deadline() const {
  Time earliest = never;
  const auto at = [&](Time time) { earliest = std::min(earliest, time); };
  for (const PeerId peer : unwell) {
    const Entry& entry = others.at(peer);
    if (entry.member.state == MemberState::suspect) {
      at(suspicion_deadline(entry));
      at(entry.checked_at + options.probe_period);
    } else {
      at(entry.gone_at + options.forget_dead_after);
    }
  }
  for (const auto& [number, relay] : relays) at(relay.nack_at);
  for (const auto& [peer, contact] : unheard) at(contact.again_at);
  if (!others.empty()) at(next_push_pull);
  if (probe) {
    at(probe->asked_others ? probe->verdict_at : probe->indirect_at);
  } else if (view.size() > 1) {
    at(next_probe);
  }
  return earliest;
}

/// Sets another member's state and updates the view and the lists. No other function changes that
/// state.
void Membership::State::set_state(Entry& entry, MemberState state) {
  const PeerId peer = entry.member.id;
  entry.member.state = state;
  if (state == MemberState::alive) {
    unwell.erase(peer);
  } else {
    unwell.insert(peer);
  }
  if (is_live(state)) {
    view.insert(peer);
  } else {
    view.erase(peer);
  }
}

/// Forgets everything about `entry` and returns the next entry.
auto Membership::State::forget(std::map<PeerId, Entry>::iterator entry)
    -> std::map<PeerId, Entry>::iterator {
  const PeerId peer = entry->first;
  unwell.erase(peer);
  news.erase({-entry->second.transmissions_left, peer});
  strangers.erase(peer);
  view.erase(peer);
  std::erase(probe_order, peer);
  if (probe && probe->target == peer) probe.reset();
  return others.erase(entry);
}

/// Handles a call that comes much later than our deadline. In that case, this process has stalled,
/// and no other peer is at fault.
void Membership::State::absorb_stall(Time now) {
  if (due == never || now <= due + options.probe_timeout) return;
  const Duration stall = now - due;
  for (const PeerId peer : unwell) others.at(peer).suspected_at += stall;
  for (auto& [peer, stranger] : strangers) stranger.until += stall;
  probe.reset();
  relays.clear();
  next_probe = now;
  judge_health(1);
}

/// Signs the present values of our own entry as a new statement.
void Membership::State::renew_statement() {
  self.stated = self.member.progress;
  restate(self.member, *signer);
}

/// Called first when an input is handled. Absorbs a stall, and renews our statement if that is due.
void Membership::State::begin(Time now) {
  absorb_stall(now);
  if (self.stated == self.member.progress || now < stated_at + renewal_period) return;
  stated_at = now;
  renew_statement();
}

/// A member in the form in which we pass it on, with the progress that its signature covers.
Member Membership::State::told(const Entry& entry) {
  Member member = entry.member;
  member.progress = entry.stated;
  return member;
}

void Membership::State::spread(Entry& entry) {
  const double n = static_cast<double>(others.size() + 1);
  entry.told_to.clear();
  set_transmissions(entry, 4 * static_cast<int>(std::ceil(std::log10(n + 1))));
}

void Membership::State::set_transmissions(Entry& entry, int left) {
  if (&entry != &self) {
    news.erase({-entry.transmissions_left, entry.member.id});
    if (left > 0) news.insert({-left, entry.member.id});
  }
  entry.transmissions_left = left;
  if (left == 0) entry.told_to.clear();
}

/// True if `to` has got the entry's newest change from us, and the transmissions that are left are
/// needed for the peers that have not got it. Otherwise two peers that exchange many messages could
/// use up all transmissions, and a third peer that only we can reach would wait for push-pull.
bool Membership::State::is_kept_from(PeerId to, const Entry& entry) const {
  const std::size_t itself = view.contains(entry.member.id) ? 1 : 0;
  const std::size_t all = view.size() - 1 - (&entry == &self ? 0 : itself);
  const bool all_fit =
      entry.told_to.size() + static_cast<std::size_t>(entry.transmissions_left) > all;
  return !all_fit && entry.told_to.contains(to);
}

/// Returns the newest changes, those sent the fewest times first. A change about `to` itself is
/// always included, so that `to` can refute it.
std::vector<Member> Membership::State::rumors_for(PeerId to) {
  std::vector<Member> rumors;
  const auto about = others.find(to);
  if (about != others.end() && about->second.member.state != MemberState::alive) {
    rumors.push_back(told(about->second));
  }
  std::vector<Entry*> fresh;
  for (const auto& [told, peer] : news) {
    if (fresh.size() == rumors_max) break;
    Entry& entry = others.at(peer);
    if (peer != to && !is_kept_from(to, entry)) fresh.push_back(&entry);
  }
  if (self.transmissions_left > 0 && !is_kept_from(to, self)) {
    const auto less_told = std::ranges::find_if(fresh, [&](const Entry* entry) {
      return entry->transmissions_left <= self.transmissions_left;
    });
    fresh.insert(less_told, &self);
  }
  for (Entry* entry : fresh) {
    if (rumors.size() == rumors_max) break;
    rumors.push_back(told(*entry));
    entry->told_to.insert(to);
    set_transmissions(*entry, entry->transmissions_left - 1);
  }
  return rumors;
}

/// Forgets allowances that are full again.
void Membership::State::forget_rested(Time now) {
  for (auto* each : {&allowances.checks, &allowances.own_checks, &allowances.tables}) {
    std::erase_if(*each, [&](const auto& item) { return item.second <= now; });
  }
}

std::vector<PeerId> Membership::State::live_others() const {
  std::vector<PeerId> live = view.peers();
  std::erase(live, id());
  return live;
}

}  // namespace gv
