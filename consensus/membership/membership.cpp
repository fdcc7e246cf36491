// The member table and the three conversations that keep it true: probes, rumours, push-pull.
#include "consensus/membership/membership.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.hpp"

namespace gv {
namespace {

constexpr std::size_t rumors_max = 8;           ///< Carried by one probe or answer.
constexpr std::size_t push_pull_members = 128;  ///< In one message: well below 64 KiB.
constexpr std::size_t introductions_max = 32;   ///< Told at once that we are there, or still are.
constexpr std::size_t relays_max = 64;          ///< Indirect probes done for others at a time.
constexpr int greetings_max = 6;      ///< To a new link; the last wait is 32 probe periods.
constexpr int health_max = 8;         ///< Lifeguard's ceiling of the local health.
constexpr int confirmations_max = 3;  ///< Independent suspicions that count (Lifeguard).
/// Nobody raises an incarnation this much at once; what claims to is not believed.
constexpr std::uint64_t incarnation_jump_max = 1u << 20;

bool is_live(MemberState state) {
  return state == MemberState::alive || state == MemberState::suspect;
}

/// A member with what only we know of it.
struct Entry {
  Member member;
  std::set<PeerId> suspected_by;  ///< Independent suspicions, ours included.
  Time suspected_at{};
  Time gone_at{};              ///< Dead or left since.
  Time checked_at{};           ///< When we last asked it whether it is there, being suspected.
  Time reminded_at{};          ///< When we last told it what we think of it.
  int transmissions_left = 0;  ///< Times the newest change still rides along.
};

/// Our own probe under way.
struct Probe {
  PeerId target{};
  std::uint64_t sequence = 0;
  Time indirect_at{};  ///< When to ask others, unless done.
  Time verdict_at{};   ///< When silence becomes suspicion.
  bool asked_others = false;
  int nacks_missing = 0;
};

/// Somebody we have a link to and have not heard of yet.
struct Unheard {
  Time again_at{};
  int tries = 0;
};

/// A probe we make for somebody else.
struct Relay {
  PeerId origin{};
  std::uint64_t origin_sequence = 0;
  PeerId target{};
  Time nack_at{};
};

}  // namespace

struct Membership::State {
  Entry self;
  std::set<PeerId> authorized;
  Options options;
  Rng rng;
  std::map<PeerId, Entry> others;
  std::set<PeerId> unwell;  ///< Of the others, those that are not alive: few, as a rule.
  /// Of the others, those with something left to tell: the least told first.
  std::set<std::pair<int, PeerId>> news;
  View view;
  std::vector<PeerId> probe_order;
  std::optional<Probe> probe;
  std::map<std::uint64_t, Relay> relays;
  std::map<PeerId, Unheard> unheard;
  std::uint64_t sequence = 0;
  Time next_probe{};
  Time next_push_pull{};
  Time due =
      never;  ///< deadline() after the last call: being much later than that is our own stall.
  int health = 0;

  PeerId id() const { return self.member.id; }
  Duration scaled(Duration duration) const { return duration * (1 + health); }
  Time suspicion_deadline(const Entry& entry) const;
  Time deadline() const;
  void set_state(Entry& entry, MemberState state);
  std::map<PeerId, Entry>::iterator forget(std::map<PeerId, Entry>::iterator entry);
  void absorb_stall(Time now);
  void spread(Entry& entry);
  void set_transmissions(Entry& entry, int left);
  std::vector<Member> rumors_for(PeerId to);
  void push_pull(PeerId to, bool reply, Effects& out);
  std::vector<PeerId> live_others() const;
  void judge_health(int change) { health = std::clamp(health + change, 0, health_max); }

  void begin_probe(Time now, Effects& out);
  void continue_probe(Time now, Effects& out);
  void suspect(Time now, Entry& entry, PeerId accuser, Effects& out);
  void declare(Time now, Entry& entry, MemberState state, const char* event, Effects& out);

  void hear(Time now, PeerId from, const std::vector<Member>& members, Effects& out);
  bool hear_of_self(const Member& rumor, Effects& out);
  void hear_of(Time now, PeerId from, const Member& rumor, Effects& out);
  PeerId accuser_of(PeerId from, const Member& rumor) const;
  void introduce(std::vector<PeerId> peers, Effects& out);
  void greet(Time now, PeerId peer, Effects& out);
  void note_progress(PeerId from, const Progress& progress);
  void remind(Time now, PeerId from, Effects& out);

