// The peers that a peer knew when it last ran, so that no seed is special after joining once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "net/roster.hpp"

namespace gv {

/// One "name@host:port" a line in a file of the run folder. Losing it costs a rejoin through
/// --join.
class MemberCache {
 public:
  explicit MemberCache(std::filesystem::path file);

  /// The addresses in the file that can be dialled and are of peers on our list; empty when it is
  /// missing or unreadable. Reads at most 4096 lines.
  std::vector<std::string> read(const Roster& roster) const;

  /// Replaces the file if `addresses` differ from the last ones written. Ignores failures.
  void write(const std::vector<std::string>& addresses);

 private:
  std::filesystem::path file_;
  std::vector<std::string> written_;
};

}  // namespace gv
