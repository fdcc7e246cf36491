// Finds a checkpoint's settings, and formats scores.
#include "peer/host/evaluate.hpp"

#include <fmt/format.h>

#include "peer/config/config.hpp"
#include "peer/config/task.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {

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
  // Relative folders are relative to the run's config file.
  const auto folder = tensors.metadata.find("data_folder");
  stored.text = text->second;
  stored.parsed =
      parse_config_text(stored.text, file + " (config inside)",
                        folder != tensors.metadata.end() ? folder->second : std::string());
  return stored;
}

std::string to_text(const Score& score, const DataSet& data) {
  if (data.classes == 0) {
    return fmt::format("loss {:.6g}  on {} test samples", score.mean_loss(), score.samples);
  }
  return fmt::format("accuracy {:.2f} %  loss {:.4f}{}  on {} test samples", 100 * score.accuracy(),
                     score.mean_loss(), uncertainty(score, data), score.samples);
}

}  // namespace gv
