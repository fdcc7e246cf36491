// A peer that has refused models because of their norms may come to doubt its own model.
#include "peer/modes/generations.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t layout = 3;

/// Peer 1, which knows peers 2 to `count`. Each of them may send it a state.
class Newcomer {
 public:
  explicit Newcomer(std::uint64_t count) : generations_(PeerId{1}, 1, {}, signer_of(PeerId{1})) {
    std::vector<PeerId> roster;
    for (std::uint64_t id = 1; id <= count; ++id) roster.push_back(PeerId{id});
    Membership members(
        {.id = roster[0], .name = "us", .address = "virtual:0", .layout_hash = layout}, roster,
        Membership::Options(), signer_of(roster[0]), Rng(1));
    for (const PeerId id : roster) {
      Member member{.id = id, .name = "peer", .address = "virtual:1", .layout_hash = layout};
      restate(member, signer_of(id));
      Effects out;
      if (id != roster[0]) members.receive({}, id, Ping{1, {}, {member}, 0}, out);
    }
    generations_.set_candidates({}, layout, members);
    REQUIRE(generations_.candidates().size() == count);
  }

  void refuse(std::uint64_t from, Reason why, Time now = Time(1s)) {
    Effects out;
    generations_.adopt({.version = {.step = 9}, .from = PeerId{from}});
    JobDone done;
    done.results.emplace_back(result::StateRefused{why, 1e9});
    CHECK(generations_.reject_state(now, done, out) == PeerId{from});
  }
  bool refuses_long_models(Time now = Time(2s)) const {
    return generations_.norm_cap_of(now, {.from = PeerId{2}}) > 0;
  }

 private:
  Generations generations_;
};

}  // namespace

TEST_CASE("who finds the models of more than a third too long doubts its own", "[unit]") {
  Newcomer of_four(4);
  of_four.refuse(2, Reason::norm_exceeded);
  of_four.refuse(2, Reason::norm_exceeded);
  CHECK(of_four.refuses_long_models());
  of_four.refuse(3, Reason::norm_exceeded);
  CHECK_FALSE(of_four.refuses_long_models());

  CHECK_FALSE(of_four.refuses_long_models(Time(2min)));
  // Old refusals say nothing about the present models.
  CHECK(of_four.refuses_long_models(Time(5min)));

  // A single peer can always be the hostile one.
  Newcomer of_two(2);
  of_two.refuse(2, Reason::norm_exceeded);
  CHECK(of_two.refuses_long_models());

  Newcomer of_seven(7);
  of_seven.refuse(2, Reason::norm_exceeded);
  of_seven.refuse(3, Reason::norm_exceeded);
  of_seven.refuse(4, Reason::impossible);
  CHECK(of_seven.refuses_long_models());
  of_seven.refuse(5, Reason::norm_exceeded);
  CHECK_FALSE(of_seven.refuses_long_models());
}

}  // namespace gv
