// The ledger of leased data, alone and among peers whose reports arrive late.
#include "consensus/ledger/ledger.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t chunk_steps = 16;
constexpr Duration tick = 5ms;

PeerId id_of(std::size_t peer) { return PeerId{peer + 1}; }

/// Peers that train on leased data, in ticks of 5 ms. A peer sends its report whenever the report
/// changes, and once a second. The report reaches the other peers after `late`. Peers exchange
/// models now and then.
class Swarm {
 public:
  Swarm(std::vector<double> paces, std::uint64_t chunks, Duration late = 50ms)
      : chunks_(chunks), late_(late) {
    for (std::size_t peer = 0; peer < paces.size(); ++peer) {
      peers_.push_back({.ledger = ledger_of(peer), .pace = paces[peer]});
    }
  }

  /// Runs until all live peers know that everything is done. Returns how many seconds that took.
  double run(double most_s = 2000) {
    while (!is_over() && seconds(now_.time_since_epoch()) < most_s) step();
    REQUIRE(is_over());
    for (std::uint64_t chunk = 0; chunk < chunks_; ++chunk) REQUIRE(trained_.contains(chunk));
    return seconds(now_.time_since_epoch());
  }
  void run_until(double at_s) {
    while (seconds(now_.time_since_epoch()) < at_s) step();
  }

  void set_pace(std::size_t peer, double pace) { peers_[peer].pace = pace; }
  void set_side(std::size_t peer, int side) { peers_[peer].side = side; }
  void kill(std::size_t peer) { peers_[peer].lives = false; }
  void join(double pace) { peers_.push_back({.ledger = ledger_of(peers_.size()), .pace = pace}); }
  /// Makes a peer send this false report from now on.
  void lie(std::size_t peer, LedgerEntry entry) { lies_[peer] = std::move(entry); }

  std::uint64_t trainings() const {
    std::uint64_t sum = 0;
    for (const auto& [chunk, times] : trained_) sum += times;
    return sum;
  }
  /// Number of times that a chunk was trained again.
  std::uint64_t repeats() const { return trainings() - trained_.size(); }
  std::uint64_t told() const { return told_; }
  const Ledger& ledger(std::size_t peer) const { return peers_[peer].ledger; }
  const std::map<std::uint64_t, std::uint64_t>& trained() const { return trained_; }

 private:
  struct Peer {
    Ledger ledger;
    double pace = 0;  ///< Steps a second.
    bool lives = true;
    int side = 0;
    double work = 0;
    std::uint64_t step = 0;
    Time told_at{};
    Time exchanged_at{};
    std::map<std::size_t, LedgerEntry> heard{};
  };
  struct Word {
    Time at{};
    std::size_t from = 0;
    LedgerEntry entry;
  };

  Ledger ledger_of(std::size_t peer) const {
    return Ledger(
        {.self = id_of(peer), .chunks = chunks_, .steps = chunk_steps, .last_steps = chunk_steps});
  }

  bool is_over() const {
    return std::ranges::all_of(peers_, [this](const Peer& peer) {
      return !peer.lives || lies_.contains(static_cast<std::size_t>(&peer - peers_.data())) ||
             peer.ledger.is_complete();
    });
  }

  void step() {
    now_ += tick;
    for (std::size_t number = 0; number < peers_.size(); ++number) {
      if (peers_[number].lives) act(number);
    }
    while (!words_.empty() && words_.front().at <= now_) {
      const Word word = words_.front();
      words_.erase(words_.begin());
      for (std::size_t number = 0; number < peers_.size(); ++number) {
        const bool reaches = number != word.from && peers_[number].side == peers_[word.from].side;
        if (reaches) peers_[number].heard[word.from] = word.entry;
      }
    }
  }

  void hear(Peer& peer) {
    std::vector<LedgerReport> reports;
    for (const auto& [number, entry] : peer.heard) {
      const Peer& other = peers_[number];
      const double pace = other.pace / chunk_steps;
      const bool lives = other.lives && other.side == peer.side;
      reports.push_back({.peer = id_of(number), .entry = &entry, .pace = pace, .lives = lives});
    }
    peer.ledger.hear(now_, reports, peer.pace / chunk_steps);
  }

