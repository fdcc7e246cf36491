// Finds a checkpoint's settings, and formats scores.
#include "peer/host/evaluate.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

#include "peer/config/config.hpp"
#include "peer/config/task.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {
namespace {

/// Returns the number of peers in the text; nullopt if the text is not a valid number.
std::optional<std::size_t> peers_in(const std::string& text) {
  std::size_t number = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || last != end) return std::nullopt;
  if (number == 0 || number > run_peers_max) return std::nullopt;
  return number;
}

}  // namespace

StoredConfig stored_config(const std::string& file, const std::string& config) {
  if (!config.empty()) return {parse_config_file(config), read_config_text(config)};
  const LoadedTensors tensors = read_safetensors(file);
  StoredConfig stored;
  if (!tensors.problem.empty()) {
    stored.parsed.problems = {
        {file, tensors.problem, "give a step-*.safetensors or mean.safetensors file"}};
    return stored;
  }
  const auto text = tensors.metadata.find("config");
  if (text == tensors.metadata.end() || text->second.empty()) {
    stored.parsed.problems = {{file, "it does not say which model and data it is of",
                               "name the run's config with --config"}};
    return stored;
  }
  // The metadata override the stored config. Relative folders in that config refer to the folder of
  // the run's config file, and a command may have started a different number of peers.
  const auto folder = tensors.metadata.find("data_folder");
  const auto peers = tensors.metadata.find("peers");
  ConfigOverrides overrides;
  if (folder != tensors.metadata.end()) overrides.data_folder = folder->second;
  if (peers != tensors.metadata.end()) overrides.peers = peers_in(peers->second);
  stored.text = text->second;
  stored.parsed = parse_config_text(stored.text, file + " (config inside)", overrides);
  return stored;
}

std::string to_text(const Merit& merit) {
  if (merit.name == "accuracy") return fmt::format("accuracy {:.2f} %", 100 * merit.value);
  return fmt::format("R2 {:.4f}", merit.value);
}

std::string to_text(const Score& score, const DataSet& data) {
  return fmt::format("{}  loss {}{}  on {} test samples", to_text(merit_of(score, data)),
                     data.classes > 0 ? fmt::format("{:.4f}", score.mean_loss())
                                      : fmt::format("{:.6g}", score.mean_loss()),
                     uncertainty(score, data), score.samples);
}

}  // namespace gv
