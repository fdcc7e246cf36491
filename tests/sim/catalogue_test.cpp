// The catalogue of faults in docs/faults.md, row by row, on virtual peers with every invariant.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "sim/virtual/swarm.hpp"
#include "sim/virtual/tally.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Looks at the world at moments of its choice, and counts.
class Probe : public Tally {
 public:
  void after(const Simulator& world, PeerNumber) override {
    for (PeerNumber number = 0; number < world.size(); ++number) {
      const VirtualPeer& peer = world.peer(number);
      if (number >= committed.size()) committed.resize(world.size());
      if (peer.node) committed[number] = peer.node->gossip()->exchange().counts().committed;
    }
    if (!all_met && everybody_knows_everybody(world)) all_met = world.now();
  }

  void on_restore(const Simulator& world, PeerNumber peer, const Image* image) override {
    if (world.peer(peer).life > 1) restored.push_back(image ? image->step : 0);
  }

  std::vector<std::uint64_t> committed;  ///< By each peer, in its newest life.
  std::vector<std::uint64_t> restored;   ///< Steps that restarted peers went on from.
  std::optional<Time> all_met;

 private:
  static bool everybody_knows_everybody(const Simulator& world) {
    for (PeerNumber number = 0; number < world.size(); ++number) {
      const VirtualPeer& peer = world.peer(number);
      if (!peer.node || peer.node->membership().view().size() < world.size()) return false;
    }
    return true;
  }
};

/// `peers` that compute nothing, exchange about once a second, and suffer `rules`.
DrawnWorld world_of(std::size_t peers, const std::string& rules, std::uint64_t seed = 1) {
  const ParsedScenario parsed = parse_scenario_text(
      "[scenario]\nwork = \"time\"\nstep_s = 0.05\n" + rules, "catalogue.toml", true);
  INFO((parsed.problems.empty() ? "" : to_string(parsed.problems.front())));
  REQUIRE(parsed.problems.empty());
  DrawnWorld world{.seed = seed, .scenario = parsed.scenario};
  world.scenario.peers = peers;
  if (world.scenario.until == 1h) world.scenario.until = 60s;
  world.node.gossip.steps = std::uint64_t{1} << 40;
  world.node.gossip.period_steps = 20;
  world.node.gossip.save_every_steps = 100;
  world.node.gossip.pairing = PairingKind::uniform;
  return world;
}

void holds(const DrawnWorld& world, Probe& probe) {
  const Verdict verdict = run_world(world, &probe);
  INFO((verdict.violation ? verdict.violation->invariant + ": " + verdict.violation->what : ""));
  CHECK_FALSE(verdict.violation);
}

const std::string near = "[[scenario.link]]\nlatency_s = 0.002\n";

std::string fault(const std::string& text) { return "[[scenario.fault]]\n" + text; }

}  // namespace

TEST_CASE("F1 a peer killed at any moment of an exchange leaves nothing half done unknown",
          "[sim]") {
  // Slow links stretch an exchange over a second, so that kills 25 ms apart meet every part of it.
  for (int moment = 0; moment < 60; ++moment) {
    const std::string at = std::to_string(6 + 0.025 * moment);
    DrawnWorld world =
        world_of(3,
                 "dimension = 20000\nuntil_s = 20\n[[scenario.link]]\nlatency_s = 0.02\n"
                 "bandwidth_mbit = 2\n" +
                     fault("kind = \"kill\"\npeers = \"0\"\nfor_s = 3\nat_s = " + at + "\n"),
                 static_cast<std::uint64_t>(moment));
    Probe probe;
    INFO("killed at " << at << " s");
    holds(world, probe);
  }
}

TEST_CASE("F2 a peer killed and started again at once comes back as one and the same", "[sim]") {
  Probe probe;
  holds(world_of(5, near + fault("kind = \"restart\"\npeers = \"2\"\nat_s = 10\n")), probe);
  CHECK(probe.restored.size() == 1);
  CHECK(probe.events("member_dead") == 0);
}

TEST_CASE("F3 peers that stand still for two seconds are not declared dead", "[sim]") {
  Probe probe;
  holds(world_of(5, near + fault("kind = \"stop\"\npeers = \"any\"\nat_s = 5\nfor_s = 2\n"
                                 "every_s = 8\n")),
        probe);
  CHECK(probe.events("member_dead") == 0);
}

