// Attacks follow their formulas, and guards withstand them where plain mixing does not.
#include "sim/attacks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/magnitude.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;

Floats normals(std::size_t n, Rng& rng) {
  Floats values(n);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

/// A victim with honest and hostile neighbours, all of equal weight.
struct Scene {
  Floats victim;
  Floats hostile_own;
  std::vector<Floats> honest;
  std::size_t hostile = 1;

  double weight() const { return 1 / static_cast<double>(honest.size() + hostile + 1); }

  std::vector<NeighbourModel> seen() const {
    std::vector<NeighbourModel> models;
    for (const Floats& model : honest) models.push_back({model, weight()});
    return models;
  }

  Floats sent(AttackKind kind, std::optional<double> strength = std::nullopt) const {
    const std::vector<NeighbourModel> models = seen();
    return attacked(kind,
                    {.own = hostile_own,
                     .victim = victim,
                     .honest = models,
                     .hostile_weight = weight() * static_cast<double>(hostile),
                     .hostile = hostile},
                    strength);
  }

  /// The victim's next model if all hostile peers send that message.
  Floats aggregate(const GuardOptions& guard, const Floats& sent) const {
    std::vector<NeighbourModel> models = seen();
    for (std::size_t j = 0; j < hostile; ++j) models.push_back({sent, weight()});
    Floats result(victim.size());
    guarded_change(guard, victim, models, result);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += victim[i];
    return result;
  }
};

Scene random_scene(std::size_t honest, std::size_t hostile, std::size_t elements, Rng& rng) {
  Scene scene{.victim = normals(elements, rng), .hostile_own = normals(elements, rng)};
  while (scene.honest.size() < honest) scene.honest.push_back(normals(elements, rng));
  scene.hostile = hostile;
  return scene;
}

Floats mean_of(const std::vector<Floats>& models) {
  Floats mean;
  for (std::size_t i = 0; i < models.front().size(); ++i) {
    double sum = 0;
    for (const Floats& model : models) sum += model[i];
    mean.push_back(static_cast<float>(sum / static_cast<double>(models.size())));
  }
  return mean;
}

double distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

double product(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

TEST_CASE("who is honest sends its own model and its own weight") {
  Rng rng(1);
  const Scene scene = random_scene(4, 1, 10, rng);
  CHECK(scene.sent(AttackKind::honest) == scene.hostile_own);
  for (const AttackKind kind : attack_kinds) {
    INFO(to_string(kind));
    CHECK((attacked_weight(kind, 0.5) == 0.5) == (kind != AttackKind::lying_weight));
    CHECK((scene.sent(kind) == scene.hostile_own) ==
          (kind == AttackKind::honest || kind == AttackKind::lying_weight ||
           kind == AttackKind::label_flip));
  }
  CHECK(attacked_weight(AttackKind::lying_weight, 0.5) == 500);
  CHECK(attacked_weight(AttackKind::lying_weight, 0.5, 4) == 2);
}

TEST_CASE("flipped bits are the opposite and a scaled model is a multiple") {
  Rng rng(2);
  Scene scene = random_scene(4, 1, 10, rng);
  const Floats own = scene.hostile_own;
  Floats hundredfold;
  for (const float value : own) hundredfold.push_back(100 * value);
  CHECK(scene.sent(AttackKind::scale) == hundredfold);
  CHECK(scene.sent(AttackKind::scale, 1) == own);
  CHECK(scene.sent(AttackKind::bit_flip, 3) == scene.sent(AttackKind::bit_flip));
  CHECK(scene.sent(AttackKind::scale, -1) == scene.sent(AttackKind::bit_flip));
  scene.hostile_own = scene.sent(AttackKind::bit_flip);
  CHECK(scene.sent(AttackKind::bit_flip) == own);
}

TEST_CASE("a little is enough lies the asked deviations below the mean") {
  const Scene scene{.victim = {0, 0},
                    .hostile_own = {0, 0},
                    .honest = {{1, 5}, {2, 5}, {3, 5}}};  // The standard deviations are 1 and 0.
  const Floats sent = scene.sent(AttackKind::little_is_enough, 1.5);
  CHECK(sent[0] == Approx(0.5));
  CHECK(sent[1] == 5);
  const Floats mean = scene.sent(AttackKind::little_is_enough, 0);
  CHECK(mean == Floats{2, 5});
}

TEST_CASE("how little is enough is a quantile") {
  // The normal quantiles of 24/26 and 49/55, computed with another library.
  CHECK(little_is_enough_z(50, 24) == Approx(1.426077).margin(1e-6));
  CHECK(little_is_enough_z(100, 45) == Approx(1.231377).margin(1e-6));
  CHECK(little_is_enough_z(100, 1) == 0);  // One hostile peer needs half of the others on its side.
  CHECK(little_is_enough_z(3, 1) == 0);
  CHECK(little_is_enough_z(10, 7) == Approx(0.967422).margin(1e-6));  // Quantile of 2.5 / 3.
  CHECK(little_is_enough_z(10, 4) < little_is_enough_z(10, 5));
}

TEST_CASE("inner product manipulation points away from the mean of the honest") {
  Rng rng(4);
  const Scene scene = random_scene(5, 1, 50, rng);
  const Floats mean = mean_of(scene.honest);
  const Floats sent = scene.sent(AttackKind::inner_product);
  CHECK(product(sent, mean) == Approx(-0.1 * product(mean, mean)));
  CHECK(distance(sent, Floats(50)) == Approx(0.1 * distance(mean, Floats(50))));
}

TEST_CASE("dissensus turns what the honest pull into its opposite") {
  Rng rng(5);
  const Scene scene = random_scene(4, 2, 50, rng);
  // With strength 1 the hostile peers cancel the pull of the honest ones. With 1.5 they reverse it
  // at half the strength.
  const Floats held = scene.aggregate({}, scene.sent(AttackKind::dissensus, 1));
  CHECK(distance(held, scene.victim) < 1e-5);
  const Floats pushed = scene.aggregate({}, scene.sent(AttackKind::dissensus));
  const Floats unhindered = scene.aggregate({}, scene.victim);
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(pushed[i] - scene.victim[i] ==
          Approx(-0.5 * (unhindered[i] - scene.victim[i])).margin(1e-5));
  }
}

TEST_CASE("a model with one value that is none is never let in") {
  Rng rng(6);
  const Scene scene = random_scene(6, 1, 9, rng);
  const Floats sent = scene.sent(AttackKind::not_a_number);
  CHECK(std::ranges::count_if(sent, [](float value) { return std::isnan(value); }) == 1);
  for (const GuardKind kind : guard_kinds) {
    CHECK(is_finite(scene.aggregate({.kind = kind, .hostile = 1}, sent)));
  }
}

TEST_CASE("guards keep a model near the honest whatever the hostile send") {
  Rng rng(7);
  for (int round = 0; round < 20; ++round) {
    const Scene scene = random_scene(6, 2, 100, rng);
    std::vector<Floats> honest = scene.honest;
    honest.push_back(scene.victim);
    const Floats mean = mean_of(honest);
    double farthest = 0;
    for (const Floats& model : honest) farthest = std::max(farthest, distance(model, mean));
    for (const AttackKind attack : attack_kinds) {
      const Floats sent = scene.sent(attack);
      for (const GuardKind kind : guard_kinds) {
        if (kind == GuardKind::none) continue;
        const Floats result = scene.aggregate({.kind = kind, .hostile = 2}, sent);
        INFO(to_string(attack) << " against " << to_string(kind));
        // Krum may pick a hostile model near an honest one that is away from the mean.
        CHECK(distance(result, mean) <= (kind == GuardKind::krum ? 1.5 : 1) * farthest);
      }
    }
    // The bound does not hold without a guard.
    CHECK(distance(scene.aggregate({}, scene.sent(AttackKind::scale)), mean) > 5 * farthest);
  }
}

}  // namespace gv
