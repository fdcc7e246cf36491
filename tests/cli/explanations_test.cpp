// `grapevine explain`: every event, reason and exit code has an entry that can be found by name.
#include "cli/explanations.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_codes.hpp"
#include "consensus/message/facts.hpp"
#include "consensus/message/message.hpp"
#include "peer/node/facts.hpp"

namespace gv {
namespace {

/// True if each sentence begins with a capital letter, ends with a full stop and has more than two
/// words.
bool are_sentences(const std::string& text) {
  if (!text.ends_with('.') || text.starts_with(' ')) return false;
  static const std::regex end(R"(\.\s+)");
  for (std::sregex_token_iterator part(text.begin(), text.end(), end, -1), none; part != none;
       ++part) {
    const std::string sentence = *part;
    const auto first = static_cast<unsigned char>(sentence.front());
    if (std::isupper(first) == 0 && first != '`') return false;
    if (std::ranges::count(sentence, ' ') < 2) return false;
  }
  return true;
}

std::string kind_of(std::string_view name) {
  const Explanation* const found = find_explanation(name);
  return found == nullptr ? "nothing" : found->kind;
}

}  // namespace

TEST_CASE("every event has an entry of whole sentences", "[unit]") {
  for (const FactInfo& info : fact_infos()) {
    INFO(info.name);
    CHECK(kind_of(info.name) == "event");
  }
}

TEST_CASE("every reason of a refusal has an entry by the words of the logs", "[unit]") {
  for (int i = 1; i <= static_cast<int>(last_value(Reason{})); ++i) {
    const std::string_view words = to_string(static_cast<Reason>(i));
    INFO(words);
    CHECK(kind_of(words) == "reason");
  }
}

TEST_CASE("every exit code has an entry", "[unit]") {
  for (const int code : {exit_clean, exit_failed, exit_refused, swarm_unsafe, swarm_stuck,
                         swarm_crashed, exit_interrupted}) {
    INFO(code);
    CHECK(kind_of("exit-" + std::to_string(code)) == "exit code");
  }
}

TEST_CASE("every entry says in whole sentences what it means and what to do", "[unit]") {
  std::set<std::string> names;
  for (const Explanation& known : explanations()) {
    INFO(known.name << ": " << known.meaning << " / " << known.remedy);
    CHECK(names.insert(known.name).second);
    CHECK_FALSE(known.sentence.empty());
    CHECK(are_sentences(known.meaning));
    CHECK((known.remedy.empty() || are_sentences(known.remedy)));
  }
}

TEST_CASE("an entry is found in any spelling of its name", "[unit]") {
  for (const char* spelling : {"not_ready", "not ready", "Not-Ready", " not ready. "}) {
    INFO(spelling);
    CHECK(find_explanation(spelling) == find_explanation("not_ready"));
  }
  REQUIRE(find_explanation("exit-2") != nullptr);
  for (const char* spelling : {"exit 2", "exit_2", "exit code 2", "code 2", "2"}) {
    INFO(spelling);
    CHECK(find_explanation(spelling) == find_explanation("exit-2"));
  }
  CHECK(find_explanation("") == nullptr);
  CHECK(find_explanation("exit-77") == nullptr);
}

TEST_CASE("a name that is almost right gets the nearest, and a part of names all that have it",
          "[unit]") {
  CHECK(near_explanations("membr_dead").front() == "member_dead");
  CHECK(near_explanations("membr_dead").size() == 3);
  const std::vector<std::string> lanes = near_explanations("lane");
  CHECK(lanes == std::vector<std::string>{"lane_opened", "lane_closed", "lane_lost", "lane_refused",
                                          "lane_listen_failed"});
}

TEST_CASE("the table has one line for each entry", "[unit]") {
  std::istringstream lines(explanations_table());
  std::set<std::string> listed;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) listed.insert(line.substr(2, line.find(' ', 2) - 2));
  }
  CHECK(listed.size() == explanations().size());
  for (const Explanation& known : explanations()) CHECK(listed.contains(known.name));
}

TEST_CASE("entries as JSON have all their texts", "[unit]") {
  const auto list = nlohmann::json::parse(to_json(explanations()));
  REQUIRE(list.size() == explanations().size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    CHECK(list[i].at("kind") == explanations()[i].kind);
    CHECK(list[i].at("name") == explanations()[i].name);
    CHECK(list[i].at("sentence") == explanations()[i].sentence);
    CHECK(list[i].at("meaning") == explanations()[i].meaning);
    CHECK(list[i].at("remedy") == explanations()[i].remedy);
  }
}

}  // namespace gv
