// The peers that a peer knew when it last ran, so that no seed is special after joining once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gv {

/// One "name@host:port" a line in a file of the run folder. Losing it costs a rejoin through
/// --join.
class MemberCache {
 public:
  explicit MemberCache(std::filesystem::path file);

  /// The addresses in the file; empty when it is missing or unreadable. Bounded by 4096 lines.
  std::vector<std::string> read() const;

  /// Replaces the file if `addresses` differ from the last ones written. Ignores failures.
  void write(const std::vector<std::string>& addresses);

 private:
  std::filesystem::path file_;
  std::vector<std::string> written_;
};

}  // namespace gv
