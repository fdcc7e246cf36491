// Extracts the swarm's work from a peer's document, and formats it.
#include "peer/host/ledger_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "consensus/message/message.hpp"
#include "peer/host/peer_json.hpp"
#include "peer/host/peer_socket.hpp"

namespace gv {
namespace {

using Json = nlohmann::ordered_json;

std::string whole_text(const Json& figure) { return std::to_string(figure.get<std::uint64_t>()); }
std::string rate_text(const Json& figure) { return fmt::format("{:.1f}", figure.get<double>()); }
std::string factor_text(const Json& figure) { return fmt::format("{:.2f}", figure.get<double>()); }
std::string percent_text(const Json& figure) {
  return fmt::format("{:.1f} %", 100 * figure.get<double>());
}

/// A column with one figure for each member. A column with no figures is left out.
struct Column {
  const char* head;
  const char* key;
  std::string (*text)(const Json&);
};

constexpr std::array<Column, 9> ledger_columns = {{{"samples/s", "samples_per_second", rate_text},
                                                   {"samples", "samples", whole_text},
                                                   {"share", "share", percent_text},
                                                   {"factor", "factor", factor_text},
                                                   {"wanted", "factor_wanted", factor_text},
                                                   {"data", "data", whole_text},
                                                   {"chunks", "chunks_done", whole_text},
                                                   {"leases", "leases", whole_text},
                                                   {"freed", "chunks_freed", whole_text}}};

/// The fields of a member that the ledger shows, besides its work.
constexpr std::array<const char*, 5> member_keys = {"name", "id", "self", "state", "phase"};

/// Returns the members in the document, with their figures for the common work. Members without
/// figures are left out. With leased data, the size of a shard is also left out, because every peer
/// can read all samples.
Json peers_of(const Json& document) {
  Json peers = Json::array();
  for (const Json& member : document.value("members", Json::array())) {
    if (!member.contains("work")) continue;
    Json peer;
    for (const char* key : member_keys) {
      if (member.contains(key)) peer[key] = member[key];
    }
    peer.update(member["work"]);
    if (document.contains("ledger")) peer.erase("data");
    peers.push_back(std::move(peer));
  }
  return peers;
}

/// Returns the number of trained samples that cannot be attributed to any peer in the document.
std::uint64_t samples_of_unknown(const Json& document, const Json& peers) {
  auto unknown = document["work"].value("counted", std::uint64_t{0});
  for (const Json& peer : peers) {
    unknown -= std::min(unknown, peer.value("samples", std::uint64_t{0}));
  }
  return unknown;
}

/// Returns a section of the document without its text for people.
Json figures_of(const Json& document, const char* name) {
  if (!document.contains(name)) return nullptr;
  Json section = document[name];
  section.erase("text");
  return section;
}

/// Returns the state of a member. The document may be from a peer that has ended. Such a document
/// still counts that peer, and members that were done, as alive.
std::string state_of(const Json& peer, bool is_running) {
  const std::string state = peer.value("state", "");
  if (state != to_string(MemberState::alive)) return state;
  if (peer.value("phase", "") == to_string(Phase::done)) return "done";
  return peer.value("self", false) && !is_running ? "ended" : state;
}

std::string table_of(const Json& peers, std::uint64_t unknown, bool is_running) {
  std::vector<Column> shown;
  for (const Column& column : ledger_columns) {
    const auto has_it = [&](const Json& peer) { return peer.contains(column.key); };
    if (std::ranges::any_of(peers, has_it)) shown.push_back(column);
  }
  const auto row = [&](const std::string& name, const std::string& state, const Json& figures) {
    std::string line = fmt::format("{:<16} {:<8}", name, state);
    for (const Column& column : shown) {
      const auto figure = figures.find(column.key);
      line += fmt::format(" {:>12}", figure == figures.end() ? "-" : column.text(*figure));
    }
    return line + '\n';
  };
  std::string head = fmt::format("{:<16} {:<8}", "peer", "state");
  for (const Column& column : shown) head += fmt::format(" {:>12}", column.head);
  std::string out = head + '\n';
  for (const Json& peer : peers) {
    out += row(peer.value("name", ""), state_of(peer, is_running), peer);
  }
  if (unknown > 0) out += row("others, before", "", {{"samples", unknown}});
  return out;
}

/// True if the object lacks this field, or if the field's value passes `is_sound`.
template <class Test>
bool has_sound(const Json& object, const char* key, Test is_sound) {
  const auto field = object.find(key);
  return field == object.end() || is_sound(*field);
}

bool is_text(const Json& field) { return field.is_string(); }
bool is_figure(const Json& field) { return field.is_number(); }
bool is_count(const Json& field) { return field.is_number_unsigned(); }

/// Checks a member's figures. No figure may have the name of one of the member's other fields.
bool is_sound_work(const Json& work) {
  return work.is_object() && std::ranges::all_of(work, is_figure) &&
         std::ranges::none_of(member_keys, [&](const char* key) { return work.contains(key); }) &&
         std::ranges::all_of(ledger_columns, [&](const Column& column) {
           return has_sound(work, column.key, column.text == whole_text ? is_count : is_figure);
         });
}

bool is_sound_peer(const Json& peer) {
  if (!peer.is_object()) return false;
  for (const char* key : {"name", "id", "state", "phase"}) {
    if (!has_sound(peer, key, is_text)) return false;
  }
  return has_sound(peer, "self", [](const Json& field) { return field.is_boolean(); }) &&
         has_sound(peer, "work", is_sound_work);
}

bool is_sound_section(const Json& section) {
  return section.is_object() && has_sound(section, "text", is_text) &&
         has_sound(section, "counted", is_count);
}

/// True if every field that is used below has a value of the right type.
bool is_sound_document(const Json& json) {
  return json.is_object() && has_sound(json, "self", is_sound_peer) &&
         has_sound(json, "phase", is_text) && has_sound(json, "work", is_sound_section) &&
         has_sound(json, "ledger", is_sound_section) && has_sound(json, "left_out", is_count) &&
         has_sound(json, "members", [](const Json& members) {
           return members.is_array() && std::ranges::all_of(members, is_sound_peer);
         });
}

}  // namespace

std::string ledger_part(const std::string& document, std::size_t bytes_max) {
  const Json json = parse_peer_json<Json>(document);
  const auto text_of = [](const Json& part) {
    return part.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  Json out{{"members", Json::array()}, {"left_out", std::uint64_t{0}}};
  for (const char* key : {"self", "phase", "work", "ledger"}) {
    if (json.contains(key)) out[key] = json[key];
  }
  // The sum includes room for the digits of `left_out`.
  std::size_t bytes = text_of(out).size() + 20;
  std::uint64_t left_out = 0;
  for (const Json& member : json.value("members", Json::array())) {
    if (!member.contains("work")) continue;
    Json part{{"work", member["work"]}};
    for (const char* key : member_keys) {
      if (member.contains(key)) part[key] = member[key];
    }
    bytes += text_of(part).size() + 1;
    if (bytes > bytes_max) {
      ++left_out;
    } else {
      out["members"].push_back(std::move(part));
    }
  }
  out["left_out"] = left_out;
  return text_of(out);
}

std::optional<PeerDocument> document_in(const std::filesystem::path& folder) {
  if (auto answer = ask_peer(folder)) return PeerDocument{.text = std::move(*answer)};
  // If a peer is running, result.json is from an earlier peer.
  if (unanswering_peer(folder)) return std::nullopt;
  std::ifstream file(folder / "result.json");
  if (!file) return std::nullopt;
  return PeerDocument{.text = {std::istreambuf_iterator<char>(file), {}}, .is_running = false};
}

Problems ledger_problems(const PeerDocument& document) {
  const Json json = parse_peer_json<Json>(document.text);
  if (!is_sound_document(json)) {
    return {
        {"ledger", "the peer's document is not one that peers write",
         "use one version of grapevine everywhere; after the peer's end look at its result.json"}};
  }
  if (json.contains("work")) return {};
  return {{"run.budget", "the peers of this run have no common budget of samples to account for",
           "write budget = \"swarm\", in mode gossip, mixing or allreduce"}};
}

std::string ledger_table(const PeerDocument& document) {
  Json json = parse_peer_json<Json>(document.text);
  make_printable(json);
  const Json peers = peers_of(json);
  std::string out = peer_line(json);
  out += document.is_running ? "\n" : "; it does not run any more\n";
  for (const char* name : {"work", "ledger"}) {
    if (json.contains(name)) out += fmt::format("  {}\n", json[name].value("text", ""));
  }
  out += '\n' + table_of(peers, samples_of_unknown(json, peers), document.is_running);
  if (const auto left_out = json.value("left_out", std::uint64_t{0}); left_out > 0) {
    out += fmt::format(
        "{} more peers have no room in an answer: ask on that machine, by its folder\n", left_out);
  }
  return out;
}

std::string ledger_json(const PeerDocument& document) {
  const Json json = parse_peer_json<Json>(document.text);
  const Json self = json.value("self", Json::object());
  Json out;
  out["peer"] = {{"name", self.value("name", "")},
                 {"id", self.value("id", "")},
                 {"phase", json.value("phase", "")}};
  out["running"] = document.is_running;
  out["work"] = figures_of(json, "work");
  out["ledger"] = figures_of(json, "ledger");
  out["peers"] = peers_of(json);
  out["samples_of_unknown"] = samples_of_unknown(json, out["peers"]);
  if (json.value("left_out", std::uint64_t{0}) > 0) out["left_out"] = json["left_out"];
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace gv
