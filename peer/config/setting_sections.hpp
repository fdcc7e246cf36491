// The sections of the table of settings, a function for each; only the table's sources include
// this.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "peer/config/setting_builders.hpp"

namespace gv::settings {

using Settings = std::vector<Setting<Config>>;

/// The choices of an enumeration whose values have names.
template <class Kinds>
auto named_choices(const Kinds& kinds) {
  std::vector<std::pair<std::string, typename Kinds::value_type>> choices;
  for (const auto kind : kinds) choices.emplace_back(to_string(kind), kind);
  return choices;
}

/// Each appends the keys of one section, in the order of the reference.
void append_data(Settings& all);
void append_generated(Settings& all);
void append_model(Settings& all);
void append_train(Settings& all);
void append_schedule(Settings& all);
void append_gossip(Settings& every);
void append_population(Settings& all);
void append_allreduce(Settings& all);
void append_mixing(Settings& all);
void append_pipeline(Settings& all);

}  // namespace gv::settings
