// Fills in the usual names of data files, and checks whether the files exist.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "peer/config/config_reading.hpp"

namespace gv {
namespace {

/// Number of training and test files of a kind of data; 0 means one or more.
struct FileCounts {
  std::size_t train = 0, test = 0;
  std::string_view words;
};

void fill_in_names(const ConfigReading& reading, DataConfig& data) {
  std::vector<std::string> train, test;
  if (data.kind == DataKind::idx) {
    train = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"};
    test = {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
  } else if (data.kind == DataKind::cifar10) {
    for (int i = 1; i <= 5; ++i) train.push_back("data_batch_" + std::to_string(i) + ".bin");
    test = {"test_batch.bin"};
  } else if (data.kind == DataKind::csv) {
    train = {"train.csv"};
    test = {"test.csv"};
  }
  if (!reading.is_given("data.train_files")) data.train_files = std::move(train);
  if (!reading.is_given("data.test_files")) data.test_files = std::move(test);
}

void find_files(ConfigReading& reading, const std::string& path, const std::string& folder,
                const std::vector<std::string>& files, std::size_t wanted, std::string_view words) {
  if (!reading.is_sound(path)) return;
  if (wanted != 0 ? files.size() != wanted : files.empty()) {
    return reading.report(path, "lists " + std::to_string(files.size()) + " files",
                          "name " + std::string(words));
  }
  const std::size_t line = reading.line_of(reading.is_given(path) ? path : "data.folder");
  for (const std::string& file : files) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::path(folder) / file;
    if (std::filesystem::is_regular_file(whole, error)) continue;
    if (std::filesystem::is_directory(whole, error)) {
      reading.report(line, path, "a folder, not a file: " + whole.string(),
                     "name the files in " + path.substr(5));
      continue;
    }
    const bool packaged = folder.starts_with("/usr/share/datasets/fashion-mnist");
    reading.report(line, path, "no such file: " + whole.string(),
                   packaged ? "install it: apt-get install dataset-fashion-mnist"
                            : "mend data.folder, or name the files in " + path.substr(5));
  }
}

}  // namespace

void find_data_files(ConfigReading& reading, const std::string& data_folder) {
  DataConfig& data = reading.parsed.config.data;
  const std::filesystem::path here = std::filesystem::path(reading.name).parent_path();
  if (!data.centres.empty()) data.centres = (here / data.centres).lexically_normal().string();
  if (!reading.is_sound("data.kind") || data.kind == DataKind::generated) return;
  if (!reading.is_given("data.folder")) {
    return reading.report(reading.line_of("data.kind"), "data.folder",
                          "missing: where the data files are",
                          "add folder = \"/path/to/the/files\"");
  }
  if (!reading.is_sound("data.folder")) return;
  fill_in_names(reading, data);
  const std::filesystem::path folder(data_folder.empty() ? data.folder : data_folder);
  const bool is_from_here = folder.is_absolute() || !data_folder.empty();
  data.folder = (is_from_here ? folder : here / folder).lexically_normal().string();
  const FileCounts counts = data.kind == DataKind::idx   ? FileCounts{2, 2, "images and labels"}
                            : data.kind == DataKind::csv ? FileCounts{1, 1, "one file"}
                                                         : FileCounts{0, 0, "at least one file"};
  find_files(reading, "data.train_files", data.folder, data.train_files, counts.train,
             counts.words);
  if (data.kind == DataKind::text && !reading.is_given("data.test_files")) return;
  find_files(reading, "data.test_files", data.folder, data.test_files, counts.test, counts.words);
}

}  // namespace gv
