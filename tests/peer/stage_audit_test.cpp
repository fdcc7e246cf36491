// Carriers of a stage compare their states after a generation in which a newcomer failed to get the
// stage.
#include "peer/modes/stage_audit.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "tests/facts.hpp"

namespace gv {
namespace {

constexpr PeerId newcomer{9};

/// A generation in which the newcomer lacks part 1, which the others have.
Generation generation_of(std::uint64_t number, const std::vector<PeerId>& holders) {
  Generation generation{.id = {.number = number, .proposer = holders.front()},
                        .version = {.step = 5, .samples = 80, .lineage = 9}};
  for (const PeerId peer : holders) generation.assignments.push_back({1, peer, peer});
  generation.assignments.push_back({1, newcomer, holders.front()});
  return generation;
}

/// Carriers of part 1. In the copy of each carrier, all values are equal.
struct Carriers {
  std::vector<std::pair<PeerId, float>> values;
  std::map<PeerId, StageAudit> audits;
  std::map<PeerId, std::vector<Audit>> said;

  explicit Carriers(std::vector<std::pair<PeerId, float>> all) : values(std::move(all)) {
    for (const auto& [peer, value] : values) audits.emplace(peer, StageAudit(peer));
  }

  void enter(std::uint64_t number) {
    std::vector<PeerId> holders;
    for (const auto& [peer, value] : values) holders.push_back(peer);
    for (auto& [peer, audit] : audits) audit.enter(generation_of(number, holders));
  }

  /// Each carrier sends its fingerprint. The i-th message is lost if `loses(i)` is true. Returns
  /// the carriers that find their own state to be the odd one out.
  template <class Loses>
  std::vector<PeerId> compare(const Loses& loses) {
    std::vector<std::pair<PeerId, Effects>> under_way;
    for (const auto& [peer, value] : values) {
      Effects out;
      const std::vector<float> model(50, value);
      for (const std::uint32_t part : audits.at(peer).own_parts()) {
        audits.at(peer).tell(part, model, out);
      }
      under_way.emplace_back(peer, std::move(out));
    }
    std::size_t sent = 0;
    for (std::size_t i = 0; i < under_way.size() && i < 100; ++i) {
      const auto [from, out] = under_way[i];
      differences += count_of<ModelsDiffer>(out.facts);
      for (const auto& [to, message] : out.messages) {
        const Audit& audit = std::get<Audit>(message);
        said[from].push_back(audit);
        if (loses(sent++)) continue;
        Effects answer;
        audits.at(to).receive(from, audit, answer);
        under_way.emplace_back(to, std::move(answer));
      }
    }
    std::vector<PeerId> odd;
    for (auto& [peer, audit] : audits) {
      for (const std::uint32_t part : audit.take_odd()) {
        CHECK(part == 1);
        odd.push_back(peer);
      }
    }
    return odd;
  }
  std::vector<PeerId> compare() {
    return compare([](std::size_t) { return false; });
  }

  std::size_t differences = 0;
};

}  // namespace

TEST_CASE("carriers compare a stage after a generation in which a newcomer got none", "[unit]") {
  Carriers carriers({{PeerId{1}, 1}, {PeerId{2}, 2}, {PeerId{3}, 2}});
  carriers.enter(1);
  CHECK(carriers.compare().empty());
  CHECK(carriers.said.empty());
  carriers.enter(2);
  CHECK(carriers.compare() == std::vector<PeerId>{PeerId{1}});
  CHECK(carriers.differences == 3);  // Each carrier reports the difference.
  // After a run, states differ from those at the beginning of the generation.
  for (auto& [peer, audit] : carriers.audits) audit.settle();
  CHECK(carriers.compare().empty());
  carriers.said.clear();
  carriers.enter(3);
  CHECK(carriers.compare().empty());
  CHECK(carriers.said.empty());
}

TEST_CASE("of carriers that all differ the first one keeps its state", "[unit]") {
  Carriers carriers({{PeerId{1}, 1}, {PeerId{2}, 2}, {PeerId{3}, 3}});
  carriers.enter(1);
  carriers.enter(2);
  CHECK(carriers.compare() == std::vector<PeerId>{PeerId{2}, PeerId{3}});
}

TEST_CASE("a carrier whose first word came too early says it again", "[unit]") {
  Carriers carriers({{PeerId{1}, 1}, {PeerId{2}, 2}});
  carriers.enter(1);
  carriers.enter(2);
  const auto is_first = [](std::size_t message) { return message == 0; };
  CHECK(carriers.compare(is_first) == std::vector<PeerId>{PeerId{2}});
  CHECK(carriers.said.at(PeerId{1}).size() == 2);
}

TEST_CASE("fingerprints of a stage differ between generations", "[unit]") {
  Carriers carriers({{PeerId{1}, 1}, {PeerId{2}, 1}});
  carriers.enter(1);
  carriers.enter(2);
  CHECK(carriers.compare().empty());
  carriers.enter(3);
  CHECK(carriers.compare().empty());
  const std::vector<Audit>& said = carriers.said.at(PeerId{1});
  REQUIRE(said.size() > 1);
  CHECK(said.front().fingerprint != said.back().fingerprint);
  CHECK(carriers.said.at(PeerId{2}).back().fingerprint == said.back().fingerprint);
}

TEST_CASE("only carriers of a stage are heard about it, and only in their generation", "[unit]") {
  StageAudit audit(PeerId{1});
  const std::vector<PeerId> holders{PeerId{1}, PeerId{2}};
  audit.enter(generation_of(1, holders));
  const Generation generation = generation_of(2, holders);
  audit.enter(generation);
  Effects out;
  audit.tell(1, std::vector<float>(50, 1), out);
  CHECK(out.messages.size() == 1);
  out = {};
  audit.receive(PeerId{5}, {generation.id, 1, 77}, out);
  audit.receive(PeerId{2}, {generation_of(1, holders).id, 1, 77}, out);
  audit.receive(PeerId{2}, {generation.id, (std::uint64_t{1} << 32) + 1, 77}, out);
  audit.receive(PeerId{2}, {generation.id, 0, 77}, out);
  CHECK(out.messages.empty());
  CHECK(out.facts.empty());
  audit.receive(PeerId{2}, {generation.id, 1, 77}, out);
  CHECK(count_of<ModelsDiffer>(out.facts) == 1);
}

}  // namespace gv
