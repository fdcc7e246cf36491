// Opens files as blocks of samples, with one kind of block for each format.
#include "train/data/sample_files.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "train/data/csv_rows.hpp"
#include "train/data/image_files.hpp"
#include "train/data/input_file.hpp"
#include "train/data/readers.hpp"

namespace gv {
namespace {

using File = std::shared_ptr<const InputFile>;

LoadedDataSet refused(Problem problem) {
  return {.data = nullptr, .problems = {std::move(problem)}};
}

Problem changed(const std::string& place, std::string reason) {
  return {place, std::move(reason) + ", and the file was sound when it was opened",
          "restore the file, and leave data files alone while peers train on them"};
}

/// Adds a problem if a sample is too large to be read in blocks.
void check_sample(const std::string& file, std::size_t bytes, Problems& problems) {
  if (bytes <= sample_bytes_max) return;
  problems.push_back({file,
                      "one sample takes " + std::to_string(bytes) + " bytes, more than 64 MiB",
                      "write in_memory = true below [data]"});
}

/// The places of samples in consecutive files. In each file, samples begin at a fixed distance from
/// each other.
class Places {
 public:
  /// Consecutive samples of one file.
  struct Run {
    const InputFile* file = nullptr;
    std::uint64_t offset = 0;  ///< Offset of the first sample.
    std::size_t first = 0;     ///< Index of the first sample within its file.
    std::size_t count = 0;
  };

  /// `stride`: bytes from the start of a sample to the start of the next.
  explicit Places(std::size_t stride) : stride_(stride) {}

  /// Adds the next file. It has `count` samples, of which the first begins at `offset`.
  void add(File file, std::uint64_t offset, std::size_t count) {
    parts_.push_back({std::move(file), offset, samples_, count});
    samples_ += count;
  }

  std::size_t samples() const { return samples_; }

  /// Returns the places of the samples from `begin` up to, but not including, `end`.
  std::vector<Run> runs(std::size_t begin, std::size_t end) const {
    std::vector<Run> found;
    for (const Part& part : parts_) {
      const std::size_t from = std::max(begin, part.begin);
      const std::size_t to = std::min(end, part.begin + part.count);
      if (from >= to) continue;
      const std::size_t first = from - part.begin;
      found.push_back({part.file.get(), part.offset + first * stride_, first, to - from});
    }
    return found;
  }

 private:
  struct Part {
    File file;
    std::uint64_t offset = 0;
    std::size_t begin = 0;  ///< Index of the file's first sample among all samples.
    std::size_t count = 0;
  };

  std::size_t stride_;
  std::size_t samples_ = 0;
  std::vector<Part> parts_;
};

// ---- IDX ----

class IdxBlocks final : public SampleBlocks {
 public:
  IdxBlocks(SampleShape shape, std::size_t classes, Places images, Places labels,
            std::size_t block_samples)
      : SampleBlocks(images.samples(), block_samples),
        shape_(shape),
        classes_(classes),
        images_(std::move(images)),
        labels_(std::move(labels)) {}

  LoadedDataSet read(std::size_t number) const override {
    const std::size_t begin = begin_of(number);
    const std::size_t end = begin_of(number + 1);
    auto data = std::make_shared<DataSet>();
    data->shape = shape_;
    data->classes = classes_;
    data->bytes.resize((end - begin) * data->features());
    std::vector<std::uint8_t> marks(end - begin);
    const Places::Run image = images_.runs(begin, end).front();
    const Places::Run label = labels_.runs(begin, end).front();
    if (auto problem = image.file->read(image.offset, data->bytes)) return refused(*problem);
    if (auto problem = label.file->read(label.offset, marks)) return refused(*problem);
    // `classes_` was determined when the file was opened. If a label is not below it, the file has
    // changed since then.
    const auto unsound = std::ranges::find_if(marks, [&](auto mark) { return mark >= classes_; });
    if (unsound != marks.end()) {
      const auto place = static_cast<std::size_t>(unsound - marks.begin());
      return refused(changed(label.file->path(), "the label at byte " +
                                                     std::to_string(label.offset + place) + " is " +
                                                     std::to_string(*unsound)));
    }
    data->labels.assign(marks.begin(), marks.end());
    return {.data = std::move(data), .problems = {}};
  }

