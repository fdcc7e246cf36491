// Samples that stay in files equal those read into memory. Unsuitable files are refused with a
// reason.
#include "train/data/sample_files.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "tests/train/data_folder.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/readers.hpp"
#include "train/data/sampler.hpp"

namespace gv {
namespace {

using Catch::Matchers::Contains;

constexpr std::size_t small_blocks = 200;  ///< This many bytes make several blocks of a small file.

std::string said(const LoadedDataSet& loaded) {
  REQUIRE((loaded.data == nullptr) == !loaded.problems.empty());
  std::string lines;
  for (const Problem& problem : loaded.problems) {
    CHECK_FALSE(problem.remedy.empty());
    lines += to_string(problem) + "\n";
  }
  return lines;
}

std::string drawn_bytes(std::size_t count, std::uint64_t below) {
  Rng rng(count);
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(rng.below(below));
  return bytes;
}

/// Checks that the blocks of `opened` hold the samples of `whole` in their order, bit for bit.
void check_same(const LoadedDataSet& opened, const LoadedDataSet& whole) {
  REQUIRE(said(opened).empty());
  REQUIRE(said(whole).empty());
  const DataSet& data = *opened.data;
  CHECK(data.shape == whole.data->shape);
  CHECK(data.classes == whole.data->classes);
  CHECK(data.predictions == whole.data->predictions);
  CHECK(data.target_width == whole.data->target_width);
  CHECK(data.scale == whole.data->scale);
  REQUIRE(data.size() == whole.data->size());
  CHECK(data.blocks->count() > 1);
  DataSet joined;
  for (std::size_t block = 0; block < data.blocks->count(); ++block) {
    const LoadedDataSet loaded = data.blocks->read(block);
    REQUIRE(said(loaded).empty());
    CHECK(loaded.data->shape == data.shape);
    if (block + 1 < data.blocks->count()) {
      CHECK(loaded.data->size() == data.blocks->block_samples());
    }
    const auto append = [](auto& into, const auto& from) {
      into.insert(into.end(), from.begin(), from.end());
    };
    append(joined.bytes, loaded.data->bytes);
    append(joined.floats, loaded.data->floats);
    append(joined.labels, loaded.data->labels);
    append(joined.targets, loaded.data->targets);
  }
  CHECK(joined.bytes == whole.data->bytes);
  CHECK(joined.floats == whole.data->floats);
  CHECK(joined.labels == whole.data->labels);
  CHECK(joined.targets == whole.data->targets);
}

struct IdxFiles {
  std::string images;
  std::string labels;
};

/// `count` images of 3 x 4 pixels with labels of five classes.
IdxFiles write_idx(const DataFolder& folder, std::uint32_t count) {
  return {folder.write("images", idx({count, 3, 4}, drawn_bytes(12 * count, 256))),
          folder.write("labels", idx({count}, drawn_bytes(count, 5)))};
}

LoadedDataSet open_small(const IdxFiles& files) {
  return open_idx(files.images, files.labels, small_blocks);
}

struct Copied {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  friend bool operator==(const Copied&, const Copied&) = default;
};

Copied copied(const Batch& batch) {
  return {{batch.inputs.begin(), batch.inputs.end()}, {batch.labels.begin(), batch.labels.end()}};
}

/// Stands in for another thread: work runs only when the test waits for it or runs it.
class LateWork {
 public:
  RunAside aside() {
    return [this](std::function<void()> work) {
      const std::size_t number = works_.size();
      works_.push_back(std::move(work));
      return [this, number] { run(number); };
    };
  }
  void run_all() {
    for (std::size_t i = 0; i < works_.size(); ++i) run(i);
  }
  std::size_t started() const { return works_.size(); }
  std::size_t run_count() const { return run_; }

 private:
  void run(std::size_t number) {
    if (!works_[number]) return;
    std::exchange(works_[number], nullptr)();
    ++run_;
  }

