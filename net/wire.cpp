// The layout of every frame on the wire, field by field.
#include "net/wire.hpp"

#include <array>
#include <cmath>
#include <concepts>
#include <exception>
#include <type_traits>

#include "net/bounded_archive.hpp"

namespace gv {

// These stand outside an anonymous namespace because Cereal finds them by their arguments'
// namespace, and here rather than at the types because the consensus code knows nothing of the
// wire.

/// The last value of each enumeration that travels.
constexpr Reason last_value(Reason) { return Reason::resting; }
constexpr MemberState last_value(MemberState) { return MemberState::left; }
constexpr Phase last_value(Phase) { return Phase::done; }
constexpr TransferKind last_value(TransferKind) { return last_transfer_kind; }

template <class E>
concept WireEnum = std::is_enum_v<E> && requires(E e) {
  last_value(e);
};

template <WireEnum E>
void save(BoundedOutputArchive& archive, const E& value) {
  archive.write(static_cast<std::underlying_type_t<E>>(value));
}

template <WireEnum E>
void load(BoundedInputArchive& archive, E& value) {
  const auto number = archive.read<std::underlying_type_t<E>>();
  if (number > static_cast<std::underlying_type_t<E>>(last_value(E{}))) {
    throw ArchiveError(std::to_string(number) + " is not a known choice");
  }
  value = static_cast<E>(number);
}

// Every 64-bit value is a possible peer.
inline void save(BoundedOutputArchive& archive, const PeerId& id) {
  archive.write(static_cast<std::uint64_t>(id));
}
inline void load(BoundedInputArchive& archive, PeerId& id) {
  id = PeerId{archive.read<std::uint64_t>()};
}

/// A number that goes into arithmetic unchecked, so NaN and infinity are refused here.
struct Finite {
  const char* name;
  float& value;

