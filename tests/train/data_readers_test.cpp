// Data files are read as they are, or refused with reasons.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/train/data_folder.hpp"
#include "train/data/partition.hpp"
#include "train/data/readers.hpp"
#include "train/data/sampler.hpp"

namespace gv {
namespace {

using Catch::Matchers::Contains;

/// All problems, one on each line. Checks that data are present exactly if there are no problems.
std::string said(const LoadedDataSet& loaded) {
  REQUIRE((loaded.data == nullptr) == !loaded.problems.empty());
  std::string lines;
  for (const Problem& problem : loaded.problems) {
    CHECK_FALSE(problem.remedy.empty());
    lines += to_string(problem) + "\n";
  }
  return lines;
}

const std::string two_images = idx({2, 2, 3}, std::string("\0\1\2\3\4\5\6\7\x08\x09\x0a\xff", 12));
const std::string two_labels = idx({2}, std::string("\3\0", 2));

}  // namespace

TEST_CASE("idx files are read plain and compressed", "[unit]") {
  const DataFolder folder;
  const bool compressed = GENERATE(false, true);
  const auto images = folder.write("images", compressed ? gzip(two_images) : two_images);
  const auto labels = folder.write("labels", compressed ? gzip(two_labels) : two_labels);
  const LoadedDataSet loaded = read_idx(images, labels);
  REQUIRE(said(loaded).empty());
  CHECK(loaded.data->shape == SampleShape{1, 2, 3});
  CHECK(loaded.data->size() == 2);
  CHECK(loaded.data->classes == 4);
  CHECK(loaded.data->labels == std::vector<std::int32_t>{3, 0});
  CHECK(loaded.data->bytes == std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255});
}

TEST_CASE("bad idx files are refused by name and reason", "[unit]") {
  const DataFolder folder;
  const auto images = folder.write("images", two_images);
  const auto labels = folder.write("labels", two_labels);
  const auto refuses = [&](const std::string& content, const std::string& reason) {
    const auto bad = folder.write("bad", content);
    CHECK_THAT(said(read_idx(bad, labels)), Contains(bad + ": ") && Contains(reason));
  };
  refuses("", "too short");
  refuses(two_images.substr(0, 15), "too short");
  refuses(two_images.substr(0, 20), "announces 12 bytes and holds 4");
  refuses(two_images + "x", "announces 12 bytes and holds 13");
  refuses(idx({2}, std::string(20, 'x')), "not an IDX file of bytes with 3 dimensions");
  refuses(std::string(64, '\xee'), "not an IDX file");
  refuses(idx({~0u, ~0u, ~0u}, "x"), "dimensions make no sense");
  refuses(idx({65536, 65536, 2}, "x"), "holds more than 4 GiB");
  refuses(idx({0, 2, 3}, ""), "dimensions make no sense");
  const std::string packed = gzip(two_images);
  refuses(packed.substr(0, packed.size() - 12), "middle of compressed data");
  std::string damaged = packed;
  damaged[30] ^= 1;
  refuses(damaged, "cannot be read");

  // If the file is far shorter than its header announces, the announced memory is not allocated.
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  refuses(idx({2, 1 << 15, 1 << 15}, "x"), "announces 2147483648 bytes and holds 1");
  getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 1 << 18);

  CHECK_THAT(said(read_idx(images, images)), Contains(images + ": ") && Contains("1 dimensions"));
  const auto three = folder.write("three", idx({3}, "\1\1\1"));
  CHECK_THAT(said(read_idx(images, three)),
             Contains(three + ": ") && Contains("3 labels for 2 images"));
  const std::string absent = said(read_idx(folder.path("no-images"), folder.path("no-labels")));
  CHECK_THAT(absent, Contains("no-images: the file cannot be opened") &&
                         Contains("no-labels: the file cannot be opened"));
  CHECK_THAT(said(read_idx(folder.path(""), labels)), Contains("cannot be"));
}

TEST_CASE("cifar files follow each other", "[unit]") {
  const DataFolder folder;
  const auto first = folder.write("a", cifar_record_of(7, 'p') + cifar_record_of(0, 'q'));
  const auto second = folder.write("b", gzip(cifar_record_of(9, 'r')));
  const LoadedDataSet loaded = read_cifar10({first, second});
  REQUIRE(said(loaded).empty());
  CHECK(loaded.data->shape == SampleShape{3, 32, 32});
  CHECK(loaded.data->classes == 10);
  CHECK(loaded.data->labels == std::vector<std::int32_t>{7, 0, 9});
  REQUIRE(loaded.data->bytes.size() == 3 * 3072);
  CHECK(loaded.data->bytes[3071] == 'p');
  CHECK(loaded.data->bytes[3072] == 'q');
  CHECK(loaded.data->bytes.back() == 'r');
}

