// The three exchanges that keep the member table up to date: probes, rumours and push-pull.
#include "consensus/membership/membership.hpp"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/state_hash.hpp"
#include "consensus/membership/membership_state.hpp"

namespace gv {
namespace {

constexpr std::size_t push_pull_members = 64;  ///< The most members in one push-pull message, which
                                               ///< thus stays below 64 KiB, ledgers included.
constexpr std::size_t introductions_max = 32;  ///< The most peers to which we introduce ourselves
                                               ///< at once.
constexpr std::size_t relays_max = 64;         ///< The most indirect probes that we make for others
                                               ///< at the same time.
constexpr int greetings_max = 6;  ///< The most repetitions of a greeting on a new link. The last
                                  ///< one comes 32 probe periods after the one before it.

}  // namespace

void Membership::State::push_pull(PeerId to, bool reply, Effects& out) {
  // Our signed statement may be seconds old, so first send our present progress: a newcomer decides
  // at once whether other peers are ahead of it.
  introduce({to}, out);
  PushPull message{.reply = reply, .members = {told(self)}};
  for (const auto& [peer, entry] : others) {
    if (message.members.size() == push_pull_members) {
      out.send(to, std::exchange(message, PushPull{.reply = false, .members = {}}));
    }
    message.members.push_back(told(entry));
  }
  out.send(to, std::move(message));
}

void Membership::State::begin_probe(Time now, Effects& out) {
  next_probe = now + scaled(options.probe_period);
  // Round-robin over a shuffled order bounds the time to the first probe of a dead member
  // (SWIM 4.3).
  std::optional<PeerId> target;
  while (!target) {
    if (probe_order.empty()) {
      probe_order = live_others();
      if (probe_order.empty()) return;
      rng.shuffle(std::span(probe_order));
    }
    if (view.contains(probe_order.back())) target = probe_order.back();
    probe_order.pop_back();
  }
  probe = Probe{.target = *target,
                .sequence = ++sequence,
                .indirect_at = now + scaled(options.probe_timeout),
                .verdict_at = next_probe};
  out.send(*target, Ping{probe->sequence, self.member.progress, rumors_for(*target)});
}

void Membership::State::continue_probe(Time now, Effects& out) {
  if (!probe->asked_others && now >= probe->indirect_at) {
    probe->asked_others = true;
    probe->known = others.at(probe->target).member;
    std::vector<PeerId> helpers = live_others();
    std::erase(helpers, probe->target);
    rng.shuffle(std::span(helpers));
    if (helpers.size() > static_cast<std::size_t>(options.indirect_probes)) {
      helpers.resize(static_cast<std::size_t>(options.indirect_probes));
    }
    for (const PeerId helper : helpers) {
      out.send(helper, PingRequest{probe->sequence, probe->target, rumors_for(helper),
                                   probe->known.version});
    }
    probe->nacks_missing = static_cast<int>(helpers.size());
  }
  if (now < probe->verdict_at) return;
  const Probe failed = *probe;
  probe.reset();
  // If helpers sent not even a Nack, our own link may be at fault (Lifeguard, section 3).
  judge_health(failed.nacks_missing > 0 ? failed.nacks_missing : 1);
  const auto entry = others.find(failed.target);
  if (entry != others.end()) suspect(now, entry->second, id(), out);
}

/// Sends our own entry to each of `peers`, or to `introductions_max` random ones if there are more.
void Membership::State::introduce(std::vector<PeerId> peers, Effects& out) {
  rng.shuffle(std::span(peers));
  if (peers.size() > introductions_max) peers.resize(introductions_max);
  for (const PeerId peer : peers) {
    out.send(peer, Ping{++sequence, self.member.progress, {told(self)}});
  }
}

/// Sends the first message to `peer`, and repeats it until we have heard from the peer. The message
/// may be lost. Without repetition, a peer that knows no other member might then never learn of
/// any.
void Membership::State::greet(Time now, PeerId peer, Effects& out) {
  const bool known = view.contains(peer);
  if (known || others.size() >= push_pull_members) {
    // Eventually every peer has a link to every other. If whole tables were sent over each new
    // link, the cost would grow with the cube of the number of peers. A peer that knows no other
    // member yet asks for our table.
    introduce({peer}, out);
  } else {
    push_pull(peer, true, out);
  }
  const auto contact = unheard.find(peer);
  const int tries = contact == unheard.end() ? 0 : contact->second.tries;
  // Rumours will tell us about an unknown peer, unless we know no member that could pass them on.
  const bool alone = others.empty() || tries > 0;
  if (known || !alone || tries == greetings_max) {
    unheard.erase(peer);
  } else {
    unheard[peer] = {.again_at = now + options.probe_period * (1 << tries), .tries = tries + 1};
  }
}

/// Tells a sender that we believe it to be dead or to have left, so that it can raise its
/// incarnation. If we do not know the sender, exchanges tables with it.
void Membership::State::remind(Time now, PeerId from, Effects& out) {
  const auto found = others.find(from);
  if (found == others.end()) {
    if (answers().take(now, allowances.tables[from])) push_pull(from, true, out);
    return;
  }
  Entry& entry = found->second;
  if (is_live(entry.member.state)) return;
  if (entry.reminded_at != Time{} && now < entry.reminded_at + options.probe_timeout) return;
  entry.reminded_at = now;
  out.send(from, PushPull{.reply = true, .members = {told(self), told(entry)}});
}

void Membership::State::on(Time now, PeerId from, const Ping& ping, Effects& out) {
  hear(now, from, ping.rumors, out);
  note_progress(from, ping.progress);  // Comes after hear(), because we may learn of the sender
                                       // only from these rumours.
  if (ping.sequence == 0) return;
  std::vector<Member> rumors = rumors_for(from);
  // A peer that suspects us always gets our own entry, even if there are enough other rumours.
  const bool accused = std::ranges::any_of(ping.rumors, [&](const Member& rumor) {
    return rumor.id == id() && rumor.state != MemberState::alive;
  });
  const bool is_asked = ping.newer_than == self.member.version;
  if (is_asked && answers().take(now, allowances.renewals)) renew_statement();
  if (accused || ping.newer_than > 0) rumors.push_back(told(self));
  out.send(from, Ack{ping.sequence, id(), self.member.progress, std::move(rumors)});
}

void Membership::State::on(Time now, PeerId from, const PingRequest& request, Effects& out) {
  hear(now, from, request.rumors, out);
  if (relays.size() >= relays_max || !view.contains(request.target) || request.target == id()) {
    out.send(from, Nack{request.sequence, rumors_for(from)});
    return;
  }
  relays[++sequence] = {.origin = from,
                        .origin_sequence = request.sequence,
                        .target = request.target,
                        .nack_at = now + options.probe_timeout * 4 / 5};
  out.send(request.target,
           Ping{sequence, self.member.progress, rumors_for(request.target), request.newer_than});
}

/// True if the target of a probe has signed a later statement than the one that we knew when we
/// asked others to probe it.
bool Membership::State::has_restated(const Probe& asked) const {
  const auto entry = others.find(asked.target);
  return asked.asked_others && entry != others.end() &&
         is_later_statement(entry->second.member, asked.known);
}

void Membership::State::on(Time now, PeerId from, const Ack& ack, Effects& out) {
  hear(now, from, ack.rumors, out);
  if (ack.about == from) note_progress(from, ack.progress);
  if (probe && probe->sequence == ack.sequence && probe->target == ack.about) {
    // A helper's claim is not enough, because a hostile helper could make a dead peer seem alive.
    if (from != ack.about && !has_restated(*probe)) {
      // The helper has answered, however, so our own link works.
      if (probe->nacks_missing > 0) --probe->nacks_missing;
      return;
    }
    probe.reset();
    judge_health(-1);
    return;
  }
  const auto relay = relays.find(ack.sequence);
  const auto target = others.find(from);
  if (relay != relays.end() && relay->second.target == from && target != others.end()) {
    const PeerId origin = relay->second.origin;
    std::vector<Member> rumors = rumors_for(origin);
    rumors.push_back(told(target->second));
    out.send(origin, Ack{relay->second.origin_sequence, from, ack.progress, std::move(rumors)});
    relays.erase(relay);
  }
}

void Membership::State::on(Time now, PeerId from, const Nack& nack, Effects& out) {
  hear(now, from, nack.rumors, out);
  if (probe && probe->sequence == nack.sequence && probe->nacks_missing > 0) --probe->nacks_missing;
}

void Membership::State::on(Time now, PeerId from, const PushPull& exchange, Effects& out) {
  hear(now, from, exchange.members, out);
  // Otherwise short messages could cause many long ones.
  if (exchange.reply && answers().take(now, allowances.tables[from])) push_pull(from, false, out);
}

Membership::Membership(Member self, std::vector<PeerId> authorized, Options options,
                       const Signer& signer, Rng rng)
    : state_(State{.self = {.member = std::move(self)},
                   .authorized = {authorized.begin(), authorized.end()},
                   .options = options,
                   .signer = &signer,
                   .rng = rng}) {
  state_->authorized.insert(state_->id());
  state_->view.insert(state_->id());
  state_->renew_statement();
}

Membership::Membership(const Membership& other) = default;
Membership::Membership(Membership&& other) noexcept = default;
Membership& Membership::operator=(const Membership& other) = default;
Membership& Membership::operator=(Membership&& other) noexcept = default;
Membership::~Membership() = default;
bool Membership::operator==(const Membership& other) const {
  return equal_states(*state_, *other.state_);
}
void Membership::add_to(StateHash& hash) const { hash.add(*state_); }

void Membership::contact(Time now, PeerId peer, Effects& out) {
  if (!state_->authorized.contains(peer) || peer == state_->id()) return;
  state_->begin(now);
  state_->unheard.erase(peer);
  state_->greet(now, peer, out);
  state_->due = std::max(now, state_->deadline());
}

void Membership::receive(Time now, PeerId from, const Message& message, Effects& out) {
  State& state = *state_;
  if (!state.authorized.contains(from) || from == state.id()) {
    out.tell(MessageRefused{.peer = from, .reason = Reason::unknown_peer});
    return;
  }
  if (state.self.member.state == MemberState::left) return;
  state.begin(now);
  std::visit(
      [&](const auto& known) {
        if constexpr (requires { state.on(now, from, known, out); }) {
          state.on(now, from, known, out);
          if constexpr (!std::is_same_v<std::decay_t<decltype(known)>, PushPull>) {
            state.remind(now, from, out);
          }
        }
      },
      message);
  state.due = std::max(now, state.deadline());
}

void Membership::tick(Time now, Effects& out) {
  State& state = *state_;
  if (state.self.member.state == MemberState::left) return;
  state.begin(now);
  state.forget_rested(now);
  state.accept_strangers(now);
  if (state.probe) state.continue_probe(now, out);
  // A death makes the view smaller, which brings the deadlines of other suspicions forward. So
  // repeat until no further peer is declared dead.
  for (std::size_t before = 0; before != state.view.size();) {
    before = state.view.size();
    for (const PeerId peer : std::vector(state.unwell.begin(), state.unwell.end())) {
      State::Entry& entry = state.others.at(peer);
      if (entry.member.state == MemberState::suspect && now >= state.suspicion_deadline(entry)) {
        state.declare(now, entry, MemberState::dead, out);
      }
    }
  }
  for (const PeerId peer : std::vector(state.unwell.begin(), state.unwell.end())) {
    const auto found = state.others.find(peer);
    State::Entry& entry = found->second;
    if (entry.member.state == MemberState::suspect) {
      if (now < entry.checked_at + state.options.probe_period) continue;
      entry.checked_at = now;
      out.send(peer, Ping{++state.sequence, state.self.member.progress, state.rumors_for(peer)});
    } else if (now >= entry.gone_at + state.options.forget_dead_after) {
      // Remembers the last statement. Otherwise a hostile peer could bring the member back by
      // repeating old statements.
      state.forgotten[peer] = {entry.member.incarnation, entry.member.version};
      state.forget(found);
    }
  }
  std::erase_if(state.unheard, [&](const auto& item) { return state.view.contains(item.first); });
  std::vector<PeerId> silent;
  for (const auto& [peer, contact] : state.unheard) {
    if (now >= contact.again_at) silent.push_back(peer);
  }
  for (const PeerId peer : silent) state.greet(now, peer, out);
  for (auto relay = state.relays.begin(); relay != state.relays.end();) {
    if (now < relay->second.nack_at) {
      ++relay;
      continue;
    }
    out.send(relay->second.origin,
             Nack{relay->second.origin_sequence, state.rumors_for(relay->second.origin)});
    relay = state.relays.erase(relay);
  }
  if (!state.probe && state.view.size() > 1 && now >= state.next_probe) state.begin_probe(now, out);
  if (!state.others.empty() && now >= state.next_push_pull) {
    // In each period, also ask one peer that we believe dead, so that the two halves of a partition
    // meet again.
    std::vector<PeerId> live = state.live_others();
    std::vector<PeerId> dead;
    for (const PeerId peer : state.unwell) {
      if (state.others.at(peer).member.state == MemberState::dead) dead.push_back(peer);
    }
    const bool first = state.next_push_pull == Time{};
    for (const auto* group : {&live, &dead}) {
      if (!group->empty() && !first) {
        state.push_pull((*group)[state.rng.below(group->size())], true, out);
      }
    }
    state.next_push_pull = now + state.push_pull_period();
  }
  state.due = std::max(now, state.deadline());
}

Time Membership::deadline() const {
  return state_->self.member.state == MemberState::left ? never : state_->deadline();
}

void Membership::leave(Time now, Effects& out) {
  State& state = *state_;
  if (state.self.member.state == MemberState::left) return;
  state.begin(now);
  state.self.member.state = MemberState::left;
  state.renew_statement();  // This is our last statement, so no peer can hold back a later one.
  announce(out);
}

void Membership::announce(Effects& out) {
  State& state = *state_;
  for (const PeerId peer : state.live_others()) {
    out.send(peer, Ping{++state.sequence, state.self.member.progress, {State::told(state.self)}});
  }
}

void Membership::report(bool asks, Effects& out) {
  State& state = *state_;
  for (const PeerId peer : state.live_others()) {
    out.send(peer, Ping{asks ? ++state.sequence : 0, state.self.member.progress, {}});
  }
}

void Membership::authorize(Time now, std::vector<PeerId> authorized, Effects& out) {
  State& state = *state_;
  state.begin(now);
  state.authorized = {authorized.begin(), authorized.end()};
  state.authorized.insert(state.id());
  for (auto entry = state.others.begin(); entry != state.others.end();) {
    if (state.authorized.contains(entry->first)) {
      ++entry;
      continue;
    }
    out.tell(MemberRemoved{.peer = entry->first});
    entry = state.forget(entry);
  }
  std::erase_if(state.relays,
                [&](const auto& item) { return !state.authorized.contains(item.second.origin); });
  std::erase_if(state.forgotten,
                [&](const auto& item) { return !state.authorized.contains(item.first); });
  std::erase_if(state.unheard,
                [&](const auto& item) { return !state.authorized.contains(item.first); });
  state.due = std::max(now, state.deadline());
}

void Membership::set_progress(const Progress& progress) {
  State& state = *state_;
  state.self.member.progress = progress;
  if (progress.phase != state.self.stated.phase) state.renew_statement();
}

const Member& Membership::self() const { return state_->self.member; }

const View& Membership::view() const { return state_->view; }

std::vector<Member> Membership::members() const {
  std::vector<Member> members{state_->self.member};
  for (const auto& [peer, entry] : state_->others) members.push_back(entry.member);
  std::ranges::sort(members, {}, &Member::id);
  return members;
}

std::vector<Member> Membership::statements() const {
  std::vector<Member> statements;
  for (const auto& [peer, entry] : state_->others) statements.push_back(State::told(entry));
  return statements;
}

const Member* Membership::find(PeerId peer) const {
  if (peer == state_->id()) return &state_->self.member;
  const auto found = state_->others.find(peer);
  return found == state_->others.end() ? nullptr : &found->second.member;
}

void Membership::for_each_other(const std::function<void(const Member&)>& look) const {
  for (const auto& [peer, entry] : state_->others) look(entry.member);
}

void Membership::for_each_report(
    const std::function<void(const Member&, const Progress&)>& look) const {
  const Progress unknown;
  for (const auto& [peer, entry] : state_->others) {
    look(entry.member, state_->is_hearsay(entry) ? unknown : entry.member.progress);
  }
}

int Membership::local_health() const { return state_->health; }

bool Membership::admits_third(PeerId other) const {
  return state_->authorized.size() > (state_->authorized.contains(other) ? 2 : 1);
}

std::size_t Membership::held() const {
  const State& state = *state_;
  std::size_t held = state.others.size() + state.unwell.size() + state.news.size() +
                     state.unheard.size() + state.probe_order.size() + state.relays.size() +
                     state.forgotten.size() + state.strangers.size() +
                     state.allowances.checks.size() + state.allowances.own_checks.size() +
                     state.allowances.tables.size();
  for (const PeerId peer : state.unwell) held += state.others.at(peer).suspected_by.size();
  return held;
}

}  // namespace gv