  void act(std::size_t number) {
    Peer& peer = peers_[number];
    hear(peer);
    if (!lies_.contains(number)) {
      peer.work += peer.pace * seconds(tick);
      while (peer.work >= 1) {
        peer.work -= 1;
        const auto part = peer.ledger.next(now_, peer.pace / chunk_steps);
        if (!part) break;
        const std::uint64_t chunk = part->first_step / chunk_steps;
        peer.ledger.made(now_, 1, ++peer.step);
        if (part->steps == 1) ++trained_[chunk];
      }
    }
    if (now_ >= peer.exchanged_at + 200ms) {
      peer.exchanged_at = now_;
      peer.ledger.kept(peer.step);
    }
    if (peer.ledger.is_news() || now_ >= peer.told_at + 1s) {
      peer.told_at = now_;
      ++told_;
      const auto lie = lies_.find(number);
      LedgerEntry entry = lie != lies_.end() ? lie->second : peer.ledger.entry();
      REQUIRE(entry.problem().empty());
      words_.push_back({now_ + late_, number, std::move(entry)});
    }
  }

  std::uint64_t chunks_;
  Duration late_;
  Time now_{};
  std::vector<Peer> peers_;
  std::vector<Word> words_;
  std::map<std::size_t, LedgerEntry> lies_;
  std::map<std::uint64_t, std::uint64_t> trained_;  ///< How often each chunk has been trained.
  std::uint64_t told_ = 0;
};

double ideal_s(const std::vector<double>& paces, std::uint64_t chunks) {
  double sum = 0;
  for (const double pace : paces) sum += pace;
  return static_cast<double>(chunks * chunk_steps) / sum;
}

}  // namespace

TEST_CASE("a set of chunks joins and cuts ranges as a plain set does", "[unit]") {
  Rng draws(5);
  ChunkSet ranges;
  std::set<std::uint64_t> plain;
  for (int turn = 0; turn < 3000; ++turn) {
    const std::uint64_t begin = draws.below(60);
    const std::uint64_t end = begin + draws.below(12);
    const bool adds = draws.chance(0.5);
    adds ? ranges.add(begin, end) : ranges.remove(begin, end);
    for (std::uint64_t chunk = begin; chunk < end; ++chunk) {
      adds ? (void)plain.insert(chunk) : (void)plain.erase(chunk);
    }
    const std::uint64_t from = draws.below(80);
    std::uint64_t missing = from;
    while (plain.contains(missing)) ++missing;
    const auto present = plain.lower_bound(from);
    REQUIRE(ranges.contains(from) == plain.contains(from));
    REQUIRE(ranges.first_missing(from) == missing);
    REQUIRE(ranges.first_present(from, 99) == (present == plain.end() ? 99 : *present));
    REQUIRE(ranges.count(from, from + 9) ==
            static_cast<std::uint64_t>(std::distance(present, plain.lower_bound(from + 9))));
    std::uint64_t sum = 0;
    std::uint64_t last_end = 0;
    for (const ChunkRange& range : ranges.ranges(1000)) {
      REQUIRE((sum == 0 || range.begin > last_end));
      sum += range.count;
      last_end = range.end();
    }
    REQUIRE(sum == plain.size());
  }
}

TEST_CASE("peers of unlike pace train every chunk, nearly all of them once", "[unit]") {
  for (const auto& paces : std::vector<std::vector<double>>{{100, 100, 100, 100},
                                                            {100, 100, 100, 10},
                                                            {100, 3},
                                                            {100},
                                                            {100, 10, 10, 10},
                                                            {400, 200, 100, 50, 25, 12, 6}}) {
    Swarm swarm(paces, 600);
    const double took = swarm.run();
    INFO(paces.size() << " peers, the last at " << paces.back() << ": " << swarm.repeats()
                      << " repeats, " << took / ideal_s(paces, 600) << " of the ideal time");
    CHECK(took <= 1.1 * ideal_s(paces, 600) + 1);
    CHECK(swarm.repeats() <= 6);
  }
}

