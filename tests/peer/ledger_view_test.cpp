// The swarm's work, taken from a peer's document and shown as a table and as JSON.
#include "peer/host/ledger_view.hpp"

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "peer/host/peer_socket.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

using Json = nlohmann::json;

Json member(const std::string& name, const std::string& state) {
  return {{"name", name},
          {"id", "id of " + name},
          {"self", name == "us"},
          {"state", state},
          {"phase", "training"}};
}

/// A document with these figures for its first two members. The third member has no figures.
Json document_of(const Json& ours, const Json& theirs) {
  Json document = {{"self", {{"name", "us"}, {"id", "id of us"}}},
                   {"phase", "training"},
                   {"work", {{"budget", 10000}, {"counted", 5000}, {"text", "work 50 %"}}}};
  Json us = member("us", "alive");
  Json other = member("other", "dead");
  us["work"] = ours;
  other["work"] = theirs;
  document["members"] = Json::array({us, other, member("stranger", "alive")});
  return document;
}

Json leased() {
  Json document = document_of(
      {{"samples", 3000}, {"share", 0.6}, {"data", 9}, {"chunks_done", 12}, {"leases", 3}},
      {{"samples", 1000}, {"share", 0.2}, {"data", 9}, {"chunks_done", 4}, {"leases", 0}});
  document["ledger"] = {{"chunks", 40}, {"text", "ledger: 20 of 40 chunks done"}};
  return document;
}

Json own_data() {
  return document_of({{"samples", 4000},
                      {"share", 0.8},
                      {"data", 123},
                      {"samples_per_second", 250.5},
                      {"factor", 4.0},
                      {"factor_wanted", 7.25}},
                     {{"samples", 1000}, {"share", 0.2}, {"data", 45}});
}

PeerDocument peer_document(const Json& document, bool is_running = true) {
  return {.text = document.dump(), .is_running = is_running};
}

/// The line of the table that begins with this text.
std::string line_of(const std::string& table, const std::string& begin) {
  const std::size_t at = table.find("\n" + begin);
  if (at == std::string::npos) return "";
  return table.substr(at + 1, table.find('\n', at + 1) - at - 1);
}

}  // namespace

TEST_CASE("the table of leased data has chunks and leases, and samples of unknown peers",
          "[unit]") {
  const std::string table = ledger_table(peer_document(leased()));
  CHECK(table.starts_with("peer us  id of us  training\n  work 50 %\n  ledger: 20 of 40"));
  CHECK(line_of(table, "peer ") ==
        "peer             state         samples        share       chunks       leases");
  CHECK(line_of(table, "us ") ==
        "us               alive            3000       60.0 %           12            3");
  CHECK(line_of(table, "other ") ==
        "other            dead             1000       20.0 %            4            0");
  CHECK(line_of(table, "stranger").empty());
  CHECK(line_of(table, "others, before") ==
        "others, before                    1000            -            -            -");
}

TEST_CASE("the table of private data has factors and sizes of shards", "[unit]") {
  const std::string table = ledger_table(peer_document(own_data(), false));
  CHECK(table.starts_with("peer us  id of us  training; it does not run any more\n"));
  const std::string ours = line_of(table, "us ");
  for (const char* cell : {"250.5", "4000", "80.0 %", "4.00", "7.25", "123"}) {
    CHECK_THAT(ours, Catch::Contains(cell));
  }
  CHECK_THAT(line_of(table, "other "), Catch::Contains("45"));
  CHECK(table.find("leases") == std::string::npos);
  CHECK(table.find("others, before") == std::string::npos);
}

TEST_CASE("in the ledger of a peer that has ended no peer that is done is called alive", "[unit]") {
  Json document = leased();
  document["members"][1]["state"] = "alive";
  document["members"][1]["phase"] = "done";
  CHECK_THAT(line_of(ledger_table(peer_document(document)), "other "), Catch::Contains(" done "));
  CHECK_THAT(line_of(ledger_table(peer_document(document)), "us "), Catch::Contains(" alive "));
  // The peer itself has ended, although it was not done.
  CHECK_THAT(line_of(ledger_table(peer_document(document, false)), "us "),
             Catch::Contains(" ended "));
}

TEST_CASE("the ledger as JSON has the same figures under stable names", "[unit]") {
  const Json json = Json::parse(ledger_json(peer_document(leased())));
  CHECK(json["peer"]["name"] == "us");
  CHECK(json["running"] == true);
  CHECK(json["work"] == Json({{"budget", 10000}, {"counted", 5000}}));
  CHECK(json["ledger"] == Json({{"chunks", 40}}));
  REQUIRE(json["peers"].size() == 2);
  CHECK(json["peers"][1]["state"] == "dead");
  CHECK(json["peers"][1]["chunks_done"] == 4);
  CHECK(json["samples_of_unknown"] == 1000);
  CHECK(Json::parse(ledger_json(peer_document(own_data())))["ledger"].is_null());
}

