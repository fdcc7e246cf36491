// `grapevine plan` with the real binary: its output and refusals.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

/// A generated task in three stages, with the given mode and pipeline settings.
std::string config_text(const std::string& mode, const std::string& pipeline) {
  return "[run]\npeers = 3\nsteps = 10\nmode = \"" + mode + R"("
[data]
kind = "generated"
[data.generated]
samples = 600
test_samples = 60
[model]
kind = "mlp"
hidden = [32, 16]
[train]
batch = 8
)" + pipeline;
}

struct Planned {
  int exit_code = -1;
  std::string output;
  std::string picture;
};

Planned plan(const std::string& config, const std::vector<std::string>& more = {}) {
  TemporaryFolder folder;
  const auto file = folder.path() / "config.toml";
  const auto svg = folder.path() / "plan.svg";
  std::ofstream(file) << config;
  std::vector<std::string> arguments{"plan", file.string(), "--seconds", "0.2"};
  // A picture needs a pipeline on equal peers.
  const bool has_file =
      std::ranges::any_of(more, [](const std::string& text) { return text.ends_with(".toml"); });
  if (!has_file && std::ranges::find(more, "--svg") == more.end()) {
    arguments.insert(arguments.end(), {"--svg", svg.string()});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  Planned planned;
  planned.exit_code = run_grapevine(arguments, planned.output).exit_code;
  std::ifstream in(svg);
  planned.picture.assign(std::istreambuf_iterator<char>(in), {});
  return planned;
}

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

/// The line that begins with this text, without its leading blanks; empty if there is none.
std::string line_with(const std::string& text, const std::string& begin) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    line.erase(0, line.find_first_not_of(' '));
    if (line.starts_with(begin)) return line;
    at = end + 1;
  }
  return {};
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

const std::string three_stages = "[pipeline]\nends = [1, 3, 5]\nmicro_batches = 4\n";

}  // namespace

TEST_CASE("a plan has a line for every stage and a prediction beside a measurement", "[process]") {
  const Planned planned = plan(config_text("pipeline", three_stages));
  INFO(planned.output);
  REQUIRE(planned.exit_code == 0);
  CHECK(has(planned.output, "3 stages on 3 peers, 4 micro-batches of 8 samples"));
  CHECK(has(planned.output, "ends = [1, 3, 5]"));
  // The layers go from 32 features to 32, to 16, to 10.
  CHECK(has(line_with(planned.output, "0       0      1        1056  "), " "));
  CHECK(has(line_with(planned.output, "1     1-2      1         528  "), " "));
  CHECK(has(line_with(planned.output, "2     3-4      1         170  "), " "));
  CHECK(!line_with(planned.output, "predicted").empty());
  CHECK(!line_with(planned.output, "measured").empty());
  CHECK(has(line_with(planned.output, "peer 2 stage 2"), "0"));
  // Each stage has forward and backward passes, and an update at the end.
  CHECK(count(planned.picture, "class='op ") == 3 * (4 + 4 + 1));
}

TEST_CASE("a plan for more peers than stages has a row for every replica", "[process]") {
  const Planned planned = plan(config_text("pipeline", three_stages), {"--peers", "6"});
  INFO(planned.output);
  REQUIRE(planned.exit_code == 0);
  for (int peer = 0; peer < 6; ++peer) {
    CHECK(!line_with(planned.output, "peer " + std::to_string(peer) + " stage").empty());
  }
}

TEST_CASE("links that cost something make a predicted step longer", "[process]") {
  const auto step_ms = [](const std::vector<std::string>& links) {
    const Planned planned = plan(config_text("pipeline", three_stages), links);
    const std::string line = line_with(planned.output, "predicted");
    return line.empty() ? 0 : std::stod(line.substr(sizeof "predicted" - 1));
  };
  // A step passes forward and backward through two boundaries of 50 ms each. No computation here
  // takes that long.
  CHECK(step_ms({"--latency", "50"}) > 200);
}

