// What a peer and each of its partners both know of their two models, so that exchanges can send
// less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/rng.hpp"
#include "consensus/codec/codec.hpp"
#include "consensus/message/transfer_id.hpp"

namespace gv {

/// Each pair has one vector r, equal at both to the bit: what its last exchange showed of the mean
/// of the two models. Then only C(x - r) travels, and both take r + C(x - r) for x. What a codec
/// leaves out stays in x - r, and is sent later. With the elastic coefficient 1/2 and no other
/// exchange in between, x - r becomes x - r - C(x - r): so a contractive codec, or an unbiased one
/// with omega < 1, brings both models to r, as CHOCO's references do (Koloskova, Stich and Jaggi
/// 2019), with one vector for a pair where these need one for each end.
///
/// A key names the exchanges that r came from. It leads each code, so that peers of which one has
/// forgotten r find out. In the first exchange of a pair, whose key is 0, models travel whole: from
/// r = 0 a large weight would be sent by one and left out by the other, and move both by half of
/// itself.
///
/// Keeps a model for each of at most `partners_max` partners, and forgets the one that it has not
/// met for the longest time. Pure, and a value.
class PairMemories {
 public:
  static constexpr std::size_t partners_max = 64;
  static constexpr std::size_t key_bytes = sizeof(std::uint64_t);

  /// 0 without a memory.
  std::uint64_t key_of(PeerId partner) const;

  /// The code of `model` for the partner: the key, and then the model or C(model - r).
  std::vector<std::byte> encode(const Codec& codec, PeerId partner, std::span<const float> model,
                                Rng rng) const;
  /// The bytes of such a code under this key.
  static std::uint64_t code_bytes(const Codec& codec, std::uint64_t key, std::size_t elements);
  /// The key in the first bytes of a code, of which there must be at least `key_bytes`.
  static std::uint64_t key_in(std::span<const std::byte> code);
  /// Writes what both take for the model to all of `model`. False if the key is another one than
  /// ours, or the code is none or has values that are not finite.
  bool decode(const Codec& codec, PeerId partner, std::span<const std::byte> code,
              std::span<float> model) const;

  /// An exchange is made: `values` becomes the pair's r.
  void keep(PeerId partner, const TransferId& exchange, std::vector<float> values);
  void forget(PeerId partner) { memories_.erase(partner); }

  /// Number of partners that are remembered.
  std::size_t held() const { return memories_.size(); }

  friend class Fields;
  static constexpr std::size_t field_count = 2;

 private:
  struct Memory {
    std::uint64_t key = 0;
    std::uint64_t kept = 0;  ///< Number of the exchange, counted over all partners.
    std::vector<float> values;
  };

  std::map<PeerId, Memory> memories_;
  std::uint64_t exchanges_ = 0;
};

}  // namespace gv
