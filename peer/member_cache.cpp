// The cache of known members on disk.
#include "peer/member_cache.hpp"

#include <fstream>
#include <system_error>
#include <utility>

namespace gv {
namespace {

constexpr std::size_t lines_max = 4096;
constexpr std::size_t line_bytes_max = 512;

}  // namespace

MemberCache::MemberCache(std::filesystem::path file) : file_(std::move(file)) {}

std::vector<std::string> MemberCache::read() const {
  std::vector<std::string> addresses;
  std::ifstream in(file_);
  for (std::string line; addresses.size() < lines_max && std::getline(in, line);) {
    if (!line.empty() && line.size() <= line_bytes_max) addresses.push_back(std::move(line));
  }
  return addresses;
}

void MemberCache::write(const std::vector<std::string>& addresses) {
  // An empty list says that we are alone now, not that those we knew will never be back.
  if (addresses.empty() || addresses == written_) return;
  const std::filesystem::path temporary = file_.string() + ".new";
  {
    std::ofstream out(temporary, std::ios::trunc);
    for (const std::string& address : addresses) out << address << '\n';
    if (!out) return;
  }
  std::error_code error;
  std::filesystem::rename(temporary, file_, error);
  if (!error) written_ = addresses;
}

}  // namespace gv
