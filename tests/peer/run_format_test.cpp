// The mark that says which version wrote a run folder.
#include "peer/host/run_format.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

/// The only problem of the folder on one line, or an empty text if it has none.
std::string problem_of(const std::filesystem::path& folder) {
  const Problems problems = run_format_problems(folder);
  REQUIRE(problems.size() <= 1);
  return problems.empty() ? "" : to_string(problems.front());
}

}  // namespace

TEST_CASE("a folder that this version has marked can be resumed", "[unit]") {
  const TemporaryFolder scratch;
  CHECK(problem_of(scratch.path()).empty());
  REQUIRE(write_run_format(scratch.path()).empty());
  std::filesystem::create_directory(scratch.path() / "checkpoints");
  CHECK(problem_of(scratch.path()).empty());
}

TEST_CASE("checkpoints without a mark are of another version unless the disk has lost it",
          "[unit]") {
  const TemporaryFolder scratch;
  std::filesystem::create_directory(scratch.path() / "checkpoints");
  const std::string unmarked = problem_of(scratch.path());
  CHECK_THAT(unmarked, Catch::Contains("another version of this program (format 1, this one"));
  CHECK_THAT(unmarked, Catch::Contains("if this version wrote the checkpoints, write 2 into "));
  std::ofstream(scratch.path() / "format") << 3;
  const std::string newer = problem_of(scratch.path());
  CHECK_THAT(newer, Catch::Contains("another version of this program (format 3, this one"));
  CHECK_THAT(newer, !Catch::Contains("if this version wrote"));
}

TEST_CASE("an empty or damaged mark is not taken for another version", "[unit]") {
  const TemporaryFolder scratch;
  std::filesystem::create_directory(scratch.path() / "checkpoints");
  for (const char* text : {"", "\n", "x"}) {
    std::ofstream(scratch.path() / "format") << text;
    const std::string said = problem_of(scratch.path());
    CHECK_THAT(said, Catch::Contains("is empty or damaged") && Catch::Contains("write 2 into"));
    CHECK_THAT(said, !Catch::Contains("another version"));
  }
}

TEST_CASE("a mark that cannot be written is a problem only if there is none yet", "[unit]") {
  const TemporaryFolder scratch;
  // A folder in the place of the temporary file keeps the mark from being written.
  std::filesystem::create_directory(scratch.path() / "format.new");
  const Problems problems = write_run_format(scratch.path());
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().place == (scratch.path() / "format").string());
  CHECK_THAT(problems.front().reason, Catch::Contains("cannot be written"));
  std::ofstream(scratch.path() / "format") << 1;
  CHECK(write_run_format(scratch.path()).size() == 1);
  std::ofstream(scratch.path() / "format") << 2;
  CHECK(write_run_format(scratch.path()).empty());
}

}  // namespace gv
