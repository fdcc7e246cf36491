// Reads the results that the programs' peers have left in their folders.
#include "sim/local/program_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/fingerprint.hpp"
#include "peer/host/peer_json.hpp"

namespace gv {
namespace {

using Json = nlohmann::ordered_json;

Json result_of(const PeerOutcome& outcome) {
  std::ifstream file(outcome.folder / "result.json");
  Json json = file ? parse_peer_json<Json>(file) : Json::object();
  return json.is_object() ? json : Json::object();
}

/// A fingerprint of the peer's final model file; 0 if there is none.
std::uint64_t final_model(const PeerOutcome& outcome) {
  std::ifstream file(outcome.folder / "final.safetensors", std::ios::binary);
  if (!file) return 0;
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<float> words((bytes.size() + sizeof(float) - 1) / sizeof(float));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return std::max<std::uint64_t>(1, fingerprint(words));
}

}  // namespace

void print_program_summary(const std::filesystem::path& folder,
                           const std::vector<PeerOutcome>& outcomes,
                           const std::optional<FaultReport>& faults, double wall_s) {
  Json summary{{"wall_s", wall_s}, {"peers", Json::array()}};
  std::map<std::uint64_t, std::size_t> models;
  fmt::print("\n{:<12} {:>12} {:>12}  {}\n", "peer", "steps", "loss", "ended");
  for (const PeerOutcome& outcome : outcomes) {
    const Json result = result_of(outcome);
    const std::uint64_t steps = result.value("step", std::uint64_t{0});
    const double loss = result.value("loss", 0.0);
    const std::string ended =
        outcome.by_fault.empty() ? to_string(outcome.ending) : outcome.by_fault;
    fmt::print("{:<12} {:>12} {:>12.4f}  {}\n", outcome.name, steps, loss, ended);
    if (const std::uint64_t model = final_model(outcome); model != 0) ++models[model];
    summary["peers"].push_back(
        {{"name", outcome.name}, {"steps", steps}, {"loss", loss}, {"ended", ended}});
  }
  fmt::print("wall time    {:.1f} s\n", wall_s);
  for (const auto& [model, count] : models) {
    fmt::print("one model    {} of {} peers, fingerprint {:016x}\n", count, outcomes.size(), model);
  }
  if (faults) {
    print(*faults, false);
    summary["faults"] = to_json(*faults);
  }
  std::ofstream(folder / "summary.json") << summary.dump(1) << '\n';
}

}  // namespace gv
