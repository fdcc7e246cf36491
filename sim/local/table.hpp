// The display while peers run: a table that is redrawn, or occasional plain lines.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gv {

/// One peer's row in the table.
struct PeerRow {
  std::string name;
  std::string phase;  ///< The reported phase, or else "ended", "killed" or the like.
  bool trains = true;
  nlohmann::json status;  ///< The newest status document. May be empty.
};

/// The size of a terminal in characters; 0 if it is not known.
struct TerminalSize {
  std::size_t columns = 0;
  std::size_t rows = 0;
};

/// Makes the table's lines fit on the terminal, with room for the cursor below them. Cuts long
/// lines. If there are too many lines, replaces the last ones by a line with their number.
std::vector<std::string> fitted(std::vector<std::string> lines, const TerminalSize& size);

/// True if standard output is a terminal that knows control sequences.
bool can_redraw();

/// Writes to standard output. On a terminal that can do so, it overwrites its own lines.
class Table {
 public:
  Table();

  /// Shows the state `elapsed_s` seconds after the start. Without a terminal only one call in five
  /// prints a line.
  void draw(double elapsed_s, const std::vector<PeerRow>& rows);

  /// Prints a line that stays above the table.
  void tell(const std::string& line);

 private:
  void draw_lines(const std::string& head, const std::vector<PeerRow>& rows);

  bool terminal_;
  int lines_drawn_ = 0;
  int calls_ = 0;
};

}  // namespace gv
