// Rumours, suspicions and deaths of members, and how a member corrects them.
#include <string>

#include "consensus/membership/membership_state.hpp"

namespace gv {
namespace {

/// No peer raises its incarnation by this much at once; a rumour that says so is not believed.
constexpr std::uint64_t incarnation_jump_max = 1u << 20;

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
    if (rumor.id == id()) {
      refuted = hear_of_self(rumor, out) || refuted;
    } else if (authorized.contains(rumor.id)) {
      const bool known = others.contains(rumor.id);
      hear_of(now, from, rumor, out);
      if (!known && rumor.id != from && others.contains(rumor.id)) met.push_back(rumor.id);
    }
  }
  if (refuted) introduce(live_others(), out);
  // Peers we just learnt of may not know us, and rumours would take rounds to tell them.
  introduce(std::move(met), out);
}

/// Corrects a wrong rumour about us with a higher incarnation. True if it said that we are gone.
bool Membership::State::hear_of_self(const Member& rumor, Effects& out) {
  Member& me = self.member;
  if (me.state == MemberState::left) return false;
  if (rumor.incarnation < me.incarnation ||
      rumor.incarnation > me.incarnation + incarnation_jump_max) {
    return false;
  }
  const bool wrong = rumor.state != MemberState::alive || rumor.address != me.address ||
                     rumor.layout_hash != me.layout_hash || rumor.name != me.name;
  // An incarnation above ours comes from an earlier process with this key.
  if (!wrong && rumor.incarnation == me.incarnation) return false;
  me.incarnation = rumor.incarnation + 1;
  spread(self);
  const bool accused = rumor.state == MemberState::suspect || rumor.state == MemberState::dead;
  if (accused) {
    judge_health(1);
    out.tell(SelfRefuted{.held_for = rumor.state, .incarnation = me.incarnation});
  }
  return accused;
}

void Membership::State::hear_of(Time now, PeerId from, const Member& rumor, Effects& out) {
  const auto found = others.find(rumor.id);
  if (found == others.end()) {
    if (others.size() + 1 >= options.members_max) return;
    // The peer itself could not correct a third party's rumour that is so far ahead of it.
    if (rumor.id != from && rumor.incarnation > incarnation_jump_max) return;
    // A third party's rumour that an unknown peer is gone is not worth a place in the table.
    if (!is_live(rumor.state)) return;
    Entry& entry = others[rumor.id];
    entry.member = rumor;
    set_state(entry, MemberState::alive);
    spread(entry);
    // A newcomer is placed at random in the probe order, so that it is not always probed last.
    probe_order.insert(
        probe_order.begin() + static_cast<std::ptrdiff_t>(rng.below(probe_order.size() + 1)),
        rumor.id);
    out.tell(MemberJoined{.peer = rumor.id, .address = rumor.address, .view = view.size()});
    if (rumor.state == MemberState::suspect) suspect(now, entry, accuser_of(from, rumor), out);
    return;
  }
  Entry& entry = found->second;
  Member& known = entry.member;
  if (rumor.incarnation < known.incarnation ||
      rumor.incarnation > known.incarnation + incarnation_jump_max) {
    return;
  }
  const bool newer = rumor.incarnation > known.incarnation;
  // A member's report of itself is believed in full; a report by others counts as suspicion.
  const bool own_word = from == rumor.id;
  if (rumor.state == MemberState::left && own_word) {
    if (known.state != MemberState::left) {
      known.incarnation = rumor.incarnation;
      declare(now, entry, MemberState::left, out);
    }
    return;
  }
  if (rumor.state == MemberState::alive) {
    if (!newer) {
      if (own_word || rumor.progress.step > known.progress.step) known.progress = rumor.progress;
      return;
    }
    const MemberState before = known.state;
    known = rumor;
    set_state(entry, MemberState::alive);
    spread(entry);
    if (before == MemberState::suspect) {
      out.tell(MemberRefuted{.peer = rumor.id});
    } else if (!is_live(before)) {
      out.tell(MemberReturned{.peer = rumor.id, .address = rumor.address, .view = view.size()});
    }
    return;
  }
  if (newer && is_live(known.state)) known.incarnation = rumor.incarnation;
  suspect(now, entry, accuser_of(from, rumor), out);
}

/// The peer that found it unreachable, not the one that passes the rumour on: only independent
/// accusers count.
PeerId Membership::State::accuser_of(PeerId from, const Member& rumor) const {
  const bool named = rumor.state == MemberState::suspect && authorized.contains(rumor.accuser);
  return named ? rumor.accuser : from;
}

void Membership::State::note_progress(PeerId from, const Progress& progress) {
  const auto entry = others.find(from);
  if (entry != others.end()) entry->second.member.progress = progress;
}

}  // namespace gv
