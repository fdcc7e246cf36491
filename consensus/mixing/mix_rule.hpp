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

/// How a peer combines its neighbours' messages. In the formulas, w_ij is the topology's weight or
/// `alpha`, x the model, and m a message after decoding (the sender decodes its own message too).
enum class MixKind : std::uint8_t {
  average,  ///< x_i += gamma sum_j w_ij (m_j - m_i). D-PSGD (Lian 2017), elastic forces.
  /// Each peer sends equal parts of its numerator and its weight, and adds the parts that it
  /// receives. The model is numerator / weight. SGP (Assran 2019); overlap SGP if staleness is
  /// allowed.
  push_sum,
  relay_sum,  ///< Sums travel along the edges of a tree. RelaySum (Vogels 2021).
  companion,  ///< The model and a second vector attract each other. A2CiD2 (Nabli 2023).
  noloco,     ///< Momentum on a group's mean change, and a pull between its models. NoLoCo (2025).
  /// Changes go to rank 0, possibly through a tree, and the sum comes back. DOWNPOUR (Dean 2012).
  downpour,
};

/// A peer's memory of earlier messages, which keeps a lossy codec from doing lasting harm.
enum class MixMemory : std::uint8_t {
  none,
  difference,  ///< Messages are differences from the sender's reference. CHOCO (Koloskova 2019).
  /// Like `difference`, with the model itself as reference. DCD (Tang 2018).
  replicated_difference,
  error_feedback,  ///< The compression error of a message is added to the next one. DeepSqueeze
                   ///< (Tang 2019).
};

/// The correction for peers whose data differ.
enum class MixCorrection : std::uint8_t {
  none,
  quasi_global,  ///< Momentum of the mixed model's movement. QG-DSGDm (Lin 2021).
  decentlam,     ///< Momentum of the mixed gradient. DecentLaM (Yuan 2021).
  tracking,      ///< A vector follows the mean gradient. Gradient tracking (Nedic 2017).
  d2,  ///< Each round repeats the changes made by earlier mixing. D2 (Tang 2018), exact diffusion.
};

/// When a message is made in a round: after the local steps, or before them. A message made before
/// the steps travels while they run.
enum class MixOrder : std::uint8_t { adapt_then_combine, combine_then_adapt };

/// Which of its neighbours in the topology a peer mixes with in a round.
enum class Partners : std::uint8_t {
  neighbours,  ///< All neighbours of the topology.
  pull,        ///< Each peer draws one neighbour and receives from it. Gossiping SGD (Jin 2016).
  push,  ///< Each peer draws one neighbour to send to, and averages its model with all models that
         ///< it receives.
  both,  ///< Each peer draws one neighbour, and both receive from each other. Elastic Gossip
         ///< (Pramod 2018).
  /// One neighbour, given by a matching of the graph. Each of the two gives the other's model the
  /// weight 1/2. See PairPlan.
  pairs,
};

/// An additional step after mixing, every `outer_every` rounds.
enum class MixOuter : std::uint8_t {
  none,
  slowmo,  ///< A momentum step along the change made in those rounds. SlowMo (Wang 2020).
};

