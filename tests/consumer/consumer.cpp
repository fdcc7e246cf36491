// Uses a little of every installed library, through its installed headers.
#include <cstdio>
#include <memory>

#include "consensus/topology/pairing.hpp"
#include "net/identity.hpp"
#include "peer/config/config.hpp"
#include "train/built_in_learner.hpp"
#include "train/data_set.hpp"

int main() {
  const gv::Config config = gv::default_config();
  auto data = std::make_shared<gv::DataSet>();
  data->shape = {2, 1, 1};
  data->classes = 2;
  data->floats = {1, 0, 0, 1};
  data->labels = {0, 1};
  const auto trainer =
      gv::built_in_learner({.model = gv::linear(2), .batch = 2, .steps = 50}, data);
  const double before = trainer->run_steps(1).mean_loss();
  trainer->run_steps(48);
  const double after = trainer->run_steps(1).mean_loss();
  const gv::KeyPair pair = gv::generate_key_pair();
  const gv::View view({gv::peer_id(pair.public_key), gv::PeerId{1}});
  const auto match = gv::matching_partner(config.run.seed, 0, view, gv::PeerId{1});
  std::printf("loss %.3f to %.3f\n", before, after);
  return after < before && match ? 0 : 1;
}
