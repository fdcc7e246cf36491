// Documents that peers write of themselves, read back.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>

namespace gv {

/// JSON has no word for what is not a number and says null; a loss that ran away is one again.
template <class Json>
void restore_numbers(Json& json) {
  if (json.is_null()) {
    json = std::numeric_limits<double>::quiet_NaN();
  } else if (json.is_structured()) {
    for (auto& part : json) restore_numbers(part);
  }
}

/// is_discarded() if the input is no JSON.
template <class Json, class Input>
Json parse_peer_json(Input&& input) {
  Json json = Json::parse(input, nullptr, false);
  if (!json.is_discarded()) restore_numbers(json);
  return json;
}

}  // namespace gv
