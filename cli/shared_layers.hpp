// `grapevine plan` with a file of peers.
#pragma once

#include <cstddef>
#include <string>

namespace gv {

struct SharedLayersOptions {
  std::string config;
  std::string peers_file;
  std::size_t samples = 0;  ///< Samples in a step of all peers; 0: from the config.
  bool as_json = false;
};

/// Searches for the best way in which the peers of the file can share the config's model, and
/// prints it. Returns the exit code: 2 for a config or file with mistakes, or if no plan fits the
/// memory.
int show_shared_layers(const SharedLayersOptions& options);

}  // namespace gv
