// The ledger of leased data: which chunks are done, who has taken which, and what to train on next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "consensus/ledger/chunk_set.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// What we know of another peer.
struct LedgerReport {
  PeerId peer{};
  const LedgerEntry* entry = nullptr;  ///< What it tells; not null.
  double pace = 0;                     ///< Its chunks a second, as we have measured; 0: not known.
  bool lives = false;  ///< It is about to train or trains, and is not believed dead.
  bool died = false;   ///< It is believed dead, and has not left by itself.
};

/// A piece of work: consecutive steps of one chunk.
struct LedgerWork {
  std::uint64_t first_step = 0;  ///< Counted from the first step of chunk 0.
  std::uint64_t steps = 0;       ///< To the end of the chunk.

  friend bool operator==(const LedgerWork&, const LedgerWork&) = default;
};

/// One peer's view of which chunks of the swarm's data are trained, and its own part in them.
///
/// All passes over the data are one sequence of chunks, of some steps each. Each peer takes
/// *leases* on the next few chunks that no peer has done or taken, as many as it trains in some
/// seconds, and tells the others before it needs them. So the work follows each peer's pace,
/// without a dealer. It leaves room for what peers with smaller ids may take at the same moment. If
/// two take the same chunk all the same, the one with the smaller id keeps it. A chunk is *done*
/// once its peer has exchanged models since, so that it is not lost with the peer. A dead peer's
/// leases are free.
///
/// Rules that keep it from standing still or from repeating work:
/// 1. A peer's word that it has done a chunk is believed as fast as four times the highest pace
///    measured at other peers. So a lie is limited. What it says of others' work counts only by
///    rule 2.
/// 2. "All chunks below n are done" is a fact of its own: the largest n that more than a third of
///    the live peers tell. A peer tells what it has done until they know it.
/// 3. A peer that has nothing to do helps the one that needs longest: it takes chunks from the end
///    of its leases, if that peer needs a second and two chunks' time of ours longer.
/// 4. A peer that has found nothing to do for three seconds and two chunks' time takes any chunk
///    that it does not know to be done. So nothing waits for ever, whatever was believed.
///
/// Every chunk is trained at least once. It may be trained again after a death, a partition or a
/// race. Pure.
class Ledger {
 public:
  struct Options {
    PeerId self{};
    std::uint64_t chunks = 0;      ///< In all passes together.
    std::uint64_t steps = 1;       ///< Of a chunk.
    std::uint64_t last_steps = 1;  ///< Of the last chunk.
  };
  /// Most chunks that a peer has taken or not exchanged yet.
  static constexpr std::uint64_t held_max = leased_chunks_max - 1;

  explicit Ledger(const Options& options) : options_(options) {}
  /// Goes on from what our checkpoint says that we had done.
  void restore(const LedgerEntry& entry);

  /// Takes over what the others tell. `pace`: our own chunks a second; 0: not known.
  void hear(Time now, std::span<const LedgerReport> reports, double pace);

  // ---- Our own work ----

  /// What to train on now. nullopt: nothing, for now. `pace`: our chunks a second; 0: not known.
  std::optional<LedgerWork> next(Time now, double pace);
  /// What next() named last and is not over; nullopt: nothing.
  std::optional<LedgerWork> under_way() const;
  /// We have made this many steps of the work that next() named. `step` is that of our model.
  void made(Time now, std::uint64_t steps, std::uint64_t step);
  /// Another peer has our model as of that step, or there is no other that could have it.
  void kept(std::uint64_t step);
  /// Our model was replaced: what no other peer had is lost.
  void lose();
  /// We were away: the others have taken over what we had taken.
  void give_up_leases();

  /// True if all chunks are done.
  bool is_complete() const { return whole_ >= options_.chunks; }
  /// True if we have found nothing to do.
  bool is_idle() const { return idle_since_.has_value(); }
  /// True if we have done chunks that no other peer has yet.
  bool has_unkept() const { return !trained_.empty(); }
  /// When next() may find something that it has not found now.
  Time deadline() const { return idle_since_ ? looks_again_at_ : never; }
  /// True if the others should hear at once what entry() says.
  bool is_news() { return std::exchange(is_news_, false); }