TEST_CASE("a slow peer is planned for", "[process]") {
  std::string config = config_text("pipeline", "[pipeline]\nends = [4, 9]\nmicro_batches = 8\n");
  const std::string hidden = "hidden = [32, 16]";
  config.replace(config.find(hidden), hidden.size(), "hidden = [256, 256, 256, 256]");
  // The first layer now has as many inputs as the others, so only the last layer is cheap.
  config.insert(config.find("[model]"), "features = 256\n");
  const auto step_ms = [&](const std::string& speeds) {
    const Planned planned = plan(config, {"--speeds", speeds});
    INFO(planned.output);
    CHECK(planned.exit_code == 0);
    const std::string line = line_with(planned.output, "predicted");
    return line.empty() ? 0 : std::stod(line.substr(sizeof "predicted" - 1));
  };
  // With the configured cut, the slower peer gets the smaller stage, and still holds up the other.
  CHECK(step_ms("1,0.02") > 5 * step_ms("1,1"));
  // The proposed cut leaves the slow peer almost nothing: a last layer of ten units, and perhaps
  // the activation before it, whose cost is too small to measure on a busy machine.
  const Planned planned = plan(config, {"--speeds", "1,0.02"});
  INFO(planned.output);
  CHECK(has(planned.output, "Peers: as fast as this machine by 1, 0.02."));
  const std::string other = line_with(planned.output, "best other measured");
  CHECK((has(other, "ends = [8, 9]") || has(other, "ends = [7, 9]")));
  const Planned refused = plan(config, {"--speeds", "1,0.5", "--peers", "3"});
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.output, "--speeds: 2 of them for 3 peers; give one for each peer"));
}

TEST_CASE("every schedule can be planned", "[process]") {
  for (const std::string kind : {"gpipe", "zero-bubble", "chimera", "pipedream", "2bw"}) {
    const Planned planned = plan(
        config_text("pipeline", "[pipeline]\nstages = 2\nmicro_batches = 4\nschedule = \"" + kind +
                                    "\"\nrecompute = " + (kind == "gpipe" ? "true\n" : "false\n")),
        {"--peers", "4"});
    INFO(kind << "\n" << planned.output);
    CHECK(planned.exit_code == 0);
    CHECK(has(planned.output, kind + ", 2 stages on 4 peers"));
  }
}

TEST_CASE("a plan of another mode is refused in one line with the remedy", "[process]") {
  const Planned planned = plan(config_text("gossip", ""));
  INFO(planned.output);
  CHECK(planned.exit_code == 2);
  CHECK(has(planned.output, "only a pipeline has stages to plan; write mode = \"pipeline\""));
  CHECK(count(planned.output, "\n") == 1);
}

TEST_CASE("a plan of a bad config or a cut that does not fit is refused", "[process]") {
  const Planned bad = plan(config_text("pipeline", "[pipeline]\nstagse = 3\n"));
  INFO(bad.output);
  CHECK(bad.exit_code == 2);
  CHECK(has(bad.output, "stagse"));
  const Planned unfit = plan(config_text("pipeline", "[pipeline]\nends = [1, 9]\n"));
  INFO(unfit.output);
  CHECK(unfit.exit_code == 2);
  CHECK(has(unfit.output, "pipeline.ends"));
  CHECK(plan(config_text("pipeline", three_stages), {"--peers", "0"}).exit_code == 2);
}

TEST_CASE("a plan for speeds or links that are no numbers is refused", "[process]") {
  for (const char* option : {"--speeds", "--bandwidth", "--latency"}) {
    const Planned planned = plan(config_text("pipeline", three_stages), {option, "nan"});
    INFO(planned.output);
    CHECK(planned.exit_code == 2);
    CHECK(has(planned.output, std::string(option) + ": Value nan not in range"));
  }
}

