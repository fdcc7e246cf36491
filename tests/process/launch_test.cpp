// What `grapevine launch` refuses before it starts a peer, and what it says.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

/// A folder with a config, from which peers are launched into its subfolder "run".
class LaunchedConfig {
 public:
  explicit LaunchedConfig(const std::string& config) {
    std::ofstream(folder_.path() / "run.toml") << config;
  }

  std::string config() const { return (folder_.path() / "run.toml").string(); }
  std::filesystem::path run() const { return folder_.path() / "run"; }

  /// Launches the peers and waits for the end. Returns the exit code, or -1 after a signal.
  int launch(int peers) {
    const Ending ending = run_grapevine(
        {"launch", "-n", std::to_string(peers), config(), "--folder", run().string()}, output);
    return ending.signal == 0 ? ending.exit_code : -1;
  }

  std::string output;

 private:
  TemporaryFolder folder_;
};

const std::string krum =
    "mode = \"mixing\"\nsteps = 20\n[mixing]\nguard = \"krum\"\ntopology = \"complete\"\n";

}  // namespace

TEST_CASE("rules are judged by the number of peers that are launched", "[process]") {
  LaunchedConfig six("[run]\n" + krum);
  // The config leaves run.peers at 4, and krum needs more than 4 models.
  const int ended = six.launch(6);
  INFO(six.output);
  CHECK(ended == 0);
  REQUIRE(std::filesystem::exists(six.run() / "mean.safetensors"));
  std::string evaluation;
  // The model's file states how many peers contributed to it.
  CHECK(run_grapevine({"eval", (six.run() / "mean.safetensors").string()}, evaluation).exit_code ==
        0);
  CHECK(evaluation.starts_with("accuracy "));

  LaunchedConfig four("[run]\npeers = 6\n" + krum);
  CHECK(four.launch(4) == 2);
  CHECK(four.output.find("needs 5 models") != std::string::npos);
  CHECK(four.output.find("has 4") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(four.run()));
}

TEST_CASE("a regression shows its loss and R2 and nowhere an accuracy", "[process]") {
  const TemporaryFolder data;
  Rng rng(1);
  for (const auto& [name, samples] : {std::pair("train.csv", 2000), std::pair("test.csv", 200)}) {
    std::ofstream file(data.path() / name);
    for (int i = 0; i < samples; ++i) {
      const double x = rng.normal();
      const double y = rng.normal();
      file << x << ',' << y << ',' << 3 * x - y + 1 + 0.1 * rng.normal() << '\n';
    }
  }
  // In an all-reduce the result does not depend on the peers' paces.
  const std::string text =
      "[run]\nmode = \"allreduce\"\nsteps = 300\n[data]\nkind = \"csv\"\ncsv_targets = 1\n"
      "folder = \"" +
      data.path().string() +
      "\"\n[model]\nkind = \"linear\"\nloss = \"squared\"\n[train]\nlearning_rate = 0.05\n"
      "[metrics]\nevery_s = 0.1\n";
  LaunchedConfig regression(text);
  const int ended = regression.launch(2);
  INFO(regression.output);
  REQUIRE(ended == 0);
  // The targets have a variance of 3^2 + 1^2 + 0.1^2, of which a good model leaves 0.01.
  const auto shown = [&](const std::filesystem::path& file) {
    return read_text(regression.run() / file);
  };
  const auto summary = nlohmann::json::parse(shown("summary.json"));
  CHECK(summary.value("mean_r2", 0.0) > 0.99);
  CHECK(summary.value("worst_r2", 0.0) > 0.99);
  CHECK(summary.value("mean_loss", 1.0) < 0.05);
  for (const auto& peer : summary["peers"]) {
    CHECK(peer.value("r2", 0.0) > 0.99);
    CHECK(peer.value("loss", 1.0) < 0.05);
  }
  CHECK(regression.output.find("mean model   R2 0.99") != std::string::npos);
  CHECK(regression.output.find("worst peer   R2 0.99") != std::string::npos);
  for (const std::string& said : {regression.output, shown("summary.json"),
                                  shown("peer-0/output.log"), shown("peer-0/metrics.prom")}) {
    CHECK(said.find("accuracy") == std::string::npos);
  }
  std::string evaluation;
  const auto mean = (regression.run() / "mean.safetensors").string();
  REQUIRE(run_grapevine({"eval", mean, "--sharpness"}, evaluation).exit_code == 0);
  CHECK(evaluation.starts_with("R2 0.99"));
  CHECK(evaluation.find("  loss 0.0") != std::string::npos);
  CHECK(evaluation.find("\nsharpness ") != std::string::npos);

  std::string simulated;
  const auto folder = (data.path() / "sim").string();
  REQUIRE(run_grapevine({"sim", regression.config(), "--folder", folder}, simulated).exit_code ==
          0);
  CHECK(simulated.find("R2 0.9") != std::string::npos);
  CHECK(simulated.find("accuracy") == std::string::npos);
}

