// Rules for mixing models with neighbours: a published algorithm is a value of MixRule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "base/problems.hpp"
#include "consensus/codec/codec.hpp"
#include "consensus/mixing/robust.hpp"
#include "consensus/topology/topology.hpp"

namespace gv {

/// How a peer combines its neighbours' messages. w_ij is the topology's weight or `alpha`, x the
/// model, and m a message as decoded, at the sender too.
enum class MixKind : std::uint8_t {
  average,    ///< x_i += gamma sum_j w_ij (m_j - m_i). D-PSGD (Lian 2017), elastic forces.
  push_sum,   ///< Numerators and weights are passed on in equal parts and added up; the model is
              ///< their quotient. SGP (Assran 2019); with staleness overlap SGP.
  relay_sum,  ///< Sums travel along the edges of a tree. RelaySum (Vogels 2021).
  companion,  ///< A second vector and the model pull each other together. A2CiD2 (Nabli 2023).
  noloco,     ///< Momentum on the mean change of a group, and a pull together. NoLoCo (2025).
  downpour,   ///< Changes go to rank 0, which sends back the sum. DOWNPOUR (Dean 2012).
};

/// What is kept of earlier messages, so that a lossy codec does no lasting harm.
enum class MixMemory : std::uint8_t {
  none,
  difference,  ///< Messages are differences to the sender's reference. CHOCO (Koloskova 2019).
  replicated_difference,  ///< The same, and the reference is the model itself. DCD (Tang 2018).
  error_feedback,  ///< The part that a message lost is added to the next. DeepSqueeze (Tang 2019).
};

/// The correction for data that differ between peers.
enum class MixCorrection : std::uint8_t {
  none,
  quasi_global,  ///< Momentum of the mixed model's movement. QG-DSGDm (Lin 2021).
  decentlam,     ///< Momentum of the mixed gradient. DecentLaM (Yuan 2021).
  tracking,      ///< A vector follows the mean gradient. Gradient tracking (Nedic 2017).
  d2,            ///< The change that mixing made is added again. D2 (Tang 2018), exact diffusion.
};

/// When in a round a message is made: from the model after the local steps, or from the model
/// before them, so that messages travel during the steps.
enum class MixOrder : std::uint8_t { adapt_then_combine, combine_then_adapt };

/// Which of the topology's neighbours count in a round.
enum class Partners : std::uint8_t {
  neighbours,  ///< All.
  pull,        ///< Each peer draws one and hears it. Gossiping SGD (Jin 2016).
  push,        ///< Each peer draws one that hears it and averages all it hears with its own model.
  both,        ///< Each peer draws one, and both hear each other. Elastic Gossip (Pramod 2018).
  pairs,       ///< One, by a matching of the graph; each takes a half. See PairPlan.
};

/// The step that follows mixing every `outer_every` rounds.
enum class MixOuter : std::uint8_t {
  none,
  slowmo,  ///< A momentum step with the change over those rounds. SlowMo (Wang 2020).
};

/// Which piece of the model a round mixes, if it does not mix the whole model.
enum class FragmentOrder : std::uint8_t {
  in_turn,  ///< The same piece at all peers. Streaming DiLoCo (Douillard 2025).
  largest,  ///< At each peer the piece that changed most since it was sent: block scheduling.
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

/// The staleness with which a peer never waits for another.
inline constexpr std::uint64_t unbounded_staleness = std::numeric_limits<std::uint64_t>::max();

/// A rule. The defaults are D-PSGD on a ring.
struct MixRule {
  Topology topology{.kind = TopologyKind::ring};
  Partners partners = Partners::neighbours;
  MixKind kind = MixKind::average;
  MixOrder order = MixOrder::adapt_then_combine;
  double gamma = 1;  ///< Fraction of the mixing step that is taken; noloco: the pull together.
  double alpha = 0;  ///< Weight of each neighbour; 0: the topology's weights.
  Codec codec;
  MixMemory memory = MixMemory::none;
  GuardOptions guard;
  MixCorrection correction = MixCorrection::none;
  double momentum = 0.9;   ///< beta of quasi_global and decentlam, a of noloco.
  double smoothing = 0.9;  ///< mu of quasi_global.
  /// A round may begin before the neighbours' messages of this many last rounds have come.
  std::uint64_t staleness = 0;
  bool weigh_by_age = false;      ///< A message that is `a` rounds old counts 1 / (1 + a).
  bool weigh_by_samples = false;  ///< push_sum: peers count by their samples, not all alike.
  std::size_t fragments = 1;      ///< Pieces of the model; a round mixes one of them.
  FragmentOrder fragment_order = FragmentOrder::in_turn;
  bool centre_rests = false;       ///< Rank 0 of a star takes no local steps (EASGD).
  double outer_learning_rate = 1;  ///< For noloco and slowmo (its alpha).
  MixOuter outer = MixOuter::none;
  std::uint64_t outer_every = 8;  ///< Rounds between two outer steps.
  double outer_momentum = 0.5;    ///< beta of slowmo.

  friend bool operator==(const MixRule&, const MixRule&) = default;
};

/// Properties of a rule that follow from its choices; tests derive their laws from them.
struct MixTraits {
  bool conserves_mean = false;  ///< Without local steps the mean of all models stays.
  bool keeps_equal = false;     ///< Equal models stay equal to the bit.
  bool adds_up = false;         ///< Messages are parts of sums, so that each of a peer's counts.
  bool directs = false;         ///< Gradients are changed before their steps.
  bool one_by_one = false;      ///< A round mixes what one step comes to, so one step a round.
  bool plain_steps = false;     ///< The rule has its own momentum, so the optimiser must be sgd.
  bool needs_the_mean = false;  ///< It is wrong where mixing does not keep the mean of all models.
  bool needs_all_neighbours = false;
  bool needs_rounds_in_step = false;
  bool weighs_peers = false;  ///< Peers may count by their samples.
  bool has_momentum = false;  ///< It reads MixRule::momentum.
  /// A message is a copy of a model, and no round waits for one message in particular. A newer
  /// message from the same peer makes it useless, so it need not be sent.
  bool newest_suffices = false;
  std::size_t vectors = 0;    ///< Vectors kept, each as long as the model.
  bool keeps_copies = false;  ///< One more vector is kept for each neighbour.
  std::size_t words = 1;      ///< Vectors in one message.
};
MixTraits traits_of(const MixRule& rule);
/// What one choice contributes to them.
const MixTraits& traits_of(MixKind kind);
const MixTraits& traits_of(MixCorrection correction);

/// Everything that is wrong with a combination, and what to take instead. `peers` is the number of
/// peers that the run is meant for.
Problems problems_of(const MixRule& rule, std::size_t peers);

}  // namespace gv
