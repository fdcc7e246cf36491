// The ledger of leased data: which chunks are done or taken, by which peers, and what to do next.
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
#include "consensus/ledger/ledger_note.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Another peer's report, with our own observations of that peer.
struct LedgerReport {
  PeerId peer{};
  const LedgerEntry* entry = nullptr;  ///< The peer's report; not null.
  double pace = 0;                     ///< The peer's measured pace in chunks per second; 0 means
                                       ///< not known.
  bool lives = false;  ///< True if the peer trains or is about to, and is not believed dead.
  bool died = false;   ///< True if the peer is believed dead and did not leave by itself.
};

/// A piece of work: consecutive steps of one chunk.
struct LedgerWork {
  std::uint64_t first_step = 0;  ///< The first step of this work, counted from the first step of
                                 ///< chunk 0.
  std::uint64_t steps = 0;       ///< Number of steps to the end of the chunk.

  friend bool operator==(const LedgerWork&, const LedgerWork&) = default;
};

/// One peer's view of which chunks of the swarm's data are trained, and its own part in that work.
///
/// All passes over the data form one sequence of chunks, each of several steps. Each peer takes
/// *leases* on the next few chunks that no peer has done or taken: as many as it trains in a few
/// seconds. It tells the others of its leases before it trains the chunks. So the work follows each
/// peer's pace, and no central peer has to assign it. A peer leaves room for chunks that peers with
/// smaller ids may take at the same moment. If two take the same chunk nevertheless, the one with
/// the smaller id keeps it. A chunk is *done* once its peer has exchanged models after training on
/// it, because the training is then not lost if the peer dies. If no exchange succeeds for ten
/// seconds, the chunk counts as done nevertheless, so that peers that cannot exchange models still
/// finish. In that case the training is lost if the peer dies before its next exchange. A dead
/// peer's leases become free.
///
/// These rules keep peers from standing still and from repeating work:
///
/// 1. A peer's claim of done chunks is believed up to four times a certain pace. This is the
/// highest pace measured at other peers or, once we have known the peer for ten seconds, its own
/// mean pace if that is higher. The limit keeps the effect of a lie small. Chunks that a peer
/// claims but that the others do not believe yet are left to it, up to the limit on leases. Its
/// claims about the work of others count only by rule 2.
///
/// 2. "All chunks below n are done" is a separate fact: the largest n that more than a third of the
/// live peers report. A peer reports its own done chunks until the others know of them.
///
/// 3. A peer that has nothing to do helps the slowest peer. It takes chunks from the end of that
/// peer's leases, if the slowest peer needs more than a second plus our time for two chunks to
/// finish them.
///
/// 4. A peer that has found nothing to do for three seconds plus the time of two chunks takes any
/// chunk that it does not know to be done. So no chunk waits for ever, even if a lie about it was
/// believed.
///
/// Every chunk is trained at least once. It may be trained again after a death, a partition or a
/// race. Pure.
class Ledger {
 public:
  struct Options {
    PeerId self{};
    std::uint64_t chunks = 0;      ///< Number of chunks in all passes together.
    std::uint64_t steps = 1;       ///< Number of steps of each chunk but the last.
    std::uint64_t last_steps = 1;  ///< Number of steps of the last chunk.
  };
  /// The most chunks that a peer may hold: taken, or trained but not exchanged yet.
  static constexpr std::uint64_t held_max = leased_chunks_max - 1;

  explicit Ledger(const Options& options) : options_(options) {}
  /// Resumes with the note in our checkpoint, which may have any content. Chunks from number `end`
  /// on are not done.
  void restore(const LedgerNote& note, std::uint64_t end);
  /// The note for a checkpoint of our model after all the steps that were reported to made().
  LedgerNote note() const;

  /// Takes in the others' reports. `pace` is our own pace in chunks per second; 0 means not known.
  /// `is_meeting` is true if we have just begun, so that we may not yet know the peers that would
  /// contradict a lie.
  void hear(Time now, std::span<const LedgerReport> reports, double pace, bool is_meeting = false);

  // ---- Our own work ----

  /// The work to train on now; nullopt if there is none at present. `pace` is our own pace in
  /// chunks per second; 0 means not known.
  std::optional<LedgerWork> next(Time now, double pace);
  /// The work that next() returned last, if it is not complete yet; otherwise nullopt.
  std::optional<LedgerWork> under_way() const;
  /// Call after making this many steps of the work that next() returned. `step` is the step of our
  /// model.
  void made(Time now, std::uint64_t steps, std::uint64_t step);
  /// Call when another peer has our model as of this step, or when there is no other peer.
  void kept(std::uint64_t step);
  /// Call when our model was replaced. The chunks that only our model contained are lost.
  void lose();
  /// Call after an absence, during which the others have taken over our leases.
  void give_up_leases();