TEST_CASE("a run in a used folder shows its own models", "[process]") {
  const auto text = [](int steps) {
    return "[run]\nbudget = \"peer\"\nsteps = " + std::to_string(steps) + "\n";
  };
  LaunchedConfig run(text(60));
  REQUIRE(run.launch(2) == 0);
  std::ofstream(run.config()) << text(20);
  run.output.clear();
  REQUIRE(run.launch(2) == 0);
  INFO(run.output);
  const std::filesystem::path peer = run.run() / "peer-0";
  CHECK(std::filesystem::exists(peer / "earlier-1" / "checkpoints"));
  std::ifstream summary(run.run() / "summary.json");
  CHECK(nlohmann::json::parse(summary)["steps"] == 40);
}

TEST_CASE("a launch whose results cannot be written fails", "[process]") {
  LaunchedConfig run("[run]\nsteps = 20\n");
  std::filesystem::create_directories(run.run() / "summary.json");
  CHECK(run.launch(2) == 1);
  CHECK(run.output.find("summary.json: cannot be written") != std::string::npos);
}

TEST_CASE("a launch draws how the models have moved", "[process]") {
  LaunchedConfig run("[run]\nbudget = \"peer\"\nsteps = 60\n[checkpoint]\nevery_steps = 20\n");
  REQUIRE(run.launch(2) == 0);
  const std::filesystem::path picture = run.run() / "models.svg";
  CHECK_THAT(run.output, Catch::Contains("picture      " + picture.string()));
  CHECK(read_text(picture).starts_with("<svg"));
}

TEST_CASE("a launch can be ended while it evaluates", "[process]") {
  // Generating the test data and evaluating two models takes much longer than inspecting the
  // process.
  LaunchedConfig config(
      "[run]\nsteps = 2\n[data.generated]\nsamples = 100\ntest_samples = 2000000\n"
      "features = 16\n");
  ChildProcess launcher(
      {grapevine_binary(), "launch", "-n", "1", config.config(), "--folder", config.run().string()},
      config.run().parent_path() / "output");
  using namespace std::chrono_literals;
  const auto result = config.run() / "peer-0" / "result.json";
  REQUIRE(eventually([&] { return std::filesystem::exists(result); }, 60s));
  REQUIRE(eventually(
      [&] {
        launcher.signal(SIGTERM);
        return launcher.ending().has_value();
      },
      60s));
  CHECK(launcher.ending()->signal == SIGTERM);
  CHECK_FALSE(std::filesystem::exists(config.run() / "summary.json"));
}

TEST_CASE("peers that send factors learn with a growing batch", "[process]") {
  LaunchedConfig config(
      "[run]\nmode = \"allreduce\"\nepochs = 4\nwait_for_peers = 2\n[data.generated]\n"
      "samples = 4096\ntest_samples = 512\n[model]\nkind = \"mlp\"\nhidden = [256, 128]\n[train]\n"
      "batch = 4\nschedule = \"growing_batch\"\nstep_at = [100]\nbatch_factor = 16\n"
      "batch_growths = 1\n[allreduce]\nsufficient_factors = true\n");
  // From step 100 on, no layer is sent as factors. tests/sim/factors_test.cpp counts the bytes.
  CHECK(config.launch(2) == 0);
  INFO(config.output);
  const auto summary = nlohmann::json::parse(read_text(config.run() / "summary.json"));
  CHECK(summary["mean_accuracy"] > 0.8);
}

