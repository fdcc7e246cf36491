// Wording of traces.
#include "sim/virtual/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gv {
namespace {

std::string stamp(const Simulator& world) {
  return fmt::format("{:11.6f}", seconds(world.now().time_since_epoch()));
}

std::string name_of(const TransferId& id) {
  return fmt::format("{}/{}", number_of(id.owner), id.number);
}

std::string rumors(const std::vector<Member>& members) {
  std::string text;
  for (const Member& member : members) {
    text += fmt::format("  {} {} {}", peer_name(member.id), to_string(member.state),
                        member.incarnation);
  }
  return text;
}

struct Words {
  std::string operator()(const Ping& m) const {
    return fmt::format("Ping {}{}", m.sequence, rumors(m.rumors));
  }
  std::string operator()(const PingRequest& m) const {
    return fmt::format("PingRequest {} for {}{}", m.sequence, peer_name(m.target),
                       rumors(m.rumors));
  }
  std::string operator()(const Ack& m) const {
    return fmt::format("Ack {} of {}{}", m.sequence, peer_name(m.about), rumors(m.rumors));
  }
  std::string operator()(const Nack& m) const {
    return fmt::format("Nack {}{}", m.sequence, rumors(m.rumors));
  }
  std::string operator()(const PushPull& m) const {
    return fmt::format("PushPull{}{}", m.reply ? " reply" : "", rumors(m.members));
  }
  std::string operator()(const Offer& m) const {
    return fmt::format("Offer {} round {} step {}", name_of(m.id), m.round, m.step);
  }
  std::string operator()(const Accept& m) const {
    return fmt::format("Accept {} step {}", name_of(m.id), m.step);
  }
  std::string operator()(const Refuse& m) const {
    return fmt::format("Refuse {} {}", name_of(m.id), to_string(m.reason));
  }
  std::string operator()(const Ready& m) const { return fmt::format("Ready {}", name_of(m.id)); }
  std::string operator()(const Commit& m) const { return fmt::format("Commit {}", name_of(m.id)); }
  std::string operator()(const Query& m) const { return fmt::format("Query {}", name_of(m.id)); }
  std::string operator()(const Abort& m) const {
    return fmt::format("Abort {} {}", name_of(m.id), to_string(m.reason));
  }
  std::string operator()(const Resume& m) const {
    return fmt::format("Resume {} from {}", name_of(m.id), m.offset);
  }
  std::string operator()(const Fetch& m) const { return fmt::format("Fetch {}", name_of(m.id)); }
  std::string operator()(const Coming& m) const {
    return fmt::format("Coming {} step {}", name_of(m.id), m.step);
  }
};

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

}  // namespace

std::string peer_name(PeerId id) { return fmt::format("peer-{}", number_of(id)); }

std::string to_string(const Message& message) { return std::visit(Words{}, message); }

void Trace::on_input(const Simulator& world, const Input& input) {
  const std::string head = fmt::format("{}  peer-{}", stamp(world), input.peer);
  pending_.clear();
  switch (input.kind) {
    case Input::Kind::start:
      line_(head + " starts");
      break;
    case Input::Kind::contact:
      line_(fmt::format("{} meets {}", head, peer_name(input.from)));
      break;
    case Input::Kind::message:
      line_(fmt::format("{} <- {}  {}", head, peer_name(input.from), to_string(*input.message)));
      break;
    case Input::Kind::block:
      line_(fmt::format("{} <- {}  block {} {}+{}", head, peer_name(input.from),
                        name_of(input.block->id), input.block->offset, input.block->bytes.size()));
      break;
    case Input::Kind::tick:
      pending_ = head + " ticks";
      break;
    case Input::Kind::done:
      line_(fmt::format("{} has done step {}{}", head, input.done->step,
                        input.done->snapshot ? ", snapshot" : ""));
      break;
    case Input::Kind::lane_lost:
      line_(fmt::format("{} loses its lane to {}", head, peer_name(input.from)));
      break;
    case Input::Kind::leave:
      line_(head + " is told to leave");
      break;
  }
}

void Trace::on_effects(const Simulator&, PeerNumber, const NodeEffects& effects) {
  const bool quiet = effects.messages.empty() && effects.events.empty() &&
                     effects.transfers.empty() && effects.jobs.empty();
  if (quiet) return;
  if (!pending_.empty()) line_(std::exchange(pending_, {}));
  constexpr const char* indent = "                 ";
  for (const gv::Event& event : effects.events) {
    std::string text = fmt::format("{}* {}", indent, event.name);
    if (event.peer) text += " " + peer_name(*event.peer);
    if (event.reason != Reason::none) text += fmt::format(" {}", gv::to_string(event.reason));
    for (const auto& [name, value] : event.numbers) text += fmt::format(" {} {:.6g}", name, value);
    line_(text);
  }
  for (const Outgoing& out : effects.messages) {
    line_(fmt::format("{}-> {}  {}", indent, peer_name(out.to), to_string(out.message)));
  }
  for (const Transfer& transfer : effects.transfers) {
    line_(fmt::format("{}=> {}  {} bytes of {} from {}", indent, peer_name(transfer.to),
                      transfer.payload.bytes.size(), name_of(transfer.id), transfer.offset));
  }
  for (const Job& job : effects.jobs) {
    line_(fmt::format("{}computes {} steps{}{}{}", indent, job.steps,
                      job.forces.empty() ? "" : fmt::format(", {} forces", job.forces.size()),
                      job.adopt ? ", a fetched model" : "", job.save ? ", saves" : ""));
  }
}

void Trace::on_happening(const Simulator& world, const Happening& happening) {
  line_(fmt::format("{}  ## {}", stamp(world), to_string(happening)));
}

void Trace::on_state(const Simulator& world, PeerNumber peer, PeerState state) {
  if (state != PeerState::up) {
    line_(fmt::format("{}  peer-{} is {}", stamp(world), peer, to_string(state)));
  }
}

}  // namespace gv
