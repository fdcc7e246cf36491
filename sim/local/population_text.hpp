// How tables and summaries show what the members of a population train with.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gv {

/// The heads of these columns: learning rate, momentum, loss on what is held out, copies made.
std::string population_head();

/// Of the object "population" in a peer's status; blanks before it was first validated.
std::string population_columns(const nlohmann::json& population);

}  // namespace gv
