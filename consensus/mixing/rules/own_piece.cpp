// Slicing: each peer trains one piece of the model, and takes the newest other pieces from peers.
#include <algorithm>
#include <array>
#include <vector>

#include "consensus/mixing/mix_step.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv::rules {
namespace {

/// Pieces are dealt out to ranks in turn. A peer trains and sends its own piece, and replaces the
/// others' pieces with those that they send. Peers with the same piece average it. A peer with
/// several pieces trains one of them in each round.
template <class Real>
class OwnPiece : public MixStep<Real> {
 public:
  friend class gv::Fields;
  static constexpr std::size_t field_count = 1;
  using typename MixStep<Real>::Vector, typename MixStep<Real>::Peer;
  using typename MixStep<Real>::Draft, typename MixStep<Real>::Inbox;

  void begin_generation(Peer&, std::span<const Real>) override { turn_ = 0; }

  /// Freezes the pieces of other peers by zeroing their gradients.
  void direct(Peer& peer, std::span<Real> gradient) override {
    const auto [begin, size] = part(peer, own(peer));
    std::ranges::fill(gradient.first(begin), 0);
    std::ranges::fill(gradient.subspan(begin + size), 0);
  }

  void write(Peer& peer, Draft& draft, std::span<Real> x) override {
    const std::size_t piece = own(peer);
    const auto [begin, size] = chosen_piece(peer.rule, peer.elements, piece);
    draft.words.push_back(x.subspan(begin, size));
    draft.count = static_cast<std::uint32_t>(piece);
  }

  void mix(Peer& peer, Inbox& inbox, std::span<Real> x) override {
    Vector sums(peer.elements, 0);
    std::vector<std::size_t> counts(peer.rule.fragments, 0);
    for (const HeardModel<Real>& other : inbox.others) {
      const auto [begin, size] = part(peer, other.count);
      // The message of the last piece may begin with values of the piece before it.
      const std::size_t skipped = begin - chosen_piece(peer.rule, peer.elements, other.count).first;
      const auto values = std::span<const Real>(other.values).subspan(skipped, size);
      add<Real>(std::span(sums).subspan(begin, size), values);
      ++counts[other.count];
    }
    for (std::size_t piece = 0; piece < counts.size(); ++piece) {
      if (counts[piece] == 0) continue;
      const auto [begin, size] = part(peer, piece);
      const bool is_ours = piece == own(peer);
      const auto owners = static_cast<Real>(counts[piece] + (is_ours ? 1 : 0));
      for (std::size_t i = begin; i < begin + size; ++i) {
        x[i] = (sums[i] + (is_ours ? x[i] : 0)) / owners;
      }
    }
    ++turn_;
  }

 private:
  /// Index of the piece that we train in this round.
  std::size_t own(const Peer& peer) const {
    const std::size_t peers = peer.plan->peers();
    const std::size_t pieces = peer.rule.fragments;
    if (peer.rank >= pieces) return peer.rank % pieces;
    const std::size_t ours = (pieces - peer.rank + peers - 1) / peers;
    // The order shifts after each pass over our pieces. On a slow link, newer messages replace
    // waiting ones, so perhaps only every second or third message gets through. Without the shift,
    // some pieces might never arrive there.
    return peer.rank + peers * static_cast<std::size_t>((turn_ + turn_ / ours) % ours);
  }

  /// Offset and length of the part of a piece that belongs to no other piece.
  static std::pair<std::size_t, std::size_t> part(const Peer& peer, std::size_t piece) {
    const std::size_t length = chosen_piece(peer.rule, peer.elements, piece).second;
    const std::size_t begin = std::min(piece * length, peer.elements);
    return {begin, std::min(length, peer.elements - begin)};
  }

  std::uint64_t turn_ = 0;  ///< Number of rounds mixed in this generation.
};

constexpr std::array own_piece_constraints = {MixConstraint{
    "topology",
    [](const MixRule& rule) {
      return rule.topology.kind != TopologyKind::complete || rule.partners != Partners::neighbours;
    },
    "each peer has the only copy of its piece that is trained, so all must hear it",
    "write topology = \"complete\" and partners = \"neighbours\""}};

}  // namespace

extern const MixPart own_piece;
constinit const MixPart own_piece{.name = "own",
                                  .traits = {.directs = true, .vectors = 1},
                                  .constraints = own_piece_constraints,
                                  .make = maker_of<OwnPiece>,
                                  .averages = true};

}  // namespace gv::rules
