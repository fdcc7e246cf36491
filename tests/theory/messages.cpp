// T7 and T8: messages that are late, lost or compressed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/rng.hpp"
#include "consensus/mixing/round_plan.hpp"
#include "tests/theory/lab.hpp"
#include "tests/theory/rows.hpp"

namespace gv::theory {
namespace {

/// The sums of the numerators and of the weights of all peers, including those in flight.
struct Mass {
  double numerator = 0;
  double weight = 0;
};

struct PushSumRun {
  double off_mass = 0;  ///< Largest change, at any time, of the mass that is not lost.
  /// The largest distance of a model from the quotient of the remaining numerators and weights.
  double off_limit = 0;
  double off_mean = 0;  ///< The largest distance of a model from the mean of all models.
  double outside = 0;   ///< The largest distance, at any time, of a model from the initial range.
  double lost = 0;      ///< Total weight that was lost.
};

/// Mixers that run in rounds. Their messages are up to `late` rounds late.
class PushSumWorld {
 public:
  PushSumWorld(TopologyKind kind, std::size_t n, std::uint64_t late, double loss)
      : late_(late), loss_(loss), x_(drawn_models(n, 1, 77)) {
    const MixRule rule{
        .topology = {.kind = kind}, .kind = MixKind::push_sum, .staleness = unbounded_staleness};
    for (std::size_t i = 0; i < n; ++i) {
      mixers_.emplace_back(rule, 1, 1);
      mixers_[i].begin_generation(i, order_of(n), 1, x_[i]);
    }
    least_ = x_[0][0];
    most_ = x_[0][0];
    for (const Vector& value : x_) {
      mean_ += value[0] / static_cast<double>(n);
      least_ = std::min(least_, value[0]);
      most_ = std::max(most_, value[0]);
    }
  }

  /// Runs one round. If `may_lose`, messages may be lost along with their weight.
  void step(std::uint64_t round, bool may_lose) {
    for (std::size_t i = 0; i < x_.size(); ++i) send(i, round, may_lose);
    for (std::size_t i = 0; i < x_.size(); ++i) receive(i, round);
    std::erase_if(flights_, [&](const Flight& flight) { return flight.due <= round; });
    const auto n = static_cast<double>(x_.size());
    const Mass mass = left();
    run_.off_mass = std::max({run_.off_mass, std::abs(mass.weight + lost_.weight - n),
                              std::abs(mass.numerator + lost_.numerator - mean_ * n)});
  }

  /// Returns the figures at the end of the run.
  PushSumRun run() const {
    PushSumRun run = run_;
    const Mass mass = left();
    for (const Vector& value : x_) {
      run.off_limit = std::max(run.off_limit, std::abs(value[0] - mass.numerator / mass.weight));
      run.off_mean = std::max(run.off_mean, std::abs(value[0] - mean_));
    }
    run.lost = lost_.weight;
    return run;
  }

 private:
  struct Flight {
    std::uint64_t due;
    std::size_t to;
    std::size_t from;
    std::uint64_t round;
    std::shared_ptr<const std::vector<std::byte>> bytes;
    Mass mass;
  };

  void send(std::size_t i, std::uint64_t round, bool may_lose) {
    mixers_[i].begin_round(round, x_[i]);
    mixers_[i].end_steps(x_[i], 0, 1);
    for (const MixMessage& message : mixers_[i].messages(round, x_[i])) {
      // Each receiver gets as much as the sender keeps.
      const Mass part{mixers_[i].kept("numerator")[0], mixers_[i].weight()};
      for (const std::size_t to : message.to) {
        if (may_lose && rng_.chance(loss_)) {
          lost_.numerator += part.numerator;
          lost_.weight += part.weight;
          continue;
        }
        flights_.push_back({round + rng_.below(late_ + 1), to, i, round, message.bytes, part});
      }
    }
  }

  void receive(std::size_t i, std::uint64_t round) {
    std::vector<MixMessage> arrived;
    for (const Flight& flight : flights_) {
      if (flight.to == i && flight.due <= round) {
        arrived.push_back({flight.from, flight.round, flight.bytes});
      }
    }
    mixers_[i].mix(round, x_[i], arrived);
    run_.outside = std::max({run_.outside, least_ - x_[i][0], x_[i][0] - most_});
  }

  /// The mass that is left, at peers and in flight.
  Mass left() const {
    Mass mass;
    for (const Mixer<double>& mixer : mixers_) {
      mass.numerator += mixer.kept("numerator")[0];
      mass.weight += mixer.weight();
    }
    for (const Flight& flight : flights_) {
      mass.numerator += flight.mass.numerator;
      mass.weight += flight.mass.weight;
    }
    return mass;
  }

