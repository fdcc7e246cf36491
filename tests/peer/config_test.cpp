// A config is read strictly, every mistake is reported with its place and remedy, and nothing is
// guessed.
#include "peer/config/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.hpp"
#include "peer/config/config_settings.hpp"
#include "peer/config/toml.hpp"
#include "tests/peer/config_texts.hpp"
#include "tests/settings_reference.hpp"
#include "train/layers/convolution_method.hpp"

namespace gv {
namespace {

/// The reference page of all keys, with one table for each section.
std::string config_reference() {
  std::string text;
  std::string_view section;
  for (const Setting<Config>& setting : config_settings()) {
    if (setting.section != section) {
      text += (text.empty() ? "## [" : "\n## [") + std::string(setting.section) + "]\n\n" +
              settings_head;
      section = setting.section;
    }
    text += settings_row(setting);
  }
  return text +
         "\n## [[model.layers]]\n\nOne table for each layer, first to last; only with model.kind = "
         "\"layers\".\n\n" +
         settings_table(layer_settings());
}

}  // namespace

TEST_CASE("twelve different mistakes are all listed with place and reason and remedy", "[unit]") {
  const std::string path = std::string(GRAPEVINE_SOURCE_DIR) + "/tests/bad_configs/twelve.toml";
  const Problems problems = parse_config_file(path).problems;
  INFO(lines(problems));
  // The expected line, the end of the place, and parts of the reason and of the remedy.
  struct Expected {
    int line;
    std::string key, reason, remedy;
  };
  const std::vector<Expected> expected{
      {4, "run.sed", "unknown key", "seed"},
      {5, "run.peers", "wrong type", "whole number"},
      {6, "run.epochs", "out of range", "above 0"},
      {11, "data.train_files", "no such file", "data.folder"},
      {13, "data.alpha", "unknown key", "[gossip]"},
      {15, "[modle]", "unknown section", "[model]"},
      {16, "model.kind", "unknown value \"mpl\"", "\"mlp\""},
      {20, "batch", "duplicate key", "keep one"},
      {21, "train.beta1", "no effect", "adam"},
      {22, "learning_rate", "neither in quotes", "\"fast\""},
      {25, "answer_deadline_s", "wrong unit", "only the number"},
      {26, "gossip.period_epochs", "wrong unit", "period_steps"},
  };
  CHECK(problems.size() == expected.size());
  for (const Expected& wanted : expected) {
    const std::string place = path + ":" + std::to_string(wanted.line) + ": ";
    bool found = false;
    for (const Problem& problem : problems) {
      found = found || (problem.place.starts_with(place) && problem.place.ends_with(wanted.key) &&
                        problem.reason.find(wanted.reason) != std::string::npos &&
                        problem.remedy.find(wanted.remedy) != std::string::npos);
    }
    INFO("line " << wanted.line << " " << wanted.key);
    CHECK(found);
  }
}

TEST_CASE("problems are listed in the order of their lines", "[unit]") {
  const Problems problems = problems_of("[train]\nbatc = 1\nbatch = 0\n[run]\nseed = -1\n");
  REQUIRE(problems.size() == 3);
  CHECK(problems[0].place == "a.toml:2: train.batc");
  CHECK(problems[1].place == "a.toml:3: train.batch");
  CHECK(problems[2].place == "a.toml:5: run.seed");
}

TEST_CASE("an empty file means the defaults", "[unit]") {
  const Config config = sound("");
  for (const Setting<Config>& setting : config_settings()) {
    INFO(setting.section << "." << setting.key);
    CHECK(setting.show(config) == setting.show(Config{}));
  }
}

TEST_CASE("every setting reads back what it shows", "[unit]") {
  // Detects a key that is bound to the wrong field, or a default outside its own range.
  for (const Setting<Config>& setting : config_settings()) {
    // These settings have no default.
    if (setting.path() == "data.folder" || setting.path() == "data.centres") continue;
    const std::string text = "value = " + setting.show(Config{});
    INFO(setting.section << "." << setting.key << ": " << text);
    Problems problems;
    const TomlTable table = read_toml(text, "shown", problems);
    REQUIRE(problems.empty());
    Config config;
    CHECK_FALSE(setting.read(table.at("value"), config).has_value());
    CHECK(setting.show(config) == setting.show(Config{}));
  }
}

TEST_CASE("no two settings share a field", "[unit]") {
  // Each setting in turn gets a different value. All others must still show their defaults.
  for (const Setting<Config>& setting : config_settings()) {
    const Config config = with_another(setting);
    INFO(setting.path());
    CHECK(setting.show(config) != setting.show(Config{}));
    for (const Setting<Config>& other : config_settings()) {
      if (&other != &setting) CHECK(other.show(config) == other.show(Config{}));
    }
  }
}

TEST_CASE("the settings of one section stand together and no key stands twice", "[unit]") {
  std::set<std::string> finished, keys;
  std::string current;
  for (const Setting<Config>& setting : config_settings()) {
    if (setting.section != current) {
      CHECK(finished.insert(std::string(setting.section)).second);
      current = setting.section;
    }
    CHECK(keys.insert(current + "." + std::string(setting.key)).second);
  }
}

TEST_CASE("values arrive in their fields", "[unit]") {
  const Config config = sound(
      "[run]\nseed = 42\nsteps = 500\n[model]\nkind = \"mlp\"\nhidden = [256, 128]\n"
      "[train]\noptimizer = \"adam\"\nbeta1 = 0.8\nlearning_rate = 1\n"
      "[gossip]\ncodec = \"bf16\"\nalpha_schedule = \"with_learning_rate\"\n"
      "answer_deadline_s = 0.25\n[membership]\nprobe_period_s = 2\n[network]\ntrusted = true\n");
  CHECK(config.run.seed == 42);
  CHECK(config.run.steps == 500);
  CHECK(config.model.hidden == std::vector<std::size_t>{256, 128});
  CHECK(config.train.optimizer.kind == OptimizerKind::adam);
  CHECK(config.train.optimizer.beta1 == 0.8);
  CHECK(config.train.schedule.learning_rate == 1.0);
  CHECK(config.gossip.codec == Codec::bf16);
  CHECK(config.gossip.alpha_with_learning_rate);
  CHECK(config.gossip.answer_deadline == std::chrono::milliseconds(250));
  CHECK(config.membership.probe_period == std::chrono::seconds(2));
  CHECK(config.network.trusted);
}

TEST_CASE("inline tables and dotted keys say the same as sections", "[unit]") {
  const Config a = sound("[data.generated]\nsamples = 10\nclasses = 3\n");
  const Config b = sound("data.generated.samples = 10\ndata.generated.classes = 3\n");
  const Config c = sound("[data]\ngenerated = {samples = 10, classes = 3}\n");
  for (const Config& config : {a, b, c}) {
    CHECK(config.data.generated.samples == 10);
    CHECK(config.data.generated.classes == 3);
  }
}

TEST_CASE("a list of layers is read in order", "[unit]") {
  const Config config = sound(
      "[model]\nkind = \"layers\"\n[[model.layers]]\nkind = \"conv2d\"\nunits = 8\nkernel = 3\n"
      "[[model.layers]]\nkind = \"dropout\"\nrate = 0.25\n[[model.layers]]\nkind = \"dense\"\n"
      "units = 10\n");
  REQUIRE(config.model.layers.size() == 3);
  CHECK(config.model.layers[0].kind == LayerKind::conv2d);
  CHECK(config.model.layers[0].units == 8);
  CHECK(config.model.layers[1].rate == 0.25);
  CHECK(config.model.layers[2].kind == LayerKind::dense);
}

TEST_CASE("mistakes inside a layer name the layer", "[unit]") {
  const Problems problems = problems_of(
      "[model]\nkind = \"layers\"\n[[model.layers]]\nkind = \"dense\"\nunits = 10\nkernel = 3\n"
      "[[model.layers]]\nunit = 10\n");
  INFO(lines(problems));
  REQUIRE(problems.size() == 3);
  CHECK(problems[0].place == "a.toml:6: model.layers[0].kernel");
  CHECK(problems[0].reason == "has no effect here");
  CHECK(problems[1].place == "a.toml:7: model.layers[1]");
  CHECK(problems[2].place == "a.toml:8: model.layers[1].unit");
  CHECK(problems[2].remedy == "the nearest valid one is units");
}

TEST_CASE("a list of layers without kind layers is refused", "[unit]") {
  const Problem problem = only_problem("[[model.layers]]\nkind = \"relu\"\n");
  CHECK(problem.remedy.find("kind = \"layers\"") != std::string::npos);
}

TEST_CASE("kind layers without a list is refused", "[unit]") {
  CHECK(only_problem("[model]\nkind = \"layers\"\n").place == "a.toml:2: model.kind");
}

TEST_CASE("a duplicate key names the line it was first set on", "[unit]") {
  const Problem problem = only_problem("[run]\nseed = 1\npeers = 2\nseed = 3\n");
  CHECK(problem.place == "a.toml:4: seed");
  CHECK(problem.reason == "duplicate key, first set on line 2");
}

TEST_CASE("a duplicate section is a problem and its keys are still judged", "[unit]") {
  const Problems problems = problems_of("[run]\nseed = 1\n[run]\npeer = 2\n");
  INFO(lines(problems));
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].reason == "duplicate section, first opened on line 1");
  CHECK(problems[1].remedy == "the nearest valid one is peers");
}

