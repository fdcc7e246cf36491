// Sketches of models, and how witnesses' answers decide on a downloaded model.
#include "consensus/transfer/model_review.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Model = std::vector<float>;

constexpr PeerId source{1};
constexpr PeerId near{2};
constexpr PeerId other{3};
constexpr PeerId third{4};
constexpr std::size_t elements = 3000;

/// Moves a model by the given distance in a random direction.
Model moved(const Model& from, double distance, std::uint64_t seed) {
  Rng rng(seed);
  Model step(from.size());
  double squares = 0;
  for (float& value : step) {
    value = static_cast<float>(rng.normal());
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  for (std::size_t i = 0; i < step.size(); ++i) {
    step[i] = from[i] + step[i] * static_cast<float>(distance / std::sqrt(squares));
  }
  return step;
}

Model trained() { return moved(Model(elements), 10, 1); }

struct Judged {
  explicit Judged(const Model& model, const std::vector<PeerId>& witnesses = {near, other}) {
    review.begin(Time{}, id, model, 10, seed, Time{} + std::chrono::seconds(2));
    review.meet(witnesses, out);
  }

  void answer(PeerId from, const Model& model, float spread, std::uint64_t step = 70) {
    review.receive(from, SketchReply{id, step, spread, sketch_of(model, seed)});
  }
  std::optional<Reason> problem(Time now = Time{}) {
    const auto verdict = review.take(now);
    return verdict ? std::optional(verdict->problem) : std::nullopt;
  }

  TransferId id = state_id(PeerId{9}, 5, 1);
  std::uint64_t seed = 4711;
  Effects out;
  ModelReview review{{.layout_hash = 3}};
};

}  // namespace

TEST_CASE("a sketch shows norms and distances within a third", "[unit]") {
  const Model model = trained();
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const SketchValues sketch = sketch_of(model, seed);
    // The margin is four standard deviations, each 1 / sqrt(2 * 64).
    CHECK(norm_of(sketch) == Approx(10).epsilon(0.36));
    const SketchValues moved_on = sketch_of(moved(model, 0.5, 100 + seed), seed);
    CHECK(distance_between(sketch, moved_on) == Approx(0.5).epsilon(0.36));
  }
  CHECK(distance_between(sketch_of(model, 1), sketch_of(model, 1)) == 0);
  CHECK(distance_between(sketch_of(model, 1), sketch_of(model, 2)) > 1);
}

TEST_CASE("a model near those of two witnesses is sound after one round trip", "[unit]") {
  const Model model = trained();
  Judged judged(model);
  REQUIRE(judged.out.messages.size() == 2);
  CHECK(std::get<SketchRequest>(judged.out.messages[0].message).seed == judged.seed);
  CHECK_FALSE(judged.problem());
  judged.answer(near, moved(model, 1, 2), 1, 60);
  CHECK_FALSE(judged.problem());
  judged.answer(other, moved(model, 2, 3), 1, 80);
  const auto verdict = judged.review.take(Time{});
  REQUIRE(verdict);
  CHECK(verdict->problem == Reason::none);
  CHECK(verdict->step == 80U);
  CHECK_FALSE(judged.review.is_under_way());
}

TEST_CASE("a model of ordinary length from elsewhere is doubtful", "[unit]") {
  const Model honest = trained();
  Judged judged(Model(elements, 0.18F));  // This model's norm is about that of the trained models.
  judged.answer(near, moved(honest, 0.5, 2), 0.7F);
  judged.answer(other, moved(honest, 0.5, 3), 0.7F);
  CHECK(judged.problem() == Reason::doubtful);
}

TEST_CASE("to a single witness a model is sound after a time apart, and an unrelated one is not",
          "[unit]") {
  const Model honest = trained();
  for (const double share : {0.3, 0.8}) {  // Fractions of the norm, well below and above 0.5.
    const Model model = moved(honest, 10 * share, 4);
    Judged judged(model, {near});
    judged.answer(near, honest, 0.1F);
    CHECK(judged.problem() == (share < 0.5 ? Reason::none : Reason::doubtful));
    // Two witnesses have enough information by themselves.
    Judged by_two(model);
    by_two.answer(near, honest, 0.1F);
    by_two.answer(other, honest, 0.1F);
    CHECK(by_two.problem() == Reason::doubtful);
  }
}

TEST_CASE("a single witness that has not exchanged yet excuses no model from elsewhere", "[unit]") {
  Judged judged(Model(elements, 0.18F), {near});
  judged.answer(near, trained(), 0);
  CHECK(judged.problem() == Reason::doubtful);
}

