// The ledger of leased data: which chunks are done or taken, by whom, and which to train on next.
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

/// What we know about another peer.
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
  std::uint64_t steps = 0;       ///< Number of steps to the end of the chunk.

  friend bool operator==(const LedgerWork&, const LedgerWork&) = default;
};

/// One peer's view of which chunks of the swarm's data are trained, and its own part in them.
///
/// All passes over the data are one sequence of chunks, each of several steps. Each peer takes
/// *leases* on the next few chunks that no peer has done or taken, as many as it trains in some
/// seconds, and tells the others before it needs them. So the work follows each peer's pace,
/// without a dealer. A peer leaves room for chunks that peers with smaller ids may take at the same
/// moment. If two take the same chunk all the same, the one with the smaller id keeps it. A chunk
/// is *done* once its peer has exchanged models since, so that it is not lost with the peer. A dead
/// peer's leases are free.
///
/// These rules keep a peer from standing still and from repeating work:
/// 1. A peer's claim of done chunks is believed up to four times the highest pace measured at other
///    peers, or its own mean pace once we have known it for ten seconds. So a lie is limited. The
///    others leave it the next chunks that it claims and that they do not believe yet. Its claims
///    about others' work count only by rule 2.
/// 2. "All chunks below n are done" is a separate fact: the largest n that more than a third of the
///    live peers report. A peer reports its own done chunks until the others know of them.
/// 3. A peer that has nothing to do helps the slowest one: it takes chunks from the end of that
///    peer's leases, if the peer would need longer by a second plus our time for two chunks.
/// 4. A peer that has found nothing to do for three seconds plus the time of two chunks takes any
///    chunk that it does not know to be done. So no chunk waits for ever, whatever was believed.
///
/// Every chunk is trained at least once. It may be trained again after a death, a partition or a
/// race. Pure.
class Ledger {
 public:
  struct Options {
    PeerId self{};
    std::uint64_t chunks = 0;      ///< Chunks in all passes together.
    std::uint64_t steps = 1;       ///< Steps of a chunk.
    std::uint64_t last_steps = 1;  ///< Steps of the last chunk.
  };
  /// The most chunks that a peer has taken or not exchanged yet.
  static constexpr std::uint64_t held_max = leased_chunks_max - 1;

  explicit Ledger(const Options& options) : options_(options) {}
  /// Resumes from our checkpoint's entry.
  void restore(const LedgerEntry& entry);

  /// Takes over the others' reports. `pace`: our own chunks a second; 0: not known.
  /// `is_meeting`: we have just begun, so we may not know yet the peers that contradict a lie.
  void hear(Time now, std::span<const LedgerReport> reports, double pace, bool is_meeting = false);

  // ---- Our own work ----

  /// The work to train on now; nullopt: none at present. `pace`: our chunks a second; 0: not known.
  std::optional<LedgerWork> next(Time now, double pace);
  /// The last work of next() that is not over; nullopt: none.
  std::optional<LedgerWork> under_way() const;
  /// Call after this many steps of the work named by next(). `step` is that of our model.
  void made(Time now, std::uint64_t steps, std::uint64_t step);
  /// Call when another peer has our model as of that step, or when there is no other peer.
  void kept(std::uint64_t step);
  /// Call when our model was replaced: chunks that only we had are lost.
  void lose();
  /// Call when we were away, so the others have taken over our leases.
  void give_up_leases();

  /// True if all chunks are done.
  bool is_complete() const { return whole_ >= options_.chunks; }
  /// True if we have found nothing to do.
  bool is_idle() const { return idle_since_.has_value(); }
  /// True if we have taken chunks over from another peer, or are training one of these.
  bool helps() const;
  /// True if we have done chunks that no other peer has yet.
  bool has_unkept() const { return !trained_.empty(); }
  /// When next() may find work that it has not found now.
  Time deadline() const { return idle_since_ ? looks_again_at_ : never; }
  /// True if the others should be told at once of changes in entry().
  bool is_news() { return std::exchange(is_news_, false); }

  /// Our own report.
  LedgerEntry entry() const;
  /// All chunks below this number are done.
  std::uint64_t whole() const { return whole_; }
  /// Chunks known to be done, and an estimate that includes work under way at all peers.
  std::uint64_t done() const { return whole_ + done_.count(whole_, options_.chunks); }
  double estimate(Time now) const;

  struct Counts {
    std::uint64_t trained = 0;   ///< Chunks that we have trained.
    std::uint64_t repeated = 0;  ///< Chunks that turned out to be done already.
    std::uint64_t lost = 0;      ///< Chunks lost with our model.
    std::uint64_t helped = 0;    ///< Chunks taken over from others.
    std::uint64_t freed = 0;     ///< Chunks of others that became free because their peer died or
                                 ///< left.
  };
  const Counts& counts() const { return counts_; }
  /// One peer's part in the work, as far as we know.
  struct Part {
    std::uint64_t done = 0;    ///< Chunks that are done because of this peer, each for one peer.
    std::uint64_t leased = 0;  ///< Chunks that it has taken, begun or trained, and not done.
    std::uint64_t freed = 0;   ///< Such chunks that were free again because it died.
  };
  Part own_part() const;
  /// The part of another peer; zeros if we have not heard from it.
  Part part_of(PeerId peer) const;
  /// Chunks that live peers have taken, begun or trained, and that are not known to be done.
  std::uint64_t leased() const;
  /// Chunks that we have taken but not begun.
  std::uint64_t ahead() const;
  const Options& options() const { return options_; }

 private:
  struct Other {
    LedgerEntry entry;
    Time first_at{};       ///< When we first heard of it.
    Time told_at{};        ///< When its entry last changed.
    Time heard_at{};       ///< When we last looked at it.
    double allowance = 0;  ///< Chunks that we may still believe it has done.
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
    std::uint64_t step = 0;  ///< Step of our model when the chunk was over.
    Time at{};
  };
  struct Current {
    std::uint64_t chunk = 0;
    std::uint64_t made = 0;  ///< Steps made.
    bool helps = false;
  };

  std::uint64_t living() const;
  void allow(Time now, Other& other, double most);
  void believe(Other& other);
  void learn_whole(bool is_meeting);
  void yield_leases();
  void count_freed();
  void take(Time now, double pace);
  void add_claimed(const Other& other, ChunkSet& busy) const;
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
  std::uint64_t whole_ = 0;    ///< All chunks below this number are done.
  std::uint64_t vouched_ = 0;  ///< More than a third of the live peers report the chunks below this
                               ///< number as done.
  std::uint64_t doubted_ = 0;  ///< The only other peer that we know reports the chunks below this
                               ///< number as done, and may lie; 0: no such report.
  ChunkSet done_;              ///< Done chunks from `whole_` on.
  ChunkSet mine_;              ///< Chunks that we have done, from `vouched_` on.
  std::deque<Lease> ahead_;    ///< Leases that we have taken but not begun.
  std::optional<Current> current_;
  std::deque<Trained> trained_;  ///< Chunks that only our model contains.
  std::optional<Time> idle_since_;
  bool takes_any_ = false;  ///< True if rule 4 applies, until there is other work again.
  Time looks_again_at_ = never;
  bool is_news_ = false;
  Counts counts_;
};

}  // namespace gv