 private:
  SampleShape shape_;
  std::size_t classes_;
  Places images_;
  Places labels_;
};

/// Returns the dimensions in the header of an IDX file. Returns an empty list and adds a problem if
/// the file cannot be read, or if its length does not match.
std::vector<std::size_t> open_dimensions(const InputFile& file, std::size_t expected,
                                         Problems& problems) {
  const std::uint64_t header_bytes = idx_header_bytes(expected);
  std::vector<std::uint8_t> header(std::min(header_bytes, file.size()));
  if (auto problem = file.read(0, header)) {
    problems.push_back(*std::move(problem));
    return {};
  }
  auto dimensions = idx_dimensions(file.path(), header, expected, problems);
  if (dimensions.empty()) return {};
  std::size_t announced = 1;
  for (const std::size_t side : dimensions) announced *= side;
  check_idx_length(file.path(), announced, file.size() - header_bytes, problems);
  return dimensions;
}

/// Returns the largest label in an IDX file of labels.
std::uint8_t largest_label(const InputFile& file, Problems& problems) {
  std::vector<std::uint8_t> piece(std::size_t{1} << 20);
  std::uint8_t largest = 0;
  for (std::uint64_t at = idx_header_bytes(1); at < file.size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), file.size() - at));
    if (auto problem = file.read(at, piece)) {
      problems.push_back(*std::move(problem));
      return 0;
    }
    largest = std::max(largest, *std::ranges::max_element(piece));
  }
  return largest;
}

// ---- CIFAR-10 ----

class CifarBlocks final : public SampleBlocks {
 public:
  CifarBlocks(Places records, std::size_t block_samples)
      : SampleBlocks(records.samples(), block_samples), records_(std::move(records)) {}

  LoadedDataSet read(std::size_t number) const override {
    auto data = std::make_shared<DataSet>();
    data->shape = {3, 32, 32};
    data->classes = cifar_classes;
    std::vector<std::uint8_t> records;
    for (const Places::Run& run : records_.runs(begin_of(number), begin_of(number + 1))) {
      records.resize(run.count * cifar_record);
      if (auto problem = run.file->read(run.offset, records)) return refused(*problem);
      for (std::size_t i = 0; i < run.count; ++i) {
        const auto record = std::span(records).subspan(i * cifar_record, cifar_record);
        if (record.front() >= cifar_classes) {
          return refused(bad_cifar_label(run.file->path(), run.first + i, record.front()));
        }
        data->labels.push_back(record.front());
        data->bytes.insert(data->bytes.end(), record.begin() + 1, record.end());
      }
    }
    return {.data = std::move(data), .problems = {}};
  }

 private:
  Places records_;
};

// ---- Text ----

class TextBlocks final : public SampleBlocks {
 public:
  TextBlocks(std::size_t context, Places windows, std::size_t block_samples)
      : SampleBlocks(windows.samples(), block_samples),
        context_(context),
        windows_(std::move(windows)) {}

  LoadedDataSet read(std::size_t number) const override {
    auto data = std::make_shared<DataSet>();
    describe_text(context_, *data);
    std::vector<std::uint8_t> text;
    for (const Places::Run& run : windows_.runs(begin_of(number), begin_of(number + 1))) {
      // The label of a byte is the byte that follows it.
      text.resize(run.count * context_ + 1);
      if (auto problem = run.file->read(run.offset, text)) return refused(*problem);
      data->bytes.insert(data->bytes.end(), text.begin(), text.end() - 1);
      data->labels.insert(data->labels.end(), text.begin() + 1, text.end());
    }
    return {.data = std::move(data), .problems = {}};
  }

 private:
  std::size_t context_;
  Places windows_;
};

// ---- CSV ----

