// `grapevine plan`: what a pipeline would do with a config, by measuring its model here.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gv {

struct PlanOptions {
  std::string config;
  std::size_t peers = 0;       ///< 0: the config's.
  std::vector<double> speeds;  ///< Of peers, where this machine's is 1; empty: all are like it.
  std::string svg;             ///< A file for the picture; empty: none.
  double bandwidth_mbit = 0;   ///< Of each link, each way; 0: sending takes no time.
  double latency_ms = 0;
  double seconds = 8;  ///< About how long to measure, all together.
};

/// Prints the plan and returns the exit code: 2 for a config that cannot be read, has another mode
/// or does not fit the peers, for speeds of another number of them, or for a picture that cannot be
/// written.
int plan_command(const PlanOptions& options);

}  // namespace gv
