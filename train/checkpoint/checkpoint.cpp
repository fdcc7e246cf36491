// Saves and loads checkpoints, each a pair of files. Loading tries the newest pair first.
#include "train/checkpoint/checkpoint.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/magnitude.hpp"
#include "train/checkpoint/safetensors.hpp"

namespace gv {
namespace {

constexpr const char* suffix = ".safetensors";
constexpr const char* optimizer_suffix = ".optimizer.safetensors";
/// Metadata key that ties a parameter file to the optimiser file of the same save.
constexpr const char* pair_key = "pair";

std::string stem(std::uint64_t step) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "step-%010llu", static_cast<unsigned long long>(step));
  return text.data();
}

/// The step in the name of a parameter file; 0 if the name has none. A step may have more digits
/// than the width to which stem() pads it.
std::uint64_t step_in(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const std::size_t begin = std::min(name.find('-') + 1, name.size());
  std::uint64_t step = 0;
  std::from_chars(name.data() + begin, name.data() + name.size(), step);
  return step;
}

std::filesystem::path optimizer_file(const std::filesystem::path& parameters) {
  const std::string name = parameters.filename().string();
  return parameters.parent_path() /
         (name.substr(0, name.size() - std::string_view(suffix).size()) + optimizer_suffix);
}

/// The name that an optimiser file gets while a save at the same step replaces it. The parameters
/// of that step need it until they are replaced too.
std::filesystem::path replaced_optimizer_file(const std::filesystem::path& parameters) {
  return optimizer_file(parameters).string() + ".old";
}

void remove_pair(const std::filesystem::path& parameters) {
  std::error_code ignored;
  for (const std::filesystem::path& file :
       {parameters, optimizer_file(parameters), replaced_optimizer_file(parameters)}) {
    std::filesystem::remove(file, ignored);
  }
}

/// The mark that both files of a save contain. It depends on the step and on all parameters, so
/// that different saves have different marks.
std::string pair_mark(std::span<const float> parameters, std::uint64_t step) {
  const auto sum =
      crc32_z(static_cast<uLong>(step & 0xffffffffu),
              reinterpret_cast<const Bytef*>(parameters.data()), parameters.size_bytes());
  return std::to_string(step) + "-" + std::to_string(sum);
}

bool read_number(const std::map<std::string, std::string>& metadata, const char* key,
                 std::uint64_t& value) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return false;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Reads a number that may have a fraction. Returns false if it is missing or malformed.
bool read_real(const std::map<std::string, std::string>& metadata, const char* key, double& value) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return false;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// The shortest text that reads back as the same number.
std::string exact(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// Reads the optimiser file of parameters with this mark. A crash during a save at the same step
/// can leave these parameters with the new optimiser file; their own one then has its other name.
LoadedTensors read_state(const std::filesystem::path& parameters, const std::string& mark) {
  LoadedTensors state = read_safetensors(optimizer_file(parameters));
  if (state.problem.empty() && state.metadata[pair_key] == mark) return state;
  LoadedTensors replaced = read_safetensors(replaced_optimizer_file(parameters));
  const bool is_own = replaced.problem.empty() && replaced.metadata[pair_key] == mark;
  return is_own ? replaced : state;
}

/// Reads one pair. Returns why it cannot be used, or an empty string. Sets `is_unfit` if the
/// parameters could be read and only the layout is wrong.
std::string load_pair(const std::filesystem::path& file, const LayoutOf& layout_of,
                      Checkpoint& checkpoint, bool& is_unfit) {
  LoadedParameters parameters = load_parameters(file, layout_of);
  is_unfit = parameters.is_sound && !parameters.problem.empty();
  if (!parameters.problem.empty()) return parameters.problem;
  LoadedTensors state = read_state(file, parameters.metadata[pair_key]);
  if (!state.problem.empty()) return "its optimiser file: " + state.problem;
  if (parameters.metadata[pair_key] != state.metadata[pair_key]) {
    return "its optimiser file belongs to another checkpoint";
  }
  checkpoint.parameters = std::move(parameters.parameters);
  checkpoint.metadata = std::move(parameters.metadata);
  if (!read_number(state.metadata, "step", checkpoint.optimizer.step) ||
      !read_number(state.metadata, "updates", checkpoint.optimizer.updates)) {
    return "its optimiser file does not say its step";
  }
  std::uint64_t position = 0;
  if (read_number(state.metadata, "position", position)) checkpoint.optimizer.position = position;
  Hyperparameters own;
  if (read_real(state.metadata, "learning_rate", own.learning_rate) &&
      read_real(state.metadata, "momentum", own.momentum)) {
    // Files have these values only if the peers of the population differed in them.
    read_real(state.metadata, "weight_decay", own.weight_decay);
    read_real(state.metadata, "batch", own.batch);
    read_real(state.metadata, "alpha", own.alpha);
    read_real(state.metadata, "period", own.period);
    checkpoint.optimizer.hyperparameters = own;
  }
  for (Tensor& tensor : state.tensors) {
    checkpoint.optimizer.vectors.emplace_back(std::move(tensor.name), std::move(tensor.values));
  }
  return {};
}

/// Gives the two files of a save their names. A crash at any moment leaves the pair that had these
/// names before, or the new one.
std::string replace_pair(const std::filesystem::path& file, PreparedTensors& state,
                         PreparedTensors& parameters) {
  const std::filesystem::path replaced = replaced_optimizer_file(file);
  std::error_code ignored;
  // If an earlier save was cut short, the parameters still need the file under the other name.
  if (std::filesystem::exists(file, ignored) && !std::filesystem::exists(replaced, ignored)) {
    std::filesystem::rename(optimizer_file(file), replaced, ignored);
  }
  std::string problem = state.rename();
  if (problem.empty()) problem = parameters.rename();
  if (problem.empty()) std::filesystem::remove(replaced, ignored);
  return problem;
}

}  // namespace

