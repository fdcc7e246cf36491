// Writes and reads the header, fingerprints and coded values of a message.
#include "consensus/mixing/mix_message.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "consensus/codec/codec.hpp"
#include "consensus/mixing/mix_rule.hpp"

namespace gv {
namespace {

/// The largest weight that is accepted in a push-sum message. Real weights add up to the number of
/// peers or of samples, so they are far smaller. Sums of accepted weights stay finite, because a
/// peer with a large weight gives away at least half of it in each round.
constexpr double weight_max = 0x1p60;

/// True if messages are differences from references, and neighbours keep copies of the references.
bool remembers(const MixRule& rule) { return traits_of(rule).keeps_copies; }

/// The codec of a message of this form. A whole reference must be identical at all peers, so it is
/// sent without loss. Coded values are damped if a memory later makes up for losses.
Codec codec_of(const MixRule& rule, MixForm form) {
  Codec codec = form == MixForm::coded ? rule.codec : Codec{};
  codec.damped = rule.memory != MixMemory::none;
  return codec;
}

std::size_t begin_of_values(const MixRule& rule) {
  return sizeof(MixHeader) + (remembers(rule) ? sizeof(MixKnowledge) : 0);
}

template <class Real>
std::size_t bytes_of(const Codec& codec, std::size_t count) {
  if (codec.kind == CodecKind::identity) return count * sizeof(Real);
  return encoded_size(codec, count);
}

std::size_t words_of(const MixRule& rule, MixForm form) {
  return form == MixForm::hello ? 0 : traits_of(rule).words;
}

/// True if this rule can produce a message with this header.
bool is_sound(const MixHeader& header, const MixRule& rule) {
  const bool has_form =
      header.form == MixForm::coded ||
      (remembers(rule) && (header.form == MixForm::whole || header.form == MixForm::hello));
  return has_form && header.lacks <= (remembers(rule) ? 1 : 0) && header.weight > 0 &&
         header.weight <= weight_max;
}

template <class Real>
void encode_values(const Codec& codec, std::span<const Real> values, Rng& rng,
                   std::span<std::byte> out) {
  if constexpr (std::is_same_v<Real, float>) {
    encode(codec, values, rng, out);
  } else if (codec.kind == CodecKind::identity) {
    std::memcpy(out.data(), values.data(), values.size_bytes());
  } else {
    const std::vector<float> rounded(values.begin(), values.end());
    encode(codec, rounded, rng, out);
  }
}

template <class Real>
bool decode_values(const Codec& codec, std::span<const std::byte> bytes, std::span<Real> out) {
  if constexpr (std::is_same_v<Real, float>) {
    return decode(codec, bytes, out);
  } else if (codec.kind == CodecKind::identity) {
    if (bytes.size() != out.size_bytes()) return false;
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return std::ranges::all_of(out, [](Real value) { return std::isfinite(value); });
  } else {
    std::vector<float> values(out.size());
    if (!decode(codec, bytes, values)) return false;
    std::ranges::copy(values, out.begin());
    return true;
  }
}

}  // namespace

std::pair<std::size_t, std::size_t> chosen_piece(const MixRule& rule, std::size_t elements,
                                                 std::size_t piece) {
  const std::size_t length = (elements + rule.fragments - 1) / rule.fragments;
  return {std::min(piece * length, elements - length), length};
}

std::pair<std::size_t, std::size_t> piece_of(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round) {
  // If each peer chooses its own piece, all pieces have the length of the longest one.
  if (rule.fragment_order != FragmentOrder::in_turn) return chosen_piece(rule, elements, 0);
  const auto piece = static_cast<std::size_t>(round % rule.fragments);
  const std::size_t begin = elements * piece / rule.fragments;
  return {begin, elements * (piece + 1) / rule.fragments - begin};
}

template <class Real>
std::size_t mix_message_bytes(const MixRule& rule, std::size_t elements, std::uint64_t round,
                              MixForm form) {
  const std::size_t length = piece_of(rule, elements, round).second;
  return begin_of_values(rule) +
         words_of(rule, form) * bytes_of<Real>(codec_of(rule, form), length);
}

template <class Real>
std::optional<std::size_t> mix_message_bytes(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round,
                                             std::span<const std::byte> begin) {
  if (!remembers(rule)) return mix_message_bytes<Real>(rule, elements, round);
  if (begin.size() < sizeof(MixHeader)) return std::nullopt;
  MixHeader header;
  std::memcpy(&header, begin.data(), sizeof(header));
  // If the header is invalid, read_message() will refuse the message, so assume the shortest form.
  if (!is_sound(header, rule)) header.form = MixForm::hello;
  return mix_message_bytes<Real>(rule, elements, round, header.form);
}

template <class Real>
std::shared_ptr<std::vector<std::byte>> write_message(const MixRule& rule, const MixHeader& header,
                                                      std::span<const std::span<const Real>> words,
                                                      Rng rng) {
  const Codec codec = codec_of(rule, header.form);
  std::size_t size = begin_of_values(rule);
  for (const std::span<const Real> word : words) size += bytes_of<Real>(codec, word.size());
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  std::memcpy(bytes->data(), &header, sizeof(header));
  std::span<std::byte> rest = std::span(*bytes).subspan(begin_of_values(rule));
  for (const std::span<const Real> word : words) {
    const std::size_t length = bytes_of<Real>(codec, word.size());
    encode_values<Real>(codec, word, rng, rest.first(length));
    rest = rest.subspan(length);
  }
  return bytes;
}

void write_knowledge(std::span<std::byte> message, const MixKnowledge& knowledge) {
  std::memcpy(message.data() + sizeof(MixHeader), &knowledge, sizeof(knowledge));
}

template <class Real>
std::optional<MixContent<Real>> read_message(const MixRule& rule, std::size_t elements,
                                             std::uint64_t round,
                                             std::span<const std::byte> bytes) {
  if (bytes.size() < begin_of_values(rule)) return std::nullopt;
  MixContent<Real> content;
  MixHeader& header = content.header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (!is_sound(header, rule) ||
      bytes.size() != mix_message_bytes<Real>(rule, elements, round, header.form)) {
    return std::nullopt;
  }
  if (remembers(rule)) {
    std::memcpy(&content.knowledge, bytes.data() + sizeof(header), sizeof(MixKnowledge));
  }
  bytes = bytes.subspan(begin_of_values(rule));
  const Codec codec = codec_of(rule, header.form);
  const std::size_t length = piece_of(rule, elements, round).second;
  const std::size_t size = bytes_of<Real>(codec, length);
  const std::size_t words = words_of(rule, header.form);
  content.values.resize(words * length);
  for (std::size_t word = 0; word < words; ++word) {
    const auto out = std::span(content.values).subspan(word * length, length);
    if (!decode_values<Real>(codec, bytes.subspan(word * size, size), out)) return std::nullopt;
  }
  return content;
}

// float is for models, double for tests against closed forms.
#define GV_FOR(Real)                                                                       \
  template std::size_t mix_message_bytes<Real>(const MixRule&, std::size_t, std::uint64_t, \
                                               MixForm);                                   \
  template std::optional<std::size_t> mix_message_bytes<Real>(                             \
      const MixRule&, std::size_t, std::uint64_t, std::span<const std::byte>);             \
  template std::shared_ptr<std::vector<std::byte>> write_message<Real>(                    \
      const MixRule&, const MixHeader&, std::span<const std::span<const Real>>, Rng);      \
  template std::optional<MixContent<Real>> read_message<Real>(                             \
      const MixRule&, std::size_t, std::uint64_t, std::span<const std::byte>);
GV_FOR(float)
GV_FOR(double)
#undef GV_FOR

}  // namespace gv