TEST_CASE("an unclosed list spoils its own statement alone", "[unit]") {
  const Problems problems = problems_of("[model]\nhidden = [64,\nkind = \"mlp\"\n[run]\nsed = 1\n");
  INFO(lines(problems));
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].place == "a.toml:2: hidden");
  CHECK(problems[1].place == "a.toml:5: run.sed");
}

TEST_CASE("an unclosed text spoils its own line alone", "[unit]") {
  const Problems problems = problems_of("[run]\nfolder = \"runs\nsed = 1\n");
  INFO(lines(problems));
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].place == "a.toml:2: folder");
  CHECK(problems[1].place == "a.toml:3: run.sed");
}

TEST_CASE("a broken header leaves the keys below it unjudged", "[unit]") {
  const Problem problem = only_problem("[train\nbatch = 0\n[run]\nseed = 1\n");
  CHECK(problem.place.starts_with("a.toml:1"));
}

TEST_CASE("lists and texts over several lines are read whole", "[unit]") {
  const Config config = sound(
      "[model]\nhidden = [  # widths\n  64,\n  32,\n]\n[run]\nfolder = \"\"\"\nseed = 9\"\"\"\n");
  CHECK(config.model.hidden == std::vector<std::size_t>{64, 32});
  CHECK(config.run.folder == "seed = 9");
  CHECK(config.run.seed == 1);
}

