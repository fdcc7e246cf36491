// Sends differences from a reference of which every neighbour keeps a copy.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// CHOCO (Koloskova 2019): x += gamma sum_j w_ij (j's reference - ours). With replicated
/// differences the reference is the model itself, which is DCD (Tang 2018). NeighbourMemory stores
/// the references.
template <class Real>
class Differences : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"drift", &drift_}, {"reference", &memory_.own(), true}}; }

  void begin_generation(Peer& peer, std::span<const Real>) override {
    drift_.assign(peer.elements, 0);
    // The neighbours are the same in every round, so we take those of round 0.
    memory_.begin_generation(peer.order, peer.plan->turn(peer.rank, 0).out);
  }

  void forget() override { memory_.forget(); }

  void close_generation(Peer& peer, std::span<const MixMessage> arrived, bool unsent) override {
    if (unsent) memory_.take_back();
    learn(peer, arrived);
  }

  /// Neighbours that have a copy of our reference are sent the difference from it. The others are
  /// sent the whole reference.
  void write(Peer& peer, Draft& draft, std::span<Real> x) override {
    peer.is_sound = std::ranges::all_of(x, [](Real value) { return std::isfinite(value); });
    if (!peer.is_sound) return;
    if (memory_.own().empty()) memory_.own().assign(x.begin(), x.end());
    const bool opens = draft.round == 0;
    std::shared_ptr<std::vector<std::byte>> coded;
    if (!opens) coded = coded_difference(peer, draft.round, x);
    if (!peer.is_sound) return;
    const std::span<const Real> own = memory_.own();
    for (auto& [to, header, knowledge] : memory_.heads(opens)) {
      const std::size_t words = header.form == MixForm::hello ? 0 : 1;
      std::shared_ptr<std::vector<std::byte>> bytes;
      if (header.form != MixForm::coded) {
        bytes = peer.written(draft.round, 1, std::span(&own, words), header);
      } else if (header.lacks != 0) {
        bytes = std::make_shared<std::vector<std::byte>>(*coded);
        std::memcpy(bytes->data(), &header, sizeof(header));
      } else {
        bytes = coded;
      }
      write_knowledge(*bytes, knowledge);
      draft.messages.push_back({peer.rank, draft.round, std::move(bytes), std::move(to)});
    }
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    inbox.refused = learn(peer, inbox.arrived);
    memory_.end_round();
    drift_.assign(peer.elements, 0);
    for (const Share& share : peer.plan->turn(peer.rank, inbox.round).in) {
      const Vector* known = memory_.shared(share.from);
      if (known == nullptr) continue;
      const auto weight = static_cast<Real>(share.weight);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Real apart = weight * ((*known)[i] - memory_.own()[i]);
        drift_[i] += std::clamp(apart, -2 * inbox.bound, 2 * inbox.bound);
      }
    }
    hold_within<Real>(drift_, 2 * inbox.bound);
    if (!is_replicated(peer)) add<Real>(x, drift_, peer.rule.gamma);
  }

  const NeighbourMemory<Real>* memory() const override { return &memory_; }

 private:
  static bool is_replicated(const Peer& peer) {
    return peer.rule.memory == MixMemory::replicated_difference;
  }

  /// Encodes the difference from our reference, and adds to the reference what the receivers will
  /// decode.
  std::shared_ptr<std::vector<std::byte>> coded_difference(Peer& peer, std::uint64_t round,
                                                           std::span<Real> x) {
    Vector made(x.begin(), x.end());
    take_away<Real>(made, memory_.own());
    // With replicated differences our model is the shared reference, so add the mixed drift first.
    if (is_replicated(peer)) add<Real>(made, drift_);
    const std::span<const Real> word = made;
    auto coded = peer.written(round, 0, {&word, 1}, {.count = 1});
    const auto decoded = read_message<Real>(peer.rule, peer.elements, round, *coded);
    peer.is_sound = decoded.has_value();
    if (!peer.is_sound) return coded;
    memory_.add(decoded->values);
    if (is_replicated(peer)) std::ranges::copy(memory_.own(), x.begin());
    return coded;
  }

  /// Updates our copies of the neighbours' references with their messages. Returns the number of
  /// unusable messages.
  std::size_t learn(const Peer& peer, std::span<const MixMessage> arrived) {
    std::size_t refused = 0;
    for (const MixMessage* message : in_order(arrived)) {
      const auto content =
          read_message<Real>(peer.rule, peer.elements, message->round, *message->bytes);
      if (!content || !memory_.take(message->from, *content)) ++refused;
    }
    return refused;
  }

  Vector drift_;  ///< sum_j w_ij (j's reference - ours).
  NeighbourMemory<Real> memory_;
};

constexpr MixTraits traits{
    .conserves_mean = true, .keeps_equal = true, .vectors = 3, .keeps_copies = true};

}  // namespace

extern const MixPart difference, replicated_difference;
constinit const MixPart difference{
    .name = "difference", .traits = traits, .make = maker_of<Differences>, .averages = true};
constinit const MixPart replicated_difference{.name = "replicated_difference",
                                              .traits = traits,
                                              .make = maker_of<Differences>,
                                              .averages = true};

}  // namespace gv::rules