TEST_CASE("a cut keeps to the memory that a stage may need, and says what would do", "[process]") {
  // Because of the wide layer, stages of equal work and stages of equal memory have different cuts.
  const auto with = [](const std::string& limit) {
    std::string text =
        config_text("pipeline", "[pipeline]\nstages = 2\nmicro_batches = 4\n" + limit);
    return plan(text.replace(text.find("[32, 16]"), 8, "[64, 48, 48, 48]"));
  };
  const Planned free = with("");
  REQUIRE(free.exit_code == 0);
  const Planned refused = with("memory_mb = 0.01\n");
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  const std::string words = "with 2 stages one needs ";
  REQUIRE(has(refused.output, words));
  CHECK(has(refused.output, "recompute = true"));
  const std::string least = refused.output.substr(refused.output.find(words) + words.size());
  const double enough = std::stod(least);
  CHECK(with("memory_mb = " + std::to_string(1.001 * enough) + "\n").exit_code == 0);
  CHECK(with("memory_mb = " + std::to_string(0.99 * enough) + "\n").exit_code == 2);
  // Recomputing activations needs less memory.
  CHECK(with("recompute = true\nmemory_mb = " + std::to_string(0.99 * enough) + "\n").exit_code ==
        0);
  const Planned useless =
      plan(config_text("pipeline", three_stages + std::string("memory_mb = 9\n")));
  CHECK(useless.exit_code == 2);
  CHECK(has(useless.output, "memory_mb"));
}

TEST_CASE("unlike peers of a file get a plan for every layer and its settings", "[process]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "peers.toml";
  std::ofstream(file) << "[[peer]]\nname = \"near\"\ngflops = 1\n"
                         "[[peer]]\nname = \"far\"\ngflops = 1\n"
                         "[links]\nlatency_ms = 1000\nbandwidth_mbit = 1\n";
  const std::vector<std::string> with_peers{"--peers", file.string()};
  const Planned planned = plan(config_text("allreduce", ""), with_peers);
  INFO(planned.output);
  REQUIRE(planned.exit_code == 0);
  CHECK(has(planned.output, "a step of 24 samples for the 2 peers"));
  CHECK(has(planned.output, ", without far"));
  CHECK(!line_with(planned.output, "0-1  dense 32").empty());
  CHECK(has(planned.output, "mode = \"allreduce\"\npeers = 1\n[train]\nbatch = 24"));
  const Planned json = plan(config_text("allreduce", ""), {"--peers", file.string(), "--json"});
  CHECK(has(json.output, "\"can_run\": true"));
  std::ofstream(file) << "[[peer]]\nname = \"near\"\n";
  const Planned refused = plan(config_text("allreduce", ""), with_peers);
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.output, "peer[0]: a peer without a speed; add gflops = 8.0"));
  CHECK(count(refused.output, "\n") == 1);
  CHECK(plan(config_text("pipeline", three_stages), {"--json"}).exit_code == 2);
}

TEST_CASE("near peers with wide layers and few samples are planned as a group", "[process]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "peers.toml";
  std::ofstream(file) << "[[peer]]\nname = \"left\"\ngflops = 10\n"
                         "[[peer]]\nname = \"right\"\ngflops = 5\n"
                         "[links]\nlatency_ms = 0.1\nbandwidth_mbit = 1000\n";
  std::string wide = config_text("allreduce", "");
  wide.replace(wide.find("[32, 16]"), 8, "[1024, 1024]");
  const std::vector<std::string> with_peers{"--peers", file.string(), "--samples", "16"};
  const Planned planned = plan(wide, with_peers);
  INFO(planned.output);
  REQUIRE(planned.exit_code == 0);
  CHECK(has(planned.output, "slices: left 0-15, right 16-23"));
  CHECK(has(planned.output, "mode = \"pipeline\"\npeers = 2\n"));
  CHECK(has(planned.output, "group = 2\n"));
  // Each member of a group holds a part of every tensor, but these optimisers need the norm of the
  // whole tensor.
  std::string lars = wide;
  lars.replace(lars.find("batch = 8"), 9, "batch = 8\noptimizer = \"lars\"");
  const Planned without = plan(lars, with_peers);
  REQUIRE(without.exit_code == 0);
  CHECK_FALSE(has(without.output, "group = 2"));
}