TEST_CASE("F4 a peer that stands still for a minute is dead to all and comes back", "[sim]") {
  Probe probe;
  holds(world_of(5, "until_s = 90\n" + near +
                        fault("kind = \"stop\"\npeers = \"1\"\nat_s = 10\nfor_s = 60\n")),
        probe);
  CHECK(probe.events("member_dead") == 4);
  CHECK(probe.events("member_returned") == 4);
}

TEST_CASE("F5 a peer that is told to leave is left and never dead", "[sim]") {
  Probe probe;
  holds(world_of(5, near + fault("kind = \"leave\"\npeers = \"1\"\nat_s = 10\n")), probe);
  CHECK(probe.events("member_left") == 4);
  CHECK(probe.events("member_dead") == 0);
}

TEST_CASE("F6 the last survivor trains on and others can join it again", "[sim]") {
  Probe probe;
  holds(world_of(5, near + fault("kind = \"kill\"\npeers = \"0-3\"\nat_s = 10\nfor_s = 45\n")),
        probe);
  CHECK(probe.restored.size() == 4);
}

TEST_CASE("F7 when all die they go on from their checkpoints and lose no more than the interval",
          "[sim]") {
  Probe probe;
  holds(world_of(5, near + fault("kind = \"kill\"\npeers = \"all\"\nat_s = 20\nfor_s = 1\n")),
        probe);
  REQUIRE(probe.restored.size() == 5);
  // At 20 s of 0.05 s a step, jitter included, with a checkpoint every 100 steps and jobs of 5.
  for (const std::uint64_t step : probe.restored) CHECK(step >= 250);
}

TEST_CASE("F8 peers whose first contact is gone for good find each other by what they knew",
          "[sim]") {
  DrawnWorld world = world_of(4, near + fault("kind = \"kill\"\npeers = \"0\"\nat_s = 5\n") +
                                     fault("kind = \"restart\"\npeers = \"1-3\"\nat_s = 30\n"));
  Probe probe;
  holds(world, probe);
  CHECK(probe.restored.size() == 4);
}

TEST_CASE("F9 a hundred peers that join at once are in every view within seconds", "[sim]") {
  DrawnWorld world = world_of(100, "until_s = 16\n" + near);
  Probe probe;
  holds(world, probe);
  REQUIRE(probe.all_met);
  CHECK(*probe.all_met <= Time(15s));
}

TEST_CASE("F10 under churn training proceeds", "[sim]") {
  Probe probe;
  holds(world_of(10, "until_s = 120\n" + near +
                         fault("kind = \"kill\"\npeers = \"any\"\nat_s = 5\nfor_s = 3\n"
                               "every_s = 1.5\n")),
        probe);
  CHECK(probe.injected().at("kill") > 40);
}

TEST_CASE("F11 and F12 both sides of a partition train on and are one again after it", "[sim]") {
  for (const char* side : {"0-3", "7"}) {
    Probe probe;
    holds(world_of(8, "until_s = 100\n" + near +
                          fault("kind = \"partition\"\npeers = \"" + std::string(side) +
                                "\"\nat_s = 10\nfor_s = 60\n")),
          probe);
    CHECK(probe.events("member_dead") > 0);
    CHECK(probe.events("member_returned") > 0);
  }
}

TEST_CASE("F13 a cut in one direction kills nobody as long as others hear both", "[sim]") {
  Probe probe;
  holds(world_of(6,
                 near + fault("kind = \"cut\"\npeers = \"0\"\nto = \"1\"\nat_s = 5\nfor_s = 40\n")),
        probe);
  CHECK(probe.events("member_dead") == 0);
}

TEST_CASE("F15 links clogged one after the other set nobody back for good", "[sim]") {
  std::string rules = near;
  for (int i = 0; i < 5; ++i) {
    rules += fault("kind = \"clog\"\npeers = \"" + std::to_string(i) + "\"\nat_s = " +
                   std::to_string(10 + i) + "\nfor_s = " + std::to_string(5 - i * 0.7) + "\n");
  }
  Probe probe;
  holds(world_of(6, rules), probe);
  CHECK(probe.events("member_dead") == 0);
}

