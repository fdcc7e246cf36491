// Tests which model a newcomer to a gossip run adopts. The test plays the other peers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "consensus/transfer/sketch.hpp"
#include "peer/modes/gossip.hpp"
#include "tests/facts.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

using Model = std::vector<float>;

constexpr std::size_t elements = 512;
constexpr std::uint64_t layout = 33;
constexpr PeerId self{1};
constexpr PeerId hostile{2};
constexpr PeerId honest{3};
constexpr PeerId honest_too{4};

Member trains(PeerId peer, std::uint64_t step) {
  Member member{.id = peer,
                .name = "peer",
                .address = "virtual:1",
                .layout_hash = layout,
                .progress = {.step = step, .steps_per_second = 10, .phase = Phase::training}};
  restate(member, signer_of(peer));
  return member;
}

struct Newcomer {
  explicit Newcomer(const std::map<PeerId, std::uint64_t>& steps, const SwarmWorkOptions& work = {},
                    std::vector<PeerId> authorized = {self, hostile, honest, honest_too},
                    float own_weights = 1, const GossipOptions& options = {})
      : own(own_weights),
        mode(self, 7, {.steps = 100000, .work = work, .layout_hash = layout, .elements = elements},
             options, signer_of(self), Rng(1)),
        members({.id = self, .name = "us", .address = "virtual:0", .layout_hash = layout},
                std::move(authorized), {}, signer_of(self), Rng(1)) {
    PushPull table;
    for (const auto& [peer, step] : steps) table.members.push_back(trains(peer, step));
    members.receive(now, steps.begin()->first, table, out);
    mode.start(now, 0, true);
    tick();
  }

  /// The newcomer learns of a peer that trains and has reached this step.
  void meet(PeerId peer, std::uint64_t step) {
    PushPull table;
    table.members.push_back(trains(peer, step));
    members.receive(now, peer, table, out);
    tick();
  }

  void tick() {
    mode.tick(now, members, out, jobs);
    // A newcomer first copies its own model, and later compares each download with that copy.
    if (jobs.empty() || first_of<task::TakeSnapshot>(jobs.front().tasks) == nullptr) return;
    if (jobs.front().tasks.size() > 1) return;
    JobDone done{.job = std::move(jobs.front())};
    jobs.clear();
    first_of<task::TakeSnapshot>(done.job.tasks)->snapshot->values.assign(elements, own);
    mode.complete(now, std::move(done), members, out);
    tick();
  }

  /// The first message of type M sent to peer `to` since the last call.
  template <class M>
  std::optional<M> sent(PeerId to) {
    for (const Outgoing& outgoing : out.messages) {
      if (const auto* message = std::get_if<M>(&outgoing.message); message && outgoing.to == to) {
        return *message;
      }
    }
    return std::nullopt;
  }

  /// The peer sends this model to the newcomer, which has asked for one.
  void serve(PeerId from, const Model& model, std::uint64_t step) {
    const auto request = sent<StateRequest>(from);
    REQUIRE(request);
    out = {};
    mode.receive(now, from,
                 TransferAccepted{.id = request->id,
                                  .layout_hash = layout,
                                  .elements = elements,
                                  .version = {.step = step}},
                 members, out);
    mode.receive_block(now, from, Block{request->id, 0, std::as_bytes(std::span(model))}, out);
    tick();
  }

  /// The model that the first job adopts; null if the newcomer keeps its own.
  const DownloadedModel* adopted() const {
    const auto* task = jobs.empty() ? nullptr : first_of<task::AdoptModel>(jobs.front().tasks);
    return task != nullptr ? &task->model : nullptr;
  }

  void bear_witness(PeerId from, const Model& model, std::uint64_t step) {
    const auto request = sent<SketchRequest>(from);
    REQUIRE(request);
    mode.receive(now, from, SketchReply{request->id, step, 0.5F, sketch_of(model, request->seed)},
                 members, out);
    tick();
  }

  float own;  ///< The value of every weight in the newcomer's first model.
  Time now{};
  GossipMode mode;
  Membership members;
  Effects out;
  std::vector<Job> jobs;
};

Model model_of(float value) { return Model(elements, value); }

}  // namespace

