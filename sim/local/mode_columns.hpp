// The columns that the peers' modes add to the table of peers.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gv {

/// Headings and widths of the columns that peers list under "columns" in their documents.
class ModeColumns {
 public:
  /// Adds the headings of this document, and makes the columns wide enough for its texts.
  void fit(const nlohmann::json& document);
  std::string head() const;
  /// The cells of one peer. A cell is blank if the peer's document does not have the column.
  std::string cells(const nlohmann::json& document) const;

 private:
  std::vector<std::pair<std::string, std::size_t>> columns_;  ///< Heading and width of each column.
};

}  // namespace gv
