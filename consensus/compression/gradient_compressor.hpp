// Gradient compressors: ways for a peer to contribute less than its whole gradient to a sum.
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

/// Describes one sum. Everything but `rank` is equal at all peers.
struct GradientSum {
  std::uint64_t step = 0;  ///< The optimiser step at which the sum begins.
  bool local = false;      ///< True if the sum is of the changes of local steps, not of gradients.
  std::uint64_t generation = 0;       ///< The key of the generation that computes the sum.
  std::uint64_t number = 0;           ///< Number of earlier sums in that generation.
  std::vector<std::uint32_t> shares;  ///< Number of samples of each peer, by rank.
  std::size_t rank = 0;               ///< Our own rank.
};

/// Describes the values that are sent in a sum. The default is a whole gradient of unknown size.
struct CompressionPlan {
  GradientSum sum;
  std::size_t elements = 0;  ///< Number of values that are sent.
  /// One range for each rank; together the ranges cover the beginning of the values sent. The
  /// values in these ranges are gathered, not summed. May be empty.
  std::vector<Range> parts;
  /// Offsets of the weights of dense layers. The learner writes the layers' factors there instead
  /// of the gradient.
  std::vector<std::size_t> factored;
  /// True if the gradient is encoded in the memory in which it was computed, and sent from there.
  bool in_place = true;
  /// True if elements are encoded one by one. The end of a gradient can then be sent while its
  /// beginning is still being computed.
  bool piecewise = true;
};

/// A way to send less than a whole gradient. The training mode has one instance, which plans the
/// values to send in each sum. Each replica has another instance, because encode() and decode()
/// keep the values that were not sent and add them to the next gradient (error feedback). An
/// instance allocates nothing before the first encode(). Pure.
class GradientCompressor {
 public:
  /// Vectors with their names.
  using Named = std::vector<std::pair<std::string, std::vector<float>>>;

  virtual ~GradientCompressor() = default;

  /// A new instance with the same options and no state.
  virtual std::unique_ptr<GradientCompressor> blank() const = 0;

  /// The format in which the values of a sum are written.
  virtual WireFormat wire() const = 0;
  /// Number of values in the longest possible sum.
  virtual std::size_t longest() const = 0;
  /// True if an encoded gradient is useless in the next generation.
  virtual bool depends_on_generation() const { return false; }
  /// The values that are sent in the given sum.
  virtual CompressionPlan plan(const GradientSum& sum) const = 0;

  /// Encodes a gradient, or the changes of local steps. If the plan is in place, the result
  /// replaces `gradient`, and `out` is not used. Otherwise the result is written to `out`, which
  /// has the plan's size, and `gradient` is then unspecified. If the plan is piecewise, `gradient`
  /// may be only a part. Until its sum has arrived, a gradient may be encoded again, as if for the
  /// first time. Values beyond `largest_gradient` are clamped. Returns false if a value is not
  /// finite, or would not be finite in its codec.
  bool encode(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
              Rng draws);

  /// Returns the mean gradient that a sum represents; valid until the next call. It may have any
  /// values, because parts of it may be gathered from hostile peers. The sum may be longer than
  /// planned. Also confirms the newest encode() of that plan: the values that it did not send are
  /// now kept for good.
  virtual std::span<const float> decode(const CompressionPlan& plan,
                                        std::span<const float> sum) = 0;

  /// Drops all kept values, because the model was replaced and they do not belong to the new one.
  virtual void clear() {}

  /// The named vectors for a checkpoint. There are none if the kept values come from local steps.
  Named lasting() const { return local_ ? Named() : kept(); }
  /// Restores one of the vectors that lasting() returned. Call it before the first encode().
  /// Ignores unknown names and vectors of another size.
  virtual void restore(const std::string&, std::vector<float>) {}

 private:
  /// Encodes values that are finite and at most `largest_gradient`. Returns false if a value would
  /// not be finite in its codec.
  virtual bool write(const CompressionPlan& plan, std::span<float> gradient, std::span<float> out,
                     Rng draws) = 0;
  virtual Named kept() const { return {}; }

  /// True if kept values come from local steps, whose units differ from those of gradients.
  bool local_ = false;
};

/// Clamps values to `largest_gradient`. Leaves values that are not finite unchanged, and then
/// returns false.
bool bound_gradient(std::span<float> values);

}  // namespace gv