/// Which piece of the model a round mixes if it does not mix the whole model.
enum class FragmentOrder : std::uint8_t {
  in_turn,  ///< All peers mix the same piece. Streaming DiLoCo (Douillard 2025).
  /// Each peer sends the piece that changed most since it was last sent: block scheduling.
  largest,
  own,  ///< Each peer trains and sends one piece, and uses the others' newest pieces: slicing.
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
inline constexpr std::array fragment_orders = {FragmentOrder::in_turn, FragmentOrder::largest,
                                               FragmentOrder::own};

/// With this staleness, a peer never waits for another.
inline constexpr std::uint64_t unbounded_staleness = std::numeric_limits<std::uint64_t>::max();

/// A mixing rule. The defaults are D-PSGD on a ring.
struct MixRule {
  Topology topology{.kind = TopologyKind::ring};
  Partners partners = Partners::neighbours;
  MixKind kind = MixKind::average;
  MixOrder order = MixOrder::adapt_then_combine;
  /// Fraction of the mixing change that is applied. For noloco, the strength of the pull between
  /// models.
  double gamma = 1;
  double alpha = 0;  ///< Weight of each neighbour. 0 means the topology's weights.
  Codec codec;
  MixMemory memory = MixMemory::none;
  GuardOptions guard;
  MixCorrection correction = MixCorrection::none;
  double momentum = 0.9;   ///< The beta of quasi_global and decentlam, and the a of noloco.
  double smoothing = 0.9;  ///< The mu of quasi_global.
  /// A round may begin while messages of up to this many previous rounds are still missing.
  std::uint64_t staleness = 0;
  bool weigh_by_age = false;  ///< Divides the weight of a message `a` rounds old by 1 + a.
  /// push_sum: if true, each peer's weight is its number of samples. If false, all weights are
  /// equal.
  bool weigh_by_samples = false;
  std::size_t fragments = 1;  ///< Number of pieces of the model. Each round mixes one of them.
  FragmentOrder fragment_order = FragmentOrder::in_turn;
  /// If true, rank 0 of a star, or of a downpour's tree, takes no local steps (EASGD).
  bool centre_rests = false;
  double outer_learning_rate = 1;  ///< Learning rate of the outer step (noloco, slowmo).
  MixOuter outer = MixOuter::none;
  std::uint64_t outer_every = 8;  ///< Rounds between two outer steps.
  double outer_momentum = 0.5;    ///< The beta of slowmo.

  static constexpr std::size_t field_count = 22;
  friend bool operator==(const MixRule&, const MixRule&) = default;
};

/// True if peers wait for each other's messages.
inline bool is_in_step(const MixRule& rule) { return rule.staleness != unbounded_staleness; }

/// Properties that follow from a rule's choices. Tests derive from them the invariants to check.
struct MixTraits {
  bool conserves_mean = false;  ///< Mixing alone leaves the mean of all models unchanged.
  bool keeps_equal = false;     ///< Equal models stay equal bit for bit.
  /// Messages are parts of sums, so none may be lost or replaced by a newer one.
  bool adds_up = false;
  bool directs = false;      ///< The rule changes each gradient before the local step that uses it.
  bool one_by_one = false;   ///< The rule needs exactly one local step in a round.
  bool plain_steps = false;  ///< The rule has its own momentum, so the optimiser must be sgd.
  bool needs_the_mean = false;  ///< The rule gives wrong results if mixing changes the mean of all
                                ///< models.
  /// The rule diverges unless every round has the same weights and no edge is directed.
  bool needs_same_weights = false;
  bool needs_all_neighbours = false;
  bool needs_rounds_in_step = false;
  bool weighs_peers = false;  ///< Peers may be weighted by their numbers of samples.
  bool has_momentum = false;  ///< The rule uses MixRule::momentum.
  /// Each message is a copy of a model, and no round waits for a particular message. A newer
  /// message makes an older one of the same sender useless, so the older one need not be sent.
  bool newest_suffices = false;
  std::size_t vectors = 0;    ///< Number of vectors that the rule keeps, each as long as the model.
  bool keeps_copies = false;  ///< The rule keeps one more vector for each neighbour.
  std::size_t words = 1;      ///< Number of vectors in one message.
};
MixTraits traits_of(const MixRule& rule);
/// Properties that a single choice contributes.
const MixTraits& traits_of(MixKind kind);
const MixTraits& traits_of(MixCorrection correction);

/// Lists everything that is wrong with a rule's combination of choices, with a remedy for each
/// problem. `peers` is the number of peers in the run.
Problems problems_of(const MixRule& rule, std::size_t peers);

}  // namespace gv
