// A file of the peers known in the last run, so that a restart does not depend on any single peer.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "net/roster.hpp"

namespace gv {

/// The statement that each known peer has signed about itself, in a file of the run folder. Each
/// line begins with "name@host:port" for human readers. If the file is lost, the peer has to join
/// through --join again.
class MemberCache {
 public:
  explicit MemberCache(std::filesystem::path file);

  /// Returns the peers in the file that can be dialled, are on our list, and have signed their
  /// statement; none if the file is missing or unreadable. Reads at most 4096 lines.
  std::vector<Member> read(const Roster& roster, const Signer& signer) const;

  /// Replaces the file if the addresses differ from those last written. Ignores failures.
  void write(const std::map<PeerId, Member>& members);

 private:
  std::filesystem::path file_;
  std::vector<std::string> written_;
};

}  // namespace gv
