// A state dict in a zip archive: its pickle in data.pkl, and each storage in a separate file.
#include "train/formats/torch_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "base/printable.hpp"
#include "train/formats/archive.hpp"
#include "train/formats/encoded.hpp"
#include "train/formats/pickle.hpp"
#include "train/formats/state_dict.hpp"
#include "train/formats/strided.hpp"

namespace gv {
namespace {

constexpr const char* save_state_dict =
    "save the tensors alone: torch.save(model.state_dict(), \"model.pt\")";
constexpr const char* download_again = "copy or download the file again";

/// True if the file begins like files written by PyTorch before version 1.6: with a pickle.
bool is_old(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::array<char, 2> begin{};
  return in.read(begin.data(), begin.size()) && begin == std::array{'\x80', '\x02'};
}

/// Returns the archive's folder that holds data.pkl, with a slash at the end; nullopt if there is
/// no such folder, or more than one.
std::optional<std::string> folder_in(const Archive& archive) {
  constexpr std::string_view name = "/data.pkl";
  std::optional<std::string> folder;
  for (const ArchiveEntry& entry : archive.entries()) {
    if (entry.name.find('/') + name.size() != entry.name.size()) continue;
    if (!entry.name.ends_with(name)) continue;
    if (folder) return std::nullopt;
    folder = entry.name.substr(0, entry.name.find('/') + 1);
  }
  return folder;
}

/// The tensors of a state dict that view the same storage, by their indices in the state dict.
struct StorageUse {
  PickledStorage storage;
  std::vector<std::size_t> tensors;
};

/// Groups the tensors by storage. Returns why they cannot be read, or an empty string.
std::string group(const StateDict& dict, std::map<std::string, StorageUse>& uses) {
  std::uint64_t stored = 0;
  std::uint64_t floats = 0;
  for (std::size_t i = 0; i < dict.tensors.size(); ++i) {
    const PickledTensor& tensor = dict.tensors[i].second;
    const auto [use, is_new] = uses.try_emplace(tensor.storage.key, StorageUse{tensor.storage, {}});
    const PickledStorage& storage = use->second.storage;
    if (storage.type != tensor.storage.type || storage.elements != tensor.storage.elements) {
      return "it describes one storage in two ways";
    }
    // No real file has a larger storage. Sums of numbers up to this limit do not overflow.
    if (storage.elements > std::uint64_t{1} << 40) return "it has a storage without end";
    use->second.tensors.push_back(i);
    std::uint64_t elements = 1;
    for (const std::size_t side : tensor.shape) elements *= side;
    floats += elements;
    if (is_new) stored += storage.elements * bytes_of(storage.type);
  }
  return floats > 2 * stored ? "its tensors repeat the same numbers too often" : "";
}

/// Reads a storage and fills in the tensors that view it. Returns the reason for a failure, or an
/// empty string.
std::string read_storage(Archive& archive, const std::string& folder, const StorageUse& use,
                         const StateDict& dict, std::vector<Tensor>& tensors) {
  const std::string name = folder + "data/" + use.storage.key;
  const std::string shown = "its storage '" + printable(use.storage.key, 200) + "' ";
  const auto entry = archive.find(name);
  const NumberType type = use.storage.type;
  if (!entry) return shown + "is not there";
  if (archive.entries()[*entry].size != use.storage.elements * bytes_of(type)) {
    return shown + "has another size than its tensors say";
  }
  std::vector<std::byte> bytes;
  std::string problem = archive.read(*entry, bytes);
  if (!problem.empty()) return problem;
  std::vector<float> values(use.storage.elements);
  if (!read_numbers(type, bytes, values)) {
    return shown + "has whole numbers that a float32 cannot hold";
  }
  std::vector<std::byte>().swap(bytes);
  for (const std::size_t i : use.tensors) {
    const auto& [own, view] = dict.tensors[i];
    tensors[i].name = own;
    tensors[i].shape = view.shape;
    tensors[i].type = type;
    problem = gather(values, view.offset, view.strides, tensors[i]);
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace

ModelContents read_torch_file(const std::filesystem::path& file) {
  if (is_old(file)) {
    return refused("it has the format from before PyTorch 1.6",
                   "load it in Python and save it again with torch.save");
  }
  Archive archive(file);
  if (!archive.problem().empty()) return refused(archive.problem(), download_again);
  const auto folder = folder_in(archive);
  if (!folder) return refused("it is no file of torch.save(): it has no data.pkl", save_state_dict);
  std::vector<std::byte> bytes;
  if (const auto order = archive.find(*folder + "byteorder")) {
    const std::string problem = archive.read(*order, bytes);
    if (!problem.empty()) return refused(problem, download_again);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text != "little")
      return refused("its bytes are not in little-endian order", save_state_dict);
  }
  const std::size_t pickled = *archive.find(*folder + "data.pkl");
  if (archive.entries()[pickled].size > pickle_bytes_max) {
    return refused("its pickle is longer than that of any state dict", save_state_dict);
  }
  std::string problem = archive.read(pickled, bytes);
  if (!problem.empty()) return refused(problem, download_again);
  const Pickle pickle = read_pickle(bytes);
  if (!pickle.problem.empty()) return refused(pickle.problem, save_state_dict);
  StateDict dict = state_dict_of(pickle, file.stem().string());
  std::map<std::string, StorageUse> uses;
  problem = dict.problem.empty() ? group(dict, uses) : dict.problem;
  if (!problem.empty()) return refused(problem, save_state_dict);
  ModelContents contents;
  contents.tensors.resize(dict.tensors.size());
  for (const auto& [key, use] : uses) {
    problem = read_storage(archive, *folder, use, dict, contents.tensors);
    if (!problem.empty()) return refused(problem, save_state_dict);
  }
  contents.left_out = std::move(dict.left_out);
  return contents;
}

std::string write_torch_file(const std::filesystem::path& file,
                             const std::vector<TensorView>& tensors, NumberType type) {
  std::vector<EncodedValues> encoded;
  for (const TensorView& tensor : tensors) encoded.emplace_back(tensor.values, type);
  std::vector<ArchivePart> parts;
  parts.push_back({"model/data.pkl", pickle_of(tensors, type), {}});
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    parts.push_back({"model/data/" + std::to_string(i), "", encoded[i].bytes()});
  }
  parts.push_back({"model/version", "3\n", {}});
  return write_archive(file, parts);
}

}  // namespace gv
