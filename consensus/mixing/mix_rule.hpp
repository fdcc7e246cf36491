// One way of mixing models with neighbours: a published algorithm is a value of MixRule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "base/problems.hpp"
#include "consensus/codec/lossy_codec.hpp"
#include "consensus/mixing/robust.hpp"
#include "consensus/topology/topology.hpp"

namespace gv {

/// What a peer makes of its neighbours' words. w_ij is the weight of the topology or `alpha`, x the
/// model, m a message as it was decoded, at the sender too.
enum class MixKind : std::uint8_t {
  average,    ///< x_i += gamma sum_j w_ij (m_j - m_i). D-PSGD (Lian 2017), elastic forces.
  push_sum,   ///< Numerators and weights are handed on in equal parts and added up; the model is
              ///< their quotient. SGP (Assran 2019), with staleness overlap SGP.
  relay_sum,  ///< Sums travel along the edges of a tree. RelaySum (Vogels 2021).
  companion,  ///< A second vector leans against the model. A2CiD2 (Nabli 2023).
  noloco,     ///< Momentum on the mean change of a group, and a pull together. NoLoCo (2025).
  downpour,   ///< Changes go to rank 0, which sends back the sum. DOWNPOUR (Dean 2012).
};

/// What is kept of earlier messages, so that a codec may leave something out.
enum class MixMemory : std::uint8_t {
  none,
  difference,  ///< Messages are differences to what all know of the sender. CHOCO (Koloskova 2019).
  replicated_difference,  ///< The model itself is what all know of it. DCD-PSGD (Tang 2018).
  error_feedback,         ///< What a message lacked is added to the next. DeepSqueeze (Tang 2019).
};

/// What is done about data that differ between peers.
enum class MixCorrection : std::uint8_t {
  none,
  quasi_global,  ///< Momentum of how the mixed model moves. QG-DSGDm (Lin 2021).
  decentlam,     ///< Momentum of the mixed gradient. DecentLaM (Yuan 2021).
  tracking,      ///< A vector follows the mean gradient. Gradient tracking (Nedic 2017).
  d2,            ///< What mixing added is added again. D2 (Tang 2018), exact diffusion.
};

/// When in a round a message is made: of the model that local steps came to, or of that from which
/// they begin, which then travels meanwhile.
enum class MixOrder : std::uint8_t { adapt_then_combine, combine_then_adapt };

/// Who of the topology's neighbours counts in a round.
enum class Partners : std::uint8_t {
  neighbours,  ///< All.
  pull,        ///< One drawn by each, which it hears. Gossiping SGD (Jin 2016).
  push,        ///< One drawn by each, which hears it: the mean of all that come and oneself.
  both,        ///< One drawn by each, and both hear. Elastic Gossip (Pramod 2018).
  pairs,       ///< One, by a matching of the graph; each takes a half. See PairPlan.
};

/// What follows mixing every so many rounds.
enum class MixOuter : std::uint8_t {
  none,
  slowmo,  ///< A momentum step with what the rounds came to. SlowMo (Wang 2020).
};

/// Which piece of the model a round is about, if it is not about the whole.
enum class FragmentOrder : std::uint8_t {
  in_turn,  ///< The same at all peers. Streaming DiLoCo (Douillard 2025).
  largest,  ///< At each that which has changed most since it was sent: block scheduling.
};

std::string_view to_string(MixKind kind);
std::string_view to_string(MixMemory memory);
std::string_view to_string(MixCorrection correction);
std::string_view to_string(MixOrder order);
std::string_view to_string(Partners partners);
std::string_view to_string(MixOuter outer);
std::string_view to_string(FragmentOrder order);

inline constexpr std::array mix_kinds = {MixKind::average,   MixKind::push_sum, MixKind::relay_sum,
                                         MixKind::companion, MixKind::noloco,   MixKind::downpour};
inline constexpr std::array mix_memories = {MixMemory::none, MixMemory::difference,
                                            MixMemory::replicated_difference,
                                            MixMemory::error_feedback};
inline constexpr std::array mix_corrections = {MixCorrection::none, MixCorrection::quasi_global,
                                               MixCorrection::decentlam, MixCorrection::tracking,
                                               MixCorrection::d2};
inline constexpr std::array mix_orders = {MixOrder::adapt_then_combine,
                                          MixOrder::combine_then_adapt};
inline constexpr std::array partner_kinds = {Partners::neighbours, Partners::pull, Partners::push,
                                             Partners::both, Partners::pairs};
inline constexpr std::array mix_outers = {MixOuter::none, MixOuter::slowmo};
inline constexpr std::array fragment_orders = {FragmentOrder::in_turn, FragmentOrder::largest};

/// Never wait for anybody.
inline constexpr std::uint64_t unbounded_staleness = std::numeric_limits<std::uint64_t>::max();

/// The choices. The defaults are D-PSGD on a ring.
struct MixRule {
  Topology topology{.kind = TopologyKind::ring};
  Partners partners = Partners::neighbours;
  MixKind kind = MixKind::average;
  MixOrder order = MixOrder::adapt_then_combine;
  double gamma = 1;  ///< How much of the way is gone; with noloco the pull together.
  double alpha = 0;  ///< Weight of each neighbour; 0: as the topology says.
  LossyCodec codec;
  MixMemory memory = MixMemory::none;
  GuardOptions guard;
  MixCorrection correction = MixCorrection::none;
  double momentum = 0.9;   ///< beta of quasi_global and decentlam, a of noloco.
  double smoothing = 0.9;  ///< mu of quasi_global.
  /// Begin a round without what neighbours sent in the last so many.
  std::uint64_t staleness = 0;
  bool weigh_by_age = false;      ///< What is so many rounds old counts 1 / (1 + rounds).
  bool weigh_by_samples = false;  ///< push_sum: peers count by their samples, not all alike.
  std::size_t fragments = 1;      ///< A round is about one of so many pieces of the model.
  FragmentOrder fragment_order = FragmentOrder::in_turn;
  bool centre_rests = false;       ///< Rank 0 of a star takes no local steps (EASGD).
  double outer_learning_rate = 1;  ///< Of noloco and slowmo (its alpha).
  MixOuter outer = MixOuter::none;
  std::uint64_t outer_every = 8;  ///< Rounds between two outer steps.
  double outer_momentum = 0.5;    ///< beta of slowmo.

  friend bool operator==(const MixRule&, const MixRule&) = default;
};

/// What is known of a rule without running it; the laws that are tested follow from it.
struct MixTraits {
  bool conserves_mean = false;  ///< Without local steps the mean of all models stays.
  bool keeps_equal = false;     ///< Equal models stay equal to the bit.
  bool one_by_one = false;      ///< Each gradient is changed before its step: one step a round.
  bool plain_steps = false;     ///< The rule has its own momentum: the optimiser must be sgd.
  /// A message is a model as it was, and no round waits for it in particular: beside a newer one
  /// of the same peer it is of no use, and need not be sent.
  bool newest_suffices = false;
  std::size_t vectors = 0;    ///< Kept, each as long as the model,
  bool keeps_copies = false;  ///< and one more for each neighbour.
  std::size_t words = 1;      ///< Vectors in one message.
};
MixTraits traits_of(const MixRule& rule);

/// Everything that is wrong with a combination, with what to take instead. `peers` is how many the
/// run is meant for.
Problems problems_of(const MixRule& rule, std::size_t peers);

}  // namespace gv