TEST_CASE("line ends of Windows and a byte order mark are harmless", "[unit]") {
  CHECK(sound("\xEF\xBB\xBF[run]\r\nseed = 3\r\n").run.seed == 3);
}

TEST_CASE("names of earlier versions are refused with what they are now", "[unit]") {
  const auto remedy = [](const std::string& text) { return only_problem(text).remedy; };
  CHECK(remedy("[run]\nmode = \"ring\"\n") == "write \"allreduce\"");
  CHECK(remedy("[run]\nmode = \"rounds\"\n") == "write \"mixing\"");
  const std::string mixing = "[run]\nmode = \"mixing\"\n[mixing]\n";
  CHECK(remedy(mixing + "memory = \"replica\"\n") == "write \"replicated_difference\"");
  CHECK(remedy(mixing + "memory = \"reference\"\n") == "write \"difference\"");
  CHECK(remedy(mixing + "memory = \"error\"\n") == "write \"error_feedback\"");
  CHECK(remedy(mixing + "kind = \"shadow\"\n") == "write \"companion\"");
  const std::string allreduce = "[run]\nmode = \"allreduce\"\n";
  CHECK(remedy(allreduce + "[allreduce]\nkeep_per_block = 8\n") == "write top_k_per_512");

  // An old section is reported only once, and its keys are checked as keys of the new section.
  const Problem section = only_problem(allreduce + "[ring]\nperiod = 4\n");
  CHECK(section.place == "a.toml:3: [ring]");
  CHECK(section.reason == "was renamed");
  CHECK(section.remedy == "write [allreduce]");
  CHECK(parse_config_text(allreduce + "[ring]\nperiot = 4\n", "a.toml").problems.size() == 2);
}