  /// True if all chunks are done.
  bool is_complete() const { return whole_ >= options_.chunks; }
  /// True if next() has found nothing to do.
  bool is_idle() const { return idle_since_.has_value(); }
  /// True if we have taken chunks over from another peer, or are training such a chunk.
  bool helps() const;
  /// True if we have trained chunks that no other peer's model contains yet.
  bool has_unkept() const { return !trained_.empty(); }
  /// When next() may find work again, if it has found none; otherwise `never`.
  Time deadline() const { return idle_since_ ? looks_again_at_ : never; }
  /// Returns true if, since the last call, entry() has changed in a way that the other peers should
  /// learn of at once.
  bool is_news() { return std::exchange(is_news_, false); }

  /// Our own report.
  LedgerEntry entry() const;
  /// All chunks below this number are done.
  std::uint64_t whole() const { return whole_; }
  /// done() counts the chunks known to be done. estimate() adds an estimate of the work under way
  /// at all peers.
  std::uint64_t done() const { return whole_ + done_.count(whole_, options_.chunks); }
  double estimate(Time now) const;
  /// Number of our steps in chunks that are not known to be done.
  std::uint64_t begun_steps() const;

  struct Counts {
    std::uint64_t trained = 0;   ///< Chunks that we have trained.
    std::uint64_t repeated = 0;  ///< Chunks that turned out to be done already.
    std::uint64_t lost = 0;      ///< Chunks lost with our model.
    std::uint64_t helped = 0;    ///< Chunks taken over from others.
    std::uint64_t freed = 0;     ///< Open chunks that other peers left when they died or left the
                                 ///< run.
  };
  const Counts& counts() const { return counts_; }
  /// One peer's part in the work, as far as we know.
  struct Part {
    std::uint64_t done = 0;  ///< Chunks that are done because of this peer. Each chunk counts for
                             ///< one peer only.
    std::uint64_t leased =
        0;  ///< Chunks that the peer has taken, begun or trained but that are not done.
    std::uint64_t freed =
        0;  ///< Chunks that the peer had taken but not done when it died, and that became free.
  };
  Part own_part() const;
  /// Another peer's part; zeros if we have not heard from it.
  Part part_of(PeerId peer) const;
  /// Chunks that live peers have taken, begun or trained but that are not known to be done.
  std::uint64_t leased() const;
  /// Chunks that we have taken but not begun.
  std::uint64_t ahead() const;
  const Options& options() const { return options_; }

 private:
  struct Other {
    LedgerEntry entry;
    Time first_at{};       ///< When we first heard of the peer.
    Time told_at{};        ///< When the peer's entry last changed.
    Time heard_at{};       ///< When we last looked at the peer's report.
    double allowance = 0;  ///< Number of further chunks that may count as done because the peer
                           ///< says so.
    double pace = 0;
    bool lives = false;
    bool lived = false;          ///< True if the peer lived when we last looked.
    std::uint64_t credited = 0;  ///< Number of chunks that count as done because the peer said so.
    std::uint64_t freed =
        0;  ///< Number of the peer's leased chunks that became free, over all its deaths.
    bool died = false;

    double remaining(Time now) const;
  };
  struct Trained {
    std::uint64_t chunk = 0;
    std::uint64_t step = 0;  ///< Step of our model when the chunk was complete.
    /// When the chunk was complete. For a chunk of an earlier process, the time of the first hear()
    /// after the restart; `never` before that.
    Time at{};
    /// True if an earlier process trained the chunk. counts() then leaves it out.
    bool is_restored = false;
  };
  struct Current {
    std::uint64_t chunk = 0;
    std::uint64_t made = 0;  ///< Steps made in this chunk.
    bool helps = false;
    /// True if an earlier process began the chunk and we have not continued it yet.
    bool is_restored = false;
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
  bool is_known(std::uint64_t chunk) const { return chunk < whole_ || done_.contains(chunk); }
  std::uint64_t trained_here() const;
  std::uint64_t steps_of(std::uint64_t chunk) const {
    return chunk + 1 == options_.chunks ? options_.last_steps : options_.steps;
  }

  Options options_;
  std::map<PeerId, Other> others_;
  std::uint64_t whole_ = 0;    ///< All chunks below this number are done.
  std::uint64_t vouched_ = 0;  ///< More than a third of the live peers report that the chunks below
                               ///< this number are done.
  std::uint64_t doubted_ = 0;  ///< The only other peer that we know reports that the chunks below
                               ///< this number are done, which may be a lie. 0 means no such
                               ///< report.
  ChunkSet done_;              ///< Done chunks from `whole_` on.
  ChunkSet mine_;              ///< Chunks that we have done, from `vouched_` on.
  std::deque<Lease> ahead_;    ///< Leases that we have taken but not begun.
  std::optional<Current> current_;
  std::deque<Trained> trained_;  ///< Trained chunks that only our model contains.
  std::optional<Time> idle_since_;
  bool takes_any_ = false;  ///< True while rule 4 applies, until there is other work again.
  Time looks_again_at_ = never;
  bool is_news_ = false;
  Counts counts_;
};

}  // namespace gv
