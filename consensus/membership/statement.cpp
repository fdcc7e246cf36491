// Encodes, signs and verifies statements.
#include "consensus/membership/statement.hpp"

#include <cstddef>
#include <tuple>
#include <vector>

#include "base/canonical.hpp"

namespace gv {
namespace {

std::vector<std::byte> bytes_of(const Member& member) {
  return canonical_bytes(statement_domain, Statement{.id = member.id,
                                                     .address = member.address,
                                                     .incarnation = member.incarnation,
                                                     .layout_hash = member.layout_hash,
                                                     .version = member.version,
                                                     .progress = member.progress});
}

}  // namespace

void restate(Member& self, const Signer& signer) {
  ++self.version;
  self.signature = signer.sign(bytes_of(self));
}

bool is_signed(const Member& member, const Signer& signer) {
  return signer.verify(member.id, bytes_of(member), member.signature);
}

bool is_later_statement(const Member& a, const Member& b) {
  return std::tie(a.incarnation, a.version) > std::tie(b.incarnation, b.version);
}

}  // namespace gv
