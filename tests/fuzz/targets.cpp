// The list of targets.
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {

std::vector<Target> targets() {
  return {
      node_target(),       lane_target(),       handshake_target(),    safetensors_target(),
      config_target(),     scenario_target(),   peers_target(),        csv_target(),
      idx_target(),        cifar_target(),      pickle_target(),       npy_target(),
      archive_target(),    allow_list_target(), member_cache_target(), settings_revision_target(),
      rendezvous_target(), ticket_target(),     certificates_target(), exam_target(),
      pair_code_target(),  ledger_target()};
}

}  // namespace gv::fuzz
