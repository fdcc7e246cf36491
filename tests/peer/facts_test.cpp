// Names, texts and values of facts.
#include "peer/node/facts.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "peer/node/reasons.hpp"
#include "tests/temporary_folder.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace gv {
namespace {

std::string peer_seven(PeerId) { return "peer-7"; }

/// A fact with every optional figure set.
template <class F>
Fact complete() {
  F fact{};
  if constexpr (requires { fact.norm; }) fact.norm = 0;
  if constexpr (requires { fact.stages; }) fact.stages = 0;
  if constexpr (requires { fact.bytes_received; }) fact.bytes_received = 0;
  return fact;
}

template <std::size_t... I>
std::array<Fact, sizeof...(I)> one_of_each(std::index_sequence<I...>) {
  return {complete<std::variant_alternative_t<I, FactVariant>>()...};
}

const auto all_facts = one_of_each(std::make_index_sequence<std::variant_size_v<FactVariant>>{});

/// The page that lists all facts.
std::string events_page() {
  std::string page =
      "# Events\n\nEach line of a run's `events.jsonl` is one of these. `t` is in seconds since "
      "the "
      "start; `peer` and\n`name` are those of the other peer, `reason` says why something was "
      "refused "
      "or given up, and `detail` holds the\nrest. `grapevine explain EVENT` and `grapevine explain "
      "REASON` print these texts.\n\n| event | sentence | meaning | remedy | figures "
      "|\n|---|---|---|---"
      "|---|\n";
  for (const Fact& fact : all_facts) {
    const FactText text = describe(fact);
    std::string figures;
    for (const auto& [name, value] : text.numbers) {
      figures += (figures.empty() ? "`" : ", `") + std::string(name) + "`";
    }
    page += "| `" + std::string(text.info.name) + "` | " + std::string(text.info.sentence) + " | " +
            std::string(text.info.meaning) + " | " + std::string(text.info.remedy) + " | " +
            figures + " |\n";
  }
  page +=
      "\n## Reasons\n\n`reason` in an event is one of these.\n\n| reason | sentence | meaning | "
      "remedy |\n|---|---|---|---|\n";
  for (const ReasonInfo& info : reason_infos()) {
    page += "| `" + std::string(to_string(info.reason)) + "` | " + std::string(info.sentence) +
            " | " + std::string(info.meaning) + " | " + std::string(info.remedy) + " |\n";
  }
  return page;
}

}  // namespace

TEST_CASE("every fact has a name of its own in snake case", "[unit]") {
  std::set<std::string> names;
  for (const Fact& fact : all_facts) {
    const std::string name(name_of(fact));
    INFO(name);
    CHECK(names.insert(name).second);
    CHECK_FALSE(name.empty());
    for (const char c : name) CHECK((std::islower(static_cast<unsigned char>(c)) != 0 || c == '_'));
  }
}

TEST_CASE("every sentence is complete once its values are known", "[unit]") {
  for (const Fact& fact : all_facts) {
    const FactText text = describe(fact);
    INFO(text.info.name);
    CHECK_FALSE(text.info.sentence.empty());
    const std::string said = sentence(text, peer_seven);
    CHECK(said.find_first_of("{}?") == std::string::npos);
  }
}

TEST_CASE("every reason of a refusal has its texts, under the name that logs use", "[unit]") {
  std::vector<Reason> explained;
  for (const ReasonInfo& info : reason_infos()) {
    explained.push_back(info.reason);
    std::string in_logs(info.name);
    std::ranges::replace(in_logs, '_', ' ');
    CHECK(in_logs == to_string(info.reason));
  }
  std::vector<Reason> sent;
  for (int i = 1; i <= static_cast<int>(last_value(Reason{})); ++i) {
    sent.push_back(static_cast<Reason>(i));
  }
  CHECK(explained == sent);
}

TEST_CASE("a sentence names the peer and the figures", "[unit]") {
  const Fact dead = MemberDead{.peer = PeerId{7}, .view = 3};
  CHECK(sentence(describe(dead), peer_seven) == "peer-7 is dead; 3 peers are left");
  const Fact aborted = ExchangeAborted{.peer = PeerId{7}, .reason = Reason::timed_out};
  CHECK(sentence(describe(aborted), peer_seven) ==
        "the exchange with peer-7 is given up: timed out");
}

TEST_CASE("a diverged model that is not saved is not called a full disk", "[unit]") {
  const TemporaryFolder root;
  Layout layout;
  layout.add("w", {1});
  const auto remedy_of = [&](float value, const std::filesystem::path& folder) {
    const std::string why = save_checkpoint(folder, layout, std::span(&value, 1), {}, {}, 1);
    return why.empty() ? "saved" : describe(SaveFailed{.why = why}).remedy;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(remedy_of(nan, root.path() / "a") == "Resume with a smaller train.learning_rate.");
  std::ofstream(root.path() / "file") << "x";
  CHECK(remedy_of(1, root.path() / "file") ==
        "Free space on the disk, or make the folder writable.");
}

TEST_CASE("facts are counted by type", "[unit]") {
  FactCounts counts;
  counts.add(MemberDead{});
  counts.add(MemberDead{});
  counts.add(BudgetDone{});
  CHECK(counts.of<MemberDead>() == 2);
  CHECK(counts.of<MemberLeft>() == 0);
  CHECK(counts.by_name() ==
        std::map<std::string, std::uint64_t>{{"budget_done", 1}, {"member_dead", 2}});
}

TEST_CASE("the peers that membership reports as gone are the dead, the leaving and the removed",
          "[unit]") {
  const std::set<std::string> expected = {"member_dead", "member_left", "member_removed"};
  std::set<std::string> gone;
  for (const Fact& fact : all_facts) {
    if (gone_peer(fact)) gone.insert(std::string(name_of(fact)));
  }
  CHECK(gone == expected);
}

TEST_CASE("the page of events says what the texts of facts say", "[unit]") {
  const std::string path = std::string(GRAPEVINE_SOURCE_DIR) + "/docs/events.md";
  const std::string expected = events_page();
  // On request, rewrites the page. A person then reads the diff.
  if (std::getenv("GRAPEVINE_REWRITE") != nullptr) std::ofstream(path) << expected;
  std::ifstream in(path);
  const std::string written((std::istreambuf_iterator<char>(in)), {});
  CHECK(written == expected);
}

}  // namespace gv
