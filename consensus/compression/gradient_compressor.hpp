// Gradient compressors: what each peer sends to a sum instead of its whole gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/range.hpp"
#include "base/rng.hpp"
#include "consensus/codec/sparse_vector.hpp"

namespace gv {

/// One sum, as its peers know it. All but the rank is equal at all of them.
struct GradientSum {
  std::uint64_t step = 0;             ///< The step that it begins at.
  bool local = false;                 ///< It sums the changes of local steps, not gradients.
  std::uint64_t generation = 0;       ///< The key of the generation that makes it.
  std::uint64_t number = 0;           ///< Sums made in that generation before.
  std::vector<std::uint32_t> shares;  ///< Samples of each peer, by rank.
  std::size_t rank = 0;               ///< Our own.
};

/// What travels in a sum. The default is a whole gradient of unknown size.
struct CompressionPlan {
  GradientSum sum;
  std::size_t elements = 0;  ///< Values that travel.
  /// The first of these values, one range for each rank: they are gathered and not summed. May be
  /// empty.
  std::vector<Range> parts;
  /// Offsets of dense layers' weights. The learner writes their factors there instead of their
  /// gradient.
  std::vector<std::size_t> factored;
  /// The gradient is computed where it travels, and encoded there.
  bool in_place = true;
  /// Elements are encoded one by one, so the end of a gradient may travel while its beginning is
  /// still being computed.
  bool piecewise = true;
};

/// A way to send less than a whole gradient. For each sum, a mode asks one instance what travels; a
/// replica has an instance of its own, because encode() and decode() keep what did not travel and
/// add it to the next gradient (error feedback). An instance allocates nothing before the first
/// encode(). Pure.
class GradientCompressor {
 public:
  /// Vectors with their names.
  using Named = std::vector<std::pair<std::string, std::vector<float>>>;

  virtual ~GradientCompressor() = default;

  /// Another instance with the same options, which has encoded nothing.
  virtual std::unique_ptr<GradientCompressor> blank() const = 0;

  /// How the values of a sum are written.
  virtual WireFormat wire() const = 0;
  /// Values of the longest sum.
  virtual std::size_t longest() const = 0;
  /// True if a gradient encoded in one generation is of no use in the next.
  virtual bool depends_on_generation() const { return false; }
  /// What travels in that sum.
  virtual CompressionPlan plan(const GradientSum& sum) const = 0;

  /// Encodes a gradient, or the changes of local steps. If the plan is in place, `gradient` becomes
  /// what travels and `out` is not used. Otherwise what travels is written into `out`, of the
  /// plan's size, and the contents of `gradient` are then unspecified. If the plan is piecewise,
  /// `gradient` may be a part of it. A gradient may be encoded again before its sum has come, as if
  /// it had not been encoded before. False if a value is not finite, or not in its codec.
  bool encode(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
              Rng draws);

  /// The mean gradient that a sum stands for; valid until the next call. The sum may be longer than
  /// planned. Settles the newest encode() of that plan: what did not travel is then kept for good.
  virtual std::span<const float> decode(const CompressionPlan& plan,
                                        std::span<const float> sum) = 0;

  /// Drops all that is kept: the model was replaced, and it does not belong to the new one.
  virtual void clear() {}

  /// The vectors that a checkpoint has to hold, by name; none while they are of local steps.
  Named lasting() const { return local_ ? Named() : kept(); }
  /// Restores one of these vectors, before the first encode(). Ignores a name it does not know and
  /// a vector of another size.
  virtual void restore(const std::string&, std::vector<float>) {}

 private:
  virtual bool write(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
                     Rng draws) = 0;
  virtual Named kept() const { return {}; }

  bool local_ = false;  ///< Values are of local steps, whose units differ from gradients'.
};

}  // namespace gv
