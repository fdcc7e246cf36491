// The bounds of certificates, and the bytes that are signed.
#include "consensus/message/certificate.hpp"

#include <algorithm>

#include "base/canonical.hpp"

namespace gv {

bool is_peer_name(std::string_view text) {
  const auto is_name_character = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, is_name_character);
}

std::string Certificate::problem() const {
  return is_peer_name(name) ? std::string() : "a certificate's name is not a name";
}

std::string Certificates::problem() const {
  const std::size_t longest = std::max(certificates.size(), revocations.size());
  if (longest <= certificates_in_message_max) return {};
  return "there are " + std::to_string(longest) + " certificates or revocations in one message";
}

std::vector<std::byte> signed_bytes(Certificate certificate) {
  certificate.signature = {};
  return canonical_bytes("grapevine certificate 1", certificate);
}

std::vector<std::byte> signed_bytes(Revocation revocation) {
  revocation.signature = {};
  return canonical_bytes("grapevine revocation 1", revocation);
}

}  // namespace gv