TEST_CASE("a launch can be ended while a program of the user's has not joined", "[process]") {
  using namespace std::chrono_literals;
  LaunchedConfig config("[run]\nsteps = 20\n");
  const auto output = config.run().parent_path() / "output";
  ChildProcess launcher({grapevine_binary(), "launch", "-n", "2", config.config(), "--folder",
                         config.run().string(), "--", "/bin/sleep", "300"},
                        output);
  REQUIRE(eventually(
      [&] { return std::filesystem::exists(config.run() / "peer-0" / "output.log"); }, 60s));
  launcher.signal(SIGINT);
  REQUIRE(eventually([&] { return launcher.ending().has_value(); }, 20s));
  CHECK(launcher.ending()->exit_code == 130);
  CHECK_THAT(read_text(output), Catch::Contains("the programs are interrupted") &&
                                    Catch::Contains("stopped before training began"));
  CHECK_FALSE(std::filesystem::exists(config.run() / "peer-1" / "output.log"));
}

TEST_CASE("a folder in which a launcher works is refused to another and stays as it is",
          "[process]") {
  using namespace std::chrono_literals;
  LaunchedConfig config("[run]\nbudget = \"peer\"\nsteps = 100000000\n");
  ChildProcess launcher(
      {grapevine_binary(), "launch", "-n", "3", config.config(), "--folder", config.run().string()},
      config.run().parent_path() / "output");
  const auto list = config.run() / "authorized_peers";
  REQUIRE(eventually(
      [&] { return std::filesystem::exists(config.run() / "peer-2" / "output.log"); }, 60s));
  const std::string before = read_text(list);
  CHECK(config.launch(2) == 2);
  CHECK_THAT(config.output, Catch::Contains("another launcher runs peers in this folder (pid " +
                                            std::to_string(launcher.pid()) + ")"));
  CHECK(read_text(list) == before);
  launcher.signal(SIGTERM);
  CHECK(eventually([&] { return launcher.ending().has_value(); }, 60s));
}

TEST_CASE("a run that was stopped before its end shows no result of the run before", "[process]") {
  using namespace std::chrono_literals;
  LaunchedConfig config("[run]\nsteps = 20\n");
  REQUIRE(config.launch(2) == 0);
  REQUIRE(std::filesystem::exists(config.run() / "mean.safetensors"));
  const auto final_model = config.run() / "peer-0" / "final.safetensors";
  REQUIRE(std::filesystem::exists(final_model));
  std::ofstream(config.config()) << "[run]\nsteps = 100000000\n[checkpoint]\nevery_steps = 200\n";
  ChildProcess launcher({grapevine_binary(), "launch", "-n", "2", config.config(), "--folder",
                         config.run().string(), "--resume"},
                        config.run().parent_path() / "output");
  CHECK(eventually([&] { return !std::filesystem::exists(final_model); }, 60s));
  CHECK_FALSE(std::filesystem::exists(config.run() / "mean.safetensors"));
  CHECK_FALSE(std::filesystem::exists(config.run() / "summary.json"));
  launcher.signal(SIGKILL);
  CHECK(eventually([&] { return launcher.ending().has_value(); }, 60s));
}

TEST_CASE("a launch says what is wrong with its folder", "[process]") {
  LaunchedConfig run("[run]\nsteps = 20\n");
  std::string output;
  CHECK(run_grapevine({"launch", "--folder", run.config()}, output).exit_code == 2);
  const std::string remedy = " cannot be a folder: Not a directory; name another one\n";
  CHECK(output == "--folder: " + run.config() + remedy);
  CHECK(run_grapevine({"launch", "--folder", run.config() + "/below"}, output).exit_code == 2);
  CHECK(output == "--folder: " + run.config() + "/below" + remedy);
}

