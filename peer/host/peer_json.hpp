// Reads JSON documents that peers write about themselves.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/printable.hpp"

namespace gv {

/// Turns null back into NaN. The JSON library writes numbers that are not finite, such as a
/// diverged loss, as null.
template <class Json>
void restore_numbers(Json& json) {
  if (json.is_null()) {
    json = std::numeric_limits<double>::quiet_NaN();
  } else if (json.is_structured()) {
    for (auto& part : json) restore_numbers(part);
  }
}

/// Makes all texts of the document safe to print, because they may come from other peers.
template <class Json>
void make_printable(Json& json) {
  if (json.is_string()) json = printable(json.template get_ref<const std::string&>());
  if (!json.is_structured()) return;
  for (auto& part : json) make_printable(part);
}

/// The deepest nesting of a document that is read. The functions here are recursive, so deeper
/// nesting could exhaust the stack.
constexpr int peer_json_depth_max = 16;

/// Parses JSON from a peer. is_discarded() of the result is true if the input is not JSON, or is
/// nested more deeply than any peer's document.
template <class Json, class Input>
Json parse_peer_json(Input&& input) {
  bool is_deep = false;
  const auto look = [&is_deep](int depth, typename Json::parse_event_t, const Json&) {
    is_deep = is_deep || depth > peer_json_depth_max;
    return !is_deep;
  };
  Json json = Json::parse(input, look, false);
  if (is_deep) json = Json(Json::value_t::discarded);
  if (!json.is_discarded()) restore_numbers(json);
  return json;
}

/// Returns the heading for a peer: its name, id and phase.
template <class Json>
std::string peer_line(const Json& document) {
  const Json self = document.value("self", Json::object());
  return "peer " + self.value("name", "") + "  " + self.value("id", "") + "  " +
         document.value("phase", "");
}

}  // namespace gv
