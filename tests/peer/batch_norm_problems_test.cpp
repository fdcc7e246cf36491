// Batch norms are refused in configs where no peer's statistics would fit the model.
#include "peer/config/batch_norm_problems.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace gv {
namespace {

Config in_mode(ModeKind mode) {
  Config config = default_config();
  config.run.mode = mode;
  return config;
}

std::vector<LayerSpec> layers_with(Statistics statistics) {
  const LayerSpec norm{.kind = LayerKind::batch_norm, .statistics = statistics};
  return {{.kind = LayerKind::dense, .units = 4},
          {.kind = LayerKind::residual, .layers = {norm, {.kind = LayerKind::relu}}}};
}

}  // namespace

TEST_CASE("local statistics are refused where models are mixed and the remedies are accepted") {
  Config stages = in_mode(ModeKind::pipeline);
  stages.pipeline.consensus = StageConsensus::gossip;
  for (const Config& config : {in_mode(ModeKind::gossip), in_mode(ModeKind::mixing), stages}) {
    const Problems found = batch_norm_problems(config, layers_with(Statistics::local));
    REQUIRE(found.size() == 1);
    CHECK(found.front().place == "model.layers[1]");
    CHECK(found.front().remedy.find("group_norm") != std::string::npos);
    CHECK(found.front().remedy.find("\"pooled\"") != std::string::npos);
    CHECK(batch_norm_problems(config, layers_with(Statistics::pooled)).empty());
    CHECK(batch_norm_problems(config, {{.kind = LayerKind::group_norm}}).empty());
  }
  for (const ModeKind mode : {ModeKind::allreduce, ModeKind::pipeline}) {
    CHECK(batch_norm_problems(in_mode(mode), layers_with(Statistics::local)).empty());
  }
}

TEST_CASE("the statistics of a batch norm are read from a list of layers and written again") {
  const std::string layers =
      "[model]\nkind = \"layers\"\nlayers = [{ kind = \"batch_norm\", statistics = \"pooled\" }]\n";
  const ParsedConfig parsed = parse_config_text(layers, "text");
  REQUIRE(parsed.problems.empty());
  REQUIRE(parsed.config.model.layers.size() == 1);
  CHECK(parsed.config.model.layers.front().statistics == Statistics::pooled);
  CHECK(to_toml(parsed.config).find("statistics = \"pooled\"") != std::string::npos);
}

TEST_CASE("statistics of batch norms are not compressed or scaled and need a batch") {
  Config config = in_mode(ModeKind::allreduce);
  const auto place_of_first = [&] {
    const Problems found = batch_norm_problems(config, layers_with(Statistics::local));
    return found.empty() ? std::string() : found.front().place;
  };
  config.train.batch = 1;
  CHECK(place_of_first() == "train.batch");
  config.train.batch = 16;
  config.train.threads = 2;
  CHECK(place_of_first() == "train.threads");
  config.train.threads = 1;
  config.allreduce.compression.codec = Codec::qsgd8;
  CHECK(place_of_first() == "allreduce");
  config.allreduce.compression.codec = Codec::identity;
  CHECK(place_of_first().empty());
  config.allreduce.noise_scale = true;
  CHECK(place_of_first() == "allreduce.noise_scale");
}

TEST_CASE("statistics of batch norms are averaged and never added up") {
  Config config = in_mode(ModeKind::mixing);
  const auto layers = layers_with(Statistics::pooled);
  CHECK(batch_norm_problems(config, layers).empty());
  config.mixing.rule.kind = MixKind::downpour;
  const Problems found = batch_norm_problems(config, layers);
  REQUIRE(found.size() == 1);
  CHECK(found.front().place == "mixing");
  CHECK(found.front().reason.find("adds up") != std::string::npos);
  CHECK(found.front().remedy.find("group norm") != std::string::npos);
}

}  // namespace gv