TEST_CASE("a newcomer takes no model from one voice and goes on with the next source") {
  Newcomer newcomer({{hostile, 1ULL << 60}, {honest, 900}, {honest_too, 800}});
  newcomer.serve(hostile, model_of(5), 1ULL << 60);
  CHECK(newcomer.jobs.empty());
  // A newcomer does not ask the peer that sent a model to confirm that model.
  CHECK_FALSE(newcomer.sent<SketchRequest>(hostile));
  newcomer.bear_witness(honest, model_of(1), 900);
  newcomer.bear_witness(honest_too, model_of(1.001F), 800);
  CHECK(newcomer.jobs.empty());
  const auto refused = std::ranges::find_if(newcomer.out.facts, [](const Fact& fact) {
    return std::holds_alternative<ModelRefused>(fact);
  });
  REQUIRE(refused != newcomer.out.facts.end());
  CHECK(std::get<ModelRefused>(*refused).peer == hostile);
  CHECK(std::get<ModelRefused>(*refused).reason == Reason::doubtful);

  newcomer.serve(honest, model_of(1), 900);
  newcomer.bear_witness(honest_too, model_of(1.001F), 800);
  // A single hostile witness cannot keep the newcomer from joining.
  newcomer.bear_witness(hostile, model_of(-7), 1ULL << 60);
  REQUIRE(newcomer.adopted() != nullptr);
  CHECK(newcomer.adopted()->source == honest);
  CHECK(newcomer.adopted()->values == model_of(1));
  CHECK(newcomer.adopted()->step == 900);
}

TEST_CASE("no step is believed that only the source of a model claims") {
  Newcomer newcomer({{hostile, 50000}, {honest, 900}, {honest_too, 800}});
  newcomer.serve(hostile, model_of(1), 50000);  // The model equals the honest peers' model.
  newcomer.bear_witness(honest, model_of(1), 900);
  newcomer.bear_witness(honest_too, model_of(1.001F), 800);
  REQUIRE(newcomer.adopted() != nullptr);
  CHECK(newcomer.adopted()->step == 900);
}

TEST_CASE("the only other peer is believed, since no third can be asked") {
  Newcomer newcomer({{honest, 900}});
  newcomer.serve(honest, model_of(1), 900);
  CHECK(newcomer.jobs.empty());
  newcomer.now += std::chrono::seconds(2);
  newcomer.tick();
  REQUIRE(newcomer.adopted() != nullptr);
  CHECK(newcomer.adopted()->step == 900);
}

TEST_CASE("a newcomer waits for no witness if it and the source are all that may take part") {
  Newcomer newcomer({{honest, 900}}, {}, {self, honest});
  newcomer.serve(honest, model_of(1), 900);
  REQUIRE(newcomer.adopted() != nullptr);
  CHECK(newcomer.adopted()->step == 900);
  CHECK(newcomer.adopted()->values == model_of(1));
  // A model that is adopted without a wait must pass the same bound on its norm.
  Newcomer careful({{hostile, 900}}, {}, {self, hostile});
  careful.serve(hostile, model_of(50), 900);
  CHECK(careful.adopted() == nullptr);
  CHECK(count_of<ModelRefused>(careful.out.facts, Reason::norm_exceeded) == 1);
}

TEST_CASE("a newcomer whose first source does not answer asks those that it has met since") {
  Newcomer newcomer({{hostile, 900}});
  REQUIRE(newcomer.sent<StateRequest>(hostile));
  newcomer.meet(honest, 800);
  CHECK_FALSE(newcomer.sent<StateRequest>(honest));
  newcomer.now += std::chrono::seconds(2);
  newcomer.tick();
  CHECK(newcomer.sent<StateRequest>(honest));
  // The newcomer at once asks a peer that it meets in the pause before the next round.
  newcomer.now += std::chrono::seconds(2);
  newcomer.tick();
  newcomer.meet(honest_too, 700);
  CHECK(newcomer.sent<StateRequest>(honest_too));
}

