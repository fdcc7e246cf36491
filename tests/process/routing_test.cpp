// Real peers find clusters in one run, and train a kernel machine for each cluster in another. Then
// samples are routed to the machines.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

const std::string data =
    "deviation = 2.0\n[data.generated]\nsamples = 6000\ntest_samples = 2000\nfeatures = 2\n"
    "classes = 4\nblobs_per_class = 4\nnoise = 0.3\n";

const std::string clusters =
    "[run]\nsteps = 100\nlinger_s = 1\n[data]\n" + data +
    "[model]\nkind = \"layers\"\nloss = \"reconstruction\"\n[[model.layers]]\nkind = \"clusters\"\n"
    "units = 3\n[train]\nbatch = 50\noptimizer = \"sgd\"\nlearning_rate = 0.5\nschedule = "
    "\"cosine\"\n[gossip]\nweigh = \"none\"\n";

const std::string machines =
    "[run]\nsteps = 600\nbudget = \"peer\"\nlinger_s = 1\n[data]\npartition = \"clusters\"\n"
    "centres = \"clusters/mean.safetensors\"\n" +
    data +
    "[model]\nkind = \"layers\"\nloss = \"hinge\"\n[[model.layers]]\nkind = "
    "\"kernel_features\"\nunits = 128\ngamma = 2.0\n[[model.layers]]\nkind = \"dense\"\nunits = "
    "4\n"
    "[train]\noptimizer = \"sgd\"\nlearning_rate = 1.0\nschedule = \"cosine\"\n[gossip]\nalpha = "
    "0.0\n";

/// The percentage after the word "accuracy" in a command's output; 0 if there is none.
double accuracy_in(const std::string& said) {
  const std::size_t at = said.find("accuracy ");
  return at == std::string::npos ? 0 : std::strtod(said.c_str() + at + 9, nullptr);
}

}  // namespace

TEST_CASE("peers that train a machine of a cluster each answer together by routing", "[process]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, const std::string& config) {
    const std::string file = (folder.path() / (name + ".toml")).string();
    std::ofstream(file) << config;
    std::string output;
    const Ending ended = run_grapevine(
        {"launch", "-n", "3", file, "--folder", (folder.path() / name).string()}, output);
    INFO(output);
    REQUIRE(ended.exit_code == 0);
    return output;
  };
  // Clusters have no labels, so the summary states how much of the scatter they explain.
  const std::string summary = run("clusters", clusters);
  CHECK(summary.find("mean model   R2 0.") != std::string::npos);
  CHECK(summary.find("accuracy") == std::string::npos);
  run("machines", machines);
  const auto peer = [&](std::size_t number) {
    return (folder.path() / "machines" / ("peer-" + std::to_string(number))).string();
  };
  const std::string centres = (folder.path() / "clusters" / "mean.safetensors").string();
  std::string said;
  const auto evaluated = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "eval");
    said.clear();
    return run_grapevine(words, said).exit_code;
  };
  REQUIRE(evaluated({"--route", centres, peer(0), peer(1), peer(2)}) == 0);
  const double together = accuracy_in(said);
  CHECK(together > 85);
  // Each machine was trained only on its own cluster. If a machine is missing, samples of its
  // cluster go to the next nearest machine.
  REQUIRE(evaluated({peer(0)}) == 0);
  CHECK(accuracy_in(said) < together - 15);
  REQUIRE(evaluated({"--route", centres, peer(0), "-", peer(2)}) == 0);
  CHECK(accuracy_in(said) < together - 5);
  CHECK(accuracy_in(said) > 30);
  CHECK(evaluated({"--route", centres, peer(0), peer(1)}) == 2);
  CHECK(said.find("3 centres of 2 numbers for 2 models") != std::string::npos);
  CHECK(evaluated({"--route", peer(0), peer(0)}) == 2);
  CHECK(evaluated({peer(0), peer(1)}) == 2);
  CHECK(said.find("--route") != std::string::npos);
}

}  // namespace gv
