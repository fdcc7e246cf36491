// Runs the fuzz targets without a fuzzer: on their seeds, and on inputs that once found a fault.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/conversation.hpp"
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {
namespace {

/// Changes random bytes, as libFuzzer does, but without its knowledge of the code.
std::size_t draw_bytes(std::uint8_t* data, std::size_t size, std::size_t size_max) {
  static Rng rng(5);
  if (size < size_max && rng.chance(0.3)) data[size++] = 0;
  for (std::size_t i = 0; i < 3 && size > 0; ++i) {
    data[rng.below(size)] = static_cast<std::uint8_t>(rng.next());
  }
  return size;
}

}  // namespace

TEST_CASE("every target takes its seeds and changes of them") {
  Rng rng(1);
  for (const Target& target : targets()) {
    INFO(target.name);
    const std::vector<Bytes> seeds = target.seeds();
    CHECK(!seeds.empty());
    std::size_t longest = 0;
    for (const Bytes& seed : seeds) {
      longest = std::max(longest, seed.size());
      target.feed(seed);
      for (int i = 0; i < 20; ++i) {
        Bytes changed = seed;
        if (target.mutated != nullptr) {
          changed = target.mutated(seed, rng, draw_bytes);
        } else {
          auto* data = reinterpret_cast<std::uint8_t*>(changed.data());
          changed.resize(draw_bytes(data, changed.size(), changed.size()));
        }
        target.feed(changed);
      }
    }
    CHECK(longest <= target.bytes_max);
  }
}

TEST_CASE("inputs that once found a fault find none any more") {
  const auto found = std::filesystem::path(GRAPEVINE_SOURCE_DIR) / "tests/fuzz/found";
  const std::vector<Target> all = targets();
  std::size_t inputs = 0;
  for (const auto& folder : std::filesystem::directory_iterator(found)) {
    INFO(folder.path().string());
    const std::string name = folder.path().filename().string();
    const auto target = std::ranges::find(all, std::string_view(name), &Target::name);
    REQUIRE(target != all.end());
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      INFO(entry.path().string());
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(in), {});
      target->feed(bytes_of(text));
      ++inputs;
    }
  }
  CHECK(inputs > 0);
}

TEST_CASE("a recorded life of a peer can be lived again, and gets far") {
  for (std::size_t kind = 0; kind < peer_kinds().size(); ++kind) {
    INFO(peer_kinds()[kind].name);
    const Conversation recorded = converse(kind, steps_max);
    CHECK(recorded.jobs_done >= 4);
    CHECK(recorded.step >= 2);
    const Script script = script_of(to_bytes(recorded.script));
    REQUIRE(script.steps.size() == steps_max);
    LonePeer again(peer_kinds()[script.kind], 0);
    std::size_t messages = again.take_sent().messages.size();
    for (const Step& step : script.steps) {
      again.apply(step);
      messages += again.take_sent().messages.size();
    }
    CHECK(again.jobs_done() == recorded.jobs_done);
    CHECK(again.node().mode().step() == recorded.step);
    CHECK(messages == recorded.messages_sent);
  }
}

TEST_CASE("changes of a script keep its form") {
  Rng rng(3);
  Bytes bytes = to_bytes(converse(0, 60).script);
  for (int i = 0; i < 300; ++i) {
    bytes = mutated_script(bytes, rng, draw_bytes);
    const Script script = script_of(bytes);
    REQUIRE(to_bytes(script) == bytes);
    REQUIRE(!script.steps.empty());
  }
}

}  // namespace gv::fuzz