bool is_parameter_file(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with("step-") && name.ends_with(suffix) && !name.ends_with(optimizer_suffix);
}

bool is_older(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto key = [](const std::filesystem::path& file) {
    return std::pair(step_in(file), file.filename());
  };
  return key(a) < key(b);
}

std::vector<std::filesystem::path> parameter_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_parameter_file(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files, [](const auto& a, const auto& b) { return is_older(b, a); });
  return files;
}

std::string save_checkpoint(const std::filesystem::path& folder, const Layout& layout,
                            std::span<const float> parameters, const OptimizerState& optimizer,
                            std::map<std::string, std::string> metadata, std::size_t keep) {
  const auto is_sound = [](const auto& named) { return is_finite(named.second); };
  if (!is_finite(parameters) || !std::ranges::all_of(optimizer.vectors, is_sound)) {
    // No peer could resume from such a checkpoint, and it would push out an earlier one.
    return folder.string() + ": the model is not finite, so earlier checkpoints are kept";
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return folder.string() + ": cannot be created: " + error.message();
  // Remove the files that a crash during an earlier save left behind.
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (entry.path().extension() == ".tmp") std::filesystem::remove(entry.path(), ignored);
  }
  const std::filesystem::path file = folder / (stem(optimizer.step) + suffix);
  const std::string mark = pair_mark(parameters, optimizer.step);

  std::vector<TensorView> state;
  for (const auto& [name, values] : optimizer.vectors)
    state.push_back({name, {values.size()}, values});
  std::map<std::string, std::string> place = {{"step", std::to_string(optimizer.step)},
                                              {"updates", std::to_string(optimizer.updates)},
                                              {pair_key, mark}};
  if (optimizer.position) place["position"] = std::to_string(*optimizer.position);
  if (const auto& own = optimizer.hyperparameters) {
    place["learning_rate"] = exact(own->learning_rate);
    place["momentum"] = exact(own->momentum);
    if (own->weight_decay > 0) place["weight_decay"] = exact(own->weight_decay);
    if (own->batch > 0) place["batch"] = exact(own->batch);
    if (own->alpha > 0) place["alpha"] = exact(own->alpha);
    if (own->period > 0) place["period"] = exact(own->period);
  }
  PreparedTensors new_state(optimizer_file(file), state, place);
  if (!new_state.problem().empty()) return new_state.problem();

  std::vector<TensorView> tensors;
  for (const TensorSlot& slot : layout.slots()) {
    tensors.push_back({slot.name, slot.shape, parameters.subspan(slot.offset, slot.size)});
  }
  metadata["step"] = std::to_string(optimizer.step);
  metadata[pair_key] = mark;
  PreparedTensors new_parameters(file, tensors, metadata);
  if (!new_parameters.problem().empty()) return new_parameters.problem();
  const std::string problem = replace_pair(file, new_state, new_parameters);
  if (!problem.empty()) return problem;

  remove_later_checkpoints(folder, optimizer.step);
  std::vector<std::filesystem::path> files = parameter_files(folder);
  // Another file of this step must not push out the one just written.
  std::erase_if(files, [&](const auto& other) { return is_older(file, other); });
  for (std::size_t i = std::max<std::size_t>(1, keep); i < files.size(); ++i) remove_pair(files[i]);
  return {};
}