TEST_CASE("what a peer does that is fifty times faster than all others is hardly done again",
          "[unit]") {
  const std::vector<double> paces{100, 2, 2, 2};
  Swarm swarm(paces, 600);
  const double took = swarm.run();
  INFO(swarm.repeats() << " repeats, " << took / ideal_s(paces, 600) << " of the ideal time");
  // A slow peer's last chunk takes eight seconds.
  CHECK(took <= 1.1 * ideal_s(paces, 600) + 1 + chunk_steps / paces.back());
  CHECK(swarm.repeats() <= 12);
}

TEST_CASE("words that arrive late cost repeats, but never a chunk", "[unit]") {
  for (const Duration late : {200ms, 500ms, 1000ms}) {
    Swarm swarm(std::vector<double>(10, 64), 2400, late);
    const double took = swarm.run();
    INFO(seconds(late) << " s late: " << swarm.repeats() << " repeats");
    CHECK(took <= 1.1 * ideal_s(std::vector<double>(10, 64), 2400) + 1);
    CHECK(swarm.repeats() <= (late < 1s ? 2400 / 25 : 2400 / 10));
  }
}

TEST_CASE("the others train what a peer had taken that died, fell asleep or became slow",
          "[unit]") {
  for (const double pace : {-1.0, 0.0, 10.0}) {
    Swarm swarm({100, 100, 100, 100}, 1200);
    swarm.run_until(20);
    pace < 0 ? swarm.kill(1) : swarm.set_pace(1, pace);
    const double took = swarm.run();
    INFO("pace " << pace << ": " << swarm.repeats() << " repeats");
    // All peers work at full pace for the first 20 s. After that, three of them do nearly all the
    // rest.
    CHECK(took <= 1.1 * (20 + (1200 * 16 - 20 * 400) / (300 + std::max(pace, 0.0))) + 1);
    CHECK(swarm.repeats() <= 60);
  }
}

TEST_CASE("halves that are cut off from each other each do all, and then know what is done",
          "[unit]") {
  Swarm swarm({100, 100, 100, 100}, 2400);
  swarm.run_until(20);
  for (const std::size_t peer : {0, 1}) swarm.set_side(peer, 1);
  swarm.run_until(50);
  for (const std::size_t peer : {0, 1}) swarm.set_side(peer, 0);
  const double took = swarm.run();
  INFO(swarm.repeats() << " repeats");
  CHECK(took <= 1.3 * ideal_s({100, 100, 100, 100}, 2400));
  CHECK(swarm.repeats() <= 30 * 200 / chunk_steps + 50);
}

TEST_CASE("a newcomer takes its part at once", "[unit]") {
  Swarm swarm({100, 100, 100}, 1200);
  swarm.run_until(20);
  swarm.join(100);
  const double took = swarm.run();
  CHECK(took <= 1.05 * (20 + (1200 * 16 - 20 * 300) / 400.0));
  CHECK(swarm.repeats() <= 24);
}

TEST_CASE("a peer that lies about chunks is believed at four times the fastest pace at most",
          "[unit]") {
  Swarm swarm({100, 100, 100, 100}, 1200);
  // The peer reports that it has done everything, but trains nothing.
  swarm.lie(3, {.whole = 1200, .done = {{0, 1200}}, .leases = {}});
  swarm.run_until(4);
  CHECK(swarm.ledger(0).done() < 4 * (3 + 4) * 100 / chunk_steps + 10);
  CHECK_FALSE(swarm.ledger(0).is_complete());
  // Apart from the liar's claims, all chunks considered done were really trained.
  CHECK(swarm.trained().size() > 60);
}

TEST_CASE("a false pace of a peer does not make its own false word count for more", "[unit]") {
  Ledger ledger({.self = PeerId{1}, .chunks = 1'000'000, .steps = 16, .last_steps = 16});
  const LedgerEntry lie{.whole = 0, .done = {{0, 1'000'000}}, .leases = {}};
  const LedgerEntry honest;
  for (int second = 0; second <= 10; ++second) {
    const std::vector<LedgerReport> reports = {
        {.peer = PeerId{2}, .entry = &lie, .pace = 1e6, .lives = true},
        {.peer = PeerId{3}, .entry = &honest, .pace = 5, .lives = true},
        {.peer = PeerId{4}, .entry = &honest, .pace = 2, .lives = true}};
    ledger.hear(Time(std::chrono::seconds(second)), reports, 3);
  }
  CHECK(ledger.done() == 4 * 5 * 10);
}