TEST_CASE("one witness of three may say what it likes", "[unit]") {
  const Model honest = trained();
  const Model elsewhere = moved(honest, 50, 4);
  for (const Model& hers : {honest, elsewhere, moved(honest, 1e6, 5)}) {
    for (const std::uint64_t liar : {2, 3, 4}) {
      INFO("the liar is " << liar);
      for (const bool is_sound : {true, false}) {
        Judged judged(is_sound ? honest : elsewhere, {near, other, third});
        for (const PeerId peer : {near, other, third}) {
          CHECK_FALSE(judged.problem());
          const bool lies = peer == PeerId{liar};
          judged.answer(peer, lies ? hers : moved(honest, 1, 10), lies ? 1e9F : 1.0F);
        }
        CHECK(judged.problem() == (is_sound ? Reason::none : Reason::doubtful));
      }
    }
  }
}

TEST_CASE(
    "a witness that copies another one excuses no model where distances are reported, and "
    "refuses none where they are not",
    "[unit]") {
  const Model honest = trained();
  for (const bool is_reported : {true, false}) {
    Judged judged(moved(honest, is_reported ? 50 : 1, 4), {near, other, third});
    judged.answer(near, honest, 0);
    judged.answer(other, honest, 0);
    judged.answer(third, moved(honest, 1, 10), is_reported ? 1.0F : 0.0F);
    CHECK(judged.problem() == (is_reported ? Reason::doubtful : Reason::none));
  }
}

TEST_CASE("a model that is much longer than those of the witnesses is refused for that", "[unit]") {
  const Model honest = trained();
  Judged judged(moved(honest, 1e6, 4));
  judged.answer(near, honest, 1e9F);  // One witness claims that models are very far apart.
  judged.answer(other, honest, 1);
  CHECK(judged.problem() == Reason::norm_exceeded);
}

TEST_CASE("a source is blamed only by three witnesses or for a model far longer than ours",
          "[unit]") {
  // Our own model has norm 10, so this model is within the cap for us.
  const Model honest = moved(Model(elements), 40, 7);
  const Model tiny = moved(Model(elements), 0.5, 8);
  const std::vector<PeerId> witnesses = {near, other, third};
  for (std::size_t liars = 1; liars <= witnesses.size(); ++liars) {
    Judged judged(honest, {witnesses.begin(), witnesses.begin() + static_cast<int>(liars)});
    for (std::size_t i = 0; i < liars; ++i) judged.answer(witnesses[i], tiny, 1);
    const auto verdict = judged.review.take(Time{});
    REQUIRE(verdict);
    CHECK(verdict->problem == Reason::norm_exceeded);
    CHECK(verdict->blames_source == (liars == 3));
  }
  Judged huge(moved(Model(elements), 1e6, 4), {near});
  huge.answer(near, tiny, 1);
  const auto verdict = huge.review.take(Time{});
  REQUIRE(verdict);
  CHECK(verdict->problem == Reason::norm_exceeded);
  CHECK(verdict->blames_source);
  Judged elsewhere(Model(elements, 0.18F));
  elsewhere.answer(near, trained(), 0.7F);
  elsewhere.answer(other, trained(), 0.7F);
  const auto doubtful = elsewhere.review.take(Time{});
  REQUIRE(doubtful);
  CHECK_FALSE(doubtful->blames_source);
}

TEST_CASE("one witness is enough where there is no other, and none where there are none",
          "[unit]") {
  const Model honest = trained();
  for (const bool is_sound : {true, false}) {
    Judged judged(is_sound ? honest : Model(elements, 0.18F), {near});
    judged.answer(near, moved(honest, 0.5, 2), 1);
    CHECK(judged.problem() == (is_sound ? Reason::none : Reason::doubtful));
  }
  Judged alone(Model(elements, 0.18F), {});
  CHECK(alone.out.messages.empty());
  CHECK_FALSE(alone.problem());
  CHECK(alone.problem(Time{} + std::chrono::seconds(2)) == Reason::none);
}

TEST_CASE("a witness that is met while a review waits for one is asked at once, and once",
          "[unit]") {
  const Model honest = trained();
  Judged judged(Model(elements, 0.18F), {});
  judged.review.meet({near}, judged.out);
  judged.review.meet({near}, judged.out);
  REQUIRE(judged.out.messages.size() == 1);
  CHECK(judged.out.messages[0].to == near);
  CHECK_FALSE(judged.problem());
  judged.answer(near, honest, 0.1F);
  CHECK(judged.problem() == Reason::doubtful);
}

TEST_CASE("silent witnesses are asked again, and in the end those that answered have to do",
          "[unit]") {
  const Model model = trained();
  Judged judged(model, {near, other, third});
  CHECK(judged.review.deadline() == Time{} + std::chrono::milliseconds(500));
  judged.answer(near, model, 1);
  judged.out = {};
  judged.review.tick(Time{} + std::chrono::milliseconds(500), judged.out);
  CHECK(judged.out.messages.size() == 2);
  CHECK_FALSE(judged.problem(Time{} + std::chrono::milliseconds(1999)));
  CHECK(judged.problem(Time{} + std::chrono::seconds(2)) == Reason::none);
}

