// Columns of a population.
#include "sim/local/population_text.hpp"

#include <fmt/format.h>

namespace gv {

std::string population_head() {
  return fmt::format(" {:>9} {:>8} {:>8} {:>6}", "rate", "momentum", "held-out", "copies");
}

std::string population_columns(const nlohmann::json& population) {
  if (!population.contains("validation_loss")) return fmt::format("{:>35}", "");
  return fmt::format(" {:>9.3g} {:>8.3g} {:>8.4f} {:>6}", population.value("learning_rate", 0.0),
                     population.value("momentum", 0.0), population.value("validation_loss", 0.0),
                     population.value("copies", 0ULL));
}

}  // namespace gv
