// Takes leases, compares them with those of other peers, and counts the chunks that are done.
#include "consensus/ledger/ledger.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace gv {
namespace {

/// A peer's claimed work is believed up to this many times the fastest pace measured at other
/// peers.
constexpr double faster_max = 4;
/// A peer's own mean pace counts only after we have known the peer for this time.
constexpr Duration known_for = std::chrono::seconds(10);
/// A peer whose pace is still unknown after this time counts as having none.
constexpr Duration pace_known_after = std::chrono::seconds(10);
/// A chunk counts as done after this time, even if no other peer has taken our model since.
/// Otherwise peers whose exchanges all fail would hold leases until they may take no more.
constexpr Duration kept_alone_after = std::chrono::seconds(10);
/// By rule 4 an idle peer waits for this time, plus the time of two chunks, before it takes any
/// chunk that it does not know to be done.
constexpr Duration idle_max = std::chrono::seconds(3);
/// By rule 3 a peer is helped if its leases will take it longer than this plus our time for two
/// chunks.
constexpr double helps_for_s = 1;
/// A peer takes as many chunks as it trains in `take_s` seconds, and fewer towards the end of the
/// work. It never takes fewer than it trains in `hear_s` seconds, so that the other peers have time
/// to learn of its leases.
constexpr double take_s = 4;
constexpr double hear_s = 0.1;
/// Before helping, a peer waits for this time for each peer with a smaller id, but at most
/// `waits_max` in all.
constexpr Duration waits_for_each = std::chrono::milliseconds(50);
constexpr Duration waits_max = std::chrono::seconds(1);
/// Time after which an idle peer looks for work again.
constexpr Duration looks_every = std::chrono::milliseconds(50);

/// True if lease `a` wins over lease `b` of the same chunk. A helper's lease wins; otherwise the
/// smaller id does.
bool holds(const Lease& a, PeerId peer_a, const Lease& b, PeerId peer_b) {
  return a.helps != b.helps ? a.helps : peer_a < peer_b;
}

/// True if no range of the entry reaches beyond the last chunk. Every correct peer reports only
/// such ranges.
bool fits(const LedgerEntry& entry, std::uint64_t chunks) {
  const auto is_within = [chunks](const ChunkRange& range) { return range.end() <= chunks; };
  return std::ranges::all_of(entry.done, is_within) &&
         std::ranges::all_of(entry.leases, is_within, &Lease::chunks);
}

void add(const ChunkSet& chunks, ChunkSet& to) {
  for (const ChunkRange& range : chunks.ranges(chunks.size())) to.add(range.begin, range.end());
}

/// Calls `visit(begin, end)` for each stretch of chunks from `from` up to but excluding `to` that
/// is not in `done`. The call may add chunks of its stretch to `done`.
template <class Visit>
void for_each_gap(const ChunkSet& done, std::uint64_t from, std::uint64_t to, const Visit& visit) {
  for (std::uint64_t at = done.first_missing(from); at < to;) {
    const std::uint64_t end = std::min(done.first_present(at, to), to);
    visit(at, end);
    at = done.first_missing(end);
  }
}

/// Adds to `to` those chunks of the range that are not in `done`.
void add_missing(const ChunkRange& range, const ChunkSet& done, ChunkSet& to) {
  for_each_gap(done, range.begin, range.end(),
               [&to](std::uint64_t begin, std::uint64_t end) { to.add(begin, end); });
}

std::uint64_t chunks_in(const std::vector<Lease>& leases) {
  std::uint64_t sum = 0;
  for (const Lease& lease : leases) sum += lease.chunks.count;
  return sum;
}

}  // namespace

