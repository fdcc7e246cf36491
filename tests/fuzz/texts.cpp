// The targets `config` and `scenario`: texts that people write.
#include <string>

#include "base/check.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/config.hpp"
#include "sim/scenario_text.hpp"
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {
namespace {

void feed_config(std::span<const std::byte> bytes) {
  const ParsedConfig parsed = parse_config_text(text_of(bytes), "fuzzed.toml");
  if (!parsed.problems.empty()) return;
  (void)agreement(parsed.config);
  const std::string written = to_toml(parsed.config);
  const ParsedConfig again = parse_config_text(written, "fuzzed.toml");
  check(again.problems.empty() && again.config == parsed.config,
        "a config that is written down is read as itself");
}

std::vector<Bytes> config_seeds() {
  std::vector<Bytes> found{bytes_of(default_config_text())};
  for (const NamedAlgorithm& algorithm : named_algorithms()) {
    found.push_back(bytes_of(algorithm.settings));
  }
  return found;
}

/// The first byte says whether the text may contain other tables.
void feed_scenario(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const bool alone = (std::to_integer<unsigned>(bytes[0]) & 1) != 0;
  const ParsedScenario parsed =
      parse_scenario_text(text_of(bytes.subspan(1)), "fuzzed.toml", alone);
  if (!parsed.problems.empty() || !parsed.present) return;
  const std::string written = to_toml(parsed.scenario);
  const ParsedScenario again = parse_scenario_text(written, "fuzzed.toml", true);
  check(again.problems.empty() && to_toml(again.scenario) == written,
        "a scenario that is written down is read as itself");
}

std::vector<Bytes> scenario_seeds() {
  return {bytes_of("1[scenario]\npeers = 16\nwork = \"time\"\nuntil_s = 5\n"
                   "[[scenario.speed]]\npeers = \"0-3\"\nfactor = 0.5\n"
                   "[[scenario.link]]\nfrom = \"0-1\"\nto = 3\nlatency_s = 0.02\nloss = 0.1\n"
                   "[[scenario.fault]]\nkind = \"kill\"\nat_s = 1\nfor_s = 2\nevery_s = 5\n"
                   "peers = \"any 2\"\n"),
          bytes_of("1[scenario]\nneighbours = 3\nwork = \"quadratic\"\ndimension = 12\n"
                   "[[scenario.fault]]\nkind = \"slow_link\"\nlatency_s = 1\nbandwidth_mbit = 3\n"
                   "[[scenario.hostile]]\npeers = \"any 2\"\nattack = \"bit_flip\"\n"),
          bytes_of("0[run]\nmode = \"mixing\"\n[scenario]\nstage_work = [1, 2]\n")};
}

}  // namespace

Target config_target() { return {.name = "config", .feed = feed_config, .seeds = config_seeds}; }
Target scenario_target() {
  return {.name = "scenario", .feed = feed_scenario, .seeds = scenario_seeds};
}

}  // namespace gv::fuzz
