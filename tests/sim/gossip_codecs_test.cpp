// How well pairs learn if their codecs leave out a part of each exchange.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <vector>

#include "tests/sim/lockstep_run.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t test_samples = 4000;

/// The results of peers that gossip.
struct Learned {
  double mean_accuracy = 0;     ///< Accuracy of the mean of all models.
  double worst = 1;             ///< The accuracy of the worst peer's model.
  std::size_t bytes = 0;        ///< Bytes of all models that were sent.
  std::uint64_t exchanges = 0;  ///< Committed exchanges. Each counts on both sides.
};

/// Counts exchanges, and the bytes of models.
class Traffic : public Watcher {
 public:
  void on_effects(const Simulator&, PeerNumber, const NodeEffects& effects) override {
    for (const Transfer& transfer : effects.transfers) sent += transfer.payload.bytes.size();
    for (const Fact& fact : effects.facts) {
      exchanges += std::holds_alternative<ExchangeCommitted>(fact) ? 1 : 0;
    }
  }
  std::size_t sent = 0;
  std::uint64_t exchanges = 0;
};

Learned learned(const Codec& codec) {
  LockstepRun run(4, 8, 600, OptimizerKind::nesterov);
  // The schedule makes the last steps small, because no exchange follows them.
  for (TrainerSpec& spec : run.specs) spec.schedule.kind = ScheduleKind::cosine;
  Simulator::Options options = run.options();
  options.node.mode = ModeKind::gossip;
  options.node.course.wait_for_peers = 4;
  options.node.gossip.period_steps = 4;
  options.node.gossip.exchange.codec = codec;
  Simulator world(options, run.workloads());
  Traffic traffic;
  world.watch(traffic);
  world.run(Time(10min));
  const DataSet test =
      generate_blobs({.samples = test_samples, .features = 12, .classes = 4, .seed = 3}, 99);
  Model judge(run.specs[0].model, test.shape, evaluation_batch(test));
  Learned result{.bytes = traffic.sent, .exchanges = traffic.exchanges};
  std::vector<float> mean(world.peer(0).work->parameters().size());
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const auto model = world.peer(number).work->parameters();
    CHECK(world.peer(number).work->step() == run.steps);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += model[i] / 4;
    result.worst = std::min(result.worst, evaluate(judge, model, test).accuracy());
  }
  result.mean_accuracy = evaluate(judge, mean, test).accuracy();
  return result;
}

/// The allowed difference between the accuracies of two equally good models on the test samples. It
/// is three standard deviations of the difference of two independent counts. Counts on the same
/// samples differ less.
double margin_of(double accuracy) {
  return 3 * std::sqrt(2 * accuracy * (1 - accuracy) / static_cast<double>(test_samples));
}

}  // namespace

TEST_CASE("gossip by each codec learns what gossip of whole models learns in fewer bytes",
          "[sim]") {
  const Learned whole = learned(Codec::identity);
  REQUIRE(whole.mean_accuracy > 0.84);
  const double margin = margin_of(whole.mean_accuracy);
  for (const NamedCodec& named : exchange_codecs) {
    Codec codec = named.codec;
    if (codec.kind == CodecKind::top_k) codec.fraction = 0.1;
    const Learned coded = learned(codec);
    INFO(named.name << ": " << coded.mean_accuracy << ", worst " << coded.worst << ", whole "
                    << whole.mean_accuracy << ", worst " << whole.worst << ", margin " << margin
                    << ", " << coded.bytes << " of " << whole.bytes << " bytes");
    CHECK(coded.mean_accuracy > whole.mean_accuracy - margin);
    CHECK(coded.worst > whole.worst - margin);
    CHECK(coded.exchanges > whole.exchanges * 9 / 10);
    // The first models of each pair are sent in full.
    if (bytes_per_element(codec) == 0) CHECK(coded.bytes < whole.bytes / 3);
  }
}

}  // namespace gv
