// The file that describes peers, and the layers of models that they may share.
#include "peer/config/peers_file.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "consensus/split/split_plan.hpp"
#include "peer/config/split_layers.hpp"
#include "train/layers/group_steps.hpp"
#include "train/layers/plan.hpp"
#include "train/layers/sliced_stage.hpp"

namespace gv {
namespace {

const std::string two_peers =
    "[[peer]]\nname = \"desk\"\ngflops = 8\nmemory_mb = 2000\n"
    "[[peer]]\nname = \"tower\"\ngflops = 4.5\n";

/// The only problem of a text, on one line.
std::string problem_of(const std::string& text) {
  const ParsedPeers parsed = parse_peers_text(text, "p.toml");
  INFO(text);
  REQUIRE(parsed.problems.size() == 1);
  return to_string(parsed.problems.front());
}

/// The number of floats in each sum if there is one cut, averaged over all places of the cut.
std::vector<double> mean_sums(const SlicedStage& stage, bool backward, bool wants_d_inputs) {
  std::vector<double> floats;
  for (const GroupSum& sum : group_sums(stage, backward, wants_d_inputs)) {
    const std::size_t edges = std::reduce(sum.at_cut.begin(), sum.at_cut.end(), std::size_t{0});
    floats.push_back(static_cast<double>(sum.always + edges / (slices_of_stage - 1)));
  }
  return floats;
}

/// Layers [first, end) of a model.
ModelPlan stage_of(const ModelSpec& model, const SampleShape& shape, std::size_t first,
                   std::size_t end) {
  Problems unsound;
  return slice(plan_model(model, shape, unsound), first, end);
}

}  // namespace

TEST_CASE("a file of peers gives speeds and memory and links") {
  const ParsedPeers parsed =
      parse_peers_text(two_peers +
                           "[[peer]]\nname = \"board\"\ngflops = 1\n"
                           "[links]\nlatency_ms = 2\nbandwidth_mbit = 100\n"
                           "[[link]]\npeers = [\"desk\", \"tower\"]\nlatency_ms = 0.5\n",
                       "p.toml");
  REQUIRE(parsed.problems.empty());
  const SplitSite& site = parsed.site;
  REQUIRE(site.peers.size() == 3);
  CHECK(site.peers[0].name == "desk");
  CHECK(site.peers[0].operations_per_s == 8e9);
  CHECK(site.peers[0].memory_bytes == 2e9);
  CHECK(site.peers[1].memory_bytes == 0);
  CHECK(site.links[0][2].latency_s == Approx(2e-3));
  CHECK(site.links[0][2].bytes_per_s == Approx(12.5e6));
  CHECK(site.links[1][0].latency_s == Approx(0.5e-3));
  CHECK(site.links[1][0].bytes_per_s == 0);
}

TEST_CASE("mistakes in a file of peers are named with place and remedy") {
  CHECK(problem_of("") ==
        "p.toml:1: peer: 0 of them; write one [[peer]] for each peer, at most 64");
  CHECK(problem_of(two_peers + "[[peer]]\ngflops = 1\n") ==
        "p.toml:8: peer[2]: a peer without a name; add name = \"desk\"");
  CHECK(problem_of("[[peer]]\nname = \"a\"\n") ==
        "p.toml:1: peer[0]: a peer without a speed; add gflops = 8.0");
  CHECK(problem_of("[[peer]]\nname = \"a\"\ngflops = -1\n")
            .starts_with("p.toml:3: peer[0].gflops: out of range: -1"));
  CHECK(problem_of("[[peer]]\nname = \"a\"\nglops = 1\ngflops = 1\n") ==
        "p.toml:3: peer[0].glops: unknown key; the nearest valid one is gflops");
  CHECK(problem_of(two_peers + two_peers.substr(0, 34)).find("two peers are called \"desk\"") !=
        std::string::npos);
  CHECK(problem_of(two_peers + "[[link]]\npeers = [\"desk\", \"sofa\"]\n")
            .find("no peer is called \"sofa\"") != std::string::npos);
  CHECK(problem_of(two_peers + "[[link]]\npeers = [\"desk\"]\n").find("a link without two ends") !=
        std::string::npos);
  CHECK(problem_of("peer = 3\n").find("wrong type") != std::string::npos);
  CHECK(problem_of(two_peers + "links = 3\n").find("unknown key") != std::string::npos);
  std::string many;
  for (int i = 0; i < 65; ++i)
    many += "[[peer]]\nname = \"p" + std::to_string(i) + "\"\ngflops = 1\n";
  CHECK(problem_of(many).find("65 of them") != std::string::npos);
}

TEST_CASE("a convolutional network is shared in pieces of a layer and what follows it") {
  const std::vector<ModelPiece> pieces = model_pieces(cnn(10), {1, 28, 28});
  REQUIRE(pieces.size() == 4);
  CHECK(pieces[0].end == 2);
  CHECK(pieces[1].costs.name == "conv2d 64");
  // A convolution and its pool form one piece. Strips are cut where the pool's windows end.
  CHECK(pieces[1].end == 5);
  CHECK(pieces[1].costs.rows == 14);
  CHECK(pieces[1].costs.halo == 32 * 28);
  CHECK(pieces[1].costs.halo_messages == 1);
  CHECK(pieces[1].costs.weights == 18496);
  CHECK(pieces[1].costs.outputs == 12544);
  CHECK(pieces[2].costs.model_grains == 128);
  CHECK(pieces[2].costs.merge == OutputMerge::gather);
  CHECK(pieces[2].costs.has_factors);
  // Two operations for each weight, and one for each input and output.
  CHECK(pieces[2].costs.operations == Approx(2 * 12544.0 * 128).epsilon(0.01));
  CHECK(pieces[3].costs.merge == OutputMerge::none);
  CHECK(pieces[3].end == 8);
}

TEST_CASE("halos follow kernel and stride and padding") {
  const auto halo = [](const LayerSpec& conv) {
    return model_pieces({.layers = {conv, {.kind = LayerKind::dense, .units = 2}}}, {3, 20, 7})
        .front()
        .costs;
  };
  CHECK(halo({.kind = LayerKind::conv2d, .units = 2, .kernel = 5, .padding = 2}).halo == 2 * 21);
  CHECK(halo({.kind = LayerKind::conv2d, .units = 2, .kernel = 1}).halo_messages == 0);
  // The layer reads one row above its own pairs of rows, and none below.
  CHECK(
      halo({.kind = LayerKind::conv2d, .units = 2, .kernel = 3, .stride = 2, .padding = 1}).halo ==
      21);
  CHECK(halo({.kind = LayerKind::conv2d, .units = 2, .kernel = 7, .stride = 2}).halo == 5 * 21);
}

TEST_CASE("groups are planned with the sums and slices of every stage as they run") {
  struct Known {
    ModelSpec model;
    SampleShape shape;
  };
  const auto dense = [](std::uint32_t units) {
    return LayerSpec{.kind = LayerKind::dense, .units = units};
  };
  const LayerSpec relu{.kind = LayerKind::relu};
  const LayerSpec dropout{.kind = LayerKind::dropout, .rate = 0.5};
  const ModelSpec deep{.layers = {dense(100), relu, dense(90), relu, dense(80), dropout, dense(70),
                                  relu, dense(60), dense(50), relu, dense(4)}};
  const auto conv = [](std::uint32_t units, std::size_t kernel) {
    return LayerSpec{
        .kind = LayerKind::conv2d, .units = units, .kernel = kernel, .padding = kernel / 2};
  };
  const LayerSpec norm{.kind = LayerKind::layer_norm};
  const ModelSpec images{
      .layers = {conv(16, 3),
                 relu,
                 conv(16, 5),
                 {.kind = LayerKind::max_pool, .kernel = 2},
                 {.kind = LayerKind::residual, .layers = {conv(16, 3), relu, conv(16, 3)}},
                 norm,
                 conv(16, 3),
                 dense(40)}};
  for (const Known& known :
       {Known{cnn(10), {1, 28, 28}}, Known{images, {3, 40, 32}}, Known{deep, {40, 1, 1}},
        Known{transformer({.blocks = 2, .width = 32, .heads = 4}, 100), {16, 1, 1}}}) {
    const std::vector<ModelPiece> pieces = model_pieces(known.model, known.shape);
    std::vector<SplitLayer> layers;
    for (const ModelPiece& piece : pieces) layers.push_back(piece.costs);
    for (std::size_t first = 0; first < layers.size(); ++first) {
      for (std::size_t last = first + 1; last <= layers.size(); ++last) {
        const bool may_end = last == layers.size() || layers[last].may_begin_stage;
        if (!layers[first].may_begin_stage || !may_end) continue;
        INFO(first << " to " << last);
        std::vector<double> forward;
        std::vector<double> backward;
        double sliced = 0;
        for (const SplitLayer& layer : in_stage(layers, first, last)) {
          for (const SplitUnit& unit : layer.units) {
            for (const double floats : {unit.edges, unit.outputs}) {
              if (floats > 0) forward.push_back(floats);
            }
            for (const double floats : {unit.inputs, unit.edges}) {
              if (floats > 0) backward.push_back(floats);
            }
            sliced += unit.weights;
          }
        }
        std::ranges::reverse(backward);
        const SlicedStage stage(
            stage_of(known.model, known.shape, pieces[first].first, pieces[last - 1].end), 24);
        CHECK(forward == mean_sums(stage, false, first > 0));
        CHECK(backward == mean_sums(stage, true, first > 0));
        double held = 0;
        for (std::size_t i = 0; i < stage.slices(); ++i) held += stage.slice_size(i);
        // A pair of layers that saves a sum also slices the biases of its first layer.
        CHECK(sliced == Approx(held).margin(200));
      }
    }
  }
}

TEST_CASE("a batch norm in strips is planned with the sums that it makes") {
  const LayerSpec convolution{.kind = LayerKind::conv2d, .units = 16, .kernel = 3, .padding = 1};
  const ModelSpec model{.layers = {convolution,
                                   {.kind = LayerKind::batch_norm},
                                   {.kind = LayerKind::relu},
                                   {.kind = LayerKind::dense, .units = 4}}};
  const SampleShape shape{3, 40, 32};
  const std::vector<ModelPiece> pieces = model_pieces(model, shape);
  REQUIRE(pieces.size() == 3);
  REQUIRE(!pieces[1].costs.units.empty());
  const SplitUnit& norm = pieces[1].costs.units.front();
  CHECK(norm.takes_strips);
  CHECK(norm.statistics == 2 * 16);
  CHECK(norm.edges == 0);
  const SlicedStage stage(stage_of(model, shape, 0, 4), slices_of_stage);
  for (const bool backward : {false, true}) {
    const std::vector<GroupSum> sums = group_sums(stage, backward, false);
    const auto found = std::ranges::find_if(sums, &GroupSum::is_of_batch);
    REQUIRE(found != sums.end());
    CHECK(found->always == 2 * 16);
  }
}

TEST_CASE("a transformer is shared by vocabulary and heads and pairs") {
  const std::vector<ModelPiece> pieces = model_pieces(
      transformer({.blocks = 1, .width = 32, .heads = 4, .tied = true}, 100), {16, 1, 1});
  REQUIRE(pieces.size() == 5);
  CHECK(pieces[0].costs.model_grains == 100);
  CHECK(pieces[1].costs.model_grains == 4);
  CHECK(pieces[1].costs.merge == OutputMerge::sum);
  CHECK(pieces[2].costs.model_grains == 128);
  CHECK(pieces[2].costs.merge == OutputMerge::sum);
  CHECK(pieces[3].costs.model_grains == 0);
  CHECK(pieces[4].costs.model_grains == 100);
  CHECK(pieces[4].costs.merge == OutputMerge::none);
  CHECK(pieces[4].costs.tied_to == 0);
  CHECK_FALSE(pieces[2].costs.may_begin_stage);
  const std::vector<ModelPiece> apart = model_pieces(
      transformer({.blocks = 1, .width = 32, .heads = 4, .tied = false}, 100), {16, 1, 1});
  CHECK(apart[2].costs.may_begin_stage);
  CHECK_FALSE(apart[4].costs.tied_to);
}

}  // namespace gv