void remove_later_checkpoints(const std::filesystem::path& folder, std::uint64_t step) {
  for (const std::filesystem::path& file : parameter_files(folder)) {
    if (step_in(file) > step) remove_pair(file);
  }
}

LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder, const Layout& layout) {
  return load_newest_checkpoint(folder, [&](const auto&) { return layout; });
}

LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder,
                                        const LayoutOf& layout_of) {
  return load_newest_checkpoint(folder, layout_of, [](const Checkpoint&) { return std::string(); });
}

LoadedCheckpoint load_newest_checkpoint(const std::filesystem::path& folder,
                                        const LayoutOf& layout_of, const TakeOver& take_over) {
  LoadedCheckpoint loaded;
  for (const std::filesystem::path& file : parameter_files(folder)) {
    Checkpoint checkpoint;
    bool is_unfit = false;
    std::string problem = load_pair(file, layout_of, checkpoint, is_unfit);
    if (problem.empty()) {
      problem = take_over(checkpoint);
      is_unfit = !problem.empty();
    }
    if (is_unfit && !loaded.unfit) loaded.unfit = {file, problem};
    if (problem.empty()) {
      loaded.checkpoint = std::move(checkpoint);
      loaded.file = file;
      break;
    }
    loaded.refused.emplace_back(file, std::move(problem));
  }
  return loaded;
}

LoadedCheckpoints load_checkpoints(const std::filesystem::path& folder, const LayoutOf& layout_of) {
  LoadedCheckpoints loaded;
  for (const std::filesystem::path& file : parameter_files(folder)) {
    Checkpoint checkpoint;
    bool is_unfit = false;
    std::string problem = load_pair(file, layout_of, checkpoint, is_unfit);
    if (is_unfit && !loaded.unfit) loaded.unfit = {file, problem};
    if (problem.empty()) {
      loaded.checkpoints.push_back(std::move(checkpoint));
    } else {
      loaded.refused.emplace_back(file, std::move(problem));
    }
  }
  return loaded;
}

LoadedParameters load_parameters(const std::filesystem::path& file, const Layout& layout) {
  return load_parameters(file, [&](const auto&) { return layout; });
}

LoadedParameters load_parameters(const std::filesystem::path& file, const LayoutOf& layout_of) {
  LoadedParameters loaded;
  LoadedTensors read = read_safetensors(file);
  loaded.metadata = std::move(read.metadata);
  loaded.problem = std::move(read.problem);
  if (!loaded.problem.empty()) return loaded;
  loaded.is_sound = true;
  const Layout layout = layout_of(loaded.metadata);
  if (read.tensors.size() != layout.slots().size()) {
    loaded.problem = "it has " + std::to_string(read.tensors.size()) + " tensors, the model has " +
                     std::to_string(layout.slots().size());
    return loaded;
  }
  loaded.parameters.resize(layout.size());
  for (const TensorSlot& slot : layout.slots()) {
    const auto tensor = std::ranges::find(read.tensors, slot.name, &Tensor::name);
    if (tensor == read.tensors.end() || tensor->shape != slot.shape) {
      loaded.problem = "it has no tensor '" + slot.name + "' of the model's shape";
      return loaded;
    }
    std::ranges::copy(tensor->values,
                      loaded.parameters.begin() + static_cast<std::ptrdiff_t>(slot.offset));
  }
  return loaded;
}

}  // namespace gv
