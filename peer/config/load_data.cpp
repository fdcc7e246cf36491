// Calls the reader of each kind of data.
#include "peer/config/load_data.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/data/generated.hpp"
#include "train/data/sample_files.hpp"

namespace gv {
namespace {

std::vector<std::string> in_folder(const DataConfig& data, const std::vector<std::string>& files) {
  std::vector<std::string> paths;
  for (const std::string& file : files) {
    paths.push_back((std::filesystem::path(data.folder) / file).string());
  }
  return paths;
}

/// Changes inputs to (value - mean) / deviation. Bytes are first scaled to 0...1. The readers of
/// CSV files have done this already.
void normalise(DataSet& data, const DataConfig& config) {
  if (config.kind == DataKind::csv) return;
  data.normalise(static_cast<float>(config.mean), static_cast<float>(1 / config.deviation));
}

InputScale scale_of(const DataConfig& data) { return {data.mean, data.deviation}; }

LoadedDataSet load_text(const DataConfig& data, bool test) {
  if (data.test_files.empty()) {
    return read_text(in_folder(data, data.train_files), data.context,
                     test ? TextPart::last_tenth : TextPart::but_last_tenth);
  }
  return read_text(in_folder(data, test ? data.test_files : data.train_files), data.context,
                   TextPart::whole);
}

/// Replaces the remedy for files that are too large with the remedies that apply to this config.
void add_remedies_for_large_files(const Config& config, bool test, Problems& problems) {
  const DataKind kind = config.data.kind;
  const bool may_be_several = kind == DataKind::text || kind == DataKind::cifar10;
  std::string remedy = may_be_several ? "name several smaller files" : "use a smaller file";
  if (test) {
    remedy += "; test data are always in memory";
  } else if (has_swarm_budget(config)) {
    remedy +=
        ", or leave the training data in files that are not compressed: "
        "write partition = \"leased\" and in_memory = false below [data]";
  }
  for (Problem& problem : problems) {
    if (problem.reason == too_large_for_memory) problem.remedy = remedy;
  }
}

LoadedDataSet read_data(const Config& config, bool test, const Choose& choose) {
  const DataConfig& data = config.data;
  LoadedDataSet loaded;
  const std::vector<std::string> files = in_folder(data, test ? data.test_files : data.train_files);
  switch (data.kind) {
    case DataKind::generated: {
      const GeneratedConfig& spec = data.generated;
      const auto generate = spec.targets > 0 ? generate_linear : generate_blobs;
      loaded.data =
          std::make_shared<DataSet>(generate({.samples = test ? spec.test_samples : spec.samples,
                                              .features = spec.inputs(),
                                              .side = spec.side,
                                              .classes = spec.classes,
                                              .blobs = spec.blobs,
                                              .targets = spec.targets,
                                              .noise = spec.noise,
                                              .seed = config.run.seed},
                                             test ? 1 : 0));
      break;
    }
    case DataKind::idx:
      loaded = read_idx(files.at(0), files.at(1), choose);
      break;
    case DataKind::cifar10:
      loaded = read_cifar10(files);
      break;
    case DataKind::csv:
      loaded = read_csv(files.at(0), data.csv_targets, scale_of(data));
      break;
    case DataKind::text:
      return load_text(data, test);
  }
  if (loaded.problems.empty()) normalise(*loaded.data, data);
  return loaded;
}

}  // namespace

LoadedDataSet load_data(const Config& config, bool test, const Choose& choose) {
  LoadedDataSet loaded = read_data(config, test, choose);
  add_remedies_for_large_files(config, test, loaded.problems);
  return loaded;
}

LoadedDataSet open_data(const DataConfig& data) {
  const std::vector<std::string> files = in_folder(data, data.train_files);
  LoadedDataSet loaded;
  switch (data.kind) {
    case DataKind::generated:
      loaded.problems.push_back({"data.in_memory", "generated data are in no file",
                                 "write in_memory = true, or another kind"});
      break;
    case DataKind::idx:
      loaded = open_idx(files.at(0), files.at(1));
      break;
    case DataKind::cifar10:
      loaded = open_cifar10(files);
      break;
    case DataKind::csv:
      loaded = open_csv(files.at(0), data.csv_targets, data_block_bytes, scale_of(data));
      break;
    case DataKind::text:
      return open_text(files, data.context);
  }
  if (loaded.problems.empty()) normalise(*loaded.data, data);
  return loaded;
}

}  // namespace gv