TEST_CASE("infinity and nan are out of range", "[unit]") {
  CHECK(only_problem("[gossip]\nalpha = nan\n").reason == "out of range: nan");
  CHECK(only_problem("[gossip]\nclip_radius = inf\n").reason == "out of range: inf");
}

TEST_CASE("a whole number is a number but not the other way round", "[unit]") {
  CHECK(sound("[gossip]\nalpha = 1\n").gossip.alpha == 1.0);
  CHECK(only_problem("[train]\nbatch = 64.0\n").reason == "wrong type: a number");
}

TEST_CASE("missing data files are listed with the package that has them", "[unit]") {
  const Problems problems =
      problems_of("[data]\nkind = \"idx\"\nfolder = \"/usr/share/datasets/fashion-mnist-x\"\n");
  INFO(lines(problems));
  REQUIRE(problems.size() == 4);
  CHECK(problems[0].reason ==
        "no such file: /usr/share/datasets/fashion-mnist-x/train-images-idx3-ubyte.gz");
  CHECK(problems[0].remedy == "install it: apt-get install dataset-fashion-mnist");
}

TEST_CASE("a data kind of files without a folder is refused", "[unit]") {
  CHECK(only_problem("[data]\nkind = \"csv\"\n").remedy.find("folder") != std::string::npos);
}

TEST_CASE("relative data folders start at the config file", "[unit]") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("grapevine_config_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "data");
  for (const char* name : {"train.csv", "test.csv"})
    std::ofstream(folder / "data" / name) << "1,0\n";
  std::ofstream(folder / "a.toml") << "[data]\nkind = \"csv\"\nfolder = \"data\"\n";
  const ParsedConfig parsed = parse_config_file((folder / "a.toml").string());
  std::filesystem::remove_all(folder);
  INFO(lines(parsed.problems));
  CHECK(parsed.problems.empty());
  CHECK(std::filesystem::path(parsed.config.data.folder) == folder / "data");
  CHECK(parsed.config.data.train_files == std::vector<std::string>{"train.csv"});
}

TEST_CASE("a config file that is not there is a problem", "[unit]") {
  CHECK(parse_config_file("/nonexistent.toml").problems.size() == 1);
  CHECK(parse_config_file("/").problems.size() == 1);
}

TEST_CASE("the default config is sound and needs no files", "[unit]") {
  CHECK(default_config().data.kind == DataKind::generated);
}

TEST_CASE("every shipped config is sound", "[unit]") {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(GRAPEVINE_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    Problems problems = parse_config_file(entry.path().string()).problems;
    // The data packages may be missing on this machine.
    std::erase_if(problems, [](const Problem& problem) {
      return problem.reason.starts_with("no such file");
    });
    INFO(lines(problems));
    CHECK(problems.empty());
    ++count;
  }
  CHECK(count >= 4);
}

TEST_CASE("a text and a transformer are read with their settings", "[unit]") {
  const std::string path = std::string(GRAPEVINE_SOURCE_DIR) + "/configs/text.toml";
  const ParsedConfig parsed = parse_config_file(path);
  INFO(lines(parsed.problems));
  REQUIRE(parsed.problems.empty());
  CHECK(parsed.config.data.kind == DataKind::text);
  CHECK(parsed.config.data.context == 128);
  CHECK(parsed.config.data.test_files.empty());
  const ModelSpec model = model_spec(parsed.config.model, 256);
  CHECK(model.layers.size() == 1 + 2 * 4 + 2);
  CHECK(model.layers.front().vocabulary == 256);
  CHECK(model.layers.back().tied);
}