  std::deque<std::function<void()>> works_;
  std::size_t run_ = 0;
};

}  // namespace

TEST_CASE("idx samples in files are those in memory", "[unit]") {
  const DataFolder folder;
  const IdxFiles files = write_idx(folder, GENERATE(64u, 65u, 100u));
  check_same(open_small(files), read_idx(files.images, files.labels));
}

TEST_CASE("cifar samples in files are those in memory, across files", "[unit]") {
  const DataFolder folder;
  std::string first, second;
  for (const char label : {'\1', '\7', '\3'}) first += label + drawn_bytes(3072, 256);
  for (const char label : {'\0', '\x09'}) second += label + drawn_bytes(3072, 256);
  const std::vector<std::string> files = {folder.write("a", first), folder.write("b", second)};
  check_same(open_cifar10(files, 7000), read_cifar10(files));
}

TEST_CASE("text samples in files are those in memory, across files", "[unit]") {
  const DataFolder folder;
  const std::vector<std::string> files = {folder.write("a", drawn_bytes(321, 256)),
                                          folder.write("b", drawn_bytes(33, 256)),
                                          folder.write("c", drawn_bytes(400, 256))};
  check_same(open_text(files, 8, small_blocks), read_text(files, 8, TextPart::whole));
}

TEST_CASE("csv samples in files are those in memory", "[unit]") {
  const DataFolder folder;
  const std::size_t targets = GENERATE(0u, 2u);
  std::string rows = GENERATE("", "a,b,c,d\n", "\xef\xbb\xbf", "\n\na,b\n");
  const bool is_refused = rows.starts_with("\n");
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    rows += number + ".5, -" + number + "e-3," + number + "," + std::to_string(i % 7);
    rows += i % 3 == 0 ? "\r\n\n" : "\n";
  }
  if (targets == 2) rows.pop_back();  // The last line may lack its line break.
  const std::string file = folder.write("rows", rows);
  if (is_refused) {
    CHECK(said(open_csv(file, targets, small_blocks)) == said(read_csv(file, targets)));
  } else {
    check_same(open_csv(file, targets, small_blocks), read_csv(file, targets));
    const InputScale scale{.mean = 1e9, .deviation = 3};
    check_same(open_csv(file, targets, small_blocks, scale), read_csv(file, targets, scale));
  }
}

