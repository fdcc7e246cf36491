// Hyper-parameters of a population's members in tables and summaries.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gv {

/// The heads of these columns: learning rate, momentum, held-out loss, copies made.
std::string population_head();

/// The columns of the object "population" in a peer's status; blanks before the first validation.
std::string population_columns(const nlohmann::json& population);

}  // namespace gv
