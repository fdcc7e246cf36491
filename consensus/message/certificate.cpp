// The bounds of certificates, and the bytes that an issuer signs.
#include "consensus/message/certificate.hpp"

#include <algorithm>
#include <string>

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

std::string Revocation::problem() const {
  return chain.size() <= chain_max ? std::string() : "the proof of a revocation is too long";
}

std::string Certificates::problem() const {
  if (certificates.size() > certificates_in_message_max) {
    return "there are " + std::to_string(certificates.size()) + " certificates in one message";
  }
  if (revocations.size() > revocations_in_message_max) {
    return "there are " + std::to_string(revocations.size()) + " revocations in one message";
  }
  return {};
}

std::vector<Certificates> in_parts(const Certificates& whole) {
  std::vector<Certificates> parts;
  const auto cut = [&](const auto& from, std::size_t most, auto& to) {
    const std::size_t first = std::min(from.size(), parts.size() * most - most);
    const std::size_t end = std::min(from.size(), first + most);
    for (std::size_t i = first; i < end; ++i) to.push_back(from[i]);
    return end < from.size();
  };
  for (bool is_more = true; is_more;) {
    Certificates& part = parts.emplace_back();
    part.held = whole.held;
    is_more = cut(whole.certificates, certificates_in_message_max, part.certificates);
    is_more |= cut(whole.revocations, revocations_in_message_max, part.revocations);
  }
  return parts;
}

std::vector<std::byte> signed_bytes(Certificate certificate) {
  certificate.signature = {};
  return canonical_bytes("grapevine certificate 1", certificate);
}

std::vector<std::byte> signed_bytes(Revocation revocation) {
  revocation.signature = {};
  return canonical_bytes("grapevine revocation 2", revocation);
}

}  // namespace gv