TEST_CASE("a peer that has been known for ten seconds is believed at four times its own mean pace",
          "[unit]") {
  Ledger ledger({.self = PeerId{1}, .chunks = 1'000'000, .steps = 16, .last_steps = 16});
  const LedgerEntry claims{.whole = 0, .done = {{0, 1'000'000}}, .leases = {}};
  const LedgerEntry slow;
  const auto done_after = [&](int second) {
    const std::vector<LedgerReport> reports = {
        {.peer = PeerId{2}, .entry = &claims, .pace = 1000, .lives = true},
        {.peer = PeerId{3}, .entry = &slow, .pace = 5, .lives = true}};
    ledger.hear(Time(std::chrono::seconds(second)), reports, 3);
    return ledger.done();
  };
  for (int second = 0; second < 10; ++second) done_after(second);
  CHECK(done_after(10) == 200);
  CHECK(done_after(11) == 200 + 4 * 200 / 10);
  CHECK(done_after(12) == 280 + 4 * 280 / 11);
}

TEST_CASE("chunks that a peer says it has done are left to it but no more than it could lease",
          "[unit]") {
  const auto first_taken = [](const LedgerEntry& entry) {
    Ledger ledger({.self = PeerId{1}, .chunks = 1000});
    const std::vector<LedgerReport> reports = {
        {.peer = PeerId{2}, .entry = &entry, .pace = 0, .lives = true}};
    ledger.hear(Time{}, reports, 0);
    REQUIRE(ledger.done() == 0);
    return ledger.next(Time{}, 1).value().first_step;
  };
  CHECK(first_taken({.whole = 0, .done = {{0, 20}}, .leases = {}}) == 20);
  CHECK(first_taken({.whole = 0, .done = {{0, 600}}, .leases = {}}) == leased_chunks_max);
  CHECK(first_taken({.whole = 0, .done = {{0, 600}}, .leases = {{{700, 200}, false}}}) ==
        leased_chunks_max - 200);
}

TEST_CASE("the only peer that a newcomer knows yet does not tell it that all is done", "[unit]") {
  const LedgerEntry lie{.whole = 1000, .done = {}, .leases = {}};
  const LedgerEntry honest;
  std::vector<LedgerReport> reports = {
      {.peer = PeerId{2}, .entry = &lie, .pace = 0, .lives = true}};
  Ledger ledger({.self = PeerId{1}, .chunks = 1000});
  Ledger alone({.self = PeerId{1}, .chunks = 1000});
  for (Ledger* one : {&ledger, &alone}) {
    one->hear(Time{}, reports, 0, true);
    CHECK_FALSE(one->is_complete());
    CHECK_FALSE(one->next(Time{}, 1));
  }
  // If there is a second peer, the lie is never believed.
  reports.push_back({.peer = PeerId{3}, .entry = &honest, .pace = 0, .lives = true});
  ledger.hear(Time(1s), reports, 0, true);
  CHECK(ledger.next(Time(1s), 1).value().first_step == 0);
  ledger.hear(Time(3s), reports, 0);
  CHECK_FALSE(ledger.is_complete());
  // A newcomer that knows only this peer believes it.
  alone.hear(Time(3s), {reports.data(), 1}, 0);
  CHECK(alone.is_complete());
}

TEST_CASE("one that takes chunks and never trains them holds up nobody for long", "[unit]") {
  Swarm swarm({100, 100, 100, 100}, 600);
  swarm.lie(3, {.whole = 0, .done = {}, .leases = {{{0, 150}, true}, {{400, 100}, true}}});
  const double took = swarm.run();
  INFO(took << " s");
  CHECK(took <= 600 * 16 / 300.0 + 12);
}

