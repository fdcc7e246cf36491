// The display while peers run: a table that is redrawn, or a plain line now and then.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gv {

/// One peer as the table shows it.
struct PeerRow {
  std::string name;
  std::string phase;  ///< As it reports it, or "ended", "killed", "down", "stopped".
  bool trains = true;
  nlohmann::json status;  ///< The newest document; may be empty.
};

/// Writes to standard output; draws over its own lines when that is a terminal.
class Table {
 public:
  Table();

  /// Shows the state `elapsed_s` after the start. Without a terminal only one call in five prints a
  /// line.
  void draw(double elapsed_s, const std::vector<PeerRow>& rows);

  /// A line that stays, above the table.
  void tell(const std::string& line);

 private:
  bool terminal_;
  int lines_drawn_ = 0;
  int calls_ = 0;
};

}  // namespace gv