  void require() const {
    if (!std::isfinite(value)) throw ArchiveError(std::string(name) + " is not a finite number");
  }
};

inline void save(BoundedOutputArchive& archive, const Finite& field) {
  field.require();
  archive.write(field.value);
}
inline void load(BoundedInputArchive& archive, Finite& field) {
  field.value = archive.read<float>();
  field.require();
}

template <BoundedArchive A>
void serialize(A& ar, TransferId& id) {
  ar(id.kind, id.owner, id.session, id.number, id.stage);
}

/// Hyper-parameters that another peer may take over must be usable for training.
inline void require_sound(const Trial& trial) {
  if (!(trial.learning_rate > 0)) throw ArchiveError("the learning rate is not above 0");
  if (!(trial.momentum >= 0 && trial.momentum < 1)) {
    throw ArchiveError("the momentum is not between 0 and 1");
  }
}

template <BoundedArchive A>
void serialize(A& ar, Trial& t) {
  ar(Finite{"the learning rate", t.learning_rate}, Finite{"the momentum", t.momentum},
     Finite{"the validation loss", t.validation_loss});
  require_sound(t);
}

/// A template, or a Trial would become one of these unasked.
template <std::same_as<std::optional<Trial>> T>
void save(BoundedOutputArchive& archive, const T& trial) {
  archive(trial.has_value());
  if (trial) archive(*trial);
}
template <std::same_as<std::optional<Trial>> T>
void load(BoundedInputArchive& archive, T& trial) {
  if (archive.read<bool>()) archive(trial.emplace());
}

template <BoundedArchive A>
void serialize(A& ar, Progress& p) {
  ar(p.step, Finite{"the number of steps per second", p.steps_per_second}, p.phase, p.trial);
}

template <BoundedArchive A>
void serialize(A& ar, Member& m) {
  ar(m.id, m.name, m.key, m.address, m.incarnation, m.state, m.accuser, m.layout_hash, m.progress);
}

template <BoundedArchive A>
void serialize(A& ar, Ping& m) {
  ar(m.sequence, m.progress, m.rumors);
}

template <BoundedArchive A>
void serialize(A& ar, PingRequest& m) {
  ar(m.sequence, m.target, m.rumors);
}

template <BoundedArchive A>
void serialize(A& ar, Ack& m) {
  ar(m.sequence, m.about, m.progress, m.rumors);
}

template <BoundedArchive A>
void serialize(A& ar, Nack& m) {
  ar(m.sequence, m.rumors);
}

template <BoundedArchive A>
void serialize(A& ar, PushPull& m) {
  ar(m.reply, m.members);
}

template <BoundedArchive A>
void serialize(A& ar, Offer& m) {
  ar(m.id, m.round, m.layout_hash, m.elements, m.codec, Finite{"alpha", m.alpha},
     Finite{"the clip radius", m.clip_radius}, m.step, m.checksum);
}

template <BoundedArchive A>
void serialize(A& ar, Accept& m) {
  ar(m.id, Finite{"alpha", m.alpha}, Finite{"the clip radius", m.clip_radius}, m.step, m.checksum);
}

template <BoundedArchive A>
void serialize(A& ar, Refuse& m) {
  ar(m.id, m.reason);
}

template <BoundedArchive A>
void serialize(A& ar, Ready& m) {
  ar(m.id);
}

template <BoundedArchive A>
void serialize(A& ar, Commit& m) {
  ar(m.id);
}

template <BoundedArchive A>
void serialize(A& ar, Query& m) {
  ar(m.id);
}

template <BoundedArchive A>
void serialize(A& ar, Abort& m) {
  ar(m.id, m.reason);
}

template <BoundedArchive A>
void serialize(A& ar, Resume& m) {
  ar(m.id, m.offset);
}

template <BoundedArchive A>
void serialize(A& ar, StateRequest& m) {
  ar(m.id, m.layout_hash, m.version, m.offset);
}

template <BoundedArchive A>
void serialize(A& ar, TransferAccepted& m) {
  ar(m.id, m.layout_hash, m.elements, m.version, m.offset);
}

template <BoundedArchive A>
void serialize(A& ar, GenerationId& id) {
  ar(id.counter, id.proposer);
}

template <BoundedArchive A>
void serialize(A& ar, ModelVersion& s) {
  ar(s.step, s.samples, s.lineage);
}

template <BoundedArchive A>
void serialize(A& ar, Propose& m) {
  ar(m.ballot);
}

template <BoundedArchive A>
void serialize(A& ar, LinkReport& r) {
  ar(r.to, Finite{"the latency", r.latency_s},
     Finite{"the number of bytes per second", r.bytes_per_second});
}

template <BoundedArchive A>
void serialize(A& ar, StageHolding& c) {
  ar(c.stage, c.carried, c.version);
}

template <BoundedArchive A>
void serialize(A& ar, StageAssignment& d) {
  ar(d.stage, d.carrier, d.source);
}

template <BoundedArchive A>
void serialize(A& ar, SettingsRevision& r) {
  ar(r.number, r.settings);
  if (r.settings.size() > revision_bytes_max) {
    throw ArchiveError("a settings revision of " + std::to_string(r.settings.size()) +
                       " bytes is over the limit of " + std::to_string(revision_bytes_max));
  }
}

template <BoundedArchive A>
void serialize(A& ar, Promise& m) {
  ar(m.ballot, m.version, Finite{"the number of samples per second", m.samples_per_second}, m.links,
     m.holdings, m.leaves, m.revision);
  if (m.holdings.size() > stage_holdings_max) {
    throw ArchiveError(std::to_string(m.holdings.size()) + " stages are over the limit of " +
                       std::to_string(stage_holdings_max));
  }
  if (m.links.size() > link_reports_max) {
    throw ArchiveError(std::to_string(m.links.size()) + " links are over the limit of " +
                       std::to_string(link_reports_max));
  }
}

template <BoundedArchive A>
void serialize(A& ar, Preempted& m) {
  ar(m.ballot);
}

template <BoundedArchive A>
void serialize(A& ar, Install& m) {
  ar(m.ballot, m.order, m.sources, m.shares, m.version, m.algorithm, m.slowest_from, m.slowest,
     m.assignments, m.revision);
}

template <BoundedArchive A>
void serialize(A& ar, EndGeneration& m) {
  ar(m.ballot, m.blamed);
}

template <BoundedArchive A>
void serialize(A& ar, Complete& m) {
  ar(m.ballot, m.step, m.again);
}

template <BoundedArchive A>
void serialize(A& ar, Audit& m) {
  ar(m.ballot, m.step, m.fingerprint);
}

template <BoundedArchive A>
void serialize(A& ar, StatusRequest& m) {
  ar(m.ballot);
}

template <BoundedArchive A>
void serialize(A& ar, StatusReply& m) {
  ar(m.ballot, m.step, m.busy);
}

template <BoundedArchive A>
void serialize(A& ar, ProbeAck& m) {
  ar(m.id);
}

template <BoundedArchive A>
void serialize(A& ar, Hello& m) {
  ar(m.name, m.advertise, m.session, m.agreement, m.answer);
}

template <BoundedArchive A>
void serialize(A& ar, LaneInvite& m) {
  ar(m.lane, m.token, m.address, m.unix_path, m.host, m.previous, m.answer, m.refused);
}

namespace {

// Kinds: hello 1, invite 2, messages from 16 on in the order of the variant.
constexpr std::uint8_t hello_kind = 1;
constexpr std::uint8_t invite_kind = 2;
constexpr std::uint8_t first_message_kind = 16;
constexpr std::array message_names = {
    "ping",           "ping request", "ack",          "nack",          "push-pull",
    "offer",          "accept",       "refuse",       "ready",         "commit",
    "query",          "abort",        "resume",       "state request", "transfer accepted",
    "propose",        "promise",      "preempted",    "install",       "end of generation",
    "status request", "status reply", "probe answer", "complete",      "audit"};
static_assert(message_names.size() == std::variant_size_v<Message>);

/// A default value of the kind, to be filled in; empty for an unknown kind.
template <std::size_t Index = 0>
std::optional<Message> blank_message(std::size_t index) {
  if constexpr (Index < std::variant_size_v<Message>) {
    if (index == Index) return Message(std::in_place_index<Index>);
    return blank_message<Index + 1>(index);
  } else {
    return std::nullopt;
  }
}

std::optional<Frame> blank_frame(std::uint8_t kind) {
  if (kind == hello_kind) return Hello{};
  if (kind == invite_kind) return LaneInvite{};
  if (kind < first_message_kind) return std::nullopt;
  if (auto message = blank_message(std::size_t{kind} - first_message_kind)) return *message;
  return std::nullopt;
}

std::string kind_name(std::uint8_t kind) {
  if (kind == hello_kind) return "hello";
  if (kind == invite_kind) return "lane invite";
  return message_names.at(std::size_t{kind} - first_message_kind);
}

/// Calls `use` with the struct inside, whatever it is.
template <class AnyFrame, class Use>
void visit_frame(AnyFrame& frame, Use use) {
  std::visit(
      [&](auto& body) {
        if constexpr (std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(body)>>,
                                     Message>) {
          std::visit(use, body);
        } else {
          use(body);
        }
      },
      frame);
}

Decoded refused(std::string problem) { return {std::nullopt, std::move(problem)}; }

}  // namespace

std::vector<std::byte> encode(const Frame& frame) {
  std::uint8_t kind = invite_kind;
  if (std::holds_alternative<Hello>(frame)) kind = hello_kind;
  if (const auto* message = std::get_if<Message>(&frame)) {
    kind = static_cast<std::uint8_t>(first_message_kind + message->index());
  }
  std::vector<std::byte> bytes;
  BoundedOutputArchive archive(bytes);
  archive.write(wire_version);
  archive.write(kind);
  visit_frame(frame, [&](const auto& body) { archive(body); });
  if (bytes.size() > frame_bytes_max) {
    throw ArchiveError("a " + kind_name(kind) + " frame of " + std::to_string(bytes.size()) +
                       " bytes is over the limit of " + std::to_string(frame_bytes_max));
  }
  return bytes;
}

Decoded decode(std::span<const std::byte> bytes) {
  if (bytes.size() > frame_bytes_max) {
    return refused("the frame has " + std::to_string(bytes.size()) + " bytes, over the limit of " +
                   std::to_string(frame_bytes_max));
  }
  if (bytes.empty()) return refused("the frame is empty");
  const auto version = std::to_integer<std::uint8_t>(bytes[0]);
  if (version != wire_version) {
    return refused("the frame has wire version " + std::to_string(version) +
                   ", this program speaks version " + std::to_string(wire_version));
  }
  if (bytes.size() < 2) return refused("the frame ends before its kind");
  const auto kind = std::to_integer<std::uint8_t>(bytes[1]);
  std::optional<Frame> frame = blank_frame(kind);
  if (!frame) return refused("the frame has the unknown kind " + std::to_string(kind));
  try {
    BoundedInputArchive archive(bytes.subspan(2));
    visit_frame(*frame, [&](auto& body) { archive(body); });
    archive.finish();
  } catch (const std::exception& error) {  // Cereal and the library throw types of their own.
    return refused("the " + kind_name(kind) + " frame is malformed: " + error.what());
  }
  return {std::move(frame), {}};
}

}  // namespace gv