TEST_CASE("F16 a tenth of all messages lost kills nobody and a third kills nobody for good",
          "[sim]") {
  for (const char* loss : {"0.01", "0.05", "0.1"}) {
    Probe probe;
    holds(world_of(8, "until_s = 300\n[[scenario.link]]\nlatency_s = 0.002\nloss = " +
                          std::string(loss) + "\n"),
          probe);
    CHECK(probe.events("member_dead") == 0);
  }
  Probe probe;
  holds(world_of(8, near + fault("kind = \"loss\"\nprobability = 0.3\nat_s = 5\nfor_s = 50\n")),
        probe);
}

TEST_CASE("F17 and F18 repeats and delays of half a second change no sum", "[sim]") {
  Probe probe;
  holds(world_of(6, "[[scenario.link]]\nlatency_s = 0.125\nduplicate = 0.5\nreorder = 0.5\n"),
        probe);
  CHECK(probe.exchanges() > 20);
}

TEST_CASE("F19 a third of a second of latency kills nobody", "[sim]") {
  DrawnWorld world = world_of(6, "[[scenario.link]]\nlatency_s = 0.2\njitter_s = 0.2\n");
  // What docs/operations.md advises for far peers.
  world.node.membership.probe_timeout = 1s;
  world.node.membership.probe_period = 2s;
  Probe probe;
  holds(world, probe);
  CHECK(probe.events("member_dead") == 0);
}

TEST_CASE("F20 and F21 one peer with a slow link or processor holds nobody else up", "[sim]") {
  const auto others = [](const std::string& rules) {
    DrawnWorld world = world_of(8, "dimension = 20000\nuntil_s = 120\n" + near + rules);
    Probe probe;
    holds(world, probe);
    CHECK(probe.events("member_dead") == 0);
    std::uint64_t sum = 0;
    for (PeerNumber number = 0; number < 7; ++number) sum += probe.committed[number];
    return static_cast<double>(sum);
  };
  const double usual = others("");
  CHECK(others("[[scenario.speed]]\npeers = \"7\"\nfactor = 0.1\n") >= 0.95 * usual);
  // Whoever meets the peer with the slow link is busy with it for more than a period.
  CHECK(others("[[scenario.link]]\nfrom = \"7\"\nlatency_s = 0.002\nbandwidth_mbit = 1\n") >=
        0.75 * usual);
}

TEST_CASE("F23 and F25 a full disk or a slow one stops no training", "[sim]") {
  Probe probe;
  holds(world_of(4, near + fault("kind = \"disk_full\"\npeers = \"all\"\nat_s = 5\nfor_s = 20\n") +
                        fault("kind = \"slow_disk\"\npeers = \"all\"\nat_s = 30\nfor_s = 20\n"
                              "jump_s = 1\n")),
        probe);
  CHECK(probe.exchanges() > 100);
}

TEST_CASE("F26 and F28 kills while checkpoints are written leave the old one or the new one",
          "[sim]") {
  DrawnWorld world = world_of(
      3, "save_s = 1\nuntil_s = 200\n" + near +
             fault("kind = \"kill\"\npeers = \"any\"\nat_s = 5\nfor_s = 0.5\nevery_s = 2\n"));
  world.node.gossip.save_every_steps = 20;
  Probe probe;
  holds(world, probe);
  CHECK(probe.restored.size() > 50);
}

TEST_CASE("F29 and F30 clocks that jump or run at another rate break no promise", "[sim]") {
  Probe probe;
  holds(world_of(6, near +
                        fault("kind = \"clock_jump\"\npeers = \"any\"\nat_s = 5\nevery_s = 5\n"
                              "jump_s = 30\n") +
                        fault("kind = \"clock_rate\"\npeers = \"0-1\"\nat_s = 3\nfactor = 1.2\n") +
                        fault("kind = \"clock_rate\"\npeers = \"2-3\"\nat_s = 3\nfactor = 0.8\n")),
        probe);
}

TEST_CASE("F31 damaged messages and blocks get in nowhere and exchanges go on", "[sim]") {
  Probe probe;
  holds(world_of(6, near + fault("kind = \"corrupt\"\nprobability = 0.05\nat_s = 5\nfor_s = 50\n")),
        probe);
  CHECK(probe.exchanges() > 50);
}

}  // namespace gv