TEST_CASE("ranges beyond the last chunk are not believed, and no peer trains them", "[unit]") {
  Swarm swarm({100, 100, 100, 100}, 600);
  swarm.lie(3, {.whole = chunk_number_max,
                .done = {{590, 100}, {chunk_number_max, chunk_number_max}},
                .leases = {{{595, 100}, true}, {{chunk_number_max, 100}, false}}});
  const double took = swarm.run();
  CHECK(took <= 600 * 16 / 300.0 + 6);
  CHECK(swarm.trained().rbegin()->first == 599);
}

TEST_CASE("a restored ledger goes on from what its checkpoint says", "[unit]") {
  Ledger ledger({.self = PeerId{1}, .chunks = 10, .steps = 4, .last_steps = 2});
  ledger.restore({.whole = 3, .mine = {{5, 2}, {9, 40}}, .done = {}, .begun = {}}, 100);
  CHECK(ledger.done() == 6);
  CHECK(ledger.entry().done == std::vector<ChunkRange>{{5, 2}, {9, 1}});
  // Alone, the peer trains the remaining chunks in order.
  std::vector<std::uint64_t> trained;
  Time now{};
  std::uint64_t step = 0;
  while (const auto part = ledger.next(now += 1s, 1)) {
    trained.push_back(part->first_step / 4);
    ledger.made(now, part->steps, step += part->steps);
    ledger.kept(step);
  }
  CHECK(trained == std::vector<std::uint64_t>{3, 4, 7, 8});
  CHECK(ledger.is_complete());
}

TEST_CASE("a note has the chunks that others have done, which are not reported as our own",
          "[unit]") {
  Ledger ledger({.self = PeerId{1}, .chunks = 20, .steps = 4, .last_steps = 4});
  const LedgerEntry entry{.whole = 0, .done = {{10, 3}}, .leases = {}};
  const std::vector<LedgerReport> reports = {
      {.peer = PeerId{2}, .entry = &entry, .pace = 1, .lives = true}};
  for (int second = 0; second < 2; ++second) {
    ledger.hear(Time(std::chrono::seconds(second)), reports, 1);
  }
  REQUIRE(ledger.next(Time(1s), 1));
  ledger.made(Time(1s), 4, 4);
  ledger.kept(4);
  REQUIRE(ledger.done() == 4);
  Ledger resumed(ledger.options());
  resumed.restore(ledger.note(), 20);
  CHECK(resumed.done() == 4);
  CHECK(resumed.entry().done == std::vector<ChunkRange>{{0, 1}});
  CHECK(resumed.note().done == std::vector<ChunkRange>{{10, 3}});
}

TEST_CASE("work under way goes on after a restart, and no step is made twice", "[unit]") {
  const Ledger::Options options{.self = PeerId{1}, .chunks = 3, .steps = 10, .last_steps = 10};
  Ledger ledger(options);
  REQUIRE(ledger.next(Time(1s), 1)->first_step == 0);
  ledger.made(Time(1s), 10, 10);
  REQUIRE(ledger.next(Time(1s), 1)->first_step == 10);
  ledger.made(Time(1s), 7, 17);
  REQUIRE(ledger.begun_steps() == 17);

  Ledger resumed(options);
  resumed.restore(ledger.note(), 3);
  CHECK(resumed.begun_steps() == 17);
  // The chunk that only our model contains is not done yet.
  resumed.hear(Time(20s), {}, 1);
  CHECK(resumed.done() == 0);
  CHECK(resumed.has_unkept());
  CHECK(resumed.next(Time(20s), 1) == LedgerWork{.first_step = 17, .steps = 3});
  resumed.made(Time(20s), 3, 20);
  resumed.kept(20);
  CHECK(resumed.done() == 2);
  // An earlier process has trained the first chunk.
  CHECK(resumed.counts().trained == 1);
  CHECK(resumed.own_part().done == 1);
  CHECK(resumed.next(Time(20s), 1)->first_step == 20);

  // Both chunks are lost with the model.
  Ledger replaced(options);
  replaced.restore(ledger.note(), 3);
  replaced.lose();
  CHECK(replaced.next(Time(20s), 1)->first_step == 0);
  CHECK(replaced.counts().lost == 0);
}

