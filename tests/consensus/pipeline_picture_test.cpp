// Pictures of small schedules. Texts are compared character by character, and SVG images by their
// number of boxes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "consensus/pipeline/picture.hpp"
#include "consensus/pipeline/replay.hpp"
#include "consensus/pipeline/schedule.hpp"

namespace gv {
namespace {

/// Each part of the work takes a second, so a forward pass is 1 slot and a backward pass 2. Updates
/// take almost no time.
PipelineTiming timing(PipelineKind kind, std::size_t stages, std::size_t micro_batches) {
  const PipelineSchedule schedule =
      make_schedule(kind, straight_routes(stages, micro_batches), stages);
  return replay(
      schedule,
      {.stages = std::vector<StageCost>(
           stages,
           {.forward = 1, .backward_input = 1, .backward_weight = 1, .update = 1.0 / 1024})});
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

std::size_t operations(const PipelineTiming& timing) {
  std::size_t all = 0;
  for (const auto& worker : timing.workers) all += worker.size();
  return all;
}

}  // namespace

TEST_CASE("1F1B is drawn with its warm up and its alternation and its end") {
  CHECK(pipeline_text(timing(PipelineKind::one_f_one_b, 3, 4), {.slot_s = 1}) ==
        "worker 0  012....aa3bb.cc.dd#\n"
        "worker 1  .01..aa2bb3cc.dd#..\n"
        "worker 2  ..0aa1bb2cc3dd#....\n"
        "          0          18001 ms\n");
}

TEST_CASE("gpipe is drawn with all forward passes before the first backward pass") {
  CHECK(pipeline_text(timing(PipelineKind::gpipe, 2, 3), {.slot_s = 1}) ==
        "worker 0  012...aabbcc#\n"
        "worker 1  .012aabbcc#..\n"
        "          0    12001 ms\n");
}

TEST_CASE("zero bubble is drawn with the weights in the place of idle slots") {
  CHECK(pipeline_text(timing(PipelineKind::zero_bubble, 2, 3), {.slot_s = 1}) ==
        "worker 0  01.aA2bBcC#\n"
        "worker 1  .0a1bA2cBC#\n"
        "          0  10001 ms\n");
}

TEST_CASE("a schedule wider than its columns is scaled to them") {
  const std::string text =
      pipeline_text(timing(PipelineKind::gpipe, 2, 90), {.columns = 60, .slot_s = 1});
  std::size_t widest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    widest = std::max(widest, end - begin);
    begin = end + 1;
  }
  CHECK(widest == 60);
  CHECK(count(text, "\n") == 3);
  CHECK(count(text, "#") == 2);
}

TEST_CASE("rows have the names they are given and columns stay aligned") {
  CHECK(pipeline_text(timing(PipelineKind::gpipe, 2, 1), {.rows = {"a", "long"}, .slot_s = 1}) ==
        "a     0...aa#\n"
        "long  .0aa#..\n"
        "      0\n");
}

TEST_CASE("the legend explains only what is drawn") {
  const std::string plain = pipeline_legend(timing(PipelineKind::one_f_one_b, 2, 2));
  CHECK(count(plain, "\n") == 4);
  CHECK(plain.find("weights") == std::string::npos);
  CHECK(pipeline_legend(timing(PipelineKind::zero_bubble, 2, 2)).find("weights") !=
        std::string::npos);
}

TEST_CASE("the drawing has one box an operation in its action's class") {
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::gpipe,
                                  PipelineKind::zero_bubble, PipelineKind::pipedream}) {
    const PipelineTiming drawn = timing(kind, 3, 5);
    const std::string svg = pipeline_svg(drawn, {.title = "a < b & c"});
    CHECK(count(svg, "class='op ") == operations(drawn));
    CHECK(count(svg, "class='op forward'") == 15);
    CHECK(count(svg, "class='idle'") == 3);
    CHECK(svg.find("a &lt; b &amp; c") != std::string::npos);
    CHECK(svg.ends_with("</svg>\n"));
  }
}

TEST_CASE("nothing that takes time is nothing to draw") {
  CHECK(pipeline_text({}, {}).empty());
  CHECK(pipeline_svg({}, {}).empty());
}

TEST_CASE("a replay with the seconds of each operation is one with its costs if they agree") {
  const PipelineSchedule schedule =
      make_schedule(PipelineKind::one_f_one_b, straight_routes(3, 4), 3);
  PipelineCosts costs{.stages = {{1, 2, 3, 0.5}, {2, 1, 1, 0.5}, {1, 1, 2, 0.5}},
                      .boundaries = {{0.25, 0.5}, {0.5, 0}}};
  std::vector<std::vector<double>> seconds;
  for (const auto& worker : schedule.workers) {
    seconds.emplace_back();
    for (const PipelineInstruction& operation : worker) {
      seconds.back().push_back(costs.stages[operation.stage].seconds(operation.action));
    }
  }
  const PipelineTiming whole = replay(schedule, costs);
  costs.stages.clear();
  const PipelineTiming single = replay(schedule, costs, seconds);
  CHECK(single.makespan == whole.makespan);
  CHECK(single.busy == whole.busy);
  seconds[1][0] += 1;
  CHECK(replay(schedule, costs, seconds).makespan > whole.makespan);
}

}  // namespace gv
