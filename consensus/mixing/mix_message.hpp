// What travels in a round of mixing: how long it is, and how it is written and read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// The bytes that some peers are sent in a round.
struct MixMessage {
  std::vector<std::size_t> to;  ///< Ranks.
  std::shared_ptr<const std::vector<std::byte>> bytes;
};

/// What came from a peer.
struct MixArrival {
  std::size_t from = 0;  ///< Rank.
  std::uint64_t round = 0;
  std::span<const std::byte> bytes;
};

/// What a message says of its sender.
enum class MixForm : std::uint16_t {
  coded,  ///< What the rule sends, as its codec writes it.
  whole,  ///< What neighbours that remember know of it, for those who do not,
  hello,  ///< and whether that is so.
};

/// In front of the values of every message.
struct MixHeader {
  double weight = 1;
  std::uint32_t count = 0;
  MixForm form = MixForm::coded;
  std::uint16_t lacks = 0;  ///< 1: the sender does not know what the receiver's differences are to.
};
static_assert(sizeof(MixHeader) == 16);

/// Behind it where neighbours remember each other: fingerprints, see NeighbourMemory.
struct MixKnowledge {
  std::uint64_t sender = 0;    ///< Of what is known of the sender, once this message is.
  std::uint64_t receiver = 0;  ///< In a hello: of what the sender knows of the receiver.
};
static_assert(sizeof(MixKnowledge) == 16);

/// Where in the model the piece lies that a round is about, and how long it is.
std::pair<std::size_t, std::size_t> piece_of(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round);
/// The same for a piece by its number, where each peer chooses its own. The last may overlap.
std::pair<std::size_t, std::size_t> chosen_piece(const MixRule& rule, std::size_t elements,
                                                 std::size_t piece);

/// Bytes of a message of that round and form by that rule.
template <class Real>
std::size_t mix_message_bytes(const MixRule& rule, std::size_t elements, std::uint64_t round,
                              MixForm form = MixForm::coded);
/// Bytes of one that begins so; nullopt while its header is not there.
template <class Real>
std::optional<std::size_t> mix_message_bytes(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round, std::span<const std::byte> begin);

/// A bound for messages of any rule: two values for each element, and where each belongs.
constexpr std::size_t mix_message_bytes_max(std::size_t elements) {
  return 4096 + elements * 2 * (sizeof(float) + sizeof(std::uint32_t));
}

/// A message, taken apart.
template <class Real>
struct MixLetter {
  MixHeader header;
  MixKnowledge knowledge;
  std::vector<Real> values;  ///< As they were decoded: all words, one behind the other.
};

/// `words` are of the round's length each; a hello has none. With another codec than identity,
/// doubles are rounded to floats on their way.
template <class Real>
std::shared_ptr<std::vector<std::byte>> write_message(const MixRule& rule, const MixHeader& header,
                                                      std::span<const std::span<const Real>> words,
                                                      Rng rng);
/// The knowledge is put into messages last: what it is of depends on how values were decoded.
void write_knowledge(std::span<std::byte> message, const MixKnowledge& knowledge);

/// Nullopt if it is none of that round by that rule, or a value is not finite.
template <class Real>
std::optional<MixLetter<Real>> read_message(const MixRule& rule, std::size_t elements,
                                            std::uint64_t round, std::span<const std::byte> bytes);

}  // namespace gv
