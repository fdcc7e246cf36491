// The messages of a round of mixing: their length, and how they are written and read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.hpp"

namespace gv {

struct MixRule;

/// A message of a round, from the mixer that writes it to the mixers that read it.
struct MixMessage {
  std::size_t from = 0;  ///< Rank of the sender.
  std::uint64_t round = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes;
  std::vector<std::size_t> to = {};  ///< Ranks of the receivers; a receiver is not told of others.
};

/// What a message contains.
enum class MixForm : std::uint16_t {
  coded,  ///< The rule's vectors, written by its codec.
  whole,  ///< The sender's whole reference, for neighbours that have no right copy of it.
  hello,  ///< No values, only the fingerprints of MixKnowledge.
};

/// Precedes the values of every message.
struct MixHeader {
  double weight = 1;
  std::uint32_t count = 0;
  MixForm form = MixForm::coded;
  std::uint16_t lacks = 0;  ///< 1: the sender has no copy of the receiver's reference.
};
static_assert(sizeof(MixHeader) == 16);

/// Follows the header where neighbours remember each other: fingerprints, see NeighbourMemory.
struct MixKnowledge {
  std::uint64_t sender = 0;    ///< Of the sender's reference, after this message.
  std::uint64_t receiver = 0;  ///< In a hello: of the sender's copy of the receiver's reference.
};
static_assert(sizeof(MixKnowledge) == 16);

/// Offset and length of the piece of the model that a round mixes.
std::pair<std::size_t, std::size_t> piece_of(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round);
/// The same for a piece by its number, where each peer chooses its own. The last piece may overlap
/// the one before.
std::pair<std::size_t, std::size_t> chosen_piece(const MixRule& rule, std::size_t elements,
                                                 std::size_t piece);

/// Bytes of a message of that rule, round and form.
template <class Real>
std::size_t mix_message_bytes(const MixRule& rule, std::size_t elements, std::uint64_t round,
                              MixForm form = MixForm::coded);
/// Bytes of a message that begins with `begin`; nullopt if that is shorter than the header.
template <class Real>
std::optional<std::size_t> mix_message_bytes(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round, std::span<const std::byte> begin);

/// A bound for messages of any rule: two values for each element, each with its place.
constexpr std::size_t mix_message_bytes_max(std::size_t elements) {
  return 4096 + elements * 2 * (sizeof(float) + sizeof(std::uint32_t));
}

/// What a message says.
template <class Real>
struct MixContent {
  MixHeader header;
  MixKnowledge knowledge;
  std::vector<Real> values;  ///< All vectors of the message, one behind the other.
};

/// Writes a message. Each vector in `words` has the length of the round's piece; a hello has none.
/// With any codec but identity, doubles are rounded to floats.
template <class Real>
std::shared_ptr<std::vector<std::byte>> write_message(const MixRule& rule, const MixHeader& header,
                                                      std::span<const std::span<const Real>> words,
                                                      Rng rng);
/// Writes the knowledge into a message. This comes last, because its fingerprints depend on the
/// decoded values.
void write_knowledge(std::span<std::byte> message, const MixKnowledge& knowledge);

/// Reads a message; nullopt if it does not fit that rule and round, or a value is not finite.
template <class Real>
std::optional<MixContent<Real>> read_message(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round, std::span<const std::byte> bytes);

}  // namespace gv
