// Block scheduling: each peer sends the piece of its model that changed most since it was last
// sent.
#include <algorithm>
#include <numeric>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// x += gamma sum_j w_ij (m_j - x), where message m_j affects only the piece that it contains. If
/// several pieces changed equally, the first is sent. No piece waits longer than `rounds_for_each`
/// rounds for each piece of the model.
template <class Real>
class LargestPiece : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 2;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::KeptVectors;
  using typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  KeptVectors kept() override { return {{"sent", &sent_}}; }

  void begin_generation(Peer& peer, std::span<const Real> x) override {
    sent_.assign(x.begin(), x.end());
    // Neighbours do not have our pieces yet, so first send every piece once, in turn.
    due_.resize(peer.rule.fragments);
    std::iota(due_.begin(), due_.end(), 0);
  }

  void write(Peer& peer, Draft& draft, std::span<Real> x) override {
    auto chosen = static_cast<std::size_t>(std::ranges::min_element(due_) - due_.begin());
    if (due_[chosen] > draft.round) chosen = most_changed(peer, x);
    due_[chosen] = draft.round + rounds_for_each * due_.size();
    const auto [begin, size] = chosen_piece(peer.rule, peer.elements, chosen);
    const std::span<const Real> word = x.subspan(begin, size);
    std::ranges::copy(word, sent_.begin() + static_cast<std::ptrdiff_t>(begin));
    draft.words.push_back(word);
    draft.count = static_cast<std::uint32_t>(chosen);
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    Vector moves(x.size(), 0);
    for (const HeardModel<Real>& other : inbox.others) {
      const auto [begin, size] = chosen_piece(peer.rule, peer.elements, other.count);
      const auto share = static_cast<Real>(peer.rule.gamma * other.share);
      for (std::size_t i = 0; i < size; ++i) {
        moves[begin + i] += share * (other.values[i] - x[begin + i]);
      }
    }
    add_within<Real>(x, moves, inbox.bound);
  }

 private:
  static constexpr std::uint64_t rounds_for_each = 4;

  std::size_t most_changed(const Peer& peer, std::span<const Real> x) const {
    std::size_t chosen = 0;
    double most = -1;
    for (std::size_t piece = 0; piece < due_.size(); ++piece) {
      const auto [begin, size] = chosen_piece(peer.rule, peer.elements, piece);
      double squares = 0;
      for (std::size_t i = begin; i < begin + size; ++i) {
        const double change = static_cast<double>(x[i]) - static_cast<double>(sent_[i]);
        squares += change * change;
      }
      if (squares > most) {
        most = squares;
        chosen = piece;
      }
    }
    return chosen;
  }

  Vector sent_;  ///< The model as last sent, piece by piece.
  /// For each piece, the round by which it must be sent even if it has not changed.
  std::vector<std::uint64_t> due_;
};

}  // namespace

// A peer sends one piece and receives another, so the mean of all models changes.
extern const MixPart largest_piece;
constinit const MixPart largest_piece{.name = "largest",
                                      .traits = {.keeps_equal = true, .vectors = 2},
                                      .make = maker_of<LargestPiece>,
                                      .averages = true};

}  // namespace gv::rules
