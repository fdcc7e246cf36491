// The memory that a peer shares with each of its partners, so that exchanges send less data.
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

/// Each pair has one vector r, equal at both peers bit for bit: their common view of the mean of
/// the two models after their last exchange. For a model x and a codec C, only C(x - r) is sent,
/// and both peers use r + C(x - r) for x. The part that a codec leaves out stays in x - r and is
/// sent later. With the elastic coefficient 1/2 and no other exchange in between, x - r becomes x -
/// r - C(x - r). So a contractive codec, or an unbiased one with omega < 1, brings both models to
/// r, as CHOCO's references do (Koloskova, Stich and Jaggi 2019). But a pair needs only one vector,
/// while CHOCO needs one for each end.
///
/// A key identifies the exchanges that led to r. Each code begins with the key, so the peers notice
/// if one of them has lost r. In the first exchange of a pair, whose key is 0, models are sent in
/// full. If they were coded with r = 0, one peer might send a large weight that the other leaves
/// out, and both would move by half of it.
///
/// Keeps a vector for each of at most `partners_max` partners. If there are more, forgets the
/// partner that was not met for the longest time. Pure, with value semantics.
class PairMemories {
 public:
  static constexpr std::size_t partners_max = 64;
  static constexpr std::size_t key_bytes = sizeof(std::uint64_t);

  /// The key of the partner's memory; 0 if there is none.
  std::uint64_t key_of(PeerId partner) const;

  /// The code of `model` for the partner: the key, followed by the model or C(model - r).
  std::vector<std::byte> encode(const Codec& codec, PeerId partner, std::span<const float> model,
                                Rng rng) const;
  /// The size in bytes of a code with this key.
  static std::uint64_t code_bytes(const Codec& codec, std::uint64_t key, std::size_t elements);
  /// The key in the first bytes of a code, which must have at least `key_bytes`.
  static std::uint64_t key_in(std::span<const std::byte> code);
  /// Decodes the model, as both peers see it, into `model`. Returns false if the key differs from
  /// ours, or if the code is invalid or has values that are not finite.
  bool decode(const Codec& codec, PeerId partner, std::span<const std::byte> code,
              std::span<float> model) const;

  /// Call when an exchange is complete. `values` becomes the pair's r.
  void keep(PeerId partner, const TransferId& exchange, std::vector<float> values);
  void forget(PeerId partner) { memories_.erase(partner); }

  /// Number of remembered partners.
  std::size_t held() const { return memories_.size(); }

  friend class Fields;
  static constexpr std::size_t field_count = 2;

 private:
  struct Memory {
    std::uint64_t key = 0;
    std::uint64_t kept = 0;  ///< Number of the exchange that made this memory, counted over all
                             ///< partners.
    std::vector<float> values;
  };

  std::map<PeerId, Memory> memories_;
  std::uint64_t exchanges_ = 0;
};

}  // namespace gv
