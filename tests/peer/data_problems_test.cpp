// Problems between a config and its data are found without a peer, each at the line of its setting.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "peer/config/load_data.hpp"
#include "peer/config/task.hpp"
#include "tests/peer/config_texts.hpp"
#include "tests/train/data_folder.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {
namespace {

/// The data problems of a text that has no other problems, one on each line.
std::string with_data(const std::string& text, std::size_t peers = 2) {
  const ParsedConfig parsed = parse_config_text(text, "a.toml", {.peers = peers});
  INFO(lines(parsed.problems));
  REQUIRE(parsed.problems.empty());
  return lines(parsed.places.placed(problems_with_data(parsed.config)));
}

/// A folder with two CSV files, and a config that uses them.
class CsvData {
 public:
  CsvData(const std::string& train, const std::string& test)
      : folder_(std::filesystem::temp_directory_path() /
                ("grapevine_data_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "train.csv") << train;
    std::ofstream(folder_ / "test.csv") << test;
  }
  ~CsvData() { std::filesystem::remove_all(folder_); }
  CsvData(const CsvData&) = delete;

  std::string file(const char* name) const { return (folder_ / name).string(); }
  std::string config() const {
    return "[data]\nkind = \"csv\"\nfolder = \"" + folder_.string() + "\"\n";
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace

TEST_CASE("a loss that does not fit the data is found at its line", "[unit]") {
  CHECK(with_data("[model]\nkind = \"linear\"\nloss = \"squared\"\n") ==
        "a.toml:3: model.loss: the data has labels, not targets; use loss = \"cross_entropy\" or "
        "\"hinge\"\n");
  CHECK(with_data("[model]\nkind = \"linear\"\nloss = \"hinge\"\n").empty());
  CHECK(with_data("[model]\nkind = \"linear\"\n").empty());
}

TEST_CASE("too little memory for every cut is found at its line", "[unit]") {
  CHECK(with_data("[run]\nmode = \"pipeline\"\n[pipeline]\nmemory_mb = 0.001\n")
            .starts_with("a.toml:4: pipeline.memory_mb: with 2 stages one needs "));
  // A group of two peers has to carry each of the two stages.
  CHECK(with_data("[run]\nmode = \"pipeline\"\n[pipeline]\ngroup = 2\nmemory_mb = 0.71\n"
                  "[model]\nkind = \"mlp\"\nhidden = [240, 240, 48]\n[train]\nbatch = 4\n"
                  "optimizer = \"sgd\"\n") ==
        "a.toml:5: pipeline.memory_mb: with so little each shared stage needs 2 peers, and all "
        "stages 4; the "
        "run has 2; allow more, or start more peers\n");
}

TEST_CASE("layers that do not fit the data are found at the line of the layer", "[unit]") {
  const std::string dense = "[[model.layers]]\nkind = \"dense\"\nunits = ";
  const std::string list = "[model]\nkind = \"layers\"\n";
  CHECK(with_data(list + dense + "10\n").empty());
  CHECK(with_data(list + dense + "10\n[[model.layers]]\nkind = \"conv2d\"\nunits = 3\nkernel = 3\n")
            .starts_with("a.toml:6: model.layers[1]: "));
  // If there are too few outputs, the problem concerns the whole list.
  CHECK(with_data(list + dense + "3\n").starts_with("a.toml:3: model.layers: "));
}

TEST_CASE("a model known by name that is too large is found at its own key", "[unit]") {
  CHECK(with_data("[model]\nkind = \"mlp\"\nhidden = [1000000, 1000000]\n") ==
        "a.toml:3: model.hidden: the layer is too large; use fewer units\n");
}

TEST_CASE("a layer of any kind that no memory holds is found at its line", "[unit]") {
  const DataFolder folder;
  folder.write("a.txt", std::string(40'000, 'x'));
  const std::string text = "[data]\nkind = \"text\"\nfolder = \"" + folder.path("") +
                           "\"\ntrain_files = [\"a.txt\"]\ncontext = 8\n";
  const std::string images =
      "[data.generated]\nfeatures = 4\nside = 64\nsamples = 200\ntest_samples = 20\n";
  const std::string list = "[model]\nkind = \"layers\"\n[[model.layers]]\n";
  const std::string dense =
      "[[model.layers]]\nunits = 256\nper_position = true\nkind = \"dense\"\n";
  CHECK(with_data(text + list + "kind = \"embedding\"\nunits = 1000000\nvocabulary = 16777216\n" +
                  dense)
            .starts_with("a.toml:8: model.layers[0]: the layer is too large; "));
  CHECK(with_data(text + list + "kind = \"embedding\"\nunits = 100000\nvocabulary = 256\n" +
                  "[[model.layers]]\nheads = 4\nkind = \"attention\"\n" + dense)
            .starts_with("a.toml:12: model.layers[1]: the layer is too large; "));
  const std::string conv = "kind = \"conv2d\"\nunits = 1000000\nkernel = ";
  CHECK(with_data(images + list + conv + "64\n")
            .starts_with("a.toml:8: model.layers[0]: the layer is too large; "));
  // This one has few weights, and more outputs than a sample may have.
  CHECK(with_data(images + list + conv + "1\n")
            .starts_with("a.toml:8: model.layers[0]: the layer is too large; "));
}

TEST_CASE("a last layer that answers at several places is found", "[unit]") {
  const auto found = [](const std::string& last) {
    return with_data(
        "[data.generated]\nfeatures = 8\n[model]\nkind = \"layers\"\nlayers = [{ kind = "
        "\"flatten\" }, { units = 10, kind = " +
        last + " }]\n");
  };
  for (const char* last : {"\"lstm\"", "\"dense\", per_position = true"}) {
    INFO(last);
    CHECK(found(last).find("gives its 10 outputs 8 times, and the data needs them once; end with "
                           "a flatten layer and a dense layer of units = 10") != std::string::npos);
  }
  CHECK(found("\"dense\"").empty());
  CHECK(found("\"conv2d\", kernel = 1").empty());
}

TEST_CASE("a last layer that does not answer at each position of a text is found", "[unit]") {
  const DataFolder folder;
  folder.write("a.txt", std::string(40'000, 'x'));
  // There are as many positions as a byte has values, so outputs could be mistaken for positions.
  const std::string data = "[data]\nkind = \"text\"\nfolder = \"" + folder.path("") +
                           "\"\ntrain_files = [\"a.txt\"]\ncontext = 256\n[model]\n";
  const auto found = [&](const std::string& last) {
    return with_data(data +
                     "kind = \"layers\"\nlayers = [{ kind = \"embedding\", units = 8, "
                     "vocabulary = 256 }, { units = 256, kind = " +
                     last + " }]\n");
  };
  const std::string remedy =
      ", and the data needs them at each of 256 positions; use kind = \"transformer\", or end with "
      "a dense layer of units = 256 and per_position = true";
  for (const char* last : {"\"dense\"", "\"kernel_features\", gamma = 0.1"}) {
    INFO(last);
    CHECK(found(last).find("gives its 256 outputs once" + remedy) != std::string::npos);
  }
  CHECK(found("\"conv2d\", kernel = 1").find("gives its 256 outputs 8 times" + remedy) !=
        std::string::npos);
  CHECK(with_data(data + "kind = \"linear\"\n").find("256 outputs once" + remedy) !=
        std::string::npos);
  CHECK(found("\"dense\", per_position = true").empty());
}

TEST_CASE("counts of clusters cannot be driven below zero by weights or by a large batch",
          "[unit]") {
  const auto found = [](const std::string& gossip, const std::string& train) {
    return with_data("[gossip]\n" + gossip +
                     "[model]\nkind = \"layers\"\nloss = \"reconstruction\"\nlayers = [{ kind = "
                     "\"clusters\", units = 3 }]\n[train]\noptimizer = \"sgd\"\n" +
                     train);
  };
  const std::string half = "learning_rate = 0.5\n";
  CHECK(found("", half).find("gossip.weigh: updates of slow peers are up to 4 times longer") !=
        std::string::npos);
  CHECK(found("weigh = \"none\"\n", half).empty());
  CHECK(found("weigh_max = 2.0\n", half).empty());
  CHECK(found("", "learning_rate = 0.25\n").empty());
  CHECK(found("weigh = \"none\"\n", half + "reference_batch = 8\n").find("train.reference_batch") !=
        std::string::npos);
}

TEST_CASE("more peers than samples and data that nothing can be held out of are found", "[unit]") {
  const std::string text = "[run]\npeers = 4\n[data.generated]\nsamples = 5\n";
  CHECK(with_data(text, 5).empty());
  CHECK(with_data(text, 6) ==
        "a.toml:2: run.peers: 5 samples cannot be dealt out to 6 peers; use fewer peers or more "
        "data\n");
  CHECK(with_data("[run]\npeers = 4\n[data]\npartition = \"leased\"\n"
                  "[data.generated]\nsamples = 5\n",
                  6) ==
        "a.toml:2: run.peers: 5 samples are too few for 6 peers to train on one each; use fewer "
        "peers or more data\n");
  // One of five peers has only a single sample.
  CHECK(with_data(text + "[population]\nevery_steps = 10\n", 4)
            .starts_with("a.toml:5: population.held_out: "));
}

TEST_CASE("a malformed file is found whether it is for training or for testing", "[unit]") {
  const CsvData bad_train("1,0\n2,x\n", "1,0\n1,1\n");
  CHECK(with_data(bad_train.config()).starts_with(bad_train.file("train.csv")));
  const CsvData bad_test("1,0\n2,1\n", "1,0\n1\n");
  CHECK(with_data(bad_test.config()).starts_with(bad_test.file("test.csv")));
}

TEST_CASE("test data that a model of the training data cannot judge are found", "[unit]") {
  const CsvData good("1,0\n2,1\n", "1,1\n");
  CHECK(with_data(good.config()).empty());
  const CsvData more_labels("1,0\n2,1\n", "1,2\n");
  CHECK(with_data(more_labels.config()) ==
        "a.toml:1: data.test_files: the test data have 3 labels or targets, the training data 2; "
        "name files that belong together\n");
  const CsvData fewer_labels("1,0\n2,1\n3,2\n", "1,1\n");
  CHECK(with_data(fewer_labels.config()).empty());
  const CsvData wider("1,0\n2,1\n", "1,1,1\n");
  CHECK(with_data(wider.config()).starts_with("a.toml:1: data.test_files: test samples are "));
}

TEST_CASE("a peer with a target refuses test data that its model cannot judge", "[unit]") {
  const CsvData more_labels("1,0\n2,1\n", "1,2\n");
  const std::string text =
      more_labels.config() + "[run]\ntarget_accuracy = 0.9\nbudget = \"swarm\"\nepochs = 1\n";
  const ParsedConfig parsed = parse_config_text(text, "a.toml", {.peers = 1});
  REQUIRE(parsed.problems.empty());
  CHECK(lines(load_task(parsed.config, 0).problems).starts_with("data.test_files: the test data"));
}

TEST_CASE("a list of layers must have exactly one output for each target", "[unit]") {
  const CsvData data("1,0.5\n2,1.5\n", "1,1\n");
  const auto with_units = [&](const std::string& units) {
    return with_data(data.config() +
                     "csv_targets = 1\n[model]\nkind = \"layers\"\nloss = \"squared\"\n"
                     "[[model.layers]]\nkind = \"dense\"\nunits = " +
                     units + "\n");
  };
  CHECK(with_units("1").empty());
  CHECK(with_units("2").starts_with("a.toml:8: model.layers: the last layer has 2 outputs"));
}

TEST_CASE("a reconstruction needs as many outputs as inputs and no labels", "[unit]") {
  const std::string model = "[model]\nkind = \"layers\"\nloss = \"reconstruction\"\n";
  const std::string dense = "[[model.layers]]\nkind = \"dense\"\nunits = ";
  CHECK(with_data(model + dense + "32\n").empty());
  CHECK(
      with_data(model + dense + "10\n")
          .starts_with("a.toml:4: model.layers: the last layer has 10 outputs, the data needs 32"));
  CHECK(with_data("[data.generated]\ntargets = 3\n" + model + dense + "32\n").empty());
  CHECK(with_data("[run]\nmode = \"pipeline\"\n[model]\nloss = \"reconstruction\"\n")
            .starts_with("a.toml:4: model.loss: the last stage of a pipeline"));
}

TEST_CASE("clusters are refused where sums and counts would not move alike", "[unit]") {
  const auto refused = [](const std::string& loss, const std::string& train) {
    return with_data(
        "[model]\nkind = \"layers\"\nloss = \"" + loss + "\"\n[train]\n" + train +
        "\n[[model.layers]]\nkind = \"clusters\"\nunits = 4\n[gossip]\nweigh = \"none\"\n");
  };
  const std::string sgd = "optimizer = \"sgd\"\nlearning_rate = ";
  CHECK(refused("reconstruction", sgd + "1.0").empty());
  CHECK(
      refused("reconstruction", sgd + "1.5").starts_with("a.toml:6: train.learning_rate: counts"));
  CHECK(refused("reconstruction", "optimizer = \"adam\"")
            .starts_with("a.toml:5: train.optimizer: sums and counts"));
  CHECK(refused("cross_entropy", sgd + "1.0").starts_with("a.toml:3: model.loss: clusters answer"));
}

TEST_CASE("ternary weights are refused where there is no matrix", "[unit]") {
  const auto found = [](const std::string& layer) {
    return with_data(
        "[model]\nkind = \"layers\"\nloss = \"reconstruction\"\nweights = \"ternary\"\n[train]\n"
        "optimizer = \"sgd\"\nlearning_rate = 0.5\n[gossip]\nweigh = \"none\"\n[[model.layers]]\n" +
        layer);
  };
  CHECK(found("kind = \"clusters\"\nunits = 3\n") ==
        "a.toml:10: model.layers: no layer has a weight matrix, which could be ternary; write "
        "weights = \"float\"\n");
  CHECK(found("kind = \"dense\"\nunits = 32\n").empty());
}

TEST_CASE("samples are dealt out by centres that fit the peers and the data", "[unit]") {
  const DataFolder folder;
  const std::string file = folder.path("centres.safetensors");
  const std::string config = "[data]\npartition = \"clusters\"\ncentres = \"" + file +
                             "\"\n[data.generated]\nfeatures = 2\nsamples = 100\n";
  CHECK(with_data(config).starts_with("a.toml:3: data.centres: " + file + ": "));
  const auto write = [&](std::size_t centres, std::size_t features) {
    std::vector<float> values(centres * features);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    REQUIRE(write_safetensors(file,
                              {{"clusters1.sums", {centres, features}, values},
                               {"clusters1.counts", {centres}, std::vector<float>(centres, 1)}},
                              {})
                .empty());
  };
  write(3, 2);
  CHECK(with_data(config) ==
        "a.toml:3: data.centres: 3 centres for 2 peers; write peers = 3 below [run], or units = 2 "
        "in the config of the clusters\n");
  CHECK(with_data(config, 3).empty());
  write(2, 5);
  CHECK(with_data(config).starts_with("a.toml:3: data.centres: a centre has 5 numbers"));
  write(2, 2);
  CHECK(with_data(config).empty());
  CHECK(only_problem("[data]\npartition = \"clusters\"\n").remedy.find("centres = ") !=
        std::string::npos);
  CHECK(only_problem("[data]\ncentres = \"x\"\n").reason == "has no effect here");
}

TEST_CASE("generated data have targets if they are asked for", "[unit]") {
  const std::string data = "[data.generated]\ntargets = 3\n";
  CHECK(with_data(data + "[model]\nkind = \"linear\"\nloss = \"squared\"\n").empty());
  CHECK(with_data(data + "[model]\nkind = \"linear\"\n")
            .starts_with("a.toml:3: model.loss: the data has targets, not labels"));
}

TEST_CASE("generated data that no memory holds are refused before they are made", "[unit]") {
  const std::string data = "[data.generated]\n";
  CHECK(lines(problems_of(data + "samples = 100000000\nfeatures = 65536\n")) ==
        "a.toml:2: data.generated.samples: generated data of 24415 GiB: 65536 numbers in each of "
        "100004000 samples; a peer keeps at most 64 GiB; use fewer samples, features, classes, "
        "blobs or targets, or smaller images\n");
  CHECK(only_problem(data + "samples = 100000\nside = 512\n").place ==
        "a.toml:2: data.generated.samples");
  CHECK(only_problem(data + "features = 65536\nclasses = 60000\nblobs_per_class = 10\n").place ==
        "a.toml:3: data.generated.classes");
  CHECK(only_problem(data + "features = 65536\ntargets = 65536\nside = 2\nsamples = 10\n"
                            "test_samples = 10\n")
            .place == "a.toml:3: data.generated.targets");
  // Just below 64 GiB: 2^24 samples of 1023 inputs and a label.
  const std::string nearly = "features = 1023\ntest_samples = 1\nsamples = ";
  CHECK(problems_of(data + nearly + "16777100\n").empty());
  CHECK(problems_of(data + nearly + "16777216\n").size() == 1);
}

TEST_CASE("a file that is too large for memory is told with what helps in its place", "[unit]") {
  const DataFolder folder;
  const std::string images = folder.write("images", idx({70'000, 300, 300}, ""));
  const std::string labels = folder.write("labels", idx({1}, "0"));
  const auto remedy = [&](bool test, const std::string& more) {
    const ParsedConfig parsed =
        parse_config_text("[data]\nkind = \"idx\"\nfolder = \"" + folder.path("") +
                              "\"\ntrain_files = [\"images\", \"labels\"]\n" +
                              "test_files = [\"images\", \"labels\"]\n" + more,
                          "a.toml");
    INFO(lines(parsed.problems));
    REQUIRE(parsed.problems.empty());
    const LoadedDataSet loaded = load_data(parsed.config, test);
    REQUIRE(loaded.problems.size() == 1);
    CHECK(loaded.problems.front().place == images);
    CHECK(loaded.problems.front().reason == too_large_for_memory);
    return loaded.problems.front().remedy;
  };
  CHECK(remedy(false, "") ==
        "use a smaller file, or leave the training data in files that are not compressed: write "
        "partition = \"leased\" and in_memory = false below [data]");
  CHECK(remedy(true, "") == "use a smaller file; test data are always in memory");
  CHECK(remedy(false, "[run]\nmode = \"pipeline\"\n") == "use a smaller file");
}

TEST_CASE("only settings get a line", "[unit]") {
  const ConfigPlaces places{.name = "a.toml", .lines = {{"data", 3}, {"data.folder", 4}}};
  CHECK(places.place_of("data.folder") == "a.toml:4: data.folder");
  CHECK(places.place_of("data.kind") == "a.toml:3: data.kind");
  CHECK(places.place_of("data") == "a.toml:3: data");
  CHECK(places.place_of("run.peers") == "a.toml:1: run.peers");
  CHECK(places.place_of("/a/data.csv") == "/a/data.csv");
  CHECK(places.place_of("data.csv") == "data.csv");
  CHECK(places.place_of("--shard") == "--shard");
  CHECK(ConfigPlaces{}.place_of("run.peers") == "run.peers");
}

}  // namespace gv
