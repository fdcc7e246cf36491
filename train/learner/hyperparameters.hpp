// The settings in which the learners of a population differ, and the choice among them.
#pragma once

#include <string_view>

#include "base/names.hpp"

namespace gv {

/// The settings in which the peers of a population differ and which change during training.
struct Hyperparameters {
  /// The peak of the learning-rate schedule. The schedule's shape does not change.
  double learning_rate = 0;
  double momentum = 0;
  /// Weight decay, batch, alpha and period are 0 if they do not differ between peers. A batch and a
  /// period are whole numbers.
  double weight_decay = 0;
  double batch = 0;
  double alpha = 0;   ///< Elastic coefficient of gossip. The learner only stores it.
  double period = 0;  ///< Steps between two exchanges. The learner only stores it.

  friend bool operator==(const Hyperparameters&, const Hyperparameters&) = default;
};

/// Which settings of a population survive.
enum class Selection {
  truncation,  ///< A peer of the worst fifth copies one of the best fifth (Jaderberg 2017).
  halving,     ///< A peer of the worse half copies one of the better half, unchanged (Jamieson
               ///< 2016).
  none,        ///< No peer copies another: random search (Bergstra and Bengio 2012).
};
inline constexpr auto selection_names = names_of<Selection>({"truncation", "halving", "none"});
constexpr std::string_view to_string(Selection selection) { return selection_names[selection]; }

}  // namespace gv
