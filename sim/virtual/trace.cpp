// Formats the lines of traces.
#include "sim/virtual/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/counted.hpp"
#include "base/fields.hpp"
#include "base/overloaded.hpp"
#include "peer/node/facts.hpp"

namespace gv {
namespace {

std::string stamp(const Simulator& world) {
  return fmt::format("{:11.6f}", seconds(world.now().time_since_epoch()));
}

std::string name_of(const TransferId& id) {
  return fmt::format("{}/{}", number_of(id.owner), id.number);
}

std::string name_of(const GenerationId& id) {
  return fmt::format("{}.{}", id.number, number_of(id.proposer));
}

std::string name_of(PeerId id) { return peer_name(id); }

std::string rumors(const std::vector<Member>& members) {
  std::string text;
  for (const Member& member : members) {
    text += fmt::format("  {} {} {}", peer_name(member.id), to_string(member.state),
                        member.incarnation);
  }
  return text;
}

/// Text of the message's main fields, which show what it is about. Empty if it has none of them.
template <class M>
std::string main_fields(const M& m) {
  std::string text;
  if constexpr (requires { m.sequence; }) text += " " + std::to_string(m.sequence);
  if constexpr (requires { m.target; }) text += " for " + name_of(m.target);
  if constexpr (requires { m.about; }) text += " of " + name_of(m.about);
  if constexpr (requires { m.reply; }) text += m.reply ? " asks" : "";
  if constexpr (requires { m.rumors; }) text += rumors(m.rumors);
  if constexpr (requires { m.members; }) text += rumors(m.members);
  if constexpr (requires { m.id; }) text += " " + name_of(m.id);
  if constexpr (requires { m.ballot; }) text += " " + name_of(m.ballot);
  if constexpr (requires { m.round; }) text += " round " + std::to_string(m.round);
  if constexpr (requires { m.step; }) text += " step " + std::to_string(m.step);
  if constexpr (requires { m.version; }) text += " step " + std::to_string(m.version.step);
  if constexpr (requires { m.offset; }) {
    if (m.offset > 0) text += " from " + std::to_string(m.offset);
  }
  if constexpr (requires { m.reason; }) text += " " + std::string(to_string(m.reason));
  if constexpr (requires { m.blamed; }) {
    for (const PeerId peer : m.blamed) text += " without " + name_of(peer);
  }
  if constexpr (requires { m.busy; }) text += m.busy ? " busy" : "";
  if constexpr (requires { m.again; }) text += m.again ? " again" : "";
  if constexpr (requires { m.fingerprint; }) text += fmt::format(" {:016x}", m.fingerprint);
  if constexpr (requires { m.answer; }) text += main_fields(m.answer);
  if constexpr (requires { m.generation; }) {
    text += main_fields(m.generation);
    for (std::size_t i = 0; i < m.generation.order.size(); ++i) {
      text += " " + name_of(m.generation.order[i]);
      const bool is_odd = i >= m.generation.sources.size();  // Only a hostile peer sends this.
      if (is_odd || m.generation.sources[i] == m.generation.order[i]) continue;
      text += " (model from " + name_of(m.generation.sources[i]) + ")";
    }
  }
  return text;
}

std::string to_text(const ChunkRange& range) {
  return range.count == 1 ? std::to_string(range.begin)
                          : fmt::format("{} to {}", range.begin, range.end() - 1);
}

std::string_view to_string(PeerState state) {
  switch (state) {
    case PeerState::absent:
      return "absent";
    case PeerState::up:
      return "up";
    case PeerState::stopped:
      return "stopped";
    case PeerState::down:
      return "down";
    case PeerState::ended:
      return "ended";
  }
  return "?";
}

/// True for a probe, an answer or a table that only says that sender and receiver are alive.
bool is_routine(PeerId from, const Outgoing& out) {
  const auto all_well = [&](const std::vector<Member>& members) {
    return std::ranges::all_of(members, [&](const Member& member) {
      const bool concerned = member.id == from || member.id == out.to;
      return !concerned || (member.state == MemberState::alive && member.incarnation == 0);
    });
  };
  return std::visit(
      [&](const auto& known) {
        using Kind = std::decay_t<decltype(known)>;
        if constexpr (std::is_same_v<Kind, PushPull>) {
          return all_well(known.members);
        } else if constexpr (std::is_same_v<Kind, Ping> || std::is_same_v<Kind, Ack>) {
          return all_well(known.rumors);
        } else {
          return false;
        }
      },
      out.message);
}

std::string describe(const Input& input) {
  switch (input.kind) {
    case Input::Kind::start:
      return " starts";
    case Input::Kind::contact:
      return " meets " + peer_name(input.from);
    case Input::Kind::message:
      return fmt::format(" <- {}  {}", peer_name(input.from), to_string(*input.message));
    case Input::Kind::block:
      return fmt::format(" <- {}  block {} {}+{}", peer_name(input.from), name_of(input.block->id),
                         input.block->offset, input.block->bytes.size());
    case Input::Kind::tick:
      return " ticks";
    case Input::Kind::opened:
      return " sends before its steps";
    case Input::Kind::done:
      return fmt::format(
          " has done step {}{}", input.done->step,
          first_of<task::TakeSnapshot>(input.done->job.tasks) != nullptr ? ", snapshot" : "");
    case Input::Kind::lane_lost:
      return " loses its lane to " + peer_name(input.from);
    case Input::Kind::leave:
      return " is told to leave";
    case Input::Kind::command:
      return " is told what all are to go by";
  }
  return " ?";
}

}  // namespace

std::string peer_name(PeerId id) { return fmt::format("peer-{}", number_of(id)); }

std::string to_string(const Message& message) {
  return std::visit(
      []<class M>(const M& m) { return std::string(type_name<M>()) + main_fields(m); }, message);
}

/// True if the input gets a line even if it has no effects.
bool Trace::is_told(const Input& input) const {
  switch (input.kind) {
    case Input::Kind::tick:
      return false;
    case Input::Kind::message:
    case Input::Kind::block:
    case Input::Kind::opened:
    case Input::Kind::done:
    case Input::Kind::lane_lost:
      return detail_ == Detail::everything;
    default:
      return true;
  }
}

bool Trace::is_told(PeerId from, const Outgoing& out) const {
  return detail_ == Detail::everything || !is_routine(from, out);
}

bool Trace::is_told(const Job& job) const {
  return detail_ == Detail::everything || job.saves() ||
         first_of<task::AdoptModel>(job.tasks) != nullptr ||
         first_of<task::AddForces>(job.tasks) != nullptr;
}

/// Text of the peer's report about chunks; empty if the report has not changed.
std::string Trace::ledger_news(PeerNumber peer, const Outgoing& out) {
  const auto* ping = std::get_if<Ping>(&out.message);
  if (ping == nullptr || !ping->progress.work || !ping->progress.work->ledger) return {};
  const LedgerEntry& entry = *ping->progress.work->ledger;
  const auto [known, is_new] = ledgers_.try_emplace(peer);
  if (known->second == entry) return {};
  known->second = entry;
  std::string text = fmt::format("tells: chunks below {} are done", entry.whole);
  for (const ChunkRange& range : entry.done) text += "; it has done " + to_text(range);
  for (const Lease& lease : entry.leases) {
    text += (lease.helps ? "; it helps with " : "; it takes ") + to_text(lease.chunks);
  }
  return text;
}

void Trace::on_input(const Simulator& world, const Input& input) {
  std::string text = fmt::format("{}  peer-{}{}", stamp(world), input.peer, describe(input));
  pending_.clear();
  if (is_told(input)) {
    line_(text);
  } else {
    pending_ = std::move(text);
  }
}

void Trace::on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) {
  const auto say = [this](const std::string& text) {
    if (!pending_.empty()) line_(std::exchange(pending_, {}));
    line_("                 " + text);
  };
  for (const Fact& fact : effects.facts) {
    const FactText told = gv::describe(fact);
    std::string text = fmt::format("* {}", told.info.name);
    if (told.peer) text += " " + peer_name(*told.peer);
    if (told.reason != Reason::none) text += fmt::format(" {}", gv::to_string(told.reason));
    for (const auto& [name, value] : told.numbers) text += fmt::format(" {} {:.6g}", name, value);
    say(text);
  }
  for (const Outgoing& out : effects.messages) {
    if (const std::string news = ledger_news(peer, out); !news.empty()) say(news);
    if (!is_told(id_of(peer), out)) continue;
    say(fmt::format("-> {}  {}", peer_name(out.to), to_string(out.message)));
  }
  for (const Transfer& transfer : effects.transfers) {
    say(fmt::format("=> {}  {} bytes of {} from {}", peer_name(transfer.to),
                    transfer.payload.bytes.size(), name_of(transfer.id), transfer.offset));
  }
  for (const Job& job : effects.jobs) {
    if (!is_told(job)) continue;
    std::uint64_t steps = 0;
    std::size_t forces = 0;
    std::string rest;
    for (const Job::Task& task : job.tasks) {
      std::visit(Overloaded{[&](const task::TakeSteps& takes) { steps = takes.count; },
                            [&](const task::AddForces& adds) { forces = adds.forces.size(); },
                            [&](const task::AdoptModel&) { rest += ", a fetched model"; },
                            [&](const task::Save&) { rest += ", saves"; }, [](const auto&) {}},
                 task);
    }
    say(fmt::format("computes {}{}{}", counted(steps, "step"),
                    forces == 0 ? "" : ", " + counted(forces, "force"), rest));
  }
}

void Trace::on_fault_event(const Simulator& world, const FaultEvent& fault_event) {
  line_(fmt::format("{}  ## {}", stamp(world), to_string(fault_event)));
}

void Trace::on_state(const Simulator& world, PeerNumber peer, PeerState state) {
  if (state != PeerState::up) {
    line_(fmt::format("{}  peer-{} is {}", stamp(world), peer, to_string(state)));
  }
}

}  // namespace gv
