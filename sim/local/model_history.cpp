// Reads checkpoints in the order of their steps.
#include "sim/local/model_history.hpp"

#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "train/checkpoint/checkpoint.hpp"

namespace gv {
namespace {

constexpr std::size_t moments_max = 100;

/// The step in the name of a file step-NNNNNNNNNN.safetensors; nullopt for other names.
std::optional<std::uint64_t> step_in_name(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const std::size_t begin = name.find('-') + 1;
  std::uint64_t step = 0;
  const auto read = std::from_chars(name.data() + begin, name.data() + name.size(), step);
  return read.ec == std::errc() ? std::optional(step) : std::nullopt;
}

using Files = std::map<std::size_t, std::filesystem::path>;

}  // namespace

ModelPaths read_model_history(std::span<const std::filesystem::path> folders, const Layout& layout,
                              std::uint64_t every_steps) {
  std::map<std::uint64_t, Files> moments;
  for (std::size_t peer = 0; peer < folders.size(); ++peer) {
    std::map<std::uint64_t, std::filesystem::path> own;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(folders[peer] / "checkpoints", error)) {
      if (!is_parameter_file(entry.path())) continue;
      if (const auto step = step_in_name(entry.path())) own[*step] = entry.path();
    }
    // If a peer has several checkpoints of one moment, the newest is used.
    for (const auto& [step, file] : own) moments[step / every_steps][peer] = file;
  }
  std::erase_if(moments, [](const auto& moment) { return moment.second.size() < 2; });
  const std::size_t stride = (moments.size() + moments_max - 1) / moments_max;
  ModelPaths paths;
  std::size_t number = 0;
  for (const auto& [moment, files] : moments) {
    if (number++ % stride != 0) continue;
    std::map<std::size_t, std::vector<float>> models;
    std::map<std::size_t, std::span<const float>> read;
    for (const auto& [peer, file] : files) {
      LoadedParameters loaded = load_parameters(file, layout);
      if (loaded.problem.empty()) models[peer] = std::move(loaded.parameters);
    }
    for (const auto& [peer, model] : models) read[peer] = model;
    paths.look(static_cast<double>(moment * every_steps), read);
  }
  return paths;
}

}  // namespace gv