/// Where the blocks of a CSV file begin, and the form of its rows.
struct CsvIndex {
  struct Begin {
    std::uint64_t offset = 0;
    std::size_t line = 0;  ///< The line's number in the file, from 1.
  };

  std::size_t targets = 0;
  InputScale scale;
  std::size_t width = 0;
  std::size_t samples = 0;
  std::size_t block_samples = 0;
  std::size_t classes = 0;
  std::vector<Begin> blocks;
};

class CsvBlocks final : public SampleBlocks {
 public:
  CsvBlocks(File file, CsvIndex index)
      : SampleBlocks(index.samples, index.block_samples),
        file_(std::move(file)),
        index_(std::move(index)) {}

  LoadedDataSet read(std::size_t number) const override {
    const auto [offset, line] = index_.blocks[number];
    const bool is_last = number + 1 == index_.blocks.size();
    InputLines lines(*file_, offset, is_last ? file_->size() : index_.blocks[number + 1].offset);
    CsvRows rows(index_.targets, index_.scale, index_.width, line);
    auto data = std::make_shared<DataSet>();
    const auto here = [&] { return file_->path() + ":" + std::to_string(rows.number()); };
    while (const auto text = lines.next()) {
      if (const auto problem = rows.add(*text, *data)) {
        return refused(changed(here(), problem->reason));
      }
      const auto classes = static_cast<std::int32_t>(index_.classes);
      if (!data->labels.empty() && data->labels.back() >= classes) {
        return refused(changed(here(), "the label is " + std::to_string(data->labels.back())));
      }
    }
    if (lines.problem()) return refused(*lines.problem());
    rows.describe(*data);
    data->classes = index_.classes;
    if (data->size() != begin_of(number + 1) - begin_of(number)) {
      return refused(changed(file_->path(), "from byte " + std::to_string(offset) + " on are " +
                                                std::to_string(data->size()) +
                                                " samples for a block"));
    }
    return {.data = std::move(data), .problems = {}};
  }

 private:
  File file_;
  CsvIndex index_;
};

/// Reads and checks all lines of a CSV file, and notes where each block begins.
CsvIndex index_csv(const InputFile& file, std::size_t targets, InputScale scale,
                   std::size_t block_bytes, Problems& problems) {
  CsvIndex index{.targets = targets, .scale = scale, .blocks = {}};
  InputLines lines(file, 0, file.size());
  CsvRows rows(targets, scale);
  DataSet row;
  while (problems.size() < csv_problems_max) {
    const auto line = lines.next();
    if (!line) break;
    // Clear the row here and not at the end of the loop, because a `continue` may skip the end.
    row.floats.clear();
    row.labels.clear();
    row.targets.clear();
    if (auto problem = rows.add(*line, row)) {
      problem->place = file.path() + ":" + std::to_string(rows.number());
      problems.push_back(*std::move(problem));
    }
    if (!problems.empty() || row.floats.empty()) continue;
    if (index.samples == 0) {
      const std::size_t sample_bytes = rows.width() * sizeof(float);
      check_sample(file.path(), sample_bytes, problems);
      index.block_samples = samples_of_block(sample_bytes, block_bytes);
    }
    if (index.samples % index.block_samples == 0) {
      index.blocks.push_back({lines.offset(), rows.number()});
    }
    ++index.samples;
    if (targets == 0) {
      index.classes = std::max(index.classes, static_cast<std::size_t>(row.labels.back()) + 1);
    }
  }
  if (lines.problem()) problems.push_back(*lines.problem());
  if (problems.empty() && index.samples == 0) {
    problems.push_back({file.path(), "it has no samples", "give it rows of numbers"});
  }
  index.width = rows.width();
  return index;
}

}  // namespace

