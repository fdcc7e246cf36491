// The frames on control links, and their encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/message/message.hpp"
#include "net/control_links.hpp"
#include "net/ticket.hpp"

namespace gv {

/// Longest frame. Longer ones are refused unread.
constexpr std::size_t frame_bytes_max = 64 * 1024;

/// First byte of every frame. Raise it whenever the layout of a frame changes.
constexpr std::uint8_t wire_version = 7;

/// The first frame in each direction: the sender's name, and settings on which both ends must
/// agree.
struct Hello {
  std::string name;       ///< The sender's own name.
  std::string advertise;  ///< The address to dial; empty if the sender cannot be dialled.
  std::uint64_t session = 0;
  std::vector<std::pair<std::string, std::string>> agreement;  ///< Pairs of a field and its value.
  bool answer = false;  ///< True if this answers the other side's hello.

  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Asks whether a connection of a link still works, or answers that question over the same
/// connection.
struct LinkCheck {
  bool answer = false;

  friend bool operator==(const LinkCheck&, const LinkCheck&) = default;
};

/// Everything that travels on a control link: a version byte, a kind byte, and the fields. A
/// JoinRequest and its answer travel between a guest and the peer that invites it. An ExamRequest
/// and its answer travel between doctor and a live peer.
using Frame = std::variant<Hello, LaneInvite, Message, JoinRequest, JoinAnswer, RelayStep,
                           ExamRequest, ExamAnswer, LinkCheck>;

/// Returns the bytes of a frame. Throws ArchiveError (a std::runtime_error) for content that no
/// peer would accept: more than `frame_bytes_max` bytes, strings over 4096 bytes, over 1024
/// elements, numbers that are not finite, and structs whose `problem()` is not empty.
std::vector<std::byte> encode(const Frame& frame);

/// A frame, or a sentence that says why there is none.
struct Decoded {
  std::optional<Frame> frame;
  std::string problem;
};

/// Decodes a frame. Never throws, and accepts only bytes that `encode` would have written.
Decoded decode(std::span<const std::byte> bytes);

}  // namespace gv
