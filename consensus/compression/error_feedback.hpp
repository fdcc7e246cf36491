// What of a peer's gradients waits to be sent, where only their largest values or thin factors
// travel.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "consensus/codec/value_codec.hpp"
#include "consensus/compression/dgc.hpp"
#include "consensus/compression/power_sgd.hpp"

namespace gv {

/// How few of a gradient's values travel.
struct Sparsifier {
  std::size_t top_k_per_512 = 0;            ///< The largest of every 512.
  double momentum = 0;                      ///< Applied before they are chosen; 0: none.
  ValueCodec codec = ValueCodec::identity;  ///< What they are rounded to.
  bool local = false;                       ///< They are what local steps came to, no gradient.
};

/// Error feedback, or with a momentum deep gradient compression (Dgc). A gradient may be asked for
/// again before its sum has come: then it is as if it had not been asked for before. Pure.
class ErrorFeedback {
 public:
  /// Leaves of `values`, whose size is the same each time, what is chosen, rounded as others will
  /// read it, and zeros elsewhere. Keeps the rest. False if that cannot be written by the codec.
  bool select(std::span<float> values, const Sparsifier& how, Rng rng);

  /// From here on matrices travel as factors, and nothing is selected.
  void send_factors(const FactorShape& shape) { factors_.emplace(shape); }
  bool sends_factors() const { return factors_.has_value(); }
  /// Our part of that turn for values as long as the shape's gradient; `local` as in a Sparsifier.
  /// `part` may be longer. False if the codec cannot write it.
  bool encode_factors(std::span<const float> values, PowerSgd::Turn turn, bool local,
                      ValueCodec codec, std::span<float> part);
  /// What the mean of all parts stands for, until the next call. `mean` may be longer.
  std::span<const float> decode_factors(std::span<const float> mean);

  /// A sum with what was last selected has come.
  void settle() { settled_ = true; }

  /// The model is another's: nothing that waits belongs to it.
  void clear();

  /// What a checkpoint has to hold of gradients, by name, and the inverse for each of them.
  std::vector<std::pair<std::string, std::vector<float>>> lasting() const;
  void restore(const std::string& name, std::vector<float> values);

 private:
  std::optional<Dgc> now_;
  std::optional<Dgc> before_;    ///< The last selection.
  bool settled_ = true;          ///< Its sum came.
  bool local_ = false;           ///< It was of local steps, which are not in gradients' units.
  std::vector<float> waiting_;   ///< From a checkpoint, until the first selection.
  std::vector<float> momentum_;  ///< The same.
  std::optional<PowerSgd> factors_;
  std::vector<float> decoded_;
};

}  // namespace gv
