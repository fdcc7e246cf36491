// The steps that a mixing rule consists of: their interface, and a row of the table for each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "consensus/mixing/mix_message.hpp"
#include "consensus/mixing/mix_peer.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/mixing/neighbour_memory.hpp"

namespace gv {

/// The messages of a round while a rule's steps make them.
template <class Real>
struct MixDraft {
  std::uint64_t round = 0;
  /// What all neighbours are sent, each vector as long as the round's piece of the model. Empty if
  /// `messages` has what each of them is sent.
  std::vector<std::span<const Real>> words = {};
  std::uint32_t count = 1;  ///< Travels with the words.
  std::vector<MixMessage> messages = {};
};

/// The messages that arrived in a round, and how the model moved by them.
template <class Real>
struct MixInbox {
  std::uint64_t round = 0;
  std::span<const MixMessage> arrived = {};
  std::vector<HeardModel<Real>> others = {};  ///< The same decoded, unless copies are kept.
  std::vector<Real> moves = {};               ///< What averaging added to the model.
  std::size_t refused = 0;                    ///< Unusable messages.
};

/// One step of a rule, with the vectors that it keeps. The calls come in the order of the points of
/// a round, see Mixer; at each point all steps of the rule get theirs in the order of the rule's
/// parts. x is the live model. What a step does not do, it leaves out.
template <class Real>
class MixStep {
 public:
  using Vector = std::vector<Real>;
  using Peer = MixPeer<Real>;
  using Draft = MixDraft<Real>;
  using Inbox = MixInbox<Real>;
  struct KeptVector {
    std::string_view name;  ///< In checkpoints.
    Vector* values;         ///< Empty until it is first needed.
    bool lasts = false;     ///< It outlives a generation and a restart.
  };
  using KeptVectors = std::vector<KeptVector>;

  virtual ~MixStep() = default;
  /// The vectors from one call to the next, as long as the model.
  virtual KeptVectors kept() { return {}; }

  virtual void begin_generation(Peer&, std::span<const Real>) {}
  /// Everything that other peers know of us is void, and so is our model. Vectors are dropped
  /// already.
  virtual void forget() {}
  /// See Mixer::close_generation().
  virtual void close_generation(Peer&, std::span<const MixMessage>, bool) {}

  virtual void begin_round(Peer&, std::span<Real>) {}
  /// Changes the gradient of a local step, if the step's traits say that it does.
  virtual void direct(Peer&, std::span<Real>) {}
  virtual void end_steps(Peer&, std::span<Real>) {}
  virtual void write(Peer&, Draft&, std::span<Real>) {}
  virtual void mix(Peer&, Inbox&, std::span<Real>) {}

  virtual const NeighbourMemory<Real>* memory() const { return nullptr; }
};

/// A combination that makes no sense with a part. {kind}, {topology} and so on in a text stand for
/// that choice of the rule.
struct MixConstraint {
  std::string_view place;
  bool (*is_violated)(const MixRule& rule);
  std::string_view reason;
  std::string_view remedy;
};

/// Makes a step, or a copy of one if that is not null; for models and for closed forms.
struct MixStepMaker {
  template <class Real>
  using Make = std::unique_ptr<MixStep<Real>> (*)(const MixStep<Real>* from);
  Make<float> floats = nullptr;
  Make<double> doubles = nullptr;
};

template <class Step, class Real>
std::unique_ptr<MixStep<Real>> make_step(const MixStep<Real>* from) {
  if (from == nullptr) return std::make_unique<Step>();
  return std::make_unique<Step>(static_cast<const Step&>(*from));
}

template <template <class> class Step>
constexpr MixStepMaker maker_of{make_step<Step<float>, float>, make_step<Step<double>, double>};

/// A choice in a rule: what it is called, what follows from it, what it makes no sense with, and
/// its step. It is in the step's file in rules/; the table of all is in mix_rule.cpp.
struct MixPart {
  std::string_view name;
  MixTraits traits = {};
  std::span<const MixConstraint> constraints = {};
  MixStepMaker make = {};  ///< Null: it has no step.
  bool averages = false;   ///< Its step takes the place of the kind's, which is to average.
};

/// The parts of a rule in the order of their steps.
using MixParts = std::array<const MixPart*, 5>;
MixParts parts_of(const MixRule& rule);

}  // namespace gv
