// The cache of known members on disk.
#include "peer/host/member_cache.hpp"

#include <fstream>
#include <utility>

#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

constexpr std::size_t lines_max = 4096;

}  // namespace

MemberCache::MemberCache(std::filesystem::path file) : file_(std::move(file)) {}

std::vector<std::string> MemberCache::read(const Roster& roster) const {
  std::vector<std::string> addresses;
  std::ifstream in(file_);
  std::string line;
  for (std::size_t lines = 0; lines < lines_max && std::getline(in, line); ++lines) {
    // Other processes, earlier versions and damage may have written it too.
    if (roster.is_known(line)) addresses.push_back(line);
  }
  return addresses;
}

void MemberCache::write(const std::vector<std::string>& addresses) {
  // An empty list says that we are alone now, not that known peers will never be back.
  if (addresses.empty() || addresses == written_) return;
  std::string text;
  for (const std::string& address : addresses) text += address + '\n';
  if (replace_file(file_, text)) written_ = addresses;
}

}  // namespace gv