TEST_CASE("a launch says that a run to go on with is not there", "[process]") {
  LaunchedConfig run("[run]\nsteps = 20\n");
  std::string output;
  const std::vector<std::string> resume{
      "launch", "-n", "1", run.config(), "--folder", run.run().string(), "--resume"};
  CHECK(run_grapevine(resume, output).exit_code == 0);
  CHECK_THAT(output, Catch::Contains("no run to go on with is in " + run.run().string()));
  CHECK(run_grapevine(resume, output).exit_code == 0);
  CHECK_THAT(output, !Catch::Contains("no run to go on with"));
}

TEST_CASE("a word that is no command is named with the nearest command", "[process]") {
  std::string output;
  CHECK(run_grapevine({"launhc", "run.toml"}, output).exit_code == 2);
  CHECK(output == "launhc: no such command; the nearest is launch; grapevine --help lists all\n");
}

TEST_CASE("options that a command would ignore are refused", "[process]") {
  const LaunchedConfig run("[run]\nsteps = 20\n");
  const auto refusal = [](std::vector<std::string> arguments) {
    std::string output;
    CHECK(run_grapevine(std::move(arguments), output).exit_code != 0);
    return output;
  };
  CHECK_THAT(refusal({"launch", run.config(), "--resume"}), Catch::Contains("add --folder"));
  CHECK_THAT(refusal({"sim", run.config(), "--swarm", "5"}), Catch::Contains("excludes"));
  CHECK_THAT(refusal({"plan", run.config(), "--peers", "peers.toml", "--svg", "a.svg"}),
             Catch::Contains("--svg: draws"));
  CHECK_THAT(refusal({"plan", run.config(), "--peers", "peers.toml", "--bandwidth", "10"}),
             Catch::Contains("--bandwidth"));
}

TEST_CASE("what shows when a model meets its data is refused before anything starts", "[process]") {
  const std::string text = "[run]\nsteps = 20\n[model]\nkind = \"linear\"\nloss = \"squared\"\n";
  LaunchedConfig squared(text);
  CHECK(squared.launch(2) == 2);
  CHECK(squared.output == squared.config() +
                              ":5: model.loss: the data has labels, not targets; use loss = "
                              "\"cross_entropy\" or \"hinge\"\n");
  CHECK_FALSE(std::filesystem::exists(squared.run()));

  LaunchedConfig narrow("[run]\nmode = \"pipeline\"\nsteps = 20\n[pipeline]\nmemory_mb = 0.001\n");
  CHECK(narrow.launch(2) == 2);
  CHECK(narrow.output.starts_with(narrow.config() + ":5: pipeline.memory_mb: "));
  CHECK_FALSE(std::filesystem::exists(narrow.run()));

  LaunchedConfig few("[run]\nsteps = 20\n[data.generated]\nsamples = 3\n");
  CHECK(few.launch(4) == 2);
  CHECK(few.output.starts_with("-n: 3 samples cannot be dealt out to 4 peers"));
  CHECK_FALSE(std::filesystem::exists(few.run()));
}

TEST_CASE("a launch without a number of peers goes by its config and a resume by its run",
          "[process]") {
  LaunchedConfig run("[run]\npeers = 2\nsteps = 20\n[data.generated]\nnoise = 0.25\n");
  std::string output;
  const std::string folder = run.run().string();
  REQUIRE(run_grapevine({"launch", run.config(), "--folder", folder}, output).exit_code == 0);
  CHECK(output.starts_with("2 peers train"));
  // Neither the number of peers nor the config is named again.
  REQUIRE(
      run_grapevine({"launch", run.config(), "-n", "3", "--folder", folder}, output).exit_code ==
      0);
  REQUIRE(run_grapevine({"launch", "--folder", folder, "--resume"}, output).exit_code == 0);
  CHECK(output.starts_with("3 peers train"));
  CHECK(std::filesystem::read_symlink(run.run() / "launched.toml") == run.config());

  std::filesystem::remove(run.config());
  CHECK(run_grapevine({"launch", "--folder", folder, "--resume"}, output).exit_code == 2);
  CHECK_THAT(output, Catch::Contains("CONFIG: the config of the run in " + folder +
                                     " cannot be found; name the config of that run"));
  const LaunchedConfig many("[run]\npeers = 257\nsteps = 20\n");
  CHECK(run_grapevine({"launch", many.config()}, output).exit_code == 2);
  CHECK(output == "run.peers: 257 peers are too many for one machine; write -n and at most 256\n");
}