TEST_CASE("a config inside a checkpoint finds its data where the run found it", "[unit]") {
  const std::string text =
      "[data]\nkind = \"text\"\nfolder = \"text\"\ntrain_files = [\"vineyard.txt\"]\n";
  const std::string folder = std::string(GRAPEVINE_SOURCE_DIR) + "/configs/text";
  CHECK(parse_config_text(text, "elsewhere/a.toml").problems.size() == 1);
  const ParsedConfig parsed = parse_config_text(text, "elsewhere/a.toml", {.data_folder = folder});
  CHECK(parsed.problems.empty());
  CHECK(parsed.config.data.folder == folder);
}

TEST_CASE("layers inside a residual layer are read and judged like others", "[unit]") {
  const std::string head =
      "[model]\nkind = \"layers\"\n[[model.layers]]\nkind = \"residual\"\nlayers = [";
  const Config config =
      sound(head + "{ kind = \"attention\", heads = 2 }, { kind = \"dense\", units = 4 }]\n");
  REQUIRE(config.model.layers.size() == 1);
  REQUIRE(config.model.layers.front().layers.size() == 2);
  CHECK(config.model.layers.front().layers.front().heads == 2);
  CHECK(to_string(config.model.layers.front())
            .find("{kind = \"attention\", heads = 2, split = \"auto\"}") != std::string::npos);
  const Config projected = sound(head +
                                 "{ kind = \"dense\", units = 4 }]\n"
                                 "shortcut = [{ kind = \"dense\", units = 4 }]\n");
  CHECK(projected.model.layers.front().layers.size() == 1);
  CHECK(projected.model.layers.front().shortcut.size() == 1);
  CHECK(to_string(projected.model.layers.front()).find("shortcut = [{kind = \"dense\"") !=
        std::string::npos);
  const Problem unknown = only_problem(head + "{ kind = \"gelu\", unit = 3 }]\n");
  CHECK(unknown.place == "a.toml:5: model.layers[0].layers[0].unit");
  CHECK(unknown.remedy.find("units") != std::string::npos);
  CHECK(only_problem(head + "7]\n").place == "a.toml:5: model.layers[0].layers[0]");
}

TEST_CASE("epochs come to steps by shard and batch", "[unit]") {
  Config config = sound("[run]\nepochs = 2\n[train]\nbatch = 64\n");
  CHECK(steps_of(config, 15000) == 469);  // 2 * 15000 / 64 = 468.75
  CHECK(steps_of(config, 1) == 1);
  config.run.steps = 7;
  CHECK(steps_of(config, 15000) == 7);
}

TEST_CASE("models known by name expand with the outputs of the data", "[unit]") {
  const ModelSpec spec = model_spec(sound("[model]\nhidden = [64, 32]\n").model, 10);
  REQUIRE_FALSE(spec.layers.empty());
  CHECK(spec.layers.back().kind == LayerKind::dense);
  CHECK(spec.layers.back().units == 10);
}

namespace {

/// The methods of all convolutions in the order of the layers.
std::string convolution_methods(const std::vector<LayerPlan>& layers) {
  std::string words;
  for (const LayerPlan& layer : layers) {
    if (layer.spec.kind == LayerKind::conv2d) {
      words += std::string(convolution_names[layer.spec.convolution]) + " ";
    }
    words += convolution_methods(layer.layers) + convolution_methods(layer.shortcut);
  }
  return words;
}

}  // namespace

