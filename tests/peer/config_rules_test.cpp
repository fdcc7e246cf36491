// Settings that exclude each other are refused with a remedy, and peers agree on the settings that
// they must share.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "peer/config/cluster_problems.hpp"
#include "peer/config/model_problems.hpp"
#include "peer/config/switched_mode.hpp"
#include "peer/modes/course.hpp"
#include "tests/peer/config_texts.hpp"

namespace gv {

TEST_CASE("stages mix by what of a rule keeps nothing from round to round", "[unit]") {
  const std::string text =
      "[run]\nmode = \"pipeline\"\npeers = 6\n[pipeline]\nstages = 2\nconsensus = \"mixing\"\n"
      "[mixing]\n";
  const ParsedConfig parsed = parse_config_text(
      text + "topology = \"exponential\"\npartners = \"pairs\"\nalpha = 0.3\n", "a.toml");
  REQUIRE(parsed.problems.empty());
  const MixRule rule = *mixing_rule(parsed.config);
  CHECK(rule.topology.kind == TopologyKind::exponential);
  CHECK(rule.partners == Partners::pairs);
  CHECK(rule.alpha == 0.3);
  for (const std::string kept :
       {"memory = \"difference\"", "correction = \"d2\"", "outer = \"slowmo\"",
        "kind = \"push_sum\"", "staleness = 1", "period_steps = 2"}) {
    const Problem problem = only_problem(text + kept + "\n");
    INFO(to_string(problem));
    CHECK(problem.reason == "has no effect here");
  }
  // Three replicas cannot form a hypercube.
  CHECK(only_problem(text + "topology = \"hypercube\"\n").place == "a.toml:8: mixing.topology");
  CHECK(only_problem("[mixing]\ntopology = \"complete\"\n").reason == "has no effect here");
}

TEST_CASE("a group is refused where its members could not add up one gradient", "[unit]") {
  const std::string text =
      "[run]\nmode = \"pipeline\"\npeers = 4\n[pipeline]\nstages = 2\ngroup = 2\n";
  CHECK(sound(text).pipeline.group == 2);
  for (const std::string other :
       {"consensus = \"gossip\"", "consensus = \"mixing\"", "schedule = \"pipedream\"",
        "schedule = \"2bw\"", "recompute = true"}) {
    const Problem problem = only_problem(text + other + "\n");
    INFO(to_string(problem));
    CHECK(problem.place == "a.toml:6: pipeline.group");
    CHECK_THAT(problem.remedy, Catch::Contains("or group = 1"));
  }
  for (const std::string optimizer : {"lars", "lamb"}) {
    const Problem problem = only_problem("[train]\noptimizer = \"" + optimizer + "\"\n" + text);
    CHECK(problem.place == "a.toml:8: pipeline.group");
  }
  const std::string ternary = "[model]\nweights = \"ternary\"\n";
  const Problem problem = only_problem(ternary + text);
  CHECK(problem.place == "a.toml:8: pipeline.group");
  CHECK(problem.remedy == "write weights = \"float\" below [model], or group = 1");
  CHECK(sound(ternary + "[run]\nmode = \"pipeline\"\n").model.weights == WeightValues::ternary);
}

TEST_CASE("a layer says how a group shares it only where a group could", "[unit]") {
  const std::string run = "[run]\nmode = \"pipeline\"\npeers = 4\n";
  const std::string groups = run + "[pipeline]\nstages = 1\ngroup = 2\n";
  const auto model = [](const std::string& layer) {
    return "[model]\nkind = \"layers\"\n[[model.layers]]\n" + layer +
           "[[model.layers]]\nkind = \"dense\"\nunits = 10\n";
  };
  const std::string by_rows = model("kind = \"conv2d\"\nunits = 4\nkernel = 3\nsplit = \"rows\"\n");
  CHECK(sound(groups + by_rows).model.layers[0].split == LayerSplit::rows);
  CHECK_THAT(only_problem(run + by_rows).reason, Catch::Contains("there are no groups"));
  CHECK_THAT(only_problem(groups + model("kind = \"concat\"\nlayers = [{kind = \"conv2d\", units "
                                         "= 4, kernel = 3, split = \"rows\"}]\n"))
                 .reason,
             Catch::Contains("are not shared"));
}

TEST_CASE("plans are refused where they could not be searched for or would be wrong", "[unit]") {
  const std::string text = "[run]\nmode = \"pipeline\"\npeers = 4\n[pipeline]\nplan = \"auto\"\n";
  CHECK(sound(text + "stages = 2\n").pipeline.plan == StagePlanKind::automatic);
  for (const std::string other :
       {"consensus = \"gossip\"", "schedule = \"2bw\"", "schedule = \"chimera\"", "memory_mb = 1",
        "micro_batches = 65"}) {
    const Problem problem = only_problem(text + "stages = 2\n" + other + "\n");
    INFO(to_string(problem));
    CHECK(problem.place == "a.toml:5: pipeline.plan");
    CHECK_THAT(problem.remedy, Catch::Contains("or plan = \"steady\""));
  }
  CHECK(only_problem(text + "stages = 9\n").place == "a.toml:5: pipeline.plan");
}

TEST_CASE("peers are pinned to stages by name, in a table or a section of their own", "[unit]") {
  const std::string text = "[run]\nmode = \"pipeline\"\npeers = 4\n[pipeline]\nstages = 3\n";
  const std::map<std::string, std::uint32_t> pins = {{"gpu.box", 0}, {"laptop", 2}};
  CHECK(sound(text + "pins = { \"gpu.box\" = 0, laptop = 2 }\n").pipeline.pins == pins);
  CHECK(sound(text + "[pipeline.pins]\n\"gpu.box\" = 0\nlaptop = 2\n").pipeline.pins == pins);
  CHECK(sound(text + "pins = {}\n").pipeline.pins.empty());
}

TEST_CASE("pins that cannot hold are refused", "[unit]") {
  const std::string text = "[run]\nmode = \"pipeline\"\npeers = 4\n[pipeline]\nstages = 2\n";
  const Problem late = only_problem(text + "pins = { desk = 0, laptop = 2 }\n");
  CHECK(late.place == "a.toml:6: pipeline.pins");
  CHECK(late.reason == "there is no stage 2 for laptop: the last one is 1");
  CHECK_THAT(late.remedy, Catch::Contains("pin it to an earlier stage"));
  CHECK(only_problem(text + "[pipeline.pins]\nlaptop = 2\n").place == "a.toml:6: pipeline.pins");
  CHECK(only_problem("[run]\nmode = \"pipeline\"\n[pipeline]\nends = [2, 5]\npins = { a = 2 }\n")
            .place == "a.toml:5: pipeline.pins");
  const Problem full =
      only_problem(text + "micro_batches = 2\npins = { a = 1, b = 1, c = 1, d = 0 }\n");
  CHECK(full.reason == "3 peers are pinned to stage 1, whose micro-batches occupy 2");
  CHECK_THAT(full.remedy, Catch::Contains("raise micro_batches"));
  CHECK(
      problems_of(text + "micro_batches = 2\ngroup = 2\npins = { a = 1, b = 1, c = 1 }\n").empty());
  CHECK_THAT(only_problem(text + "pins = { \"my desk\" = 0 }\n").reason,
             Catch::Contains("no peer can be called \"my desk\""));
  CHECK_THAT(only_problem(text + "pins = { desk = -1 }\n").reason,
             Catch::Contains("\"desk\": out of range: -1"));
  CHECK_THAT(only_problem(text + "pins = [\"desk\"]\n").remedy,
             Catch::Contains("a table, as { desk = 0 }"));
  CHECK(only_problem("[run]\nmode = \"allreduce\"\n[pipeline]\npins = { desk = 0 }\n").reason ==
        "has no effect here");
  // If the number of stages itself is wrong, that is the only problem.
  CHECK(only_problem("[run]\nmode = \"pipeline\"\n[pipeline]\nstages = 0\npins = { a = 7 }\n")
            .place == "a.toml:4: pipeline.stages");
}

TEST_CASE("the ring stays an algorithm of the all-reduce", "[unit]") {
  const Config config = sound("[run]\nmode = \"allreduce\"\n[allreduce]\nalgorithm = \"ring\"\n");
  CHECK(config.allreduce.algorithm == ReduceAlgorithm::ring);
}

TEST_CASE("positive settings that would be 0 as float32 are out of range", "[unit]") {
  const std::string layers = "[model]\nkind = \"layers\"\n[[model.layers]]\n";
  for (const std::string& text :
       {std::string("[data]\ndeviation = "), std::string("[train]\nlearning_rate = "),
        std::string("[train]\noptimizer = \"adam\"\nepsilon = "),
        std::string("[train]\noptimizer = \"lars\"\ntrust = "),
        std::string("[run]\nmode = \"mixing\"\n[mixing]\ngamma = "),
        layers + "kind = \"kernel_features\"\nunits = 3\ngamma = "}) {
    const Problem problem = only_problem(text + "1e-50\n");
    CHECK(problem.reason == "out of range: 1e-50");
    CHECK_THAT(problem.remedy, Catch::StartsWith("write a number 1e-37 to 1"));
    CHECK(problems_of(text + "1e-37\n").empty());
  }
}

TEST_CASE("steps and epochs together are refused", "[unit]") {
  const Problem problem = only_problem("[run]\nepochs = 3\nsteps = 100\n");
  CHECK(problem.place == "a.toml:2: run.epochs");
}

TEST_CASE("a key of another optimizer is refused unless the optimizer is unknown", "[unit]") {
  CHECK(only_problem("[train]\noptimizer = \"adam\"\nmomentum = 0.9\n").place ==
        "a.toml:3: train.momentum");
  CHECK(only_problem("[train]\noptimizer = \"adan\"\nbeta1 = 0.9\n").place ==
        "a.toml:2: train.optimizer");
}

TEST_CASE("steps of a schedule must rise", "[unit]") {
  CHECK(only_problem("[train]\nschedule = \"step\"\nstep_at = [20, 10]\n").reason == "not rising");
  CHECK(only_problem("[train]\nschedule = \"step\"\n").remedy.find("step_at") == 4);
}

TEST_CASE("a batch grows only where all samples are counted and the rate does not follow it",
          "[unit]") {
  const std::string grows =
      "[train]\nbatch = 32\nschedule = \"growing_batch\"\nstep_at = [100, 200, 300]\n"
      "batch_factor = 4\nbatch_growths = 2\n";
  const Config config = sound("[run]\nsteps = 400\npeers = 3\n" + grows);
  const BatchGrowth growth = batch_growth(config);
  CHECK(growth.at == std::vector<std::uint64_t>{100 * 32 * 3, 200 * 32 * 3});
  CHECK(growth.after(100 * 32 * 3 - 1) == 1);
  CHECK(growth.after(100 * 32 * 3) == 4);
  CHECK(growth.most() == 16);
  CHECK(only_problem("[run]\nbudget = \"peer\"\n" + grows).remedy.find("budget") !=
        std::string::npos);
  CHECK(only_problem(grows + "reference_batch = 64\n").place == "a.toml:7: train.reference_batch");
  CHECK(only_problem(grows + "[data]\npartition = \"leased\"\n").place ==
        "a.toml:3: train.schedule");
  CHECK(only_problem("[train]\nbatch = 4096\nschedule = \"growing_batch\"\nstep_at = [1]\n"
                     "batch_factor = 17\n")
            .reason.find("69632") != std::string::npos);
  CHECK(only_problem("[train]\nschedule = \"growing_batch\"\n").remedy.find("step_at") == 4);
  CHECK(only_problem("[train]\nbatch_factor = 4\n").reason == "has no effect here");
  // The remedies lead to a valid config.
  sound("[run]\nbudget = \"peer\"\n[train]\nschedule = \"step\"\nstep_at = [100]\n");
}

TEST_CASE("the noise scale is refused where gradients do not travel whole", "[unit]") {
  const std::string run = "[run]\nmode = \"allreduce\"\n[allreduce]\nnoise_scale = true\n";
  CHECK(sound(run).allreduce.noise_scale);
  for (const std::string other : {"period = 4\n", "codec = \"fp16\"\n", "top_k_per_512 = 8\n"}) {
    CHECK(only_problem(run + other).place == "a.toml:4: allreduce.noise_scale");
  }
}

TEST_CASE("codes that a pair remembers need alpha up to a half and few partners", "[unit]") {
  for (const std::string codec : {"codec = \"qsgd8\"\n", "codec = \"top_k\"\n"}) {
    const std::string gossip = "[gossip]\n" + codec;
    CHECK(sound(gossip).gossip.codec_fraction == 0.01);
    CHECK(only_problem(gossip + "alpha = 0.6\n").place == "a.toml:3: gossip.alpha");
    const std::string many = "[run]\npeers = 66\n" + gossip;
    CHECK(only_problem(many).place == "a.toml:4: gossip.codec");
    sound(many + "topology = \"exponential\"\n");
    sound("[run]\npeers = 65\n" + gossip);
  }
  CHECK(only_problem("[gossip]\ncodec_fraction = 0.1\n").reason == "has no effect here");
}

TEST_CASE("a number in quotes with its unit is told what is wrong", "[unit]") {
  const Problem problem = only_problem("[network]\nbudget_mib = \"64 MiB\"\n");
  CHECK(problem.reason.starts_with("wrong type or unit"));
}

TEST_CASE("plain lanes need a trusted network", "[unit]") {
  CHECK(only_problem("[network]\nlane = \"plain\"\n").place == "a.toml:2: network.lane");
  CHECK(sound("[network]\nlane = \"plain\"\ntrusted = true\n").network.trusted);
}

TEST_CASE("local steps are settled by all together and only where there are any", "[unit]") {
  const Config config = sound(
      "[run]\nmode = \"allreduce\"\n[allreduce]\nperiod = 50\nlocal_after = 300\nouter = "
      "\"nesterov\"\n"
      "outer_learning_rate = 0.5\nouter_momentum = 0.8\n");
  const LocalSteps& local = config.allreduce.local;
  CHECK(local.period == 50);
  CHECK(local.local_after == 300);
  CHECK(local.outer == OuterKind::nesterov);
  CHECK(local.outer_learning_rate == 0.5);
  CHECK(local.outer_momentum == 0.8);
  std::vector<std::string> agreed;
  for (const auto& [key, value] : agreement(config)) agreed.push_back(key);
  for (const char* key : {"allreduce.period", "allreduce.local_after", "allreduce.outer",
                          "allreduce.outer_learning_rate", "allreduce.outer_momentum"}) {
    CHECK(std::ranges::find(agreed, key) != agreed.end());
  }
  const Problem problem =
      only_problem("[run]\nmode = \"allreduce\"\n[allreduce]\nouter = \"nesterov\"\n");
  CHECK(problem.place == "a.toml:4: allreduce.outer");
  CHECK(problem.remedy.find("a period above 1") != std::string::npos);
  CHECK(only_problem("[run]\nmode = \"allreduce\"\n[allreduce]\nperiod = 4\nouter_momentum = 0.5\n")
            .place == "a.toml:5: allreduce.outer_momentum");
  CHECK(only_problem("[allreduce]\nperiod = 4\n").remedy.find("run.mode") != std::string::npos);
}

TEST_CASE("factors of gradients are settled by all together and not of few values", "[unit]") {
  const std::string allreduce = "[run]\nmode = \"allreduce\"\n[allreduce]\n";
  CHECK(sound(allreduce + "rank = 4\ncodec = \"fp16\"\n").allreduce.compression.rank == 4);
  CHECK(agreement(sound(allreduce + "rank = 4\n")) != agreement(sound(allreduce + "rank = 2\n")));
  const Problem both = only_problem(allreduce + "rank = 4\ntop_k_per_512 = 16\n");
  CHECK(both.place == "a.toml:4: allreduce.rank");
  CHECK(both.remedy == "leave rank or top_k_per_512 out");
  CHECK(only_problem("[allreduce]\nrank = 4\n").remedy.find("run.mode") != std::string::npos);
}

TEST_CASE("sufficient factors go with whole and exact gradients alone", "[unit]") {
  const std::string allreduce =
      "[run]\nmode = \"allreduce\"\n[allreduce]\nsufficient_factors = true\n";
  CHECK(sound(allreduce).allreduce.compression.sufficient_factors);
  CHECK(sound(allreduce + "algorithm = \"tree\"\n").allreduce.compression.sufficient_factors);
  CHECK(agreement(sound(allreduce)) != agreement(sound("[run]\nmode = \"allreduce\"\n")));
  const std::string line = GENERATE("codec = \"fp16\"\n", "top_k_per_512 = 16\n", "rank = 4\n");
  const Problem coded = only_problem(allreduce + line);
  CHECK(coded.place == "a.toml:4: allreduce.sufficient_factors");
  CHECK(coded.remedy == "leave codec, top_k_per_512 and rank out, or sufficient_factors");
  const Problem local = only_problem(allreduce + "period = 4\n");
  CHECK(local.place == "a.toml:4: allreduce.sufficient_factors");
  CHECK(local.remedy == "write period = 1, or leave sufficient_factors out");
}

TEST_CASE("peers tell each other a long list of layers by its hash", "[unit]") {
  const auto told = [](std::size_t layers, const char* last) {
    std::string text = "[model]\nkind = \"layers\"\n";
    for (std::size_t i = 0; i < layers; ++i) {
      text += "[[model.layers]]\nkind = \"dense\"\nunits = 64\n[[model.layers]]\nkind = \"relu\"\n";
    }
    text += "[[model.layers]]\nkind = \"dense\"\nunits = " + std::string(last) + "\n";
    const auto agreed = agreement(sound(text));
    const auto found =
        std::ranges::find(agreed, "model.layers", &std::pair<std::string, std::string>::first);
    REQUIRE(found != agreed.end());
    return found->second;
  };
  CHECK_THAT(told(1, "10"), Catch::Contains("dense"));
  // A hello has room for 4,096 characters in one field.
  CHECK(told(200, "10").size() < 100);
  CHECK(told(200, "10") != told(200, "11"));
}

TEST_CASE("a topology is read with its degree and must be alike on all peers", "[unit]") {
  CHECK(sound("").gossip.topology == Topology{});
  for (const char* name : {"complete", "matching", "ring", "torus", "star", "tree", "hypercube",
                           "exponential", "random_regular", "one_peer_exponential", "base_k"}) {
    const Config config = sound("[gossip]\ntopology = \"" + std::string(name) + "\"\n");
    CHECK(to_string(config.gossip.topology.kind) == name);
    CHECK((agreement(config) == agreement(Config{})) ==
          (config.gossip.topology.kind == TopologyKind::complete));
  }
  const Config three = sound("[gossip]\ntopology = \"random_regular\"\ntopology_degree = 3\n");
  CHECK(three.gossip.topology.degree == 3);
  CHECK(agreement(three) != agreement(sound("[gossip]\ntopology = \"random_regular\"\n")));
}

TEST_CASE("a topology that exchanges of two cannot run is refused with what can", "[unit]") {
  const auto text = [](const std::string& rest) {
    return to_string(only_problem("[gossip]\n" + rest));
  };
  CHECK(text("topology = \"moshpit\"\n") ==
        "a.toml:2: gossip.topology: moshpit: its groups average all at once, and an exchange has "
        "two ends; take hypercube (the same with groups of two), base_k or torus");
  CHECK(text("topology = \"base_k\"\ntopology_degree = 2\n") ==
        "a.toml:3: gossip.topology_degree: base_k: with k = 2 a peer has several partners at once, "
        "and an exchange has two ends; take k = 1");
  CHECK(text("pairing = \"uniform\"\ntopology = \"base_k\"\n") ==
        "a.toml:3: gossip.topology: \"base_k\" says who meets whom in each round, and with pairing "
        "= \"uniform\" there are no rounds; write pairing = \"matching\", or a topology such as "
        "\"exponential\"");
  CHECK(text("topology = \"rnig\"\n").find("the nearest is \"ring\"") != std::string::npos);
  CHECK(text("topology = \"ring\"\ntopology_degree = 3\n").find("no effect") != std::string::npos);
  sound("[gossip]\npairing = \"uniform\"\ntopology = \"torus\"\n");
}

TEST_CASE("a topology that does not fit run.peers is refused with the numbers that do", "[unit]") {
  CHECK(to_string(only_problem("[run]\npeers = 6\n[gossip]\ntopology = \"hypercube\"\n")) ==
        "a.toml:4: gossip.topology: hypercube of 6 peers: a hypercube needs a power of two, and 6 "
        "is none; take 4 or 8 peers, or exponential or base_k, which fit any number");
  sound("[run]\npeers = 8\n[gossip]\ntopology = \"hypercube\"\n");
}

TEST_CASE("rules are checked for the number of peers that take part", "[unit]") {
  const std::string text = "[run]\npeers = 6\n[gossip]\ntopology = \"hypercube\"\n";
  const ParsedConfig eight = parse_config_text(text, "a.toml", {.peers = 8});
  CHECK(eight.problems.empty());
  CHECK(eight.config.run.peers == 8);
  CHECK(parse_config_text(text, "a.toml", {.peers = 6}).problems.size() == 1);
}

TEST_CASE("a guard that was removed is refused with the one to use", "[unit]") {
  CHECK(to_string(only_problem("[run]\nmode = \"mixing\"\n[mixing]\nguard = \"clip\"\n")) ==
        "a.toml:4: mixing.guard: \"clip\" was removed: rounds mix whole models, and a hostile one "
        "of the usual length passed; write \"self_centred_clip\", which limits how far a neighbour "
        "moves the model");
}

TEST_CASE("a probe timeout as long as the period is refused", "[unit]") {
  CHECK(only_problem("[membership]\nprobe_period_s = 0.5\n").place ==
        "a.toml:2: membership.probe_period_s");
}

TEST_CASE("a target accuracy needs a budget of the swarm, or a pipeline", "[unit]") {
  const Config config = sound("[run]\ntarget_accuracy = 0.9\ntarget_every_epochs = 0.5\n");
  CHECK(config.run.target == 0.9);
  CHECK(config.run.target_every == 0.5);
  for (const std::string other : {"budget = \"peer\"", "algorithm = \"population\""}) {
    const Problem problem = only_problem("[run]\n" + other + "\ntarget_accuracy = 0.9\n");
    INFO(to_string(problem));
    CHECK(problem.place == "a.toml:3: run.target_accuracy");
    CHECK(problem.reason == "has no effect here");
  }
  CHECK(only_problem("[run]\ntarget_accuracy = 90\n").reason.starts_with("out of range"));
  CHECK(only_problem("[run]\ntarget_every_epochs = 2\n").reason == "has no effect here");
  CHECK(has_target(sound("[run]\nmode = \"pipeline\"\ntarget_accuracy = 0.9\n")));
  // Peers with different targets would not stop together.
  const Config same = sound("[run]\nseed = 1\n");
  CHECK(agreement(same) != agreement(config));
}

TEST_CASE("leased data need a budget of the swarm, and chunks of whole batches", "[unit]") {
  const std::string leased = "[data]\npartition = \"leased\"\n";
  sound(leased);
  sound("[run]\nmode = \"allreduce\"\n" + leased);
  sound("[run]\nmode = \"mixing\"\n" + leased);
  for (const std::string run :
       {"budget = \"peer\"", "mode = \"pipeline\"", "algorithm = \"population\""}) {
    CHECK(only_problem("[run]\n" + run + "\n" + leased).place == "a.toml:4: data.partition");
  }
  const Problem rounds =
      only_problem("[mixing]\nstaleness = -1\n[run]\nmode = \"mixing\"\n" + leased);
  CHECK(rounds.reason.find("without waiting") != std::string::npos);
  const Problem chunk = only_problem(leased + "chunk_samples = 100\n[train]\nbatch = 64\n");
  CHECK(chunk.place == "a.toml:3: data.chunk_samples");
  CHECK(chunk.remedy == "write 128");
}

TEST_CASE("only leased data of files may stay in them", "[unit]") {
  const std::string stays = "in_memory = false\n";
  CHECK(only_problem("[data]\npartition = \"shared\"\n" + stays).reason == "has no effect here");
  const Problem generated = only_problem("[data]\npartition = \"leased\"\n" + stays);
  CHECK(generated.place == "a.toml:3: data.in_memory");
  CHECK(generated.remedy == "write in_memory = true, or another kind");
  const std::string text = "[data]\nkind = \"text\"\nfolder = \"" +
                           std::string(GRAPEVINE_SOURCE_DIR) +
                           "/configs/text\"\ntrain_files = [\"vineyard.txt\"]\n"
                           "partition = \"leased\"\n" +
                           stays;
  const std::string model = "[model]\nkind = \"transformer\"\n";
  CHECK(only_problem(text + model).remedy == "name test_files, or write in_memory = true");
  const std::string tested = text + "test_files = [\"vineyard.txt\"]\n" + model;
  CHECK_FALSE(sound(tested).data.in_memory);
  CHECK(only_problem(tested + "[train]\nthreads = 2\noptimizer = \"sgd\"\n").remedy ==
        "write threads = 1, or in_memory = true below [data]");
}

TEST_CASE("a transformer on what is not text is refused", "[unit]") {
  const Problem problem = only_problem("[model]\nkind = \"transformer\"\n");
  CHECK(problem.place == "a.toml:2: model.kind");
  CHECK(problem.remedy.find("kind = \"text\"") != std::string::npos);
}

TEST_CASE("settings of text and of numbers are refused where they mean nothing", "[unit]") {
  const std::string text = "[data]\nkind = \"text\"\nfolder = \"" +
                           std::string(GRAPEVINE_SOURCE_DIR) +
                           "/configs/text\"\ntrain_files = [\"vineyard.txt\"]\n";
  CHECK(problems_of(text).empty());
  CHECK(only_problem(text + "mean = 0.5\n").place == "a.toml:5: data.mean");
  CHECK(only_problem(text + "context = 0\n").reason == "out of range: 0");
  CHECK(only_problem(text + "partition = \"by_label\"\n").reason.find("no labels") !=
        std::string::npos);
  CHECK(only_problem(text + "test_files = [\"no.txt\"]\n").reason.find("no such file") !=
        std::string::npos);
  CHECK(only_problem("[data]\ncontext = 64\n").reason == "has no effect here");
  CHECK(only_problem("[model]\nblocks = 2\n").remedy.find("transformer") != std::string::npos);
  const Problem heads =
      only_problem(text + "[model]\nkind = \"transformer\"\nwidth = 100\nheads = 3\n");
  CHECK(heads.place == "a.toml:8: model.heads");
  CHECK(heads.reason == "3 heads do not divide the width of 100");
  const Problem unnamed = only_problem("[data]\nkind = \"text\"\nfolder = \"x\"\n");
  CHECK(unnamed.reason == "lists 0 files");
}

TEST_CASE("agreement changes with what peers must share and with nothing else", "[unit]") {
  const auto plain = agreement(sound(""));
  CHECK(agreement(sound("[run]\nseed = 2\n")) != plain);
  CHECK(agreement(sound("[model]\nhidden = [64, 33]\n")) != plain);
  CHECK(agreement(sound("[gossip]\ncodec = \"fp16\"\n")) != plain);
  CHECK(agreement(sound("[data]\nmean = 0.5\n")) != plain);
  CHECK(agreement(sound("[train]\nbatch = 8\n[metrics]\nevery_s = 1\n")) == plain);
  CHECK(agreement(sound("[network]\ntrusted = true\n[run]\nfolder = \"x\"\n")) == plain);
}

TEST_CASE("the agreement of a list of layers is the list", "[unit]") {
  const auto with_rate = [](const std::string& rate) {
    return sound(
        "[model]\nkind = \"layers\"\n[[model.layers]]\nkind = \"dropout\"\nrate = " + rate + "\n");
  };
  const auto fields = agreement(with_rate("0.25"));
  CHECK(fields.back() ==
        std::pair<std::string, std::string>{"model.layers", "[{kind = \"dropout\", rate = 0.25}]"});
  CHECK(agreement(with_rate("0.25")) != agreement(with_rate("0.5")));
}

namespace {

/// The config of a k-means by four peers with this algorithm.
Config k_means(const std::string& algorithm) {
  return sound("[run]\npeers = 4\nepochs = 4\nalgorithm = \"" + algorithm +
               "\"\n[model]\nkind = \"layers\"\nloss = \"reconstruction\"\nlayers = [{ kind = "
               "\"clusters\", units = 3 }]\n[train]\noptimizer = \"sgd\"\nlearning_rate = 0.05\n");
}

Problems cluster_problems(const Config& config) {
  return cluster_problems(config, config.model.layers);
}

}  // namespace

TEST_CASE("clusters refuse algorithms that break their counts and the remedies are accepted",
          "[unit]") {
  for (const std::string algorithm :
       {"all_reduce", "local_sgd", "elastic", "ad_psgd", "diffusion", "d_psgd", "sgp", "choco"}) {
    INFO(algorithm << ": " << lines(cluster_problems(k_means(algorithm))));
    CHECK(cluster_problems(k_means(algorithm)).empty());
  }
  for (const std::string algorithm : {"diloco", "slowmo", "noloco", "downpour", "slicing", "dgc",
                                      "power_sgd", "qg_dsgdm", "decentlam"}) {
    INFO(algorithm);
    const Problems found = cluster_problems(k_means(algorithm));
    REQUIRE(!found.empty());
    const std::string& remedy = found.front().remedy;
    const std::string begin = "take algorithm = \"";
    REQUIRE(remedy.starts_with(begin));
    const std::string other = remedy.substr(begin.size(), remedy.size() - begin.size() - 1);
    CHECK(cluster_problems(k_means(other)).empty());
  }
  for (const std::string how : {"one_bit = true", "ternary = true", "random_k_per_512 = 8",
                                "top_k_per_512 = 8", "codec = \"qsgd4\""}) {
    INFO(how);
    Config config = sound("[run]\nmode = \"allreduce\"\n[allreduce]\n" + how + "\n");
    config.model = k_means("all_reduce").model;
    config.train = k_means("all_reduce").train;
    const Problems found = cluster_problems(config);
    REQUIRE(found.size() == 1);
    CHECK(found.front().place == "allreduce");
  }
}

TEST_CASE("clusters inside other layers are found", "[unit]") {
  Config config = k_means("diffusion");
  const LayerSpec clusters = config.model.layers.front();
  config.model.loss = LossKind::cross_entropy;
  for (const LayerSpec& outer :
       {LayerSpec{.kind = LayerKind::stack, .layers = {{.kind = LayerKind::relu}, clusters}},
        LayerSpec{.kind = LayerKind::residual,
        .layers = {{.kind = LayerKind::relu}},
        .shortcut = {clusters}}}) {
    const Problems found = cluster_problems(config, {outer});
    REQUIRE(found.size() == 1);
    CHECK(found.front().place == "model.loss");
  }
}

TEST_CASE("a switch to what breaks the counts of clusters is refused", "[unit]") {
  const SwitchedConfig refused =
      switched_config(k_means("all_reduce"), settings_of("gradient_tracking"));
  CHECK(lines(refused.problems).find("sums and counts") != std::string::npos);
}

TEST_CASE("data with targets are not dealt out by labels", "[unit]") {
  const std::string csv =
      "[data]\nkind = \"csv\"\nfolder = \".\"\ntrain_files = [\"a\"]\ntest_files = [\"b\"]\n";
  for (const std::string partition : {"dirichlet", "by_label"}) {
    const std::string dealt = "partition = \"" + partition + "\"\n";
    const Problem generated = only_problem("[data]\n" + dealt + "[data.generated]\ntargets = 2\n");
    CHECK(to_string(generated) ==
          "a.toml:2: data.partition: data with targets have no labels to deal out by; write "
          "partition = \"iid\" or \"shared\"");
    // The files of these configs are missing, which is a problem of its own.
    const auto reasons = [&](const std::string& targets) {
      return lines(problems_of(csv + targets + dealt));
    };
    CHECK(reasons("csv_targets = 1\n").find(generated.reason) != std::string::npos);
    CHECK(reasons("").find(generated.reason) == std::string::npos);
  }
}

TEST_CASE("problems of a model known by name are reported at the key that causes them", "[unit]") {
  Config config;
  const auto place = [&](const SampleShape& shape) {
    const DataSet data{.shape = shape, .classes = 10};
    const Problems found = problems_of(config, model_spec(config.model, 10), data);
    return found.empty() ? std::string() : found.front().place;
  };
  config.model.kind = ModelKind::lenet;
  CHECK(place({1, 28, 28}).empty());
  CHECK(place({1, 4, 4}) == "model.kind");
  config.model.convolution = ConvolutionMethod::winograd;  // For kernels of 3; LeNet's have 5.
  CHECK(place({1, 28, 28}) == "model.convolution");
  CHECK(place({1, 4, 4}) == "model.kind");
}

TEST_CASE("a last layer that sets no number of outputs is named", "[unit]") {
  Config config;
  config.model.kind = ModelKind::layers;
  config.model.layers = {{.kind = LayerKind::dense, .units = 10}, {.kind = LayerKind::relu}};
  const DataSet data{.shape = {4, 1, 1}, .classes = 10};
  CHECK(lines(problems_of(config, model_spec(config.model, 10), data)) ==
        "model.layers: the last layer is relu, which sets no number of outputs, the data needs 10; "
        "end with a dense layer of units = 10\n");
}

}  // namespace gv
