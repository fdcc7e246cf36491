// Error feedback: keeps what a sparsifier or low-rank factors leave out of a peer's gradients.
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

/// Which values of a gradient travel.
struct Sparsifier {
  std::size_t top_k_per_512 = 0;            ///< How many of every 512 values: the largest.
  double momentum = 0;                      ///< Applied before the selection; 0: none.
  ValueCodec codec = ValueCodec::identity;  ///< The codec that the values are rounded by.
  bool local = false;  ///< The values are the change made by local steps, not a gradient.
};

/// Error feedback; with a momentum, deep gradient compression (Dgc). A gradient may be asked for
/// again before its sum has come, as if it had not been asked for before. Pure.
class ErrorFeedback {
 public:
  /// Keeps in `values` only the selected ones, rounded as others will decode them, and sets the
  /// others to zero; these wait for later calls. `values` has the same size in every call. False if
  /// the codec cannot write the selected values.
  bool select(std::span<float> values, const Sparsifier& how, Rng rng);

  /// From now on matrices travel as factors, and nothing is selected.
  void send_factors(const FactorShape& shape) { factors_.emplace(shape); }
  bool sends_factors() const { return factors_.has_value(); }
  /// Writes our part of the sum of that turn into `part`, which may be longer. `values` has the
  /// size of the shape's gradient; `local` as in a Sparsifier. False if the codec cannot write the
  /// part.
  bool encode_factors(std::span<const float> values, PowerSgd::Turn turn, bool local,
                      ValueCodec codec, std::span<float> part);
  /// The gradient that the mean of all parts stands for; valid until the next call. `mean` may be
  /// longer.
  std::span<const float> decode_factors(std::span<const float> mean);

  /// Says that the sum with the last selection has come.
  void settle() { settled_ = true; }

  /// Drops all waiting values: the model was replaced, and they do not belong to the new one.
  void clear();

  /// The vectors that a checkpoint has to hold, by name; none while they are of local steps.
  /// restore() is the inverse for each of them.
  std::vector<std::pair<std::string, std::vector<float>>> lasting() const;
  void restore(const std::string& name, std::vector<float> values);

 private:
  std::optional<Dgc> now_;
  std::optional<Dgc> before_;    ///< The state before the last selection.
  bool settled_ = true;          ///< The sum with the last selection has come.
  bool local_ = false;           ///< Values are of local steps, whose units differ from gradients'.
  std::vector<float> waiting_;   ///< Waiting values of a checkpoint, until the first selection.
  std::vector<float> momentum_;  ///< Momentum of a checkpoint, until the first selection.
  std::optional<PowerSgd> factors_;
  std::vector<float> decoded_;
};

}  // namespace gv
