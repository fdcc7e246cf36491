// Reads JSON documents that peers write about themselves.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>

namespace gv {

/// Turns null back into NaN, because JSON writes numbers that are not finite as null, for example a
/// diverged loss.
template <class Json>
void restore_numbers(Json& json) {
  if (json.is_null()) {
    json = std::numeric_limits<double>::quiet_NaN();
  } else if (json.is_structured()) {
    for (auto& part : json) restore_numbers(part);
  }
}

/// Parses JSON from a peer. The result is_discarded() if the input is not JSON.
template <class Json, class Input>
Json parse_peer_json(Input&& input) {
  Json json = Json::parse(input, nullptr, false);
  if (!json.is_discarded()) restore_numbers(json);
  return json;
}

}  // namespace gv