TEST_CASE("bad cifar files are refused by name and reason", "[unit]") {
  const DataFolder folder;
  const auto good = folder.write("good", cifar_record_of(1, 'x'));
  const auto refuses = [&](const std::string& content, const std::string& reason) {
    const auto bad = folder.write("bad", content);
    CHECK_THAT(said(read_cifar10({good, bad})), Contains(bad + ": ") && Contains(reason));
  };
  refuses("", "0 bytes are not whole records");
  refuses(cifar_record_of(1, 'x') + "y", "3074 bytes are not whole records of 3073");
  refuses(cifar_record_of(1, 'x') + cifar_record_of(10, 'x'), "record 1 has the label 10");
  CHECK_THAT(said(read_cifar10({folder.path("none")})),
             Contains("none: the file cannot be opened"));
  CHECK_THAT(said(read_cifar10({})), Contains("no files are named"));
}

TEST_CASE("csv rows are features and a label", "[unit]") {
  const DataFolder folder;
  const std::string head = GENERATE("", "a,b,label\n", "\xef\xbb\xbf",
                                    "\xef\xbb\xbf"
                                    "a,b,c\r\n");
  const auto file = folder.write("f.csv", head + "1.5,-2,1\r\n\n 3e1 ,0.25,0\n0,0,2");
  const LoadedDataSet loaded = read_csv(file, 0);
  REQUIRE(said(loaded).empty());
  CHECK(loaded.data->shape == SampleShape{2, 1, 1});
  CHECK(loaded.data->classes == 3);
  CHECK(loaded.data->labels == std::vector<std::int32_t>{1, 0, 2});
  CHECK(loaded.data->floats == std::vector<float>{1.5f, -2, 30, 0.25f, 0, 0});
}

TEST_CASE("csv rows are features and targets", "[unit]") {
  const DataFolder folder;
  const auto file = folder.write("f.csv", "x,y,z\n1,2.5,-3\n4,5,6\n");
  const LoadedDataSet loaded = read_csv(file, 2);
  REQUIRE(said(loaded).empty());
  CHECK(loaded.data->shape == SampleShape{1, 1, 1});
  CHECK(loaded.data->classes == 0);
  CHECK(loaded.data->target_width == 2);
  CHECK(loaded.data->size() == 2);
  CHECK(loaded.data->floats == std::vector<float>{1, 4});
  CHECK(loaded.data->targets == std::vector<float>{2.5f, -3, 5, 6});
}

TEST_CASE("csv values with a large mean keep the digits in which they differ", "[unit]") {
  const DataFolder folder;
  // As floats all three would be 2e9.
  const auto file = folder.write("f.csv", "2000000001,0\n2000000002,1\n1999999999.5,0\n");
  const LoadedDataSet loaded = read_csv(file, 0, {.mean = 2e9, .deviation = 0.5});
  REQUIRE(said(loaded).empty());
  CHECK(loaded.data->floats == std::vector<float>{2, 4, -1});
  const LoadedDataSet targets = read_csv(file, 1, {.mean = 2e9, .deviation = 0.5});
  REQUIRE(said(targets).empty());
  CHECK(targets.data->targets == std::vector<float>{0, 1, 0});
  CHECK_THAT(said(read_csv(folder.write("g.csv", "1,0\n1e38,0\n"), 0, {.deviation = 0.01})),
             Contains("g.csv:2: ") && Contains("too large for a float"));
}

TEST_CASE("bad csv rows are refused by line and reason", "[unit]") {
  const DataFolder folder;
  const auto refuses = [&](const std::string& content, const std::string& line,
                           const std::string& reason, std::size_t targets = 0) {
    CAPTURE(content);
    const auto bad = folder.write("bad.csv", content);
    CHECK_THAT(said(read_csv(bad, targets)), Contains(bad + line + ": ") && Contains(reason));
  };
  refuses("", "", "no samples");
  refuses("a,b\n", "", "no samples");
  refuses("1,2,0\n1,2\n", ":2", "2 columns, the first row has 3");
  refuses("1,2,0\n1,x,0\n", ":2", "not every field is a finite number");
  refuses("1,2,0\n1,,0\n", ":2", "not every field is a finite number");
  refuses("1,2,0\n1,2z,0\n", ":2", "not every field is a finite number");
  // A first sample with a bad field is not taken for a heading.
  refuses("1,nan,0\n1,2,0\n", ":1", "not every field is a finite number");
  refuses("1,x,0\n1,2,0\n", ":1", "not every field is a finite number");
  refuses("inf,2,0\n1,2,0\n", ":1", "not every field is a finite number");
  refuses("1e999,2,0\n1,2,0\n", ":1", "not every field is a finite number");
  refuses("a,b\nc,d\n1,0\n", ":2", "not every field is a finite number");
  refuses("1,0\n1e39,0\n", ":2", "not every field is a finite number");  // Infinity as a float.
  refuses("1,2,0\n1,2,0.5\n", ":2", "not a label");
  refuses("1,2,0\n1,2,-1\n", ":2", "not a label");
  refuses("1,2,0\n1,2,1e18\n", ":2", "not a label");
  refuses("1,2,0\n1,2,1000000000\n", ":2", "write whole numbers from 0 to 100000, or");
  refuses("1\n", ":1", "too few");
  refuses("1,2\n", ":1", "too few", 2);
  refuses("1,2\n", ":1", "too few", std::numeric_limits<std::size_t>::max());
  CHECK_THAT(said(read_csv(folder.path("none"), 0)), Contains("none: the file cannot be opened"));
}