  /// What we tell.
  LedgerEntry entry() const;
  /// All chunks below are done.
  std::uint64_t whole() const { return whole_; }
  /// Chunks known to be done, and an estimate that counts in what is under way everywhere.
  std::uint64_t done() const { return whole_ + done_.count(whole_, options_.chunks); }
  double estimate(Time now) const;

  struct Counts {
    std::uint64_t trained = 0;   ///< Chunks that we have trained.
    std::uint64_t repeated = 0;  ///< Those that turned out to be done already.
    std::uint64_t lost = 0;      ///< Those lost with our model.
    std::uint64_t helped = 0;    ///< Those taken over from others.
    std::uint64_t freed = 0;     ///< Chunks of others, free again because their peer died or left.
  };
  const Counts& counts() const { return counts_; }
  /// One peer's part in the work, as far as we know.
  struct Part {
    std::uint64_t done = 0;    ///< Chunks that are done because of this peer, each for one peer.
    std::uint64_t leased = 0;  ///< Chunks that it has taken, begun or trained, and not done.
    std::uint64_t freed = 0;   ///< Such chunks that were free again because it died.
  };
  Part own_part() const;
  /// The part of another peer; nothing if we have not heard it.
  Part part_of(PeerId peer) const;
  /// Chunks that live peers have taken, begun or trained, and that are not known to be done.
  std::uint64_t leased() const;
  /// Chunks that we have taken and not begun.
  std::uint64_t ahead() const;
  const Options& options() const { return options_; }

 private:
  struct Other {
    LedgerEntry entry;
    Time told_at{};        ///< When its entry changed last.
    Time heard_at{};       ///< When we looked at it last.
    double allowance = 0;  ///< Chunks that we may still believe that it has done.
    double pace = 0;
    bool lives = false;
    bool lived = false;          ///< It lived when we last looked.
    std::uint64_t credited = 0;  ///< Chunks that we hold to be done because of its word.
    std::uint64_t freed = 0;     ///< Chunks of its leases that were free again, each time it died.
    bool died = false;

    double remaining(Time now) const;
  };
  struct Trained {
    std::uint64_t chunk = 0;
    std::uint64_t step = 0;  ///< Of our model when the chunk was over.
    Time at{};
  };
  struct Current {
    std::uint64_t chunk = 0;
    std::uint64_t made = 0;  ///< Steps.
    bool helps = false;
  };

  std::uint64_t living() const;
  void believe(Other& other);
  void learn_whole();
  void yield_leases();
  void count_freed();
  void take(Time now, double pace);
  bool take_free(double pace);
  bool may_help(Time now) const;
  bool help(Time now, double pace);
  void take_any(double pace, bool is_full);
  void take_gap(const ChunkSet& busy, std::uint64_t room, std::uint64_t most, bool helps);
  void lease(std::uint64_t begin, std::uint64_t count, bool helps);
  std::uint64_t stretch(double pace, std::uint64_t free) const;
  std::uint64_t room_for_others(std::uint64_t free) const;
  ChunkSet own() const;
  ChunkSet open_chunks(const Other& other) const;
  void keep(const Trained& trained);
  std::uint64_t steps_of(std::uint64_t chunk) const {
    return chunk + 1 == options_.chunks ? options_.last_steps : options_.steps;
  }

  Options options_;
  std::map<PeerId, Other> others_;
  std::uint64_t whole_ = 0;    ///< All chunks below are done.
  std::uint64_t vouched_ = 0;  ///< More than a third of the live peers say the same of these.
  ChunkSet done_;              ///< Done chunks from `whole_` on.
  ChunkSet mine_;              ///< Those that we have done, from `vouched_` on.
  std::deque<Lease> ahead_;    ///< What we have taken and not begun.
  std::optional<Current> current_;
  std::deque<Trained> trained_;  ///< In our model alone.
  std::optional<Time> idle_since_;
  bool takes_any_ = false;  ///< By rule 4, until there is other work again.
  Time looks_again_at_ = never;
  bool is_news_ = false;
  Counts counts_;
};

}  // namespace gv
