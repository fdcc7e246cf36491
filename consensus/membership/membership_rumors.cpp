// Rumours, suspicions and deaths of members, and how a member corrects them.
#include <chrono>
#include <utility>

#include "consensus/membership/membership_state.hpp"

namespace gv {
namespace {

/// How many new statements of one peer we verify. Only the peer itself can sign them, and an honest
/// peer makes one in five seconds and a few more when something changes. A hostile peer could make
/// thousands a second and keep all others busy.
constexpr Allowance verifications{.at_once = 16, .every = std::chrono::milliseconds(250)};
/// Within this time a peer that runs has reported over its own link to nearly all others. Only
/// peers to which no link can be opened never do so.
constexpr Duration strange_for = std::chrono::seconds(30);

}  // namespace

void Membership::State::suspect(Time now, Entry& entry, PeerId accuser, Effects& out) {
  if (!is_live(entry.member.state)) return;
  if (entry.member.state == MemberState::alive) {
    set_state(entry, MemberState::suspect);
    entry.suspected_at = now;
    entry.checked_at = now;
    entry.suspected_by.clear();
    out.tell(MemberSuspected{.peer = entry.member.id});
    spread(entry);
  }
  const bool more = static_cast<int>(entry.suspected_by.size()) <= confirmations_max;
  if (more && entry.suspected_by.insert(accuser).second) {
    entry.member.accuser = accuser;
    spread(entry);
  }
}

void Membership::State::declare(Time now, Entry& entry, MemberState state, Effects& out) {
  set_state(entry, state);
  entry.gone_at = now;
  spread(entry);
  if (probe && probe->target == entry.member.id) probe.reset();
  if (state == MemberState::dead) {
    out.tell(MemberDead{.peer = entry.member.id, .view = view.size()});
  } else {
    out.tell(MemberLeft{.peer = entry.member.id, .view = view.size()});
  }
}

void Membership::State::hear(Time now, PeerId from, const std::vector<Member>& members,
                             Effects& out) {
  bool refuted = false;
  std::vector<PeerId> met;
  for (const Member& rumor : members) {
    if (!authorized.contains(rumor.id)) continue;
    // A forgotten peer returns only by its own statement, which must be later than the last one
    // that we knew.
    const bool is_known = rumor.id == id() || others.contains(rumor.id);
    if (!is_known && rumor.id != from && !is_news(rumor)) {
      // If the peer is alive, it will send its own statement after we have introduced ourselves.
      if (is_live(rumor.state)) met.push_back(rumor.id);
      continue;
    }
    if (!is_known || is_news(rumor)) {
      // A peer's own link has an allowance of its own, so that others cannot use it up by passing
      // on old statements of the peer.
      auto& rested_at = rumor.id == from ? allowances.own_checks : allowances.checks;
      if (!verifications.is_left(now, rested_at[rumor.id])) continue;
      if (!is_signed(rumor, *signer)) {
        // Peers pass on only statements that they have verified, so the sender is at fault.
        // Verifying the rest of its message is not worth the time.
        out.tell(MessageRefused{.peer = from, .reason = Reason::forged});
        break;
      }
      verifications.take(now, rested_at[rumor.id]);
    }
    if (rumor.id == id()) {
      refuted = hear_of_self(now, rumor, out) || refuted;
    } else if (others.contains(rumor.id)) {
      hear_of(now, from, rumor, out);
    } else {
      meet(now, from, rumor, out);
      if (rumor.id != from && others.contains(rumor.id)) met.push_back(rumor.id);
    }
  }
  if (refuted) introduce(live_others(), out);
  // Peers that we have just learnt of may not know us, and rumours would take rounds to reach them.
  introduce(std::move(met), out);
}

/// True if the rumour is our present statement or an earlier one.
bool Membership::State::is_ours(const Member& rumor) const {
  const Member& me = self.member;
  return is_later_statement(me, rumor) ||
         (!is_later_statement(rumor, me) && rumor.signature == me.signature);
}

/// True if the statement is later than everything that we know of its peer. Any other statement
/// about a peer in the table changes nothing, so it is not verified.
bool Membership::State::is_news(const Member& rumor) const {
  if (rumor.id == id()) return !is_ours(rumor);
  const auto found = others.find(rumor.id);
  if (found != others.end()) return is_later_statement(rumor, found->second.member);
  const auto last = forgotten.find(rumor.id);
  return last == forgotten.end() || std::pair(rumor.incarnation, rumor.version) > last->second;
}

/// Corrects a wrong rumour about us by raising our incarnation. Returns true if all others should
/// learn of the correction at once, because the rumour said that we are suspected or dead.
bool Membership::State::hear_of_self(Time now, const Member& rumor, Effects& out) {
  Member& me = self.member;
  if (me.state == MemberState::left || rumor.incarnation < me.incarnation) return false;
  // A correction costs us a signature and messages to all, and a hostile peer can predict our next
  // incarnations. So we do not correct too often. A peer that still suspects us repeats its rumour,
  // and we correct it then.
  const bool is_soon = refuted_at && now < *refuted_at + options.probe_timeout;
  // A later statement than ours comes from an earlier process with this key. We overrule it at
  // once, because until then others ignore our statements.
  if (is_ours(rumor) && (rumor.state == MemberState::alive || is_soon)) return false;
  me.incarnation = rumor.incarnation + 1;
  renew_statement();
  spread(self);
  if (rumor.state == MemberState::alive || is_soon) return false;
  refuted_at = now;
  if (rumor.state == MemberState::left) return false;
  judge_health(1);
  out.tell(SelfRefuted{.held_for = rumor.state, .incarnation = me.incarnation});
  return true;
}

/// Adds a peer that we have not heard of before.
void Membership::State::meet(Time now, PeerId from, const Member& rumor, Effects& out) {
  if (others.size() + 1 >= options.members_max) return;
  // A rumour that an unknown peer is gone is not worth a place in the table.
  if (!is_live(rumor.state)) return;
  forgotten.erase(rumor.id);
  if (rumor.id != from) strangers[rumor.id] = {.until = now + strange_for};
  Entry& entry = others[rumor.id];
  entry.member = rumor;
  entry.stated = rumor.progress;
  set_state(entry, MemberState::alive);
  spread(entry);
  // A newcomer is placed at random in the probe order, so that it is not always probed last.
  probe_order.insert(
      probe_order.begin() + static_cast<std::ptrdiff_t>(rng.below(probe_order.size() + 1)),
      rumor.id);
  out.tell(MemberJoined{.peer = rumor.id, .address = rumor.address, .view = view.size()});
  if (rumor.state == MemberState::suspect) suspect(now, entry, accuser_of(from, rumor), out);
}

/// Adopts the peer's statement, whose signature was verified. Keeps the peer's state and accuser.
void Membership::State::take_statement(Entry& entry, const Member& rumor, bool own_word) {
  const Member before = std::exchange(entry.member, rumor);
  entry.stated = rumor.progress;
  entry.member.state = before.state;
  entry.member.accuser = before.accuser;
  // The peer may have reported more steps already over its own link.
  const bool is_same_life = rumor.incarnation == before.incarnation;
  // If both statements may be from an earlier run, only the peer's own report is certain.
  const auto stranger = strangers.find(rumor.id);
  const bool is_older = !own_word && stranger != strangers.end() && stranger->second.has_reported;
  if (is_older || (is_same_life && rumor.progress.step <= before.progress.step)) {
    entry.member.progress = before.progress;
  }
  if (own_word) strangers.erase(rumor.id);
}

/// From now on, believes what others pass on about members that we met a while ago and that seem to
/// run.
void Membership::State::accept_strangers(Time now) {
  std::erase_if(strangers, [&](const auto& item) {
    return now >= item.second.until && others.at(item.first).member.state == MemberState::alive;
  });
}

/// True if we know the member's progress only from others, and it may be that of an earlier run.
bool Membership::State::is_hearsay(const Entry& entry) const {
  const auto stranger = strangers.find(entry.member.id);
  return stranger != strangers.end() && !stranger->second.has_reported;
}

void Membership::State::hear_of(Time now, PeerId from, const Member& rumor, Effects& out) {
  Entry& entry = others.at(rumor.id);
  Member& known = entry.member;
  if (rumor.incarnation < known.incarnation) return;
  const bool is_raised = rumor.incarnation > known.incarnation;
  const bool is_later = is_later_statement(rumor, known);
  // A member's report about itself is believed in full. If others report that it is gone, it is
  // only suspected.
  const bool own_word = from == rumor.id;
  const MemberState before = known.state;
  // A peer that we believe to be gone returns only by its own statement that it is alive.
  if (is_later && (is_live(before) || own_word || rumor.state == MemberState::alive)) {
    take_statement(entry, rumor, own_word);
  }
  if (rumor.state == MemberState::left && own_word) {
    if (before != MemberState::left) declare(now, entry, MemberState::left, out);
    return;
  }
  if (rumor.state != MemberState::alive) {
    suspect(now, entry, accuser_of(from, rumor), out);
    return;
  }
  if (!is_raised) return;
  known.accuser = rumor.accuser;
  set_state(entry, MemberState::alive);
  spread(entry);
  const auto stranger = strangers.find(rumor.id);
  if (stranger != strangers.end()) stranger->second.until = now + strange_for;
  if (before == MemberState::suspect) {
    out.tell(MemberRefuted{.peer = rumor.id});
  } else if (!is_live(before)) {
    out.tell(MemberReturned{.peer = rumor.id, .address = rumor.address, .view = view.size()});
  }
}

/// The accuser is the peer that found the member unreachable, not a peer that passes the rumour on,
/// because only independent accusers count.
PeerId Membership::State::accuser_of(PeerId from, const Member& rumor) const {
  const bool named = rumor.state == MemberState::suspect && authorized.contains(rumor.accuser);
  return named ? rumor.accuser : from;
}

void Membership::State::note_progress(PeerId from, const Progress& progress) {
  const auto entry = others.find(from);
  if (entry == others.end()) return;
  entry->second.member.progress = progress;
  const auto stranger = strangers.find(from);
  if (stranger != strangers.end()) stranger->second.has_reported = true;
}

}  // namespace gv