TEST_CASE("lines longer than a piece of a file are read whole", "[unit]") {
  const DataFolder folder;
  std::string rows;
  for (int row = 0; row < 3; ++row) {
    for (int i = 0; i < 300'000; ++i) rows += std::to_string(i % 1000) + ",";
    rows += std::to_string(row) + "\n";
  }
  const std::string file = folder.write("rows", rows);
  check_same(open_csv(file, 0, 1 << 20), read_csv(file, 0));
}

TEST_CASE("files that are refused in memory are refused with the same reason", "[unit]") {
  const DataFolder folder;
  const std::string labels = folder.write("labels", idx({2}, "\1\1"));
  const std::string images = idx({2, 2, 3}, std::string(12, 'x'));
  const std::vector<std::string> not_idx = {"",
                                            images.substr(0, 15),
                                            images.substr(0, 20),
                                            images + "x",
                                            idx({2}, std::string(20, 'x')),
                                            std::string(64, '\xee'),
                                            idx({0, 2, 3}, ""),
                                            idx({1, 2, 3}, std::string(6, 'x'))};
  for (const std::string& content : not_idx) {
    const std::string bad = folder.write("bad", content);
    CHECK(said(open_idx(bad, labels)) == said(read_idx(bad, labels)));
  }
  CHECK_FALSE(said(open_idx(folder.write("huge", idx({~0u, ~0u, ~0u}, "x")), labels)).empty());
  const std::vector<std::string> not_cifar = {"", "\1" + std::string(3072, 'x') + "y"};
  for (const std::string& content : not_cifar) {
    const std::string bad = folder.write("bad", content);
    CHECK(said(open_cifar10({bad})) == said(read_cifar10({bad})));
  }
  const std::vector<std::string> not_csv = {"",        "a,b\n", "1,2\n1,2,3\n",        "1,x\n2,1\n",
                                            "1,1.5\n", "1\n",   "1,1\nnan,1\n1,inf\n", "1,1e99\n"};
  for (const std::string& content : not_csv) {
    const std::string bad = folder.write("bad", content);
    CHECK(said(open_csv(bad, 0)) == said(read_csv(bad, 0)));
  }
  const std::string brief = folder.write("brief", "12345678");
  CHECK(said(open_text({brief}, 8)) == said(read_text({brief}, 8, TextPart::whole)));
}

TEST_CASE("files that cannot be read in blocks are refused with a remedy", "[unit]") {
  const DataFolder folder;
  const IdxFiles good = write_idx(folder, 4);
  const std::string packed = folder.write("packed", gzip("1,2\n3,4\n"));
  CHECK_THAT(said(open_csv(packed, 0)), Contains(packed + ": it is compressed") &&
                                            Contains("gunzip") && Contains("in_memory = true"));
  CHECK_THAT(said(open_idx(packed, good.labels)), Contains("it is compressed"));
  CHECK_THAT(said(open_text({packed}, 4)), Contains("it is compressed"));
  CHECK_THAT(said(open_csv(folder.path("none"), 0)), Contains("none: the file cannot be opened"));
  CHECK_THAT(said(open_csv(folder.path(""), 0)), Contains("cannot be opened"));
  CHECK_THAT(said(open_cifar10({})), Contains("no files are named"));
  CHECK_THAT(said(open_text({}, 4)), Contains("no files are named"));
  const std::string line = folder.write("line", "1,2\n" + std::string(66 << 20, ' ') + "3,4\n");
  CHECK_THAT(said(open_csv(line, 0)), Contains("begins at byte 4 is longer than 64 MiB"));
  // A sparse file, so that the test does not write 65 MiB.
  const std::string large = folder.write("large", idx({1, 8200, 8200}, ""));
  std::filesystem::resize_file(large, 16 + std::uintmax_t{8200} * 8200);
  const std::string one = folder.write("one", idx({1}, "\1"));
  CHECK_THAT(said(open_idx(large, one)), Contains("more than 64 MiB"));
}

#ifndef __SANITIZE_ADDRESS__  // The sanitiser keeps freed memory, so the peak would say nothing.
TEST_CASE("rows after a bad line of a file are checked without being kept", "[unit]") {
  const DataFolder folder;
  std::string row;
  for (int i = 0; i < 1000; ++i) row += "1,";
  const std::string file = folder.write("rows", row + "x,1\n");
  std::ofstream more(file, std::ios::app);
  for (int i = 0; i < 8000; ++i) more << row << "1,1\n";
  more.close();
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  CHECK_THAT(said(open_csv(file, 0)), Contains("rows:1: not every field"));
  getrusage(RUSAGE_SELF, &after);
  // The rows hold 32 MB of floats.
  CHECK(after.ru_maxrss - before.ru_maxrss < 16 << 10);
}
#endif

TEST_CASE("a file that changes while it is open is refused with its name and place", "[unit]") {
  const DataFolder folder;
  const IdxFiles files = write_idx(folder, 100);
  const LoadedDataSet idx_data = open_small(files);
  REQUIRE(said(idx_data).empty());
  REQUIRE(idx_data.data->blocks->block_samples() == 8);
  std::filesystem::resize_file(files.images, 16 + 12 * 50);
  CHECK(said(idx_data.data->blocks->read(5)).empty());
  CHECK_THAT(said(idx_data.data->blocks->read(6)),
             Contains(files.images + ": it ends at byte 616, and had 1216 bytes"));
  folder.write("labels", idx({100}, std::string(100, '\x63')));
  CHECK_THAT(said(idx_data.data->blocks->read(1)), Contains("the label at byte 16 is 99"));

  std::string rows;
  for (int i = 0; i < 100; ++i) rows += std::to_string(100 + i) + ",1\n";
  const std::string csv = folder.write("csv", rows);
  const LoadedDataSet csv_data = open_csv(csv, 0, small_blocks);
  REQUIRE(said(csv_data).empty());
  REQUIRE(csv_data.data->blocks->block_samples() == 16);
  const auto says_after = [&](const std::string& part, const std::string& text) {
    std::string other = rows;
    other.replace(16 * 6, part.size(), part);
    folder.write("csv", other);
    CHECK_THAT(said(csv_data.data->blocks->read(1)), Contains(csv) && Contains(text));
  };
  says_after("xxx,1\n", ":17: not every field");
  says_after("116,9\n", ":17: the label is 9");
  says_after("\n\n\n\n\n\n", "from byte 96 on are 15 samples");
  folder.write("csv", "");
  CHECK_THAT(said(csv_data.data->blocks->read(1)), Contains("it ends at byte 96"));

  const std::string record = "\1" + std::string(3072, 'x');
  const std::string cifar = folder.write("cifar", record + record);
  const LoadedDataSet cifar_data = open_cifar10({cifar});
  REQUIRE(said(cifar_data).empty());
  folder.write("cifar", record + "\x0b" + record);
  CHECK_THAT(said(cifar_data.data->blocks->read(0)), Contains("record 1 has the label 11"));
}

TEST_CASE("batches are equal whether blocks are read ahead of time or not", "[unit]") {
  const DataFolder folder;
  const IdxFiles files = write_idx(folder, 100);
  const LoadedDataSet opened = open_small(files);
  REQUIRE(said(opened).empty());
  opened.data->normalise(0.25F, 2);
  LateWork late;
  Sampler plain(opened.data, 1, std::nullopt);
  Sampler ahead(opened.data, 1, std::nullopt, late.aside());
  Rng rng(5);
  std::uint64_t position = 0;
  for (int i = 0; i < 200; ++i) {
    const std::size_t size = 1 + rng.below(20);
    const Copied batch = copied(plain.batch(position, size));
    REQUIRE(copied(ahead.batch(position, size)) == batch);
    position = rng.chance(0.2) ? rng.below(1000) : position + size;
    if (rng.chance(0.3)) late.run_all();
    if (rng.chance(0.3)) ahead.prefetch(position, 8);
  }
  CHECK(late.started() > 20);
}

TEST_CASE("blocks that are being read count among those in memory", "[unit]") {
  const DataFolder folder;
  const LoadedDataSet opened = open_small(write_idx(folder, 100));
  REQUIRE(said(opened).empty());
  LateWork late;
  BlockReader reader(opened.data, late.aside());
  for (std::size_t block = 0; block < 10; ++block) reader.expect(block);
  CHECK(late.started() == 10);
  CHECK(late.run_count() == 10 - BlockReader::held_max);
  // A block that is already expected is not read twice. The least recently used block is dropped.
  CHECK(reader.block(9).labels == opened.data->blocks->read(9).data->labels);
  reader.expect(4);
  reader.expect(0);
  reader.expect(4);
  CHECK(late.started() == 11);
  reader.expect(5);
  CHECK(late.started() == 12);
}

TEST_CASE("a pass over samples in files has each once, normalised as in memory", "[unit]") {
  const DataFolder folder;
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += std::to_string(i) + "," + std::to_string(i % 7) + "\n";
  const std::string file = folder.write("csv", rows);
  const LoadedDataSet opened = open_csv(file, 0, small_blocks);
  const LoadedDataSet whole = read_csv(file, 0);
  REQUIRE(said(opened).empty());
  opened.data->normalise(0.3F, 1.7F);
  whole.data->normalise(0.3F, 1.7F);
  Sampler sampler(opened.data, 1, std::nullopt);
  std::vector<std::vector<std::pair<float, std::int32_t>>> passes(2);
  for (std::uint64_t position = 0; position < 200; position += 10) {
    const Batch batch = sampler.batch(position, 10);
    for (std::size_t i = 0; i < 10; ++i) {
      passes[position / 100].emplace_back(batch.inputs[i], batch.labels[i]);
    }
  }
  CHECK(passes[0] != passes[1]);
  std::vector<std::pair<float, std::int32_t>> expected;
  for (std::size_t i = 0; i < 100; ++i) {
    expected.emplace_back(whole.data->floats[i], whole.data->labels[i]);
  }
  std::ranges::sort(expected);
  for (auto& pass : passes) {
    std::ranges::sort(pass);
    CHECK(pass == expected);
  }
}

TEST_CASE("a batch that failed is whole when its blocks can be read again", "[unit]") {
  const DataFolder folder;
  const IdxFiles files = write_idx(folder, 100);
  const LoadedDataSet opened = open_small(files);
  REQUIRE(said(opened).empty());
  const Copied expected = copied(Sampler(opened.data, 1, std::nullopt).batch(0, 90));
  std::filesystem::resize_file(files.images, 16 + 12 * 50);
  Sampler sampler(opened.data, 1, std::nullopt);
  sampler.prefetch(0, 90);
  CHECK_THROWS_AS(sampler.batch(0, 90), DataError);
  write_idx(folder, 100);
  CHECK(copied(sampler.batch(0, 90)) == expected);
}

TEST_CASE("a block that cannot be read fails the step that needs it and no other", "[unit]") {
  const DataFolder folder;
  const IdxFiles files = write_idx(folder, 100);
  const std::uintmax_t size = std::filesystem::file_size(files.images);
  const LoadedDataSet opened = open_small(files);
  REQUIRE(said(opened).empty());
  ModelSpec model;
  model.layers = {{.kind = LayerKind::flatten}, {.kind = LayerKind::dense, .units = 5}};
  TrainerSpec spec{.model = model, .batch = 10, .steps = 100, .is_leased = true};
  LateWork late;
  const bool reads_ahead = GENERATE(false, true);
  const auto learner =
      built_in_learner(spec, opened.data, nullptr, {}, reads_ahead ? late.aside() : RunAside());
  learner->run_steps(1);
  std::filesystem::resize_file(files.images, 16);
  learner->prefetch();
  CHECK_THROWS_WITH(learner->run_steps(20), Contains(files.images) && Contains("it ends at byte"));
  const std::uint64_t step = learner->step();
  CHECK(step < 21);
  // The lost bytes are zeros now, but the samples can be read.
  std::filesystem::resize_file(files.images, size);
  learner->run_steps(5);
  CHECK(learner->step() == step + 5);
}

}  // namespace gv