  std::uint64_t late_;
  double loss_;
  Rng rng_{7};
  std::vector<Vector> x_;
  std::vector<Mixer<double>> mixers_;
  double mean_ = 0;
  double least_ = 0;
  double most_ = 0;
  std::vector<Flight> flights_;
  Mass lost_;
  PushSumRun run_;
};

/// During the first half of the rounds some messages are lost. In the second half all arrive.
PushSumRun push_sum_run(TopologyKind kind, std::size_t n, std::uint64_t late, double loss) {
  constexpr std::uint64_t rounds = 600;
  PushSumWorld world(kind, n, late, loss);
  for (std::uint64_t round = 0; round < 2 * rounds; ++round) world.step(round, round < rounds);
  return world.run();
}

}  // namespace

Rows push_sum() {
  Rows rows;
  for (const TopologyKind kind : {TopologyKind::one_peer_exponential, TopologyKind::star}) {
    const std::string_view shape = kind == TopologyKind::star ? "star" : "one peer";
    for (const std::uint64_t late : {0UL, 2UL, 5UL}) {
      const PushSumRun run = push_sum_run(kind, 7, late, 0);
      const std::string name = fmt::format("{} of 7, {} late", shape, late);
      rows.push_back(error("T7", name + ": models less mean of all", run.off_mean, 1e-12));
      rows.push_back(error("T7", name + ": mass", run.off_mass, 1e-12));
    }
    const PushSumRun run = push_sum_run(kind, 7, 2, 0.01);
    const std::string name = fmt::format("{} of 7, 2 late, 1 % lost", shape);
    rows.push_back(error("T7", name + ": less mean of rest", run.off_limit, 1e-12,
                         fmt::format("{:.3g} of 7 weights were lost, and the models are {:.2g} "
                                     "from the mean of all",
                                     run.lost, run.off_mean)));
    rows.push_back(error("T7", name + ": mass", run.off_mass, 1e-12));
    rows.push_back(error("T7", name + ": outside of first", run.outside, 1e-12));
  }
  return rows;
}

namespace {

struct ChocoRun {
  double slope = 0;  ///< ln of the factor by which a round changes the squared spread.
  double drift = 0;  ///< Largest drift of the mean in any element.
};

ChocoRun choco_run(std::size_t n, std::size_t elements, const Codec& codec, double gamma,
                   std::size_t rounds) {
  Lab lab({.gamma = gamma, .codec = codec, .memory = MixMemory::difference},
          drawn_models(n, elements, 8));
  const Vector before = lab.mean();
  // At first complete references are sent, so the first rounds differ from all others.
  lab.rounds(20);
  const double first = lab.spread_squared();
  std::size_t done = 0;
  for (; done < rounds; ++done) {
    const double now = lab.spread_squared();
    if (!(now < 1e6 * first) || now < 1e-12) break;
    lab.round();
  }
  ChocoRun run;
  run.slope = std::log(lab.spread_squared() / first) / static_cast<double>(done);
  const Vector after = lab.mean();
  for (std::size_t k = 0; k < elements; ++k) {
    run.drift = std::max(run.drift, std::abs(after[k] - before[k]));
  }
  return run;
}

TheoryRow slope_row(const std::string& setting, double slope, bool falls, std::string_view source) {
  TheoryRow row = number("T8", setting, slope, 0, 0, source);
  row.measured = fmt::format("{:.5f}", slope);
  row.expected = falls ? "below 0" : "above 0";
  row.allowed = "sign";
  row.ok = falls ? slope < 0 : slope > 0;
  return row;
}

}  // namespace

Rows choco() {
  Rows rows;
  struct Case {
    const char* name;
    std::size_t peers;
    std::size_t elements;
    Codec codec;
    double gamma;
    bool falls;
    std::string_view source;
  };
  const Codec tenth{.kind = CodecKind::top_k, .fraction = 0.1};
  const Codec hundredth{.kind = CodecKind::top_k, .fraction = 0.01};
  const std::vector<Case> cases = {
      {"ring of 16, largest 10 %", 16, 500, tenth, 0.2, true, reference},
      {"ring of 16, largest 10 %", 16, 500, tenth, 0.4, true, reference},
      {"ring of 16, largest 10 %", 16, 500, tenth, 0.8, false, reference},
      {"ring of 16, largest 1 %", 16, 500, hundredth, 0.05, true, reference},
      {"ring of 16, largest 1 %", 16, 500, hundredth, 0.1, false, reference},
      {"ring of 9, largest 20 of 2000", 9, 2000, hundredth, 0.04, true, published},
      {"ring of 9, QSGD of 15 levels",
       9,
       2000,
       {.kind = CodecKind::qsgd, .levels = 15},
       0.34,
       true,
       published},
      {"ring of 16, scaled sign", 16, 500, {.kind = CodecKind::sign}, 0.45, true, published},
      {"ring of 9, 20 drawn of 2000",
       9,
       2000,
       {.kind = CodecKind::random_k, .fraction = 0.01},
       0.01,
       true,
       published}};
  double drift = 0;
  for (const Case& one : cases) {
    const ChocoRun run = choco_run(one.peers, one.elements, one.codec, one.gamma, 1000);
    rows.push_back(slope_row(fmt::format("{}, gamma = {}: slope", one.name, one.gamma), run.slope,
                             one.falls, one.source));
    if (one.falls) drift = std::max(drift, run.drift);
  }
  rows.push_back(error("T8", "the mean moves in those that fall", drift, 1e-12));
  return rows;
}

}  // namespace gv::theory