void Ledger::restore(const LedgerNote& note, std::uint64_t end) {
  end = std::min(end, options_.chunks);
  whole_ = std::min(note.whole, end);
  // The others may know of fewer done chunks than our note does. So we report our own chunks again,
  // including those below `whole_`, until more than a third of the peers know that they are done.
  for (const ChunkRange& range : note.mine) {
    mine_.add(range.begin, std::min(range.end(), end));
    done_.add(std::max(range.begin, whole_), std::min(range.end(), end));
  }
  for (const ChunkRange& range : note.done) {
    done_.add(std::max(range.begin, whole_), std::min(range.end(), end));
  }
  for (const BegunChunk& begun : note.begun) {
    const std::uint64_t chunk = begun.chunk;
    if (chunk >= options_.chunks || is_known(chunk) || own().contains(chunk)) continue;
    if (begun.made < steps_of(chunk)) {
      if (!current_) current_ = {.chunk = chunk, .made = begun.made, .is_restored = true};
    } else if (trained_.size() < held_max) {
      trained_.push_back({.chunk = chunk, .at = never, .is_restored = true});
    }
  }
}

LedgerNote Ledger::note() const {
  LedgerNote note{.whole = whole_,
                  .mine = mine_.ranges(ledger_ranges_max),
                  .done = done_.ranges(noted_ranges_max),
                  .begun = {}};
  for (const Trained& trained : trained_) {
    note.begun.push_back({trained.chunk, steps_of(trained.chunk)});
  }
  if (current_ && current_->made > 0) note.begun.push_back({current_->chunk, current_->made});
  return note;
}

std::uint64_t Ledger::living() const {
  std::uint64_t peers = 1;
  for (const auto& [peer, other] : others_) peers += other.lives;
  return peers;
}

// ---- Reports of other peers ----

/// Estimated number of leased chunks that the peer has not done yet.
double Ledger::Other::remaining(Time now) const {
  const auto taken = static_cast<double>(chunks_in(entry.leases));
  return std::max(0.0, taken - pace * seconds(now - told_at));
}

void Ledger::hear(Time now, std::span<const LedgerReport> reports, double pace, bool is_meeting) {
  for (auto& [peer, other] : others_) other.lived = std::exchange(other.lives, false);
  // A peer's pace follows from its own reports, so its pace must not affect how much of these
  // reports we believe.
  const LedgerReport* fastest = nullptr;
  for (const LedgerReport& report : reports) {
    if (fastest == nullptr || report.pace > fastest->pace) fastest = &report;
  }
  double second = pace;
  for (const LedgerReport& report : reports) {
    if (&report != fastest) second = std::max(second, report.pace);
  }
  for (const LedgerReport& report : reports) {
    if (!fits(*report.entry, options_.chunks)) continue;
    const auto [found, is_new] = others_.try_emplace(report.peer);
    Other& other = found->second;
    if (is_new) other.first_at = other.heard_at = other.told_at = now;
    allow(now, other, &report == fastest ? second : std::max(second, fastest->pace));
    other.pace = report.pace;
    other.lives = report.lives;
    other.died = report.died;
    if (is_new || other.entry != *report.entry) {
      other.entry = *report.entry;
      other.told_at = now;
    }
    believe(other);
  }
  learn_whole(is_meeting);
  if (current_ && current_->is_restored && is_known(current_->chunk)) current_.reset();
  count_freed();
  yield_leases();
  for (Trained& trained : trained_) trained.at = std::min(trained.at, now);
  while (!trained_.empty() && now >= trained_.front().at + kept_alone_after) {
    keep(trained_.front());
    trained_.pop_front();
    is_news_ |= is_idle();
  }
}

/// Raises the peer's allowance: the number of further chunks that may count as done because the
/// peer says so. `most` is the highest pace measured at other peers. If a peer is far faster than
/// all others, its own credited pace raises the allowance more and more, so that the allowance
/// catches up with the peer's real work.
void Ledger::allow(Time now, Other& other, double most) {
  const Duration known = other.heard_at - other.first_at;
  if (known >= known_for) {
    most = std::max(most, static_cast<double>(other.credited) / seconds(known));
  }
  other.allowance = std::min(other.allowance + faster_max * most * seconds(now - other.heard_at),
                             static_cast<double>(options_.chunks));
  other.heard_at = now;
}

