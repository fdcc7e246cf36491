// The printed figures of topologies agree with their matrices.
#include "cli/topology_text.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "cli/topology_picture.hpp"
#include "sim/run_files.hpp"

namespace gv {
namespace {

std::size_t count(const std::string& text, const std::string& wanted) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(wanted, at)) != std::string::npos; ++at) ++found;
  return found;
}

bool says(const std::string& text, const std::string& wanted) { return count(text, wanted) > 0; }

}  // namespace

TEST_CASE("a ring of eight is shown with its gap and edges and matrix", "[unit][topology]") {
  const std::string text =
      topology_report({.topology = {.kind = TopologyKind::ring}, .peers = 8, .parameters = 1000});
  INFO(text);
  CHECK(text.starts_with("ring of 8 peers\neach averages with the two beside it\n"));
  CHECK(says(text, "neighbours     2 in a round at most\n"));
  CHECK(says(text, "0.1953: a round leaves at most 80.47 % of the spread; a tenth is left"));
  CHECK(says(text, "after 10.6"));  // ln 10 / -ln(1 - 0.195262).
  CHECK(says(text, "16 models a round, at most 2 by one peer: 64 kB in all and 8 kB"));
  CHECK(says(text, "round 0        0-1 0-7 1-2 2-3 3-4 4-5 5-6 6-7   weight 1/3\n"));
  CHECK(says(text, "      0  .33  .33    .    .    .    .    .  .33\n"));
}

TEST_CASE("directions and unequal weights and periods are shown", "[unit][topology]") {
  const std::string base =
      topology_report({.topology = {.kind = TopologyKind::base_k}, .peers = 5});
  INFO(base);
  CHECK(says(base, "exact          after 5 rounds everybody has the mean of all\n"));
  CHECK(says(base, "round 2        0-1(1/2) 3-4(4/5)\n"));
  CHECK(says(base, "since all of them weigh 1/2 there"));
  const std::string shifted =
      topology_report({.topology = {.kind = TopologyKind::one_peer_exponential}, .peers = 4});
  INFO(shifted);
  CHECK(says(shifted, "directed: A>B means that B takes the model of A"));
  CHECK(says(shifted, "round 0        0>1 3>0 1>2 2>3   weight 1/2\n"));
  CHECK(says(shifted, "round 1        0-2 1-3   weight 1/2\n"));
}

TEST_CASE("pairs are shown as gossip draws them", "[unit][topology]") {
  const TopologyQuestion question{
      .topology = {.kind = TopologyKind::ring}, .peers = 6, .rounds = 5, .in_pairs = true};
  const std::string text = topology_report(question);
  INFO(text);
  CHECK(count(text, "weight 1/2\n") == 5);
  CHECK(says(text, "in the mean square"));
  CHECK(says(text, "neighbours     1 in a round at most\n"));
}

TEST_CASE("the table has a line for every kind and says why one does not fit", "[unit][topology]") {
  const std::string text = topology_table(12, 1);
  for (const TopologyKind kind : topology_kinds) {
    CHECK(count(text, "\n" + std::string(to_string(kind)) + " ") == 1);
  }
  CHECK(says(text, "a hypercube needs a power of two, and 12 is none"));
  for (const std::size_t one : {1, 2, 3}) CHECK(says(topology_table(one, 1), "\nring "));
}

TEST_CASE("no line of a report is longer than a hundred columns", "[unit][topology]") {
  for (const TopologyKind kind : topology_kinds) {
    for (const std::size_t n : {1, 2, 16, 64}) {
      const std::string text = topology_report({.topology = {.kind = kind}, .peers = n});
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        INFO(text.substr(at, end - at));
        CHECK(end - at <= 100);
        at = end + 1;
      }
    }
  }
}

TEST_CASE("a picture has all peers in each round and a line for each edge", "[unit][topology]") {
  const std::string ring = topology_svg({.topology = {.kind = TopologyKind::ring}, .peers = 12});
  CHECK(ring.starts_with("<svg xmlns='http://www.w3.org/2000/svg'"));
  CHECK(ring.ends_with("</svg>\n"));
  CHECK(count(ring, "<circle") == 12);
  CHECK(count(ring, "<line") == 12);
  CHECK(count(ring, "marker-end") == 0);
  const std::string base = topology_svg({.topology = {.kind = TopologyKind::base_k}, .peers = 5});
  CHECK(count(base, "<circle") == 25);
  CHECK(count(base, "<line") == 10);
  CHECK(count(base, "class='idle'") == 5);
  const std::string shifted =
      topology_svg({.topology = {.kind = TopologyKind::one_peer_exponential}, .peers = 5});
  CHECK(count(shifted, "marker-end") == 15);
  CHECK(count(topology_svg({.topology = {.kind = TopologyKind::ring}, .peers = 1}), "<line") == 0);
}

TEST_CASE("peers that know only some others cannot have a topology of all", "[unit][topology]") {
  RunFiles files;
  files.config.gossip.topology.kind = TopologyKind::hypercube;
  CHECK(neighbours_problems(files, "a.toml").empty());
  files.scenario.neighbours = 3;
  const Problems partial = neighbours_problems(files, "a.toml");
  REQUIRE(partial.size() == 1);
  CHECK(partial.front().place == "a.toml: scenario.neighbours");
  files.config.run.mode = ModeKind::allreduce;
  CHECK(neighbours_problems(files, "a.toml").empty());
}

}  // namespace gv