TEST_CASE("the built-in config of a run is kept and the file of a named one is not changed",
          "[process]") {
  LaunchedConfig run("[run]\npeers = 1\nsteps = 20\n");
  const std::string before = read_text(run.config());
  std::string output;
  const std::string folder = run.run().string();
  REQUIRE(run_grapevine({"launch", run.config(), "--folder", folder}, output).exit_code == 0);
  REQUIRE(run_grapevine({"launch", "-n", "1", "--folder", folder}, output).exit_code == 0);
  CHECK(read_text(run.config()) == before);
  CHECK_FALSE(std::filesystem::is_symlink(run.run() / "launched.toml"));
  CHECK(run_grapevine({"launch", "--folder", folder, "--resume"}, output).exit_code == 0);
  CHECK(output.starts_with("1 peers train"));
}

TEST_CASE("an interrupt before any peer has begun is no failure of a peer", "[process]") {
  using namespace std::chrono_literals;
  LaunchedConfig config("[run]\npeers = 2\nsteps = 100000000\n");
  const auto output = config.run().parent_path() / "output";
  ChildProcess launcher(
      {grapevine_binary(), "launch", config.config(), "--folder", config.run().string()}, output);
  // The launcher makes this file when it starts the peer, before the peer itself begins to train.
  REQUIRE(eventually(
      [&] { return std::filesystem::exists(config.run() / "peer-0" / "output.log"); }, 60s));
  launcher.signal(SIGINT);
  REQUIRE(eventually([&] { return launcher.ending().has_value(); }, 60s));
  const std::string said = read_text(output);
  INFO(said);
  CHECK_THAT(said, !Catch::Contains("killed by signal"));
  // A peer that was quick enough to have a model is evaluated.
  const bool has_begun = said.find("mean model") != std::string::npos;
  CHECK(launcher.ending()->exit_code == (has_begun ? 0 : 130));
  CHECK((said.find("stopped before training began") == std::string::npos) == has_begun);
}

TEST_CASE("a summary after Ctrl-C and a resume says what it counts and that models differ",
          "[process]") {
  using namespace std::chrono_literals;
  LaunchedConfig config("[run]\npeers = 2\nsteps = 100000000\n[checkpoint]\nevery_steps = 100\n");
  const auto output = config.run().parent_path() / "output";
  std::vector<std::string> words{grapevine_binary(), "launch", config.config(), "--folder",
                                 config.run().string()};
  for (const bool resumes : {false, true}) {
    if (resumes) words.emplace_back("--resume");
    std::filesystem::remove(output);
    ChildProcess launcher(words, output);
    // The launcher shows the samples of the peers every five seconds.
    REQUIRE(
        eventually([&] { return read_text(output).find("exchanges") != std::string::npos; }, 60s));
    launcher.signal(SIGINT);
    REQUIRE(eventually([&] { return launcher.ending().has_value(); }, 60s));
    const std::string said = read_text(output);
    INFO(said);
    CHECK_THAT(said, Catch::Contains("one model    none: the peers' models differ"));
    CHECK((said.find("since the peers' last starts: peer-0 ") != std::string::npos) == resumes);
  }
}

