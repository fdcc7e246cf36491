// Real peers whose training data stay in files end with one model, or say which file failed.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>

#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// IDX files of zeros in a folder of their own, with a 9 as the last label, so that there are ten
/// classes. The files are sparse, so they take no room on the disk.
class ZeroImages {
 public:
  explicit ZeroImages(std::uint32_t count) {
    write("images", {0x803, count, 28, 28}, std::uintmax_t{count} * 28 * 28);
    write("labels", {0x801, count}, count - 1);
    std::ofstream(folder_.path() / "labels", std::ios::binary | std::ios::app).put('\x09');
  }

  std::filesystem::path images() const { return folder_.path() / "images"; }

  /// The [data] section of a config that trains on these files.
  std::string section() const {
    return "[data]\nkind = \"idx\"\nfolder = \"" + folder_.path().string() +
           "\"\ntrain_files = [\"images\", \"labels\"]\ntest_files = [\"images\", \"labels\"]\n"
           "partition = \"leased\"\nin_memory = false\n";
  }

 private:
  void write(const std::string& name, std::initializer_list<std::uint32_t> header,
             std::uintmax_t bytes) const {
    const std::filesystem::path file = folder_.path() / name;
    std::ofstream out(file, std::ios::binary);
    for (const std::uint32_t number : header) {
      for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(number >> shift));
    }
    out.close();
    std::filesystem::resize_file(file, 4 * header.size() + bytes);
  }

  TemporaryFolder folder_;
};

std::string config_for(const ZeroImages& data, const std::string& run) {
  return "[run]\n" + run + data.section() +
         "[model]\nkind = \"mlp\"\nhidden = [16]\n[checkpoint]\nevery_steps = 0\n";
}

}  // namespace

TEST_CASE("peers whose data stay in files work them off together", "[process]") {
  const ZeroImages data(20'000);
  Swarm swarm(3, config_for(data, "epochs = 3\npeers = 3\nlinger_s = 20.0\n"));
  swarm.start_all();
  std::string first;
  for (std::size_t number = 0; number < 3; ++number) {
    INFO(swarm.output(number));
    CHECK(swarm.wait_for_end(number, 120s).exit_code == 0);
    std::ifstream in(swarm.folder(number) / "final.safetensors", std::ios::binary);
    const std::string model{std::istreambuf_iterator<char>(in), {}};
    CHECK_FALSE(model.empty());
    if (first.empty()) first = model;
    CHECK(model == first);
  }
}

TEST_CASE("a peer ends with the file and the byte when its data become shorter", "[process]") {
  // The file has ten times as many blocks as a peer keeps, so the peer soon reads a block that is
  // gone.
  const ZeroImages data(240'000);
  Swarm swarm(1, config_for(data, "steps = 10000000\npeers = 2\n"));
  swarm.start(0);
  REQUIRE(swarm.reach({0}, 200));
  std::filesystem::resize_file(data.images(), 16);
  const Ending ending = swarm.wait_for_end(0, 60s);
  INFO(swarm.output(0));
  CHECK(ending.exit_code == 1);
  CHECK(ending.signal == 0);
  CHECK(swarm.output(0).find(data.images().string() + ": it ends at byte ") != std::string::npos);
  CHECK(swarm.events(0, "training_failed").size() == 1);
}

}  // namespace gv