/// Rule 1: accepts the chunks that the peer reports as done, up to its allowance.
void Ledger::believe(Other& other) {
  for (const ChunkRange& range : other.entry.done) {
    const auto believe_some = [&](std::uint64_t next, std::uint64_t end) {
      if (other.allowance < 1) return;
      const auto most = static_cast<std::uint64_t>(other.allowance);
      const std::uint64_t believed = std::min(most, end - next);
      done_.add(next, next + believed);
      other.allowance -= static_cast<double>(believed);
      other.credited += believed;
    };
    for_each_gap(done_, std::max(range.begin, whole_), range.end(), believe_some);
  }
}

/// Applies rule 2. While we are still meeting the others, the only peer that we know may be
/// hostile. Until we know more peers, we do not train the chunks that this peer reports as done,
/// but we do not count them as done either.
void Ledger::learn_whole(bool is_meeting) {
  whole_ = done_.first_missing(whole_);
  std::vector<std::uint64_t> told{whole_};
  for (const auto& [peer, other] : others_) {
    if (other.lives) told.push_back(std::min(other.entry.whole, options_.chunks));
  }
  const auto nth = told.begin() + static_cast<std::ptrdiff_t>(told.size() / 3);
  std::ranges::nth_element(told, nth, std::greater());
  const bool is_doubtful = is_meeting && told.size() < 3;
  doubted_ = is_doubtful ? *nth : 0;
  if (!is_doubtful) vouched_ = std::max(vouched_, *nth);
  whole_ = done_.first_missing(std::max(whole_, vouched_));
  done_.remove(0, whole_);
  mine_.remove(0, vouched_);
}

/// Counts the open chunks of peers that have died or left since the last call. A peer that knew
/// that all chunks were done has left none open.
void Ledger::count_freed() {
  if (is_complete()) return;
  for (auto& [peer, other] : others_) {
    if (!other.lived || other.lives || other.entry.whole >= options_.chunks) continue;
    const std::uint64_t freed = open_chunks(other).count(whole_, options_.chunks);
    if (other.died) other.freed += freed;
    counts_.freed += freed;
  }
}

/// The chunks that the other peer has leased and that are not known to be done.
ChunkSet Ledger::open_chunks(const Other& other) const {
  ChunkSet open;
  for (const Lease& lease : other.entry.leases) add_missing(lease.chunks, done_, open);
  open.remove(0, whole_);
  return open;
}

/// Gives up leases on chunks that we have not begun if others have done them or have a better right
/// to them.
void Ledger::yield_leases() {
  std::deque<Lease> left;
  for (const Lease& lease : ahead_) {
    ChunkSet chunks;
    add_missing(lease.chunks, done_, chunks);
    chunks.remove(0, whole_);
    for (const auto& [peer, other] : others_) {
      if (!other.lives) continue;
      for (const Lease& theirs : other.entry.leases) {
        if (!holds(lease, options_.self, theirs, peer)) {
          chunks.remove(theirs.chunks.begin, theirs.chunks.end());
        }
      }
    }
    for (const ChunkRange& range : chunks.ranges(chunks.size()))
      left.push_back({range, lease.helps});
  }
  is_news_ |= left != ahead_;
  ahead_ = std::move(left);
}

// ---- Our own work ----

std::uint64_t Ledger::ahead() const {
  std::uint64_t sum = 0;
  for (const Lease& lease : ahead_) sum += lease.chunks.count;
  return sum;
}

/// Chunks that we have taken, begun or trained but that are not done.
ChunkSet Ledger::own() const {
  ChunkSet all;
  for (const Lease& lease : ahead_) all.add(lease.chunks.begin, lease.chunks.end());
  for (const Trained& trained : trained_) all.add(trained.chunk, trained.chunk + 1);
  if (current_) all.add(current_->chunk, current_->chunk + 1);
  return all;
}