TEST_CASE("the convolutions of the configs that come with the program have these methods",
          "[unit]") {
  // There are two blocks of each width. Except for the first width, the first block halves the
  // image and ends in a projection. Images of the last width have 4 rows.
  const std::string blocks = "winograd winograd winograd winograd ";
  const std::string halving = "direct winograd direct winograd winograd ";
  const std::map<std::string, std::string> expected = {
      {"fashion-cnn.toml", "direct winograd "},
      {"fashion-inception.toml", "direct direct direct direct direct direct direct "},
      {"fashion-lenet.toml", "direct direct "},
      {"fashion-pipeline.toml", "direct winograd "},
      {"fashion-resnet.toml", "direct " + blocks + halving + halving + halving},
      {"large-images.toml", "direct winograd winograd "}};
  std::map<std::string, std::string> found;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(GRAPEVINE_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    const Config config = parse_config_file(entry.path().string()).config;
    const std::size_t side = config.data.generated.side > 0 ? config.data.generated.side : 28;
    Problems problems;
    const ModelPlan plan = plan_model(model_spec(config.model, 10), {1, side, side}, problems);
    const std::string methods = convolution_methods(plan.layers);
    if (!methods.empty()) found[entry.path().filename().string()] = methods;
  }
  CHECK(found == expected);
}

TEST_CASE("methods of convolutions and the precision are read where they count", "[unit]") {
  const std::string layer =
      "[model]\nkind = \"layers\"\n[[model.layers]]\nkind = \"conv2d\"\nunits = 2\nkernel = 7\n";
  const Config config = sound(layer + "convolution = \"fft\"\n");
  CHECK(config.model.layers.front().convolution == ConvolutionMethod::fft);
  CHECK(config.train.precision == Precision::float32);
  const Config lenet = sound("[model]\nkind = \"lenet\"\nconvolution = \"im2col\"\n");
  CHECK(model_spec(lenet.model, 10).layers.front().convolution == ConvolutionMethod::im2col);
  CHECK(sound("[train]\nprecision = \"bf16\"\n").train.precision == Precision::bf16);
  CHECK(only_problem("[model]\nkind = \"mlp\"\nconvolution = \"fft\"\n").remedy.find("lenet") !=
        std::string::npos);
  CHECK(only_problem("[train]\nprecision = \"fp16\"\n").remedy.find("bf16") != std::string::npos);
}

TEST_CASE("ternary weights are of the model and of every kind of it", "[unit]") {
  CHECK(model_spec(sound("").model, 10).weights == WeightValues::floats);
  for (const char* kind : {"linear", "mlp", "lenet", "cnn"}) {
    INFO(kind);
    const std::string model = "[model]\nkind = \"" + std::string(kind) + "\"\n";
    const Config config = sound(model + "weights = \"ternary\"\n");
    CHECK(model_spec(config.model, 10).weights == WeightValues::ternary);
    // Peers do not mix if the kinds of values of their weights differ.
    CHECK(agreement(config) != agreement(sound(model)));
  }
  CHECK(only_problem("[model]\nweights = \"binary\"\n").remedy.find("ternary") !=
        std::string::npos);
}

TEST_CASE("the reference names every key with its default", "[unit]") {
  const std::string reference = config_reference();
  CHECK(reference.find("| `period_steps` | whole number, 1 to 1000000000 | `16` |") !=
        std::string::npos);
  for (const Setting<Config>& setting : config_settings()) {
    INFO(setting.section << "." << setting.key);
    CHECK(reference.find("| `" + std::string(setting.key) + "` |") != std::string::npos);
  }
}

TEST_CASE("the nearest name is the one with the fewest edits", "[unit]") {
  const std::vector<std::string> names{"momentum", "learning_rate", "period_steps"};
  CHECK(nearest_name("lerning_rate", names) == "learning_rate");
  CHECK(nearest_name("period", names) == "period_steps");
  CHECK(nearest_name("period_s", names) == "period_steps");
  CHECK_FALSE(nearest_name("x", {}).has_value());
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("modle", "model") == 1);
}

TEST_CASE("the page of settings says what the table of settings says", "[unit]") {
  const std::string page = std::string(GRAPEVINE_SOURCE_DIR) + "/docs/configuration.md";
  const std::string expected =
      "# Settings\n\nA config is a TOML file. A key that is left out has its default value. An "
      "unknown key is an error that names the nearest\nknown one, and all mistakes are listed at "
      "once. Keys end in their unit. Settings that fix what is trained and how it is\nmixed must "
      "be equal on all peers of a run; if they differ, both peers report the first setting that "
      "differs.\n\n" +
      config_reference();
  // Rewrites the page on request. The diff must then be reviewed.
  if (std::getenv("GRAPEVINE_REWRITE") != nullptr) std::ofstream(page) << expected;
  std::ifstream in(page);
  const std::string written((std::istreambuf_iterator<char>(in)), {});
  CHECK(written == expected);
}

