// The audit finds peers whose model differs from the majority's.
#include "consensus/generation/model_audit.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <vector>

namespace gv {
namespace {

constexpr PeerId a{1}, b{2}, c{3}, d{4};

/// The verdict after all peers of `order` have reported their fingerprints, starting with the last
/// peer.
std::optional<std::vector<PeerId>> odd(const std::vector<PeerId>& order,
                                       const std::vector<std::uint64_t>& fingerprints) {
  ModelAudit audit;
  audit.begin(order);
  std::optional<ModelAudit::Verdict> found;
  for (std::size_t i = order.size(); i-- > 0;) {
    CHECK_FALSE(found);
    found = audit.tell(order[i], 64, fingerprints[i]);
  }
  if (!found) return std::nullopt;
  CHECK(found->operation == 64);
  return found->odd;
}

using Peers = std::vector<PeerId>;
using Verdict = ModelAudit::Verdict;

}  // namespace

TEST_CASE("a peer with another model than most is odd") {
  CHECK(odd({a, b, c, d}, {7, 7, 7, 7}) == Peers{});
  CHECK(odd({a, b, c, d}, {7, 7, 8, 7}) == Peers{c});
  CHECK(odd({a, b, c, d}, {8, 7, 9, 7}) == Peers{a, c});
  // If groups are equally large, the one that contains the lowest rank wins, not the one with the
  // smallest id or fingerprint.
  CHECK(odd({d, a}, {9, 2}) == Peers{a});
  CHECK(odd({c, a, b, d}, {2, 1, 1, 2}) == Peers{a, b});
  CHECK(odd({a}, {3}) == Peers{});
}

TEST_CASE("an audit waits for all and only for those of its generation") {
  ModelAudit audit;
  audit.begin({a, b});
  CHECK_FALSE(audit.tell(c, 64, 1));
  CHECK_FALSE(audit.tell(b, 64, 1));
  CHECK_FALSE(audit.tell(b, 64, 2));  // Only a peer's first fingerprint for a step counts.
  CHECK(audit.tell(a, 64, 1) == Verdict{64, {}});
  // The other peer's message for this step was lost, but later fingerprints are still compared.
  CHECK_FALSE(audit.tell(a, 128, 1));
  CHECK_FALSE(audit.tell(a, 192, 1));
  CHECK(audit.tell(b, 192, 5) == Verdict{192, {b}});
  audit.begin({a, b});
  CHECK_FALSE(audit.tell(a, 256, 1));
  audit.end();
  CHECK_FALSE(audit.tell(b, 256, 1));
}

TEST_CASE("a peer that tells nothing does not keep the others from comparing") {
  ModelAudit audit;
  audit.begin({a, b, c, d});
  for (const PeerId peer : {a, b, c}) CHECK_FALSE(audit.tell(peer, 64, peer == b ? 8 : 7));
  CHECK_FALSE(audit.tell(a, 128, 7));
  CHECK_FALSE(audit.tell(b, 128, 8));  // The fourth peer may still be late.
  CHECK(audit.tell(c, 128, 7) == Verdict{64, {b}});
  // A fingerprint that comes even later changes nothing.
  CHECK_FALSE(audit.tell(d, 64, 8));
  CHECK(audit.tell(d, 128, 7) == Verdict{128, {b}});
  // There is no verdict unless more than half of the peers send a fingerprint.
  for (const std::uint64_t operation : {192, 256, 320}) {
    CHECK_FALSE(audit.tell(a, operation, 7));
    CHECK_FALSE(audit.tell(b, operation, 8));
  }
}

TEST_CASE("a peer that tells much displaces no fingerprint of another") {
  ModelAudit audit;
  audit.begin({a, b, c});
  CHECK_FALSE(audit.tell(a, 64, 7));
  for (std::uint64_t operation = 65; operation <= 192; ++operation) {
    CHECK_FALSE(audit.tell(c, operation, 7));
  }
  CHECK_FALSE(audit.tell(b, 64, 8));
  CHECK_FALSE(audit.tell(a, 128, 7));
  CHECK(audit.tell(b, 128, 8) == Verdict{64, {b}});
}

TEST_CASE("an audit is due after every sixty-four operations") {
  CHECK_FALSE(ModelAudit::is_due(0, 1));
  CHECK_FALSE(ModelAudit::is_due(62, 63));
  CHECK(ModelAudit::is_due(63, 64));
  CHECK_FALSE(ModelAudit::is_due(64, 65));
  CHECK(ModelAudit::is_due(60, 76));
}

}  // namespace gv