std::optional<LedgerWork> Ledger::next(Time now, double pace) {
  if (!current_) {
    // Takes chunks early, so that the other peers know of them before we begin to train.
    if (static_cast<double>(ahead()) < 1 + pace * take_s / 2) take(now, pace);
    if (ahead_.empty()) {
      if (!idle_since_) idle_since_ = now;
      looks_again_at_ = now + looks_every;
      return std::nullopt;
    }
    Lease& lease = ahead_.front();
    current_ = {.chunk = lease.chunks.begin++, .helps = lease.helps};
    if (--lease.chunks.count == 0) ahead_.pop_front();
    idle_since_.reset();
  }
  return under_way();
}

std::optional<LedgerWork> Ledger::under_way() const {
  if (!current_) return std::nullopt;
  return LedgerWork{.first_step = current_->chunk * options_.steps + current_->made,
                    .steps = steps_of(current_->chunk) - current_->made};
}

void Ledger::made(Time now, std::uint64_t steps, std::uint64_t step) {
  if (!current_) return;
  current_->made += steps;
  current_->is_restored = false;
  if (current_->made < steps_of(current_->chunk)) return;
  trained_.push_back({.chunk = current_->chunk, .step = step, .at = now});
  ++counts_.trained;
  current_.reset();
}

void Ledger::keep(const Trained& trained) {
  const bool was_known = is_known(trained.chunk);
  counts_.repeated += was_known && !trained.is_restored;
  if (trained.chunk >= vouched_) mine_.add(trained.chunk, trained.chunk + 1);
  if (!was_known) done_.add(trained.chunk, trained.chunk + 1);
  whole_ = done_.first_missing(whole_);
}

/// Number of the chunks in `trained_` that this process has trained.
std::uint64_t Ledger::trained_here() const {
  return static_cast<std::uint64_t>(std::ranges::count(trained_, false, &Trained::is_restored));
}

std::uint64_t Ledger::begun_steps() const {
  std::uint64_t steps = current_ && !is_known(current_->chunk) ? current_->made : 0;
  for (const Trained& trained : trained_) {
    if (!is_known(trained.chunk)) steps += steps_of(trained.chunk);
  }
  return steps;
}

void Ledger::kept(std::uint64_t step) {
  std::deque<Trained> left;
  for (const Trained& trained : trained_) {
    if (trained.step <= step) {
      keep(trained);
    } else {
      left.push_back(trained);
    }
  }
  // Peers that wait for the last chunks must learn at once that these are done.
  is_news_ |= left.size() < trained_.size() && is_idle();
  trained_ = std::move(left);
}

void Ledger::lose() {
  counts_.lost += trained_here();
  is_news_ |= !trained_.empty() || current_;
  trained_.clear();
  current_.reset();
}

void Ledger::give_up_leases() {
  is_news_ |= !ahead_.empty();
  ahead_.clear();
}

/// The number of chunks to take: as many as we train in `take_s` seconds. Towards the end of the
/// work there are fewer, but enough for the others to learn of them in time.
std::uint64_t Ledger::stretch(double pace, std::uint64_t free) const {
  const auto most = static_cast<std::uint64_t>(pace * take_s);
  const auto least = static_cast<std::uint64_t>(pace * hear_s);
  const std::uint64_t share = std::max(least, free / (2 * living()));
  return std::max<std::uint64_t>(1, std::min(most, share));
}

/// Number of chunks that we leave to peers with smaller ids, which may be taking chunks right now.
std::uint64_t Ledger::room_for_others(std::uint64_t free) const {
  std::uint64_t room = 0;
  for (const auto& [peer, other] : others_) {
    if (peer > options_.self) break;
    if (other.lives) room += stretch(other.pace, free);
  }
  return room;
}