TEST_CASE("a text is cut into windows whose labels are what follows each byte", "[unit]") {
  const DataFolder folder;
  const std::string file = folder.write("text", "abcdefgh");
  const LoadedDataSet loaded = read_text({file}, 3, TextPart::whole);
  REQUIRE(loaded.problems.empty());
  const DataSet& data = *loaded.data;
  CHECK(data.shape == SampleShape{3, 1, 1});
  CHECK(data.classes == 256);
  CHECK(data.predictions == 3);
  REQUIRE(data.size() == 2);  // "h" is the last byte at which a whole window could begin.
  std::vector<float> second(3);
  data.read(1, second);
  CHECK(second == std::vector<float>{'d', 'e', 'f'});
  CHECK(data.labels == std::vector<std::int32_t>{'b', 'c', 'd', 'e', 'f', 'g'});
}

TEST_CASE("every byte is read as itself", "[unit]") {
  const DataFolder folder;
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const LoadedDataSet loaded = read_text({folder.write("text", text)}, 255, TextPart::whole);
  REQUIRE(loaded.problems.empty());
  std::vector<float> ids(255);
  loaded.data->read(0, ids);
  for (std::size_t byte = 0; byte < 255; ++byte) CHECK(ids[byte] == static_cast<float>(byte));
}

TEST_CASE("the last tenth of every file is apart from the rest of it", "[unit]") {
  const DataFolder folder;
  const std::string a = folder.write("a.txt", std::string(90, 'a') + std::string(10, 'b'));
  const std::string b = folder.write("b.txt", std::string(45, 'c') + std::string(5, 'd'));
  const LoadedDataSet rest = read_text({a, b}, 4, TextPart::but_last_tenth);
  const LoadedDataSet tenth = read_text({a, b}, 4, TextPart::last_tenth);
  REQUIRE(rest.problems.empty());
  REQUIRE(tenth.problems.empty());
  CHECK(rest.data->bytes == [] {
    std::vector<std::uint8_t> expected(88, 'a');
    expected.insert(expected.end(), 44, 'c');
    return expected;
  }());
  CHECK(tenth.data->bytes ==
        std::vector<std::uint8_t>{'b', 'b', 'b', 'b', 'b', 'b', 'b', 'b', 'd', 'd', 'd', 'd'});
}

TEST_CASE("a text shorter than its context is refused by name and reason", "[unit]") {
  const DataFolder folder;
  const std::string file = folder.write("text", "short");
  const LoadedDataSet loaded = read_text({file}, 5, TextPart::whole);
  CHECK(loaded.data == nullptr);
  REQUIRE(loaded.problems.size() == 1);
  CHECK(loaded.problems.front().place == file);
  CHECK(loaded.problems.front().reason.find("5 bytes") != std::string::npos);
  CHECK(read_text({file}, 4, TextPart::whole).data->size() == 1);
  CHECK(read_text({file}, 4, TextPart::last_tenth).problems.size() == 1);
}

TEST_CASE("windows are dealt out and batched with all their labels", "[unit]") {
  const DataFolder folder;
  std::string text;
  for (int i = 0; i < 101; ++i) text += static_cast<char>(i);
  const LoadedDataSet loaded = read_text({folder.write("text", text)}, 10, TextPart::whole);
  REQUIRE(loaded.data->size() == 10);
  for (const PartitionKind kind : {PartitionKind::iid, PartitionKind::by_label}) {
    std::set<std::uint32_t> dealt;
    for (const auto& shard : partition({.kind = kind}, *loaded.data, 3, Rng(1))) {
      dealt.insert(shard.begin(), shard.end());
    }
    CHECK(dealt.size() == 10);
  }
  const std::vector<std::uint32_t> chosen = {7, 2};
  auto shard = std::make_shared<DataSet>(loaded.data->subset(chosen));
  REQUIRE(shard->size() == 2);
  Sampler sampler(shard, 1, 0);
  const Batch batch = sampler.batch(0, 2);
  REQUIRE(batch.labels.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(batch.labels[i] == static_cast<std::int32_t>(batch.inputs[i]) + 1);
  }
}

TEST_CASE("any bytes are read or refused without a crash", "[unit]") {
  const DataFolder folder;
  Rng rng(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::string content = trial % 4 == 0   ? two_images
                          : trial % 4 == 1 ? gzip(two_images)
                          : trial % 4 == 2 ? "1,2,0\n3,4,1\n"
                                           : std::string(rng.below(4000), '\0');
    const std::size_t flips = content.empty() ? 0 : 1 + rng.below(content.size());
    for (std::size_t i = 0; i < flips; ++i) {
      content[rng.below(content.size())] = static_cast<char>(rng.below(256));
    }
    const auto file = folder.write("garbage", content);
    said(read_idx(file, file));
    said(read_cifar10({file}));
    said(read_csv(file, 0));
    said(read_csv(file, 1));
  }
}

}  // namespace gv
