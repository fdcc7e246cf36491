// The layout of every frame on the wire, derived from the fields of its struct.
#include "net/wire.hpp"

#include <exception>
#include <tuple>
#include <type_traits>

#include "base/fields.hpp"
#include "net/bounded_archive.hpp"

namespace gv {

// These functions are not in an anonymous namespace, because Cereal finds them by
// argument-dependent lookup. They are not beside the types, because the consensus code does not
// know the wire format.

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

// Any 64-bit value may be a peer's id.
inline void save(BoundedOutputArchive& archive, const PeerId& id) {
  archive.write(static_cast<std::uint64_t>(id));
}
inline void load(BoundedInputArchive& archive, PeerId& id) {
  id = PeerId{archive.read<std::uint64_t>()};
}

template <class T>
void save(BoundedOutputArchive& archive, const std::optional<T>& value) {
  archive(value.has_value());
  if (value) archive(*value);
}
template <class T>
void load(BoundedInputArchive& archive, std::optional<T>& value) {
  if (archive.read<bool>()) archive(value.emplace());
}

template <BoundedArchive A>
void serialize(A& ar, TransferId& id) {
  ar(id.kind, id.owner, id.session, id.number, id.stage);
}

/// Serialises one field of a struct with varints.
template <BoundedArchive A, class Field>
void serialize_with_varints(A& ar, Field& field) {
  constexpr bool reads = std::is_same_v<A, BoundedInputArchive>;
  if constexpr (std::is_same_v<Field, std::uint64_t>) {
    if constexpr (reads) {
      field = ar.read_varint();
    } else {
      ar.write_varint(field);
    }
  } else {
    ar(field);
  }
}

template <BoundedArchive A, class Element>
void serialize_with_varints(A& ar, std::vector<Element>& list) {
  if constexpr (std::is_same_v<A, BoundedInputArchive>) {
    list.resize(ar.read_varint_size(archive_elements_max));
  } else {
    archive_detail::require_at_most(list.size(), archive_elements_max, "elements");
    ar.write_varint(list.size());
  }
  for (Element& element : list) ar(element);
}

/// Serialises every other struct as its fields in order. Throws if the struct breaks one of its own
/// bounds.
template <BoundedArchive A, PlainStruct T>
void serialize(A& ar, T& value) {
  std::apply(
      [&ar](auto&... fields) {
        if constexpr (HasVarints<T>) {
          (serialize_with_varints(ar, fields), ...);
        } else {
          (ar(fields), ...);
        }
      },
      fields_of(value));
  if constexpr (requires { value.problem(); }) {
    if (const std::string problem = value.problem(); !problem.empty()) throw ArchiveError(problem);
  }
}

namespace {

// Kinds of frames: 1 hello, 2 invite, 3 a guest's request, 4 the answer to it, 5 step towards a
// relayed lane, 6 request of doctor, 7 the answer to it, 8 check of a link; messages are numbered
// from 16 on, in the order of their variant.
constexpr std::uint8_t hello_kind = 1;
constexpr std::uint8_t invite_kind = 2;
constexpr std::uint8_t request_kind = 3;
constexpr std::uint8_t answer_kind = 4;
constexpr std::uint8_t relay_kind = 5;
constexpr std::uint8_t exam_kind = 6;
constexpr std::uint8_t exam_answer_kind = 7;
constexpr std::uint8_t check_kind = 8;
constexpr std::uint8_t first_message_kind = 16;

/// Returns a default message of the kind with this index, to be filled in; nullopt for an unknown
/// kind.
template <std::size_t Index = 0>
std::optional<Message> blank_message(std::size_t index) {
  if constexpr (Index < std::variant_size_v<MessageVariant>) {
    if (index == Index) return std::variant_alternative_t<Index, MessageVariant>{};
    return blank_message<Index + 1>(index);
  } else {
    return std::nullopt;
  }
}

std::optional<Frame> blank_frame(std::uint8_t kind) {
  if (kind == hello_kind) return Hello{};
  if (kind == invite_kind) return LaneInvite{};
  if (kind == request_kind) return JoinRequest{};
  if (kind == answer_kind) return JoinAnswer{};
  if (kind == relay_kind) return RelayStep{};
  if (kind == exam_kind) return ExamRequest{};
  if (kind == exam_answer_kind) return ExamAnswer{};
  if (kind == check_kind) return LinkCheck{};
  if (kind < first_message_kind) return std::nullopt;
  if (auto message = blank_message(std::size_t{kind} - first_message_kind)) return *message;
  return std::nullopt;
}

/// Calls `use` with the struct inside the frame.
template <class AnyFrame, class Use>
auto visit_frame(AnyFrame& frame, Use use) {
  return std::visit(
      [&](auto& body) {
        if constexpr (std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(body)>>,
                                     Message>) {
          return std::visit(use, body);
        } else {
          return use(body);
        }
      },
      frame);
}

std::string name_of(const Frame& frame) {
  return visit_frame(frame, []<class T>(const T&) { return std::string(type_name<T>()); });
}

Decoded refused(std::string problem) { return {std::nullopt, std::move(problem)}; }

}  // namespace

std::vector<std::byte> encode(const Frame& frame) {
  std::uint8_t kind = invite_kind;
  if (std::holds_alternative<Hello>(frame)) kind = hello_kind;
  if (std::holds_alternative<JoinRequest>(frame)) kind = request_kind;
  if (std::holds_alternative<JoinAnswer>(frame)) kind = answer_kind;
  if (std::holds_alternative<RelayStep>(frame)) kind = relay_kind;
  if (std::holds_alternative<ExamRequest>(frame)) kind = exam_kind;
  if (std::holds_alternative<ExamAnswer>(frame)) kind = exam_answer_kind;
  if (std::holds_alternative<LinkCheck>(frame)) kind = check_kind;
  if (const auto* message = std::get_if<Message>(&frame)) {
    kind = static_cast<std::uint8_t>(first_message_kind + message->index());
  }
  std::vector<std::byte> bytes;
  BoundedOutputArchive archive(bytes);
  archive.write(wire_version);
  archive.write(kind);
  visit_frame(frame, [&](const auto& body) { archive(body); });
  if (bytes.size() > frame_bytes_max) {
    throw ArchiveError("a frame " + name_of(frame) + " of " + std::to_string(bytes.size()) +
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
    return refused("the frame " + name_of(*frame) + " is malformed: " + error.what());
  }
  return {std::move(frame), {}};
}

}  // namespace gv
