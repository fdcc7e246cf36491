// The grapevine binary, with additions for tests: it can end itself at an exact point of an
// all-reduce or a pipeline run, and it records every sum.
//
// A test puts a file `point` next to the peers' folders: "NAME, before|after SIGNAL SKIP". The
// first peer that reaches that point for the (SKIP + 1)th time removes the file and sends itself
// the signal. With `before`, the signal precedes the effects that the peer carries out at that
// point. With `after`, the signal follows the effects, at the next event. A peer adds a line to
// `sums` in its folder for every sum that it applies: the resulting lineage (and the stage), the
// step, and a fingerprint of the sum.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/fingerprint.hpp"
#include "cli/cli.hpp"
#include "peer/modes/pipeline.hpp"
#include "peer/node/node.hpp"
#include "tests/lockstep_points.hpp"
#include "tests/pipeline_points.hpp"

namespace gv {
namespace {

class PointWatch {
 public:
  explicit PointWatch(const std::filesystem::path& folder)
      : point_file_(folder.parent_path() / "point"), sums_(folder / "sums", std::ios::app) {}

  void look(const Node& node, const NodeEffects& effects) {
    if (due_ != 0) ::raise(std::exchange(due_, 0));
    for (const Job& job : effects.jobs) write_down(job);
    if (::access(point_file_.c_str(), F_OK) != 0) {
      seen_ = 0;
      return;
    }
    std::ifstream file(point_file_);
    std::string point, when;
    int signal = 0;
    std::uint64_t skip = 0;
    if (!std::getline(file, point, ',') || !(file >> when >> signal >> skip)) return;
    const bool is_there = node.as<PipelineMode>() != nullptr
                              ? is_at_pipeline_point(point, node, effects)
                              : is_at(point, node, effects);
    if (!is_there || seen_++ < skip) return;
    if (::unlink(point_file_.c_str()) != 0) return;  // Another peer removed the file first.
    if (when == "before") {
      ::raise(signal);
    } else {
      due_ = signal;
    }
  }

 private:
  void write_down(const Job& job) {
    if (const auto* update = first_of<task::ApplyUpdate>(job.tasks)) {
      sums_ << job.version.lineage << ' ' << job.version.step << ' ' << fingerprint(*update->values)
            << std::endl;
    }
    // If the peer loads another state in the same job, it does not report the result of the sum.
    const auto* run = first_of<task::EndRun>(job.tasks);
    if (run == nullptr || first_of<task::MoveTo>(job.tasks) != nullptr) return;
    for (const StageEnd& end : run->ends) {
      if (!end.sum) continue;
      sums_ << job.version.lineage << '/' << end.stage << ' ' << job.version.step << ' '
            << fingerprint(*end.sum) << std::endl;
    }
  }

  std::filesystem::path point_file_;
  std::ofstream sums_;
  std::uint64_t seen_ = 0;
  int due_ = 0;
};

}  // namespace
}  // namespace gv

int main(int argc, char** argv) {
  std::filesystem::path folder;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--folder") folder = argv[i + 1];
  }
  gv::PointWatch watch(folder);
  const auto look = [&](const gv::Node& node, const gv::NodeEffects& effects) {
    watch.look(node, effects);
  };
  return gv::run_command_line(argc, argv, {.watcher = look, .stand_in = {}});
}
