// The file of known members, with a base64-encoded wire frame for each.
#include "peer/host/member_cache.hpp"

#include <sodium.h>

#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "net/wire.hpp"
#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

constexpr std::size_t lines_max = 4096;
/// Lines that we write have at most about 1400 bytes.
constexpr std::size_t line_bytes_max = 4096;
constexpr int base64_variant = sodium_base64_VARIANT_ORIGINAL_NO_PADDING;

std::string to_line(const Member& member) {
  const std::vector<std::byte> frame = encode(Frame(Message(PushPull{.members = {member}})));
  std::string text(sodium_base64_encoded_len(frame.size(), base64_variant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(frame.data()),
                    frame.size(), base64_variant);
  text.pop_back();  // Removes the zero byte at the end.
  return member.name + "@" + member.address + " " + text;
}

/// Parses a line, which may be damaged or come from another process or an earlier version.
std::optional<Member> from_line(std::string_view line, const Roster& roster, const Signer& signer) {
  const std::string_view text = line.substr(std::min(line.find(' '), line.size() - 1) + 1);
  std::vector<std::byte> frame(line_bytes_max);
  std::size_t length = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(frame.data()), frame.size(), text.data(),
                        text.size(), nullptr, &length, nullptr, base64_variant) != 0) {
    return std::nullopt;
  }
  Decoded decoded = decode(std::span(frame).first(length));
  auto* message = decoded.frame ? std::get_if<Message>(&*decoded.frame) : nullptr;
  auto* said = message != nullptr ? std::get_if<PushPull>(message) : nullptr;
  if (said == nullptr || said->members.size() != 1 || !roster.admit(*message).empty()) {
    return std::nullopt;
  }
  Member& member = said->members.front();
  if (!roster.is_other(member.id) || member.address.empty() || !is_signed(member, signer)) {
    return std::nullopt;
  }
  return std::move(member);
}

}  // namespace

MemberCache::MemberCache(std::filesystem::path file) : file_(std::move(file)) {}

std::vector<Member> MemberCache::read(const Roster& roster, const Signer& signer) const {
  std::vector<Member> members;
  std::ifstream in(file_);
  std::string line;
  for (std::size_t lines = 0; lines < lines_max && std::getline(in, line); ++lines) {
    if (line.empty() || line.size() > line_bytes_max) continue;
    if (auto member = from_line(line, roster, signer)) members.push_back(*std::move(member));
  }
  return members;
}

void MemberCache::write(const std::map<PeerId, Member>& members) {
  std::vector<std::string> addresses;
  for (const auto& [peer, member] : members) {
    addresses.push_back(member.name + "@" + member.address);
  }
  // An empty list only means that we are alone now; the known peers may return.
  if (addresses.empty() || addresses == written_) return;
  std::string text;
  for (const auto& [peer, member] : members) text += to_line(member) + '\n';
  if (replace_file(file_, text)) written_ = addresses;
}

}  // namespace gv