TEST_CASE("a peer without a common budget has no ledger to show", "[unit]") {
  CHECK(ledger_problems(peer_document(leased())).empty());
  const Problems problems = ledger_problems(peer_document({{"phase", "training"}}));
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().place == "run.budget");
  CHECK_THAT(problems.front().remedy, Catch::Contains("budget = \"swarm\""));
  CHECK(ledger_problems({.text = "{"}).size() == 1);
}

TEST_CASE("the part of a document that travels shows the same ledger", "[unit]") {
  Json document = leased();
  document["refusals"] = Json::array({"of no concern"});
  const PeerDocument whole = peer_document(document);
  const PeerDocument part{.text = ledger_part(whole.text, 4096)};
  CHECK(ledger_problems(part).empty());
  CHECK(ledger_table(part) == ledger_table(whole));
  CHECK(ledger_json(part) == ledger_json(whole));
  CHECK(part.text.find("refusals") == std::string::npos);
}

TEST_CASE("a ledger of many peers that has no room for all says how many are missing", "[unit]") {
  Json document = leased();
  for (int i = 0; i < 1000; ++i) {
    Json one = member("peer-" + std::to_string(i), "alive");
    one["work"] = {{"samples", 1}, {"share", 0.0001}, {"chunks_done", 1}, {"leases", 0}};
    document["members"].push_back(one);
  }
  const PeerDocument part{.text = ledger_part(document.dump(), 32768)};
  CHECK(part.text.size() <= 32768);
  CHECK(part.text.size() > 32000);
  REQUIRE(ledger_problems(part).empty());
  const Json json = Json::parse(ledger_json(part));
  CHECK(json["peers"].size() + json["left_out"].get<std::size_t>() == 1002);
  CHECK_THAT(ledger_table(part), Catch::Contains(" more peers have no room in an answer"));
}

TEST_CASE("a document that no peer writes is refused, whatever is wrong with it", "[unit]") {
  const auto is_refused = [](const std::string& path, const Json& value) {
    Json document = leased();
    document[Json::json_pointer(path)] = value;
    return ledger_problems(peer_document(document)).size() == 1;
  };
  CHECK_FALSE(is_refused("/phase", "done"));
  CHECK(is_refused("/phase", 7));
  CHECK(is_refused("/self", "us"));
  CHECK(is_refused("/self/name", Json::array()));
  CHECK(is_refused("/work", 5));
  CHECK(is_refused("/work/counted", -1));
  CHECK(is_refused("/work/text", 1.5));
  CHECK(is_refused("/ledger", Json::array()));
  CHECK(is_refused("/left_out", "many"));
  CHECK(is_refused("/members", 3));
  CHECK(is_refused("/members/0", "us"));
  CHECK(is_refused("/members/0/state", nullptr));
  CHECK(is_refused("/members/0/work", Json::array()));
  CHECK(is_refused("/members/0/work/samples", 1e300));
  CHECK(is_refused("/members/0/work/share", "half"));
  CHECK(is_refused("/members/0/work/name", 5));
  std::string deep = "{\"work\":";
  for (int i = 0; i < 60000; ++i) deep += '[';
  for (int i = 0; i < 60000; ++i) deep += ']';
  CHECK(ledger_problems({.text = deep + '}'}).size() == 1);
}

TEST_CASE("control characters in a ledger do not reach the terminal", "[unit]") {
  Json document = leased();
  document["members"][1]["name"] = "a\033[2J\nb";
  const std::string table = ledger_table(peer_document(document));
  CHECK(table.find("a\\x1b[2J\\x0ab") != std::string::npos);
  CHECK(std::ranges::none_of(table, [](char c) { return c >= 0 && c < ' ' && c != '\n'; }));
}

TEST_CASE("an earlier result is not shown as the end of a peer that runs", "[unit]") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "result.json") << "{}";
  {
    // The system accepts connections for a peer that is stopped.
    asio::io_context io;
    const asio::local::stream_protocol::acceptor silent(
        io, asio::local::stream_protocol::endpoint((folder.path() / "status.sock").string()));
    CHECK_FALSE(document_in(folder.path()));
    CHECK(no_answer_problem(folder.path()).reason == "a peer runs here but does not answer");
  }
  const auto document = document_in(folder.path());
  REQUIRE(document);
  CHECK_FALSE(document->is_running);
  CHECK(document->text == "{}");
  CHECK(no_answer_problem(folder.path()).reason == "no running peer answers here");
}

}  // namespace gv