TEST_CASE(
    "a newcomer whose own model is zero takes one of ordinary weights from its only partner") {
  Newcomer newcomer({{honest, 900}}, {}, {self, honest}, 0);
  newcomer.serve(honest, model_of(9), 900);
  REQUIRE(newcomer.adopted() != nullptr);
  CHECK(newcomer.adopted()->values == model_of(9));
  Newcomer careful({{hostile, 900}}, {}, {self, hostile}, 0);
  careful.serve(hostile, model_of(11), 900);
  CHECK(careful.adopted() == nullptr);
  CHECK(count_of<ModelRefused>(careful.out.facts, Reason::norm_exceeded) == 1);
}

TEST_CASE("a newcomer waits for a witness that may take part and that it has not met") {
  Newcomer newcomer({{honest, 900}}, {}, {self, honest, honest_too});
  newcomer.serve(honest, model_of(1), 900);
  CHECK(newcomer.adopted() == nullptr);
  newcomer.now += std::chrono::seconds(2);
  newcomer.tick();
  CHECK(newcomer.adopted() != nullptr);
}

TEST_CASE("who only was the first to say hello is judged by those that are met next") {
  Newcomer newcomer({{hostile, 1ULL << 60}});
  newcomer.serve(hostile, model_of(5), 1ULL << 60);
  newcomer.meet(honest, 900);
  newcomer.bear_witness(honest, model_of(1), 900);
  CHECK(std::ranges::any_of(newcomer.out.facts, [](const Fact& fact) {
    return std::holds_alternative<ModelRefused>(fact);
  }));
  newcomer.now += std::chrono::seconds(2);
  newcomer.tick();
  CHECK(newcomer.adopted() == nullptr);
}

TEST_CASE("one lying witness does not make a newcomer blame the source of a model") {
  const GossipOptions options{.exchange = {.offences_max = 1}};
  for (const float weights : {5.0F, 50.0F}) {
    Newcomer newcomer({{honest, 900}}, {}, {self, hostile, honest}, 1, options);
    newcomer.serve(honest, model_of(weights), 900);
    newcomer.meet(hostile, 10);
    newcomer.bear_witness(hostile, model_of(0.1F), 10);
    CHECK(count_of<ModelRefused>(newcomer.out.facts, Reason::norm_exceeded) == 1);
    // A model that is also far longer than the newcomer's own is the fault of its source.
    CHECK(newcomer.mode.exchange().is_quarantined(newcomer.now, honest) == (weights > 10));
  }
}

TEST_CASE("a newcomer whose sources all fail trains from the beginning") {
  Newcomer newcomer({{hostile, 2000}, {honest, 900}});
  newcomer.serve(hostile, model_of(5), 2000);
  newcomer.bear_witness(honest, model_of(1), 900);
  newcomer.serve(honest, model_of(1), 900);
  newcomer.bear_witness(hostile, model_of(5), 2000);
  REQUIRE(newcomer.jobs.size() == 1);
  CHECK(newcomer.adopted() == nullptr);
  CHECK(newcomer.mode.course().phase() == Phase::training);
}

TEST_CASE("who wakes up at the end, while its last job runs, downloads no model and ends") {
  Newcomer peer({{hostile, 10}, {honest, 10}, {honest_too, 10}},
                {.budget = 100000, .batch = 1, .data = 1, .all_data = 4});
  REQUIRE(peer.jobs.size() == 1);
  // This peer slept. Most others have stopped meanwhile; the last one still trains and is far
  // ahead.
  peer.now += std::chrono::seconds(10);
  const auto reports = [&](PeerId from, Phase phase) {
    const Ping ping{.sequence = 1, .progress = {.step = 900, .phase = phase}};
    peer.members.receive(peer.now, from, ping, peer.out);
  };
  reports(honest, Phase::finishing);
  reports(honest_too, Phase::finishing);
  reports(hostile, Phase::training);
  peer.tick();
  REQUIRE(count_of<FinaleBegan>(peer.out.facts) == 1);
  peer.mode.woke_up(peer.now, peer.members, peer.out);
  CHECK_FALSE(peer.sent<StateRequest>(hostile));
  JobDone done{.job = std::move(peer.jobs.front())};
  peer.jobs.clear();
  done.steps_run = first_of<task::TakeSteps>(done.job.tasks)->count;
  done.step = done.steps_run;
  peer.mode.complete(peer.now, std::move(done), peer.members, peer.out);
  peer.tick();
  CHECK(peer.mode.phase() == Phase::finishing);
}

}  // namespace gv