LoadedDataSet open_idx(const std::string& images, const std::string& labels,
                       std::size_t block_bytes) {
  LoadedDataSet loaded;
  Problems& problems = loaded.problems;
  const File image_file = InputFile::open(images, problems);
  const File label_file = InputFile::open(labels, problems);
  if (!problems.empty()) return loaded;
  const auto sides = open_dimensions(*image_file, 3, problems);
  const auto count = open_dimensions(*label_file, 1, problems);
  if (!problems.empty()) return loaded;
  check_idx_counts(labels, count[0], sides[0], problems);
  auto data = std::make_shared<DataSet>();
  data->shape = {1, sides[1], sides[2]};
  const std::size_t sample_bytes = data->features() + sizeof(std::int32_t);
  check_sample(images, sample_bytes, problems);
  data->classes = std::size_t{largest_label(*label_file, problems)} + 1;
  if (!problems.empty()) return loaded;
  Places image_places(data->features());
  Places label_places(1);
  image_places.add(image_file, idx_header_bytes(3), sides[0]);
  label_places.add(label_file, idx_header_bytes(1), sides[0]);
  data->blocks = std::make_shared<IdxBlocks>(data->shape, data->classes, std::move(image_places),
                                             std::move(label_places),
                                             samples_of_block(sample_bytes, block_bytes));
  loaded.data = std::move(data);
  return loaded;
}

LoadedDataSet open_cifar10(const std::vector<std::string>& files, std::size_t block_bytes) {
  LoadedDataSet loaded;
  Places records(cifar_record);
  for (const std::string& name : files) {
    const File file = InputFile::open(name, loaded.problems);
    if (!file) continue;
    if (file->size() == 0 || file->size() % cifar_record != 0) {
      loaded.problems.push_back(not_cifar_records(name, file->size()));
      continue;
    }
    records.add(file, 0, file->size() / cifar_record);
  }
  if (loaded.problems.empty() && records.samples() == 0) {
    loaded.problems.push_back({"data", "no files are named", "set data.train_files"});
  }
  if (!loaded.problems.empty()) return loaded;
  loaded.data = std::make_shared<DataSet>();
  loaded.data->shape = {3, 32, 32};
  loaded.data->classes = cifar_classes;
  const std::size_t sample_bytes = loaded.data->features() + sizeof(std::int32_t);
  loaded.data->blocks = std::make_shared<CifarBlocks>(std::move(records),
                                                      samples_of_block(sample_bytes, block_bytes));
  return loaded;
}

LoadedDataSet open_csv(const std::string& file, std::size_t targets, std::size_t block_bytes,
                       InputScale scale) {
  LoadedDataSet loaded;
  const File opened = InputFile::open(file, loaded.problems);
  if (!opened) return loaded;
  CsvIndex index = index_csv(*opened, targets, scale, block_bytes, loaded.problems);
  if (!loaded.problems.empty()) return loaded;
  loaded.data = std::make_shared<DataSet>();
  CsvRows(targets, scale, index.width, 1).describe(*loaded.data);
  loaded.data->classes = index.classes;
  loaded.data->blocks = std::make_shared<CsvBlocks>(opened, std::move(index));
  return loaded;
}

LoadedDataSet open_text(const std::vector<std::string>& files, std::size_t context,
                        std::size_t block_bytes) {
  LoadedDataSet loaded;
  Places windows(context);
  for (const std::string& name : files) {
    const File file = InputFile::open(name, loaded.problems);
    if (!file) continue;
    if (file->size() <= context) {
      loaded.problems.push_back(text_too_short(name, file->size(), context));
      continue;
    }
    windows.add(file, 0, (file->size() - 1) / context);
  }
  if (loaded.problems.empty() && windows.samples() == 0) {
    loaded.problems.push_back({"data", "no files are named", "set data.train_files"});
  }
  if (!loaded.problems.empty()) return loaded;
  loaded.data = std::make_shared<DataSet>();
  describe_text(context, *loaded.data);
  const std::size_t sample_bytes = context * (1 + sizeof(std::int32_t));
  loaded.data->blocks = std::make_shared<TextBlocks>(context, std::move(windows),
                                                     samples_of_block(sample_bytes, block_bytes));
  return loaded;
}

}  // namespace gv
