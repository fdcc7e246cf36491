// The messages of a round of mixing: their sizes, and how to write and read them.
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

/// A message of one round, written by the sender's mixer and read by the receivers' mixers.
struct MixMessage {
  std::size_t from = 0;  ///< Rank of the sender.
  std::uint64_t round = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes;
  std::vector<std::size_t> to = {};  ///< Ranks of the receivers. This field is not sent.
};

/// The kinds of content that a message can have.
enum class MixForm : std::uint16_t {
  coded,  ///< The rule's vectors, encoded by the rule's codec.
  whole,  ///< The sender's whole reference, for neighbours that have no correct copy of it.
  hello,  ///< No values, only the fingerprints in MixKnowledge.
};

/// The header at the beginning of every message.
struct MixHeader {
  double weight = 1;
  std::uint32_t count = 0;
  MixForm form = MixForm::coded;
  std::uint16_t lacks = 0;  ///< 1 if the sender has no copy of the receiver's reference, else 0.
};
static_assert(sizeof(MixHeader) == 16);

/// Fingerprints that follow the header if neighbours keep copies (see NeighbourMemory).
struct MixKnowledge {
  std::uint64_t sender = 0;  ///< Fingerprint of the sender's reference, this message included.
  /// In a hello, the fingerprint of the sender's copy of the receiver's reference.
  std::uint64_t receiver = 0;
};
static_assert(sizeof(MixKnowledge) == 16);

/// Offset and length of the piece of the model that this round mixes.
std::pair<std::size_t, std::size_t> piece_of(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round);
/// Offset and length of the given piece, for rules in which each peer chooses its own. The last
/// piece may overlap the previous one.
std::pair<std::size_t, std::size_t> chosen_piece(const MixRule& rule, std::size_t elements,
                                                 std::size_t piece);

/// Size in bytes of a message of this form in this round of the rule.
template <class Real>
std::size_t mix_message_bytes(const MixRule& rule, std::size_t elements, std::uint64_t round,
                              MixForm form = MixForm::coded);
/// Size in bytes of a message whose first bytes are `begin`; nullopt if `begin` is shorter than a
/// header.
template <class Real>
std::optional<std::size_t> mix_message_bytes(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round, std::span<const std::byte> begin);

/// Upper bound on the size in bytes of any message: two values for each element, each with an
/// index.
constexpr std::size_t mix_message_bytes_max(std::size_t elements) {
  return 4096 + elements * 2 * (sizeof(float) + sizeof(std::uint32_t));
}

/// A decoded message.
template <class Real>
struct MixContent {
  MixHeader header;
  MixKnowledge knowledge;
  std::vector<Real> values;  ///< All vectors of the message, concatenated.
};

/// Writes a message. Each vector in `words` has the length of the round's piece. A hello has no
/// vectors. Every codec except identity rounds doubles to floats.
template <class Real>
std::shared_ptr<std::vector<std::byte>> write_message(const MixRule& rule, const MixHeader& header,
                                                      std::span<const std::span<const Real>> words,
                                                      Rng rng);
/// Writes the fingerprints into a finished message. They are written last because they depend on
/// the decoded values.
void write_knowledge(std::span<std::byte> message, const MixKnowledge& knowledge);

/// Reads a message. Returns nullopt if it does not match the rule and the round, or if it contains
/// a value that is not finite.
template <class Real>
std::optional<MixContent<Real>> read_message(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round, std::span<const std::byte> bytes);

}  // namespace gv