void Ledger::take(Time now, double pace) {
  if (ahead() + trained_.size() >= held_max || ahead_.size() + 2 >= ledger_leases_max) return;
  // The chunks that we have done must fit into our report. If they do not, a gap has stayed open
  // for a long time.
  const bool is_full = mine_.size() + 2 >= ledger_ranges_max;
  const bool finds_work = !is_full && (take_free(pace) || (may_help(now) && help(now, pace)));
  if (finds_work) takes_any_ = false;
  if (finds_work || !ahead_.empty()) return;
  const double idle_s = seconds(idle_max) + (pace > 0 ? 2 / pace : 0);
  const bool is_long_idle = idle_since_ && seconds(now - *idle_since_) >= idle_s;
  takes_any_ = takes_any_ || is_full || is_long_idle;
  if (takes_any_) take_any(pace, is_full);
}

void Ledger::lease(std::uint64_t begin, std::uint64_t count, bool helps) {
  count = std::min(count, held_max - trained_.size() - ahead());
  ahead_.push_back({.chunks = {begin, count}, .helps = helps});
  counts_.helped += helps ? count : 0;
  is_news_ = true;
}

/// Adds to `busy` the chunks that the other peer has leased, and those that it reports as done but
/// that we do not believe yet. Their total is limited to `leased_chunks_max`, so lies about done
/// chunks block no more chunks than leases could.
void Ledger::add_claimed(const Other& other, ChunkSet& busy) const {
  const std::uint64_t leased = std::min(leased_chunks_max, chunks_in(other.entry.leases));
  std::uint64_t left = leased_chunks_max - leased;
  for (const Lease& lease : other.entry.leases) busy.add(lease.chunks.begin, lease.chunks.end());
  for (const ChunkRange& range : other.entry.done) {
    for_each_gap(done_, std::max(range.begin, whole_), range.end(),
                 [&](std::uint64_t at, std::uint64_t end) {
                   const std::uint64_t count = std::min(left, end - at);
                   busy.add(at, at + count);
                   left -= count;
                 });
  }
}

bool Ledger::take_free(double pace) {
  ChunkSet busy = done_;
  for (const auto& [peer, other] : others_) {
    if (other.lives) add_claimed(other, busy);
  }
  busy.add(whole_, doubted_);
  add(own(), busy);
  const std::uint64_t free = options_.chunks - whole_ - busy.count(whole_, options_.chunks);
  if (free == 0) return false;
  const std::uint64_t room = room_for_others(free);
  take_gap(busy, room < free ? room : 0, stretch(pace, free), false);
  return true;
}

/// True if we have nothing to do, and have waited longer than peers with smaller ids. The waiting
/// keeps peers from all taking the same chunk.
bool Ledger::may_help(Time now) const {
  if (!ahead_.empty()) return false;
  Duration waits{};
  for (const auto& [peer, other] : others_) {
    if (peer < options_.self && other.lives && waits < waits_max) waits += waits_for_each;
  }
  return waits == Duration{} || (idle_since_ && now >= *idle_since_ + waits);
}

/// Rule 3: takes chunks from the end of the slowest peer's leases. Returns false if there are none.
bool Ledger::help(Time now, double pace) {
  const Other* slowest = nullptr;
  double longest_s = helps_for_s + (pace > 0 ? 2 / pace : 0);
  for (const auto& [peer, other] : others_) {
    if (!other.lives || other.entry.leases.empty()) continue;
    if (other.pace <= 0 && now < other.told_at + pace_known_after) continue;
    const double needs_s = other.pace > 0 ? other.remaining(now) / other.pace : 1e9;
    if (needs_s <= longest_s) continue;
    slowest = &other;
    longest_s = needs_s;
  }
  if (slowest == nullptr) return false;
  ChunkSet theirs = open_chunks(*slowest);
  const ChunkSet mine = own();
  for (const ChunkRange& range : mine.ranges(mine.size())) theirs.remove(range.begin, range.end());
  for (const auto& [peer, other] : others_) {  // Other helpers may have some of these chunks.
    if (!other.lives) continue;
    for (const Lease& lease : other.entry.leases) {
      if (lease.helps) theirs.remove(lease.chunks.begin, lease.chunks.end());
    }
  }
  if (theirs.empty()) return false;
  const ChunkRange last = theirs.ranges(theirs.size()).back();
  const std::uint64_t count = std::min((last.count + 1) / 2, stretch(pace, options_.chunks));
  lease(last.end() - count, count, true);
  return true;
}

