// The interface of the steps that make up a mixing rule, and the table row for each choice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/state_hash.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "consensus/mixing/mix_peer.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/mixing/neighbour_memory.hpp"

namespace gv {

/// The messages of a round while the rule's steps build them.
template <class Real>
struct MixDraft {
  std::uint64_t round = 0;
  /// The vectors sent to all neighbours, each as long as the round's piece of the model. Empty if
  /// `messages` holds a message for each neighbour instead.
  std::vector<std::span<const Real>> words = {};
  std::uint32_t count = 1;  ///< The value of MixHeader::count in the messages.
  std::vector<MixMessage> messages = {};
};

/// The messages that arrived in a round, and how they moved the model.
template <class Real>
struct MixInbox {
  std::uint64_t round = 0;
  std::span<const MixMessage> arrived = {};
  Real bound = std::numeric_limits<Real>::infinity();  ///< The bound on the model's values.
  std::vector<HeardModel<Real>> others =
      {};  ///< The decoded messages. Empty if the rule keeps copies of references.
  std::vector<Real> moves = {};  ///< The change that averaging made to the model.
  std::size_t refused = 0;       ///< Number of unusable messages.
};

/// One step of a rule, with the vectors that it keeps. At each point of a round, Mixer calls the
/// steps in the order of the rule's parts. Spans of Real are the live model, except in direct(). A
/// step overrides only the functions that it needs, and declares the number of its fields (see
/// Fielded).
template <class Real>
class MixStep {
 public:
  using Vector = std::vector<Real>;
  using Peer = MixPeer<Real>;
  using Draft = MixDraft<Real>;
  using Inbox = MixInbox<Real>;
  struct KeptVector {
    std::string_view name;  ///< Name in checkpoints.
    Vector* values;         ///< Pointer to the vector, which is empty until it is first needed.
    bool lasts = false;     ///< True if the vector outlives a generation and a restart.
  };
  using KeptVectors = std::vector<KeptVector>;

  virtual ~MixStep() = default;
  /// The vectors that the step keeps between calls, each as long as the model.
  virtual KeptVectors kept() { return {}; }

  virtual void begin_generation(Peer&, std::span<const Real>) {}
  /// Called when our model is replaced, which makes everything that other peers know about us
  /// obsolete. The kept vectors have already been cleared.
  virtual void forget() {}
  /// See Mixer::close_generation().
  virtual void close_generation(Peer&, std::span<const MixMessage>, bool) {}

  virtual void begin_round(Peer&, std::span<Real>) {}
  /// Changes the gradient of a local step. Called only if the step's traits set `directs`.
  virtual void direct(Peer&, std::span<Real>) {}
  virtual void end_steps(Peer&, std::span<Real>) {}
  virtual void write(Peer&, Draft&, std::span<Real>) {}
  virtual void mix(Peer&, Inbox&, std::span<Real>) {}
  /// Limits the kept vectors to values that models within the bound can cause, so that absurd
  /// values sent by other peers have no lasting effect. Called after each mix().
  virtual void hold(const Peer&, Real /*bound*/) {}

  virtual const NeighbourMemory<Real>* memory() const { return nullptr; }

  // See MixStepValue.
  virtual std::unique_ptr<MixStep> copy() const = 0;
  /// True if `other`, which must be a step of the same part, has the same state.
  virtual bool has_state_of(const MixStep& other) const = 0;
  virtual void hash_into(StateHash& hash) const = 0;
};

/// A combination of choices that makes no sense with a part. In the texts, {kind}, {topology} and
/// so on stand for the rule's choices.
struct MixConstraint {
  std::string_view place;
  bool (*is_violated)(const MixRule& rule);
  std::string_view reason;
  std::string_view remedy;
};

/// Gives a step value semantics. Its state consists of the step's fields.
template <class Step, class Real>
class MixStepValue final : public Step {
 public:
  std::unique_ptr<MixStep<Real>> copy() const override {
    return std::make_unique<MixStepValue>(*this);
  }
  bool has_state_of(const MixStep<Real>& other) const override {
    return equal_states<Step>(*this, static_cast<const MixStepValue&>(other));
  }
  void hash_into(StateHash& hash) const override { hash.add(static_cast<const Step&>(*this)); }
};

/// Makes a new step: of floats for models, of doubles for tests.
struct MixStepMaker {
  template <class Real>
  using Make = std::unique_ptr<MixStep<Real>> (*)();
  Make<float> floats = nullptr;
  Make<double> doubles = nullptr;
};

template <class Step, class Real>
std::unique_ptr<MixStep<Real>> make_step() {
  return std::make_unique<MixStepValue<Step, Real>>();
}

template <template <class> class Step>
constexpr MixStepMaker maker_of{make_step<Step<float>, float>, make_step<Step<double>, double>};

/// One choice in a rule: its name, its properties, the combinations that it excludes, and its step.
/// Each part is defined in a file in rules/. The table of all parts is in mix_rule.cpp.
struct MixPart {
  std::string_view name;
  MixTraits traits = {};
  std::span<const MixConstraint> constraints = {};
  MixStepMaker make = {};  ///< Null if the choice needs no step.
  /// True if this part's step replaces the averaging step of the rule's kind.
  bool averages = false;
};

/// The parts of a rule, in the order in which their steps run.
using MixParts = std::array<const MixPart*, 5>;
MixParts parts_of(const MixRule& rule);

}  // namespace gv