TEST_CASE("a restarted peer does not go on with a chunk that others have done meanwhile",
          "[unit]") {
  Ledger ledger({.self = PeerId{1}, .chunks = 20, .steps = 4, .last_steps = 4});
  ledger.restore({.whole = 0, .mine = {}, .done = {}, .begun = {{5, 2}}}, 20);
  REQUIRE(ledger.under_way());
  const LedgerEntry entry{.whole = 9, .done = {}, .leases = {}};
  ledger.hear(Time(1s), std::vector<LedgerReport>{{PeerId{2}, &entry, 1, true}}, 1);
  CHECK_FALSE(ledger.under_way());
}

TEST_CASE("a note of any content leaves a ledger that can go on", "[unit]") {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  LedgerNote note{.whole = 2,
                  .mine = {{chunk_number_max, chunk_number_max}, {0, 4}},
                  .done = {{3, 3}, {3, 1}},
                  .begun = {{0, 1}, {4, 1}, {7, 2}, {7, 3}, {8, 1}, {most, most}}};
  for (std::uint64_t chunk = 20; chunk < 400; ++chunk) note.begun.push_back({chunk, most});
  Ledger ledger({.self = PeerId{1}, .chunks = 1000, .steps = 4, .last_steps = 2});
  ledger.restore(note, 1000);
  CHECK(ledger.done() == 6);
  CHECK(ledger.under_way() == LedgerWork{.first_step = 30, .steps = 2});
  CHECK(ledger.begun_steps() == 2 + 4 * Ledger::held_max);
  CHECK(ledger.entry().problem().empty());
  ledger.hear(Time(1s), {}, 1);
  CHECK(ledger.next(Time(1s), 1)->first_step == 30);
}

TEST_CASE("a ledger knows the part of each peer, and what is free again after a death", "[unit]") {
  Ledger ledger({.self = PeerId{2}, .chunks = 100, .steps = 4, .last_steps = 4});
  const LedgerEntry entry{.whole = 0, .done = {{0, 3}}, .leases = {{{3, 4}, false}}};
  const auto hear = [&](int second, bool lives, bool died = false) {
    const std::vector<LedgerReport> reports = {
        {.peer = PeerId{1}, .entry = &entry, .pace = 1, .lives = lives, .died = died}};
    ledger.hear(Time(std::chrono::seconds(second)), reports, 1);
  };
  hear(0, true);
  hear(1, true);
  CHECK(ledger.part_of(PeerId{1}).done == 3);
  CHECK(ledger.part_of(PeerId{1}).leased == 4);
  CHECK(ledger.leased() == 4);
  CHECK(ledger.part_of(PeerId{9}).done == 0);
  // We lease chunks for four seconds of our own work. A chunk that we have trained counts as done
  // only after kept() has been called.
  REQUIRE(ledger.next(Time(1s), 1));
  CHECK(ledger.own_part().leased == 4);
  CHECK(ledger.leased() == 8);
  ledger.made(Time(1s), 4, 4);
  CHECK(ledger.own_part().done == 0);
  CHECK(ledger.own_part().leased == 4);
  ledger.kept(4);
  CHECK(ledger.own_part().done == 1);
  CHECK(ledger.own_part().leased == 3);
  CHECK(ledger.done() == 4);
  CHECK(ledger.counts().freed == 0);
  // A death is counted once.
  hear(2, false, true);
  hear(3, false, true);
  CHECK(ledger.counts().freed == 4);
  CHECK(ledger.part_of(PeerId{1}).freed == 4);
  CHECK(ledger.part_of(PeerId{1}).done == 3);
  CHECK(ledger.part_of(PeerId{1}).leased == 0);
  CHECK(ledger.leased() == 3);
  // Nothing is lost when a peer leaves.
  hear(4, true);
  hear(5, false);
  CHECK(ledger.counts().freed == 8);
  CHECK(ledger.part_of(PeerId{1}).freed == 4);
}

}  // namespace gv