TEST_CASE("a key or header of thousands of parts is refused before it is parsed", "[unit]") {
  std::string parts, numbers;
  for (int i = 0; i < 50000; ++i) parts += "a.";
  for (int i = 0; i < 100; ++i) numbers += "0.5, ";
  for (const std::string& text :
       {parts + "b = 1", "[" + parts + "b]", "[[" + parts + "b]]", "a = { " + parts + "b = 1 }",
        // The fourth quote belongs to the string, so a key follows after it.
        "a = { c = \"\"\"x\"\"\"\", " + parts + "b = 1 }",
        "a = " + std::string(1000, '[') + std::string(1000, ']')}) {
    const Problem problem = only_problem("\n" + text + "\n");
    CHECK(problem.place == "a.toml:2");
    CHECK(problem.reason == "a key of more than 16 dots, or brackets more than 32 deep");
    CHECK_FALSE(problem.remedy.empty());
  }
  // Dots in strings, numbers and comments do not separate parts of a key.
  Problems problems;
  (void)read_toml(
      "a = [\"" + parts + "\", '''" + parts + "'''] # " + parts + "\nb = [" + numbers + "]\n",
      "b.toml", problems);
  CHECK(problems.empty());
}

TEST_CASE("after a hundred problems no further ones are looked for", "[unit]") {
  std::string sections, keys, layers;
  for (int i = 0; i < 400; ++i) {
    sections += "[run]\n";
    keys += "key" + std::to_string(i) + " = 1\n";
    layers += "[[model.layers]]\nkey = 1\n";
  }
  for (const std::string& text : {sections, "[run]\n" + keys, keys, layers}) {
    const Problems problems = problems_of(text);
    REQUIRE(problems.size() == problems_max + 1);
    CHECK(problems.back().place == "a.toml");
    CHECK(problems.back().reason == "may have further problems");
  }
}

TEST_CASE("a list of sections where one belongs is named as such", "[unit]") {
  const Problem problem = only_problem("[[run]]\nseed = 2\n");
  CHECK(problem.place == "a.toml:1: run");
  CHECK(problem.remedy == "write [run] once, in single brackets");
}

TEST_CASE("a folder in place of a file is named as a folder", "[unit]") {
  const std::string folder = std::filesystem::temp_directory_path().string();
  const Problems problems = parse_config_file(folder).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().place == folder);
  CHECK(problems.front().reason == "a folder, not a file");
  const Problem data = only_problem("[data]\nkind = \"text\"\nfolder = \"" + folder +
                                    "\"\ntrain_files = [\".\"]\n[model]\nkind = \"transformer\"\n");
  CHECK(data.place == "a.toml:4: data.train_files");
  CHECK_THAT(data.reason, Catch::StartsWith("a folder, not a file: " + folder));
}

TEST_CASE("any bytes at all give problems or a config but never a crash", "[unit]") {
  Rng rng(11);
  const std::string sound_text(default_config_text());
  const std::string alphabet = "[]{}=\"'#.,\n\r\t \\a1_-+\x80\xff";
  for (int i = 0; i < 300; ++i) {
    std::string text = sound_text;
    for (int edits = 0; edits < 8; ++edits) {
      const std::size_t at = rng.below(text.size());
      if (rng.chance(0.5)) text.erase(at, 1 + rng.below(5));
      text.insert(std::min(at, text.size()), 1, alphabet[rng.below(alphabet.size())]);
    }
    for (const Problem& problem : problems_of(text)) {
      CHECK(problem.place.starts_with("a.toml"));
      CHECK_FALSE(problem.reason.empty());
    }
  }
}

}  // namespace gv