/// Rule 4: takes chunks that are not known to be done. If our report has no room for more ranges of
/// done chunks, this function fills the first gap in the done chunks.
void Ledger::take_any(double pace, bool is_full) {
  ChunkSet known = done_;
  add(own(), known);
  const std::uint64_t free = options_.chunks - whole_ - known.count(whole_, options_.chunks);
  const std::uint64_t room = is_full ? 0 : room_for_others(free);
  if (free > 0) take_gap(known, room < free ? room : 0, stretch(pace, options_.chunks), true);
}

/// Leases the first chunks that are not in `busy`: skips `room` of them and takes at most `most`
/// adjacent ones.
void Ledger::take_gap(const ChunkSet& busy, std::uint64_t room, std::uint64_t most, bool helps) {
  std::uint64_t at = busy.first_missing(whole_);
  std::uint64_t end = busy.first_present(at, options_.chunks);
  while (room >= end - at) {
    room -= end - at;
    at = busy.first_missing(end);
    end = busy.first_present(at, options_.chunks);
  }
  lease(at + room, std::min(most, end - at - room), helps);
}

// ---- Our own report ----

LedgerEntry Ledger::entry() const {
  LedgerEntry entry{.whole = whole_, .done = mine_.ranges(ledger_ranges_max), .leases = {}};
  // The leases that matter most to other peers come first, because there may be no room for all.
  ChunkSet plain;
  ChunkSet helping;
  ChunkSet trained;
  for (const Lease& lease : ahead_) {
    (lease.helps ? helping : plain).add(lease.chunks.begin, lease.chunks.end());
  }
  if (current_) (current_->helps ? helping : plain).add(current_->chunk, current_->chunk + 1);
  for (const Trained& one : trained_) trained.add(one.chunk, one.chunk + 1);
  for (const ChunkSet* set : {&plain, &helping, &trained}) {
    for (const ChunkRange& range : set->ranges(ledger_leases_max - entry.leases.size())) {
      entry.leases.push_back({range, set == &helping});
    }
  }
  return entry;
}

Ledger::Part Ledger::own_part() const {
  const std::uint64_t not_done = counts_.repeated + counts_.lost + trained_here();
  return {.done = counts_.trained - not_done, .leased = own().count(whole_, options_.chunks)};
}

Ledger::Part Ledger::part_of(PeerId peer) const {
  const auto found = others_.find(peer);
  if (found == others_.end()) return {};
  const Other& other = found->second;
  return {.done = other.credited,
          .leased = other.lives ? open_chunks(other).count(whole_, options_.chunks) : 0,
          .freed = other.freed};
}

std::uint64_t Ledger::leased() const {
  ChunkSet all;
  const ChunkSet mine = own();
  for (const ChunkRange& range : mine.ranges(mine.size())) add_missing(range, done_, all);
  for (const auto& [peer, other] : others_) {
    if (other.lives) add(open_chunks(other), all);
  }
  return all.count(whole_, options_.chunks);
}

double Ledger::estimate(Time now) const {
  double sum = static_cast<double>(done()) + static_cast<double>(trained_.size());
  if (current_) {
    sum += static_cast<double>(current_->made) / static_cast<double>(steps_of(current_->chunk));
  }
  for (const auto& [peer, other] : others_) {
    if (!other.lives) continue;
    sum += static_cast<double>(chunks_in(other.entry.leases)) - other.remaining(now);
  }
  return std::min(sum, static_cast<double>(options_.chunks));
}

bool Ledger::helps() const {
  return std::ranges::any_of(ahead_, &Lease::helps) || (current_ && current_->helps);
}

}  // namespace gv
