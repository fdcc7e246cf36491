// The drawing of single models and their mean: positions are linear in the models, and distances
// are correct.
#include "sim/model_paths.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "sim/local/model_history.hpp"
#include "sim/plot.hpp"
#include "tests/train/data_folder.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace gv {
namespace {

using Models = std::map<std::size_t, std::vector<float>>;

void look(ModelPaths& paths, double at, const Models& models) {
  std::map<std::size_t, std::span<const float>> views;
  for (const auto& [peer, model] : models) views[peer] = model;
  paths.look(at, views);
}

}  // namespace

TEST_CASE("models pulled to a mean that stays come nearer to it in the picture", "[unit]") {
  Rng rng(3);
  Models models;
  for (std::size_t peer = 0; peer < 4; ++peer) {
    for (int i = 0; i < 1000; ++i) models[peer].push_back(static_cast<float>(rng.normal()));
  }
  ModelPaths paths;
  // All models shrink by the same factor, and so does their mean.
  for (int moment = 0; moment < 4; ++moment) {
    look(paths, moment, models);
    for (auto& [peer, model] : models) {
      for (float& value : model) value /= 2;
    }
  }
  REQUIRE(paths.can_be_drawn());
  for (std::size_t peer = 0; peer < 4; ++peer) {
    const auto& distances = paths.distances().at(peer);
    REQUIRE(distances.size() == 4);
    // A model of 1000 normally distributed values is at a distance of sqrt(1000 * 3/4) = 27.4 from
    // the mean of four models.
    CHECK(distances[0].second == Approx(27.4).epsilon(0.1));
    CHECK(distances[3].second == Approx(distances[0].second / 8).epsilon(1e-5));
  }
  // The mean's position is the mean of the models' positions, and starts at 0.
  for (std::size_t moment = 0; moment < 4; ++moment) {
    double sum = 0;
    for (const auto& [peer, curve] : paths.positions()) sum += curve[moment].second;
    CHECK(sum / 4 == Approx(paths.mean_position()[moment].second).margin(1e-4));
  }
  CHECK(paths.mean_position()[0].second == 0);
}

TEST_CASE("models of a peer alone or of one moment make no picture", "[unit]") {
  ModelPaths alone;
  look(alone, 0, {{0, {1, 2}}});
  look(alone, 1, {{0, {2, 2}}});
  CHECK_FALSE(alone.can_be_drawn());
  ModelPaths once;
  look(once, 0, {{0, {1, 2}}, {1, {2, 1}}});
  look(once, 1, {});
  CHECK_FALSE(once.can_be_drawn());
}

TEST_CASE("the history of a run is what its peers have left of the same moments", "[unit]") {
  const DataFolder folder;
  Layout layout;
  layout.add("x", {2});
  const std::vector<std::filesystem::path> peers{folder.path("peer-0"), folder.path("peer-1"),
                                                 folder.path("peer-2")};
  const auto save = [&](std::size_t peer, std::uint64_t step, float value) {
    const std::vector<float> model{value, 0};
    CHECK(save_checkpoint(peers[peer] / "checkpoints", layout, model, {.step = step}, {}, 10)
              .empty());
  };
  save(0, 100, 1);
  save(1, 103, 3);  // Each peer's job ends a little later than that of the peer before.
  save(0, 200, 5);
  save(1, 209, 6);
  save(1, 300, 9);  // Only peer 1 has a model here.
  std::ofstream(peers[0] / "checkpoints" / "step-0000000205.safetensors") << "torn";
  std::ofstream(peers[0] / "checkpoints" / "notes.txt") << "no model";
  const ModelPaths paths = read_model_history(peers, layout, 100);
  REQUIRE(paths.can_be_drawn());
  const ModelPaths::Curve wanted{{100, 1}};
  // A torn file is left out, so the second moment has one model.
  CHECK(paths.distances().at(0) == wanted);
  CHECK(paths.distances().at(1) == ModelPaths::Curve{{100, 1}, {200, 0}});
  CHECK_FALSE(paths.distances().contains(2));
}

TEST_CASE("a picture of many models draws some and has the mean of all", "[unit]") {
  ModelPaths paths;
  Models models;
  for (std::size_t peer = 0; peer < 100; ++peer) models[peer] = {static_cast<float>(peer)};
  look(paths, 0, models);
  look(paths, 1, models);
  CHECK(paths.positions().size() == ModelPaths::drawn_max);
  CHECK(paths.distances().at(0)[0].second == Approx(49.5));
  const std::string svg = paths.svg("title", "steps");
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("a plot takes values below zero, and a logarithmic one leaves them out", "[unit]") {
  const PlotCurve curve{{{0, -3}, {1, 4}, {2, INFINITY}}, false};
  const std::vector<PlotPanel> panels{{"a", "s", false, {curve}}, {"b", "s", true, {curve}}};
  const std::string svg = plot_svg(panels, "two");
  CHECK(svg.find(">-4<") != std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  // Both finite points are in the linear panel, and only one is in the logarithmic one.
  CHECK(svg.find("class='curve' points='64.0,") != std::string::npos);
}

}  // namespace gv
