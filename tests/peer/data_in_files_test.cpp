// Tasks whose training data stay in files, and the thread that reads those files.
#include <stdlib.h>  // mkdtemp belongs to POSIX, not to the standard library.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "peer/config/task.hpp"
#include "peer/host/reading_thread.hpp"
#include "peer/host/worker.hpp"
#include "tests/peer/config_texts.hpp"

namespace gv {
namespace {

/// A folder with CSV files for training and testing.
class CsvFolder {
 public:
  explicit CsvFolder(int rows) {
    REQUIRE(mkdtemp(path_.data()) != nullptr);
    for (const char* name : {"train.csv", "test.csv"}) {
      std::ofstream out(path_ + "/" + name);
      for (int i = 0; i < rows; ++i) out << i << "," << i % 3 << ".5," << i % 2 << "\n";
    }
  }
  ~CsvFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CsvFolder(const CsvFolder&) = delete;
  CsvFolder& operator=(const CsvFolder&) = delete;

  Config config(const std::string& data) const {
    return sound("[run]\npeers = 3\n[data]\nkind = \"csv\"\nfolder = \"" + path_ +
                 "\"\npartition = \"leased\"\nmean = 2.0\ndeviation = 3.0\n" + data);
  }
  std::string path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "gv-csv-XXXXXX").string();
};

/// A replica whose jobs fail.
class Failing final : public Replica {
 public:
  JobDone run(Job) override { throw std::runtime_error("the disk is gone"); }
  void set_hooks(ReplicaHooks) override {}
  void mix_by(const MixRule&, std::uint64_t) override {}
  std::uint64_t step() const override { return 0; }
  std::vector<ReplicaPart> parts() const override { return {}; }
  std::string restore(ReplicaPart) override { return {}; }
};

}  // namespace

TEST_CASE("a task on data in files is that on data in memory but for where they are", "[unit]") {
  const CsvFolder folder(60);
  const Task memory = load_task(folder.config(""), 1);
  const Task files = load_task(folder.config("in_memory = false\n"), 1);
  REQUIRE(memory.problems.empty());
  REQUIRE(files.problems.empty());
  CHECK(memory.shard->blocks == nullptr);
  REQUIRE(files.shard->blocks != nullptr);
  CHECK(files.shard->size() == 60);
  CHECK(files.samples == memory.samples);
  CHECK(files.trainer.steps == memory.trainer.steps);
  CHECK(files.trainer.is_leased);
  CHECK(files.shard->offset == memory.shard->offset);
  CHECK(files.shard->scale == memory.shard->scale);
  const auto learner = learner_of(files);
  CHECK(learner->layout().size() == learner_of(memory)->layout().size());
  learner->run_steps(2);
  CHECK(learner->step() == 2);
}

TEST_CASE("peers in one process share files and nothing else", "[unit]") {
  const CsvFolder folder(60);
  const std::vector<Task> tasks = load_tasks(folder.config("in_memory = false\n"));
  REQUIRE(tasks.size() == 3);
  CHECK(tasks[0].shard == tasks[2].shard);
  const auto first = learner_of(tasks[0]);
  const auto last = learner_of(tasks[2]);
  for (const auto& learner : {first.get(), last.get()}) {
    learner->read_from(40);
    learner->run_steps(3);
  }
  const auto a = first->parameters();
  const auto b = last->parameters();
  CHECK(std::vector<float>(a.begin(), a.end()) == std::vector<float>(b.begin(), b.end()));
}

TEST_CASE("data in files are refused with the file's name", "[unit]") {
  const CsvFolder folder(2);
  const Config config = folder.config("in_memory = false\n");
  CHECK(load_task(config, 0).problems.front().place == "run.peers");
  CHECK(load_tasks(config).front().problems.front().place == "run.peers");
  std::ofstream(folder.path() + "/train.csv") << "1,2,x\n";
  CHECK(load_task(config, 0).problems.front().place == folder.path() + "/train.csv:1");
}

TEST_CASE("a reading thread does its work in order and can be waited for", "[unit]") {
  std::vector<int> done;
  {
    ReadingThread thread;
    std::vector<std::function<void()>> waits;
    for (int i = 0; i < 100; ++i) waits.push_back(thread.start([&done, i] { done.push_back(i); }));
    waits[70]();
    waits[70]();
    waits[3]();
    waits[99]();
  }
  REQUIRE(done.size() == 100);
  for (std::size_t i = 0; i < 100; ++i) CHECK(done[i] == static_cast<int>(i));
}

TEST_CASE("a worker whose job fails says why and begins no other", "[unit]") {
  std::vector<std::string> reasons;
  std::size_t jobs_done = 0;
  {
    Worker worker(
        std::make_unique<Failing>(), [](const Replica&, const task::Save&) { return ""; },
        [&](JobDone) { ++jobs_done; }, [&](std::string why) { reasons.push_back(std::move(why)); });
    worker.post({});
    worker.post({});
  }
  CHECK(jobs_done == 0);
  CHECK(reasons == std::vector<std::string>{"the disk is gone"});
}

}  // namespace gv