  void on(Time now, PeerId from, const Ping& ping, Effects& out);
  void on(Time now, PeerId from, const PingRequest& request, Effects& out);
  void on(Time now, PeerId from, const Ack& ack, Effects& out);
  void on(Time now, PeerId from, const Nack& nack, Effects& out);
  void on(Time now, PeerId from, const PushPull& exchange, Effects& out);
};

/// Lifeguard, section 4: suspicion lasts long at first and shrinks with every independent accuser.
Time Membership::State::suspicion_deadline(const Entry& entry) const {
  const double n = static_cast<double>(view.size());
  const double least = seconds(options.suspicion_min) * std::max(1.0, std::log10(n));
  const double most = least * options.suspicion_max_factor;
  const int expected = std::min(confirmations_max, static_cast<int>(view.size()) - 2);
  double timeout = least;
  if (expected >= 1) {
    // The first accuser starts the clock; only further ones shorten it.
    const double confirmed =
        std::min<double>(expected, static_cast<double>(entry.suspected_by.size()) - 1);
    timeout = most - (most - least) * std::log(confirmed + 1) / std::log(expected + 1.0);
  }
  return entry.suspected_at + from_seconds(std::max(least, timeout));
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

/// The only place where the state of another changes: view and lists follow.
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

/// Forgets everything about `entry` and returns the one after it.
std::map<PeerId, Entry>::iterator Membership::State::forget(
    std::map<PeerId, Entry>::iterator entry) {
  const PeerId peer = entry->first;
  unwell.erase(peer);
  news.erase({-entry->second.transmissions_left, peer});
  view.erase(peer);
  std::erase(probe_order, peer);
  if (probe && probe->target == peer) probe.reset();
  return others.erase(entry);
}

/// Called much later than we asked to be: it is us who stood still, so nobody else is to blame.
void Membership::State::absorb_stall(Time now) {
  if (due == never || now <= due + options.probe_timeout) return;
  const Duration stall = now - due;
  for (const PeerId peer : unwell) others.at(peer).suspected_at += stall;
  probe.reset();
  relays.clear();
  next_probe = now;
  judge_health(1);
}

void Membership::State::spread(Entry& entry) {
  const double n = static_cast<double>(others.size() + 1);
  set_transmissions(entry, 4 * static_cast<int>(std::ceil(std::log10(n + 1))));
}

void Membership::State::set_transmissions(Entry& entry, int left) {
  if (&entry != &self) {
    news.erase({-entry.transmissions_left, entry.member.id});
    if (left > 0) news.insert({-left, entry.member.id});
  }
  entry.transmissions_left = left;
}

/// The newest changes, the least told first; what concerns `to` itself always goes along, so that
/// it can refute.
std::vector<Member> Membership::State::rumors_for(PeerId to) {
  std::vector<Member> rumors;
  const auto about = others.find(to);
  if (about != others.end() && about->second.member.state != MemberState::alive) {
    rumors.push_back(about->second.member);
  }
  std::vector<Entry*> fresh;
  for (const auto& [told, peer] : news) {
    if (fresh.size() == rumors_max) break;
    if (peer != to) fresh.push_back(&others.at(peer));
  }
  if (self.transmissions_left > 0) {
    const auto less_told = std::ranges::find_if(fresh, [&](const Entry* entry) {
      return entry->transmissions_left <= self.transmissions_left;
    });
    fresh.insert(less_told, &self);
  }
  for (Entry* entry : fresh) {
    if (rumors.size() == rumors_max) break;
    rumors.push_back(entry->member);
    set_transmissions(*entry, entry->transmissions_left - 1);
  }
  return rumors;
}

void Membership::State::push_pull(PeerId to, bool reply, Effects& out) {
  PushPull message{.reply = reply, .members = {self.member}};
  for (const auto& [peer, entry] : others) {
    if (message.members.size() == push_pull_members) {
      out.send(to, std::exchange(message, PushPull{.reply = false, .members = {}}));
    }
    message.members.push_back(entry.member);
  }
  out.send(to, std::move(message));
}

std::vector<PeerId> Membership::State::live_others() const {
  std::vector<PeerId> live = view.peers();
  std::erase(live, id());
  return live;
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
    std::vector<PeerId> helpers = live_others();
    std::erase(helpers, probe->target);
    rng.shuffle(std::span(helpers));
    if (helpers.size() > static_cast<std::size_t>(options.indirect_probes)) {
      helpers.resize(static_cast<std::size_t>(options.indirect_probes));
    }
    for (const PeerId helper : helpers) {
      out.send(helper, PingRequest{probe->sequence, probe->target, rumors_for(helper)});
    }
    probe->nacks_missing = static_cast<int>(helpers.size());
  }
  if (now < probe->verdict_at) return;
  const Probe failed = *probe;
  probe.reset();
  // Helpers that did not even say "no" speak against our own link (Lifeguard, section 3).
  judge_health(failed.nacks_missing > 0 ? failed.nacks_missing : 1);
  const auto entry = others.find(failed.target);
  if (entry != others.end()) suspect(now, entry->second, id(), out);
}

void Membership::State::suspect(Time now, Entry& entry, PeerId accuser, Effects& out) {
  if (!is_live(entry.member.state)) return;
  if (entry.member.state == MemberState::alive) {
    set_state(entry, MemberState::suspect);
    entry.suspected_at = now;
    entry.checked_at = now;
    entry.suspected_by.clear();
    out.events.push_back({.name = "member_suspected", .peer = entry.member.id});
    spread(entry);
  }
  const bool more = static_cast<int>(entry.suspected_by.size()) <= confirmations_max;
  if (more && entry.suspected_by.insert(accuser).second) {
    entry.member.accuser = accuser;
    spread(entry);
  }
}

void Membership::State::declare(Time now, Entry& entry, MemberState state, const char* event,
                                Effects& out) {
  set_state(entry, state);
  entry.gone_at = now;
  spread(entry);
  if (probe && probe->target == entry.member.id) probe.reset();
  out.events.push_back({.name = event,
                        .peer = entry.member.id,
                        .numbers = {{"view", static_cast<double>(view.size())}}});
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
  // Whoever we just learnt of may not know us: rumours would take rounds to tell it.
  introduce(std::move(met), out);
}

/// Says who and how we are to as many of `peers` as one call may.
void Membership::State::introduce(std::vector<PeerId> peers, Effects& out) {
  rng.shuffle(std::span(peers));
  if (peers.size() > introductions_max) peers.resize(introductions_max);
  for (const PeerId peer : peers) {
    out.send(peer, Ping{++sequence, self.member.progress, {self.member}});
  }
}

/// The first words to `peer`, said again until we have heard of it: they may be lost, and whoever
/// knows nobody yet would hear from nobody else.
void Membership::State::greet(Time now, PeerId peer, Effects& out) {
  const bool known = view.contains(peer);
  if (known || others.size() >= push_pull_members) {
    // Everybody links to everybody in time: whole tables each time would be the cube of their
    // number. Who knows nobody yet asks for ours.
    introduce({peer}, out);
  } else {
    push_pull(peer, true, out);
  }
  const auto contact = unheard.find(peer);
  const int tries = contact == unheard.end() ? 0 : contact->second.tries;
  // Of somebody unknown rumours tell, unless we know nobody who could.
  const bool alone = others.empty() || tries > 0;
  if (known || !alone || tries == greetings_max) {
    unheard.erase(peer);
  } else {
    unheard[peer] = {.again_at = now + options.probe_period * (1 << tries), .tries = tries + 1};
  }
}

/// Whatever others believe of us wrongly, a higher incarnation corrects. True if they thought us
/// gone.
bool Membership::State::hear_of_self(const Member& rumor, Effects& out) {
  Member& me = self.member;
  if (me.state == MemberState::left) return false;
  if (rumor.incarnation < me.incarnation ||
      rumor.incarnation > me.incarnation + incarnation_jump_max) {
    return false;
  }
  const bool wrong = rumor.state != MemberState::alive || rumor.address != me.address ||
                     rumor.layout_hash != me.layout_hash || rumor.name != me.name;
  // An incarnation above ours comes from an earlier life of this key.
  if (!wrong && rumor.incarnation == me.incarnation) return false;
  me.incarnation = rumor.incarnation + 1;
  spread(self);
  const bool accused = rumor.state == MemberState::suspect || rumor.state == MemberState::dead;
  if (accused) {
    judge_health(1);
    out.events.push_back(
        {.name = "self_refuted",
         .detail = std::string("others held us for ") + std::string(to_string(rumor.state)),
         .numbers = {{"incarnation", static_cast<double>(me.incarnation)}}});
  }
  return accused;
}

void Membership::State::hear_of(Time now, PeerId from, const Member& rumor, Effects& out) {
  const auto found = others.find(rumor.id);
  if (found == others.end()) {
    if (others.size() + 1 >= options.members_max) return;
    // A third party's word that somebody unknown is gone is not worth a place in the table.
    if (!is_live(rumor.state)) return;
    Entry& entry = others[rumor.id];
    entry.member = rumor;
    set_state(entry, MemberState::alive);
    spread(entry);
    // A newcomer is placed at random in the probe order, so that it is not always probed last.
    probe_order.insert(
        probe_order.begin() + static_cast<std::ptrdiff_t>(rng.below(probe_order.size() + 1)),
        rumor.id);
    out.events.push_back({.name = "member_joined",
                          .peer = rumor.id,
                          .detail = rumor.address,
                          .numbers = {{"view", static_cast<double>(view.size())}}});
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
  // What a member says of itself counts for all it says; what others say counts as suspicion.
  const bool own_word = from == rumor.id;
  if (rumor.state == MemberState::left && own_word) {
    if (known.state != MemberState::left) {
      known.incarnation = rumor.incarnation;
      declare(now, entry, MemberState::left, "member_left", out);
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
      out.events.push_back({.name = "member_refuted", .peer = rumor.id});
    } else if (!is_live(before)) {
      out.events.push_back({.name = "member_returned",
                            .peer = rumor.id,
                            .detail = rumor.address,
                            .numbers = {{"view", static_cast<double>(view.size())}}});
    }
    return;
  }
  if (newer && is_live(known.state)) known.incarnation = rumor.incarnation;
  suspect(now, entry, accuser_of(from, rumor), out);
}

/// Whoever found it unreachable, not whoever passes the word on: only independent accusers count.
PeerId Membership::State::accuser_of(PeerId from, const Member& rumor) const {
  const bool named = rumor.state == MemberState::suspect && authorized.contains(rumor.accuser);
  return named ? rumor.accuser : from;
}

void Membership::State::note_progress(PeerId from, const Progress& progress) {
  const auto entry = others.find(from);
  if (entry != others.end()) entry->second.member.progress = progress;
}

/// Somebody we hold for gone speaks: tell it, so that it can raise its incarnation.
void Membership::State::remind(Time now, PeerId from, Effects& out) {
  const auto found = others.find(from);
  if (found == others.end()) {
    push_pull(from, true, out);
    return;
  }
  Entry& entry = found->second;
  if (is_live(entry.member.state)) return;
  if (entry.reminded_at != Time{} && now < entry.reminded_at + options.probe_timeout) return;
  entry.reminded_at = now;
  out.send(from, PushPull{.reply = true, .members = {self.member, entry.member}});
}

void Membership::State::on(Time now, PeerId from, const Ping& ping, Effects& out) {
  note_progress(from, ping.progress);
  hear(now, from, ping.rumors, out);
  std::vector<Member> rumors = rumors_for(from);
  // Whoever asks because it suspects us gets the answer to that too, whatever else there is to
  // tell.
  const bool accused = std::ranges::any_of(ping.rumors, [&](const Member& rumor) {
    return rumor.id == id() && rumor.state != MemberState::alive;
  });
  if (accused) rumors.push_back(self.member);
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
  out.send(request.target, Ping{sequence, self.member.progress, rumors_for(request.target)});
}

void Membership::State::on(Time now, PeerId from, const Ack& ack, Effects& out) {
  if (ack.about == from) note_progress(from, ack.progress);
  hear(now, from, ack.rumors, out);
  if (probe && probe->sequence == ack.sequence && probe->target == ack.about) {
    probe.reset();
    judge_health(-1);
    return;
  }
  const auto relay = relays.find(ack.sequence);
  if (relay != relays.end() && relay->second.target == from) {
    const PeerId origin = relay->second.origin;
    out.send(origin, Ack{relay->second.origin_sequence, from, ack.progress, rumors_for(origin)});
    relays.erase(relay);
  }
}

void Membership::State::on(Time now, PeerId from, const Nack& nack, Effects& out) {
  hear(now, from, nack.rumors, out);
  if (probe && probe->sequence == nack.sequence && probe->nacks_missing > 0) --probe->nacks_missing;
}

void Membership::State::on(Time now, PeerId from, const PushPull& exchange, Effects& out) {
  hear(now, from, exchange.members, out);
  if (exchange.reply) push_pull(from, false, out);
}

Membership::Membership(Member self, std::vector<PeerId> authorized, Options options, Rng rng)
    : state_(new State{.self = {.member = std::move(self)},
                       .authorized = {authorized.begin(), authorized.end()},
                       .options = options,
                       .rng = rng}) {
  state_->authorized.insert(state_->id());
  state_->view.insert(state_->id());
}

Membership::~Membership() = default;

void Membership::contact(Time now, PeerId peer, Effects& out) {
  if (!state_->authorized.contains(peer) || peer == state_->id()) return;
  state_->absorb_stall(now);
  state_->unheard.erase(peer);
  state_->greet(now, peer, out);
  state_->due = std::max(now, state_->deadline());
}

void Membership::receive(Time now, PeerId from, const Message& message, Effects& out) {
  State& state = *state_;
  if (!state.authorized.contains(from) || from == state.id()) {
    out.events.push_back({.name = "message_refused", .peer = from, .reason = Reason::unknown_peer});
    return;
  }
  if (state.self.member.state == MemberState::left) return;
  state.absorb_stall(now);
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
  state.absorb_stall(now);
  if (state.probe) state.continue_probe(now, out);
  // A death makes the view smaller, which can end other suspicions: until nobody else dies.
  for (std::size_t before = 0; before != state.view.size();) {
    before = state.view.size();
    for (const PeerId peer : std::vector(state.unwell.begin(), state.unwell.end())) {
      Entry& entry = state.others.at(peer);
      if (entry.member.state == MemberState::suspect && now >= state.suspicion_deadline(entry)) {
        state.declare(now, entry, MemberState::dead, "member_dead", out);
      }
    }
  }
  for (const PeerId peer : std::vector(state.unwell.begin(), state.unwell.end())) {
    const auto found = state.others.find(peer);
    Entry& entry = found->second;
    if (entry.member.state == MemberState::suspect) {
      if (now < entry.checked_at + state.options.probe_period) continue;
      entry.checked_at = now;
      out.send(peer, Ping{++state.sequence, state.self.member.progress, state.rumors_for(peer)});
    } else if (now >= entry.gone_at + state.options.forget_dead_after) {
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
    // Once a period also somebody held for dead is asked: that is how two halves of a partition
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
    state.next_push_pull = now + state.options.push_pull_period;
  }
  state.due = std::max(now, state.deadline());
}

Time Membership::deadline() const {
  return state_->self.member.state == MemberState::left ? never : state_->deadline();
}

void Membership::leave(Time now, Effects& out) {
  State& state = *state_;
  if (state.self.member.state == MemberState::left) return;
  state.absorb_stall(now);
  state.self.member.state = MemberState::left;
  announce(out);
}

void Membership::announce(Effects& out) {
  State& state = *state_;
  for (const PeerId peer : state.live_others()) {
    out.send(peer, Ping{++state.sequence, state.self.member.progress, {state.self.member}});
  }
}

void Membership::authorize(Time now, std::vector<PeerId> authorized, Effects& out) {
  State& state = *state_;
  state.authorized = {authorized.begin(), authorized.end()};
  state.authorized.insert(state.id());
  for (auto entry = state.others.begin(); entry != state.others.end();) {
    if (state.authorized.contains(entry->first)) {
      ++entry;
      continue;
    }
    out.events.push_back({.name = "member_removed", .peer = entry->first});
    entry = state.forget(entry);
  }
  std::erase_if(state.relays,
                [&](const auto& item) { return !state.authorized.contains(item.second.origin); });
  std::erase_if(state.unheard,
                [&](const auto& item) { return !state.authorized.contains(item.first); });
  state.due = std::max(now, state.deadline());
}

void Membership::set_progress(const Progress& progress) { state_->self.member.progress = progress; }

const Member& Membership::self() const { return state_->self.member; }

const View& Membership::view() const { return state_->view; }

std::vector<Member> Membership::members() const {
  std::vector<Member> members{state_->self.member};
  for (const auto& [peer, entry] : state_->others) members.push_back(entry.member);
  std::ranges::sort(members, {}, &Member::id);
  return members;
}

const Member* Membership::find(PeerId peer) const {
  if (peer == state_->id()) return &state_->self.member;
  const auto found = state_->others.find(peer);
  return found == state_->others.end() ? nullptr : &found->second.member;
}

int Membership::local_health() const { return state_->health; }

std::size_t Membership::held() const {
  const State& state = *state_;
  std::size_t held = state.others.size() + state.unwell.size() + state.news.size() +
                     state.unheard.size() + state.probe_order.size() + state.relays.size();
  for (const PeerId peer : state.unwell) held += state.others.at(peer).suspected_by.size();
  return held;
}

}  // namespace gv
