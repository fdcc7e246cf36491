// The targets `config`, `scenario` and `peers`: texts that people write.
#include <string>

#include "base/check.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/config.hpp"
#include "peer/config/peers_file.hpp"
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

/// If a description is accepted, plans can be made for it: speeds and links are usable numbers.
void feed_peers(std::span<const std::byte> bytes) {
  const ParsedPeers parsed = parse_peers_text(text_of(bytes), "fuzzed.toml");
  if (!parsed.problems.empty()) return;
  const SplitSite& site = parsed.site;
  check(!site.peers.empty() && site.peers.size() <= peers_in_file_max, "there are some peers");
  check(site.links.size() == site.peers.size(), "every peer has links");
  for (std::size_t a = 0; a < site.peers.size(); ++a) {
    check(site.peers[a].operations_per_s > 0 && site.peers[a].memory_bytes >= 0, "peers are sound");
    for (std::size_t b = 0; b < site.peers.size(); ++b) {
      const SplitLink& link = site.links[a][b];
      check(link.latency_s >= 0 && link.bytes_per_s >= 0, "links are sound");
      check(link.latency_s == site.links[b][a].latency_s, "links are alike in both directions");
    }
  }
}

std::vector<Bytes> peers_seeds() {
  return {
      bytes_of("[[peer]]\nname = \"desk\"\ngflops = 8\nmemory_mb = 2000\n"
               "[[peer]]\nname = \"tower\"\ngflops = 4.5\n"
               "[links]\nlatency_ms = 2\nbandwidth_mbit = 100\n"
               "[[link]]\npeers = [\"desk\", \"tower\"]\nlatency_ms = 0.1\n")};
}

}  // namespace

Target config_target() { return {.name = "config", .feed = feed_config, .seeds = config_seeds}; }
Target peers_target() { return {.name = "peers", .feed = feed_peers, .seeds = peers_seeds}; }
Target scenario_target() {
  return {.name = "scenario", .feed = feed_scenario, .seeds = scenario_seeds};
}

}  // namespace gv::fuzz
