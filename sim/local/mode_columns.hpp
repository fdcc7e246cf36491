// The columns that peers' modes add to a table of peers.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gv {

/// Heads and widths for the "columns" of peers' documents.
class ModeColumns {
 public:
  /// Takes the heads of this document, and makes columns as wide as its texts.
  void fit(const nlohmann::json& document);
  std::string head() const;
  /// Blank where the document has no such column.
  std::string cells(const nlohmann::json& document) const;

 private:
  std::vector<std::pair<std::string, std::size_t>> columns_;  ///< Head and width.
};

}  // namespace gv
