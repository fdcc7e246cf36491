// `grapevine plan` with a file of peers: searches for ways to share a model's layers.
#pragma once

#include <cstddef>
#include <string>

namespace gv {

struct SharedLayersOptions {
  std::string config;
  std::string peers_file;
  std::size_t samples = 0;  ///< Samples in a step of all peers together; 0: the config's number.
  bool as_json = false;
};

/// Searches for the best way for the file's peers to share the config's model, and prints it.
/// Returns the exit code: 2 for mistakes in the config or file, or if no plan fits into memory.
int show_shared_layers(const SharedLayersOptions& options);

}  // namespace gv