TEST_CASE("the time left that a launch shows ends with the run's time", "[process]") {
  LaunchedConfig config("[run]\npeers = 1\nsteps = 100000000\nwall_s = 8\n");
  CHECK(config.launch(1) == 0);
  INFO(config.output);
  const std::string words = "samples  about ";
  const std::size_t at = config.output.find(words);
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(config.output.substr(at + words.size())) <= 8);
}

TEST_CASE("a folder that cannot be written to is refused by launch and sim", "[process]") {
  const LaunchedConfig run("[run]\nsteps = 20\n");
  std::string output;
  // Not even root can write there.
  CHECK(run_grapevine({"launch", "-n", "1", run.config(), "--folder", "/proc/self"}, output)
            .exit_code == 2);
  CHECK_THAT(output, Catch::Contains("--folder: /proc/self cannot be written to: ") &&
                         Catch::Contains("; name another one"));
  CHECK(run_grapevine({"sim", run.config(), "--folder", "/proc/self/s"}, output).exit_code == 2);
  CHECK_THAT(output, Catch::Contains("--folder: /proc/self/s cannot be a folder: "));
}

TEST_CASE("what a person writes by mistake is answered in one sentence", "[process]") {
  const LaunchedConfig run("[run]\npeers = 1\nsteps = 20\n");
  struct Row {
    std::vector<std::string> words;
    std::string said;
  };
  const std::vector<Row> rows{
      {{"xyzzy"}, "xyzzy: no such command; grapevine --help lists all\n"},
      {{"launch", run.config(), "python3", "x"}, "put -- before the program"},
      {{"launch", "-"}, "-: a config must be a regular file"},
      {{"peer", "--lane-port", "70000"}, "--lane-port: not a port: 0 to 65535"},
      {{"create", "--listen", ":70000"}, "--listen: not a port: 0 to 65535"},
      {{"sim", "--seed", "-1"}, "--seed: not a whole number: -1"},
      {{"env", "--rank", "-1"}, "--rank: not a whole number: -1"},
      {{"switch", "nowhere", "alreduce"},
       "alreduce: no such mode or algorithm; the nearest is allreduce; the modes are "},
      {{"switch", "nowhere", "choco", "--set", "gamma=2"},
       "gamma: no such setting; write mixing.gamma\n"},
      {{"switch", "nowhere", "--set", "mixing.gama=2"},
       "mixing.gama: no such setting; the nearest valid one is mixing.gamma\n"},
  };
  for (const Row& row : rows) {
    std::string output;
    CHECK(run_grapevine(row.words, output).exit_code == 2);
    CHECK_THAT(output, Catch::Contains(row.said));
  }
  for (const char* word : {"help", "version"}) {
    std::string with_dashes, without;
    CHECK(run_grapevine({std::string("--") + word}, with_dashes).exit_code == 0);
    CHECK(run_grapevine({word}, without).exit_code == 0);
    CHECK(without == with_dashes);
  }
  std::string help;
  CHECK(run_grapevine({"topology", "--help"}, help).exit_code == 0);
  CHECK_THAT(help, Catch::Contains("from 1 to 64") && !Catch::Contains(" in ["));
}

TEST_CASE("a public key whose line was lost is shown again", "[process]") {
  const TemporaryFolder folder;
  const std::string key = (folder.path() / "key").string();
  std::string output;
  const std::vector<std::string> full{"-c", "exec \"$0\" keygen \"$1\" --name desk >/dev/full",
                                      grapevine_binary(), key};
  std::vector<std::string> words{"/bin/sh"};
  words.insert(words.end(), full.begin(), full.end());
  ChildProcess keygen(words, folder.path() / "said");
  using namespace std::chrono_literals;
  REQUIRE(eventually([&] { return keygen.ending().has_value(); }, 20s));
  CHECK(keygen.ending()->exit_code == 1);
  const std::string before = read_text(key);
  CHECK(run_grapevine({"keygen", key, "--name", "desk"}, output).exit_code == 2);
  CHECK_THAT(output, Catch::Contains("authorized_peers: desk ed25519:"));
  CHECK(read_text(key) == before);
}

}  // namespace gv