TEST_CASE("a model is refused after five rounds of silence and not before", "[unit]") {
  const Model model = trained();
  std::vector<PeerId> witnesses;
  for (std::uint64_t number = 10; number < 30; ++number) witnesses.push_back(PeerId{number});
  Judged unheard(model, witnesses);
  CHECK(unheard.out.messages.size() == 4);
  std::set<PeerId> asked;
  for (auto now = Time{}; now < Time{} + std::chrono::seconds(10);
       now += std::chrono::milliseconds(500)) {
    unheard.review.tick(now, unheard.out);
    INFO("after " << seconds(now - Time{}) << " s");
    REQUIRE_FALSE(unheard.problem(now));
  }
  for (const Outgoing& out : unheard.out.messages) asked.insert(out.to);
  CHECK(asked.size() == witnesses.size());
  unheard.review.tick(Time{} + std::chrono::seconds(10), unheard.out);
  CHECK(unheard.problem(Time{} + std::chrono::seconds(10)) == Reason::timed_out);
}

TEST_CASE("witnesses that are gone or have no model give way to others, and to none at last",
          "[unit]") {
  const Model model = trained();
  Judged judged(model, {PeerId{10}, PeerId{11}, PeerId{12}, PeerId{13}, near});
  for (std::uint64_t number = 10; number < 14; ++number) {
    if (number % 2 == 0) judged.review.peer_gone(PeerId{number});
    if (number % 2 == 1) {
      judged.review.receive(PeerId{number}, Refuse{judged.id, Reason::not_ready});
    }
  }
  CHECK_FALSE(judged.problem());
  judged.out = {};
  judged.review.tick(Time{} + std::chrono::milliseconds(500), judged.out);
  REQUIRE(judged.out.messages.size() == 1);
  CHECK(judged.out.messages[0].to == near);
  SECTION("the other's answer decides") {
    judged.answer(near, Model(elements, 0.18F), 0.1F);
    CHECK(judged.problem() == Reason::doubtful);
  }
  SECTION("the source is believed if nobody else is left") {
    judged.review.peer_gone(near);
    CHECK_FALSE(judged.problem());
    CHECK(judged.problem(Time{} + std::chrono::seconds(2)) == Reason::none);
  }
}

TEST_CASE("without a witness a model is believed up to ten times the norm of our own", "[unit]") {
  const Time late = Time{} + std::chrono::seconds(2);
  // Our own model has norm 10. A sketch gives a norm to within a third.
  Judged short_enough(moved(Model(elements), 60, 7), {});
  CHECK(short_enough.problem(late) == Reason::none);
  Judged longer(moved(Model(elements), 150, 7), {});
  CHECK(longer.problem(late) == Reason::norm_exceeded);
  Judged huge(Model(elements, 1e30F), {near});
  huge.review.receive(near, Refuse{huge.id, Reason::not_ready});
  CHECK(huge.problem(late) == Reason::norm_exceeded);
}

TEST_CASE("a witness that cannot answer is not waited for, and strangers are none", "[unit]") {
  const Model model = trained();
  Judged judged(model, {near, other});
  judged.answer(source, Model(elements), 1e9F);
  judged.review.receive(near, Refuse{judged.id, Reason::not_ready});
  CHECK_FALSE(judged.problem());
  judged.review.receive(other, SketchReply{state_id(PeerId{9}, 5, 2), 1, 1, {}});  // Another state.
  CHECK_FALSE(judged.problem());
  judged.answer(other, model, 1);
  CHECK(judged.problem() == Reason::none);
}

TEST_CASE("a single witness that has only just begun is asked again until it has a model",
          "[unit]") {
  Judged judged(Model(elements, 0.18F), {near});  // This model's norm is about that of trained().
  judged.review.receive(near, Refuse{judged.id, Reason::not_ready});
  CHECK_FALSE(judged.problem());
  judged.out = {};
  judged.review.tick(Time{} + std::chrono::milliseconds(500), judged.out);
  REQUIRE(judged.out.messages.size() == 1);
  CHECK(judged.out.messages[0].to == near);
  judged.answer(near, trained(), 0.1F);
  CHECK(judged.problem(Time{} + std::chrono::seconds(1)) == Reason::doubtful);
}

TEST_CASE("a review keeps two entries for each witness that it met, however often they refuse",
          "[unit]") {
  std::vector<PeerId> witnesses;
  for (std::uint64_t number = 10; number < 30; ++number) witnesses.push_back(PeerId{number});
  Judged judged(trained(), witnesses);
  std::size_t asked = 0;
  for (auto now = Time{}; now < Time{} + std::chrono::seconds(10);
       now += std::chrono::milliseconds(500)) {
    judged.review.tick(now, judged.out);
    for (const Outgoing& out : std::exchange(judged.out, {}).messages) {
      ++asked;
      judged.review.receive(out.to, Refuse{judged.id, Reason::not_ready});
    }
    judged.review.meet(witnesses, judged.out);
    REQUIRE(judged.review.held() == ModelReview::held_max(witnesses.size()));
  }
  CHECK(asked > witnesses.size());
}

}  // namespace gv