TEST_CASE("a search for stages that would take very long is cut short and says so", "[process]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "peers.toml";
  std::ofstream peers(file);
  for (int i = 0; i < 8; ++i)
    peers << "[[peer]]\nname = \"p" << i << "\"\ngflops = " << 1 + i << "\n";
  peers.close();
  std::string hidden = "[8";
  for (int i = 0; i < 40; ++i) hidden += ", 8";
  std::string deep = config_text("allreduce", "");
  deep.replace(deep.find("[32, 16]"), 8, hidden + "]");
  const Planned planned = plan(deep, {"--peers", file.string()});
  INFO(planned.output);
  CHECK(planned.exit_code == 0);
  CHECK(has(planned.output, "the search for 42 layers with parameters and 8 peers was cut short"));
  CHECK(has(planned.output, "plans whose stages share layers in any way"));
  CHECK(has(planned.output, "to search all, list fewer peers"));
  CHECK(has(planned.output, "\nBest: "));
}

TEST_CASE("a plan shows pinned peers and keeps them at their stages", "[process]") {
  TemporaryFolder folder;
  const auto file = folder.path() / "peers.toml";
  std::ofstream(file) << "[[peer]]\nname = \"fast\"\ngflops = 10\n"
                         "[[peer]]\nname = \"slow\"\ngflops = 1\n";
  const std::string pinned =
      config_text("pipeline",
                  "[pipeline]\nstages = 2\nmicro_batches = 4\npins = { slow = 0, fast "
                  "= 1, gone = 1 }\n");
  const Planned planned = plan(pinned, {"--peers", file.string()});
  INFO(planned.output);
  REQUIRE(planned.exit_code == 0);
  CHECK(has(planned.output, "Pinned: fast to stage 1, slow to stage 0.\n"));
  CHECK(has(planned.output, "Pinned, but not among these peers: gone to stage 1.\n"));
  CHECK(has(planned.output, "  samples only  no plan fits and keeps the pins\n"));
  CHECK(has(planned.output, "pins = { fast = 1, gone = 1, slow = 0 }\n"));
  CHECK(has(line_with(planned.output, "0-1  dense 32"), "slow"));
  const Planned json = plan(pinned, {"--peers", file.string(), "--json"});
  CHECK(has(json.output, "\"pins\": {"));
  // The planned settings contain no pins to stages that the plan lacks.
  const Planned shorter = plan(
      config_text("pipeline",
                  "[pipeline]\nstages = 3\nmicro_batches = 4\npins = { slow = 0, fast = 1, gone = "
                  "2 }\n"),
      {"--peers", file.string()});
  INFO(shorter.output);
  CHECK(has(shorter.output, "Pinned, but not among these peers: gone to stage 2.\n"));
  CHECK(has(shorter.output, "pins = { fast = 1, slow = 0 }\n"));
  // Stage 2 needs three peers.
  const Planned refused =
      plan(config_text("pipeline", "[pipeline]\nstages = 3\npins = { slow = 2 }\n"),
           {"--peers", file.string()});
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.output, "pipeline.pins: no plan for the peers of"));
  CHECK(has(refused.output, "pin fewer peers, or to earlier stages"));
}

TEST_CASE("a plan of equal peers pins those that have the names of launched ones", "[process]") {
  const std::string pins = "pins = { peer-2 = 0, desk = 1 }\n";
  const Planned planned = plan(config_text("pipeline", three_stages + pins));
  INFO(planned.output);
  REQUIRE(planned.exit_code == 0);
  CHECK(has(planned.output, "Pinned: peer-2 to stage 0.\n"));
  CHECK(has(planned.output, "Pinned, but not among these peers: desk to stage 1.\n"));
  CHECK(!line_with(planned.output, "peer 2 stage 0").empty());
}

TEST_CASE("a picture that cannot be written is an error", "[process]") {
  const Planned planned =
      plan(config_text("pipeline", three_stages), {"--svg", "/no/such/folder/plan.svg"});
  INFO(planned.output);
  CHECK(planned.exit_code == 2);
  CHECK(has(planned.output, "/no/such/folder/plan.svg: cannot be written"));
}

}  // namespace gv
