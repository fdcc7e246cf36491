// The peers that a peer knew when it last ran, so that no seed is special after joining once.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "net/roster.hpp"

namespace gv {

/// What each peer stated of itself, with its signature, in a file of the run folder: a line begins
/// with "name@host:port" for people. Losing it costs a rejoin through --join.
class MemberCache {
 public:
  explicit MemberCache(std::filesystem::path file);

  /// The peers in the file that can be dialled, are on our list, and have signed it; none when it
  /// is missing or unreadable. Reads at most 4096 lines.
  std::vector<Member> read(const Roster& roster, const Signer& signer) const;

  /// Replaces the file if addresses differ from the last ones written. Ignores failures.
  void write(const std::map<PeerId, Member>& members);

 private:
  std::filesystem::path file_;
  std::vector<std::string> written_;
};

}  // namespace gv
