// Reads and replaces the messages of hostile peers, without their nodes' knowledge.
#include "sim/virtual/hostile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "consensus/mixing/mixer.hpp"

namespace gv {
namespace {

/// Number of generations kept. One is too few, because peers enter a generation one after another.
constexpr std::size_t generations_kept = 3;

/// A message that is encoded with the identity codec. Its values are the model times its weight.
struct PlainMessage {
  MixHeader header;
  std::vector<float> values;

  static PlainMessage read(std::span<const std::byte> bytes) {
    PlainMessage message;
    check(bytes.size() >= sizeof(MixHeader), "a message of a round has a header");
    std::memcpy(&message.header, bytes.data(), sizeof(MixHeader));
    message.values.resize((bytes.size() - sizeof(MixHeader)) / sizeof(float));
    std::memcpy(message.values.data(), bytes.data() + sizeof(MixHeader),
                message.values.size() * sizeof(float));
    return message;
  }

  Payload written() const {
    auto bytes =
        std::make_shared<std::vector<std::byte>>(sizeof(MixHeader) + values.size() * sizeof(float));
    std::memcpy(bytes->data(), &header, sizeof(MixHeader));
    std::memcpy(bytes->data() + sizeof(MixHeader), values.data(), values.size() * sizeof(float));
    return {bytes, *bytes};
  }

  std::vector<float> model() const { return times(1 / header.weight); }
  std::vector<float> times(double factor) const {
    std::vector<float> product = values;
    if (factor == 1) return product;
    for (float& value : product) value = static_cast<float>(factor * value);
    return product;
  }
};

}  // namespace

Problems problems_with_hostile(const Scenario& scenario, ModeKind mode, const MixRule& rule,
                               std::size_t peers, const std::string& place) {
  Problems problems;
  if (scenario.hostile.empty()) return problems;
  const auto refuse = [&](const std::string& key, std::string reason, std::string remedy) {
    problems.push_back({place + ": " + key, std::move(reason), std::move(remedy)});
  };
  for (std::size_t i = 0; i < scenario.hostile.size(); ++i) {
    const HostileRule& hostile = scenario.hostile[i];
    const std::string item = fmt::format("scenario.hostile[{}]", i);
    for (const auto& [first, last] : hostile.peers.ranges) {
      if (last < peers) continue;
      refuse(item, fmt::format("peer {} is not one of {}", last, peers),
             fmt::format("write numbers from 0 to {}", peers - 1));
    }
    if (hostile.attack == AttackKind::label_flip && scenario.work != WorkKind::training) {
      refuse(item, "there are no labels to flip without data", "write work = \"training\"");
    }
  }
  if (has_switches(scenario)) {
    refuse("scenario.hostile", "hostile peers know one rule, and others switch to another",
           "leave out the fault of kind \"switch\", or the hostile peers");
  }
  // Whichever peers the seed draws, their number is the same.
  if (hostile_peers(scenario, peers, 0).size() + 2 > peers) {
    refuse("scenario.hostile", "fewer than two peers are honest", "name fewer hostile ones");
  }
  if (mode != ModeKind::mixing) {
    refuse("scenario.hostile", "hostile peers are made for rounds",
           "write run.mode = \"mixing\", or algorithm = \"clipped_gossip\"");
    return problems;
  }
  if (rule.kind != MixKind::average && rule.kind != MixKind::push_sum) {
    refuse("mixing.kind", "hostile peers attack models, and its messages are something else",
           "write kind = \"average\" or \"push_sum\"");
  }
  if (rule.codec.kind != CodecKind::identity || rule.memory != MixMemory::none) {
    refuse("mixing.codec", "hostile peers attack models that are sent whole",
           "write codec = \"identity\" and memory = \"none\"");
  }
  if (rule.correction == MixCorrection::tracking) {
    refuse("mixing.correction", "hostile peers attack models, and gradients are sent beside them",
           "write correction = \"none\"");
  }
  if (rule.staleness > 0) {
    refuse("mixing.staleness", "hostile peers wait until they have seen all models of a round",
           "write staleness = 0");
  }
  return problems;
}

HostileSenders::HostileSenders(std::map<std::size_t, HostileRule> rules, const MixRule& rule,
                               std::uint64_t run_seed)
    : rules_(std::move(rules)), rule_(rule), run_seed_(run_seed) {}

HostileSenders::Generation& HostileSenders::generation(std::uint64_t key,
                                                       std::span<const PeerId> ranks,
                                                       const std::vector<std::size_t>& hosts) {
  const auto known = std::ranges::find(generations_, key, &Generation::key);
  if (known != generations_.end()) return *known;
  // Messages that still wait in the oldest generation are useless.
  if (generations_.size() == generations_kept) generations_.pop_front();
  generations_.push_back({.key = key, .plan = RoundPlan(rule_, ranks.size(), run_seed_, hosts)});
  for (const PeerId peer : ranks) {
    generations_.back().peers.push_back(static_cast<std::size_t>(peer) - 1);
  }
  return generations_.back();
}

/// Returns true if all honest peers that have a receiver in the round have sent their models.
bool HostileSenders::is_complete(const Generation& generation, std::uint64_t round) const {
  const auto found = generation.rounds.find(round);
  for (const std::vector<Share>& row : generation.plan.round(round)) {
    for (const Share& share : row) {
      if (is_hostile(generation.peers[share.from])) continue;
      if (!found->second.honest.contains(share.from)) return false;
    }
  }
  return true;
}

std::vector<Departure> HostileSenders::depart(Departure message, std::span<const PeerId> ranks,
                                              const std::vector<std::size_t>& hosts) {
  Generation& generation = this->generation(message.transfer.id.session, ranks, hosts);
  const std::uint64_t number = message.transfer.id.number;
  Round& round = generation.rounds[number];
  std::vector<Departure> departing;
  if (is_hostile(message.from)) {
    round.waiting.push_back(std::move(message));
  } else {
    const auto rank = static_cast<std::size_t>(std::ranges::find(generation.peers, message.from) -
                                               generation.peers.begin());
    if (!round.honest.contains(rank)) {
      round.honest[rank] = PlainMessage::read(message.transfer.payload.bytes).model();
    }
    departing.push_back(std::move(message));
  }
  if (!round.waiting.empty() && is_complete(generation, number)) {
    for (Departure& waiting : round.waiting) {
      attack(generation, round, waiting);
      departing.push_back(std::move(waiting));
    }
    round.waiting.clear();
  }
  round.departed += departing.size();
  std::size_t all = 0;
  for (const std::vector<Share>& row : generation.plan.round(number)) all += row.size();
  if (round.departed >= all) generation.rounds.erase(number);
  return departing;
}

void HostileSenders::attack(const Generation& generation, const Round& round,
                            Departure& message) const {
  const auto to = static_cast<std::size_t>(message.transfer.to) - 1;
  const HostileRule& rule = rules_.at(message.from);
  if (is_hostile(to)) return;
  const auto victim =
      static_cast<std::size_t>(std::ranges::find(generation.peers, to) - generation.peers.begin());
  const std::vector<Share>& row = generation.plan.round(message.transfer.id.number)[victim];
  const auto weight_of = [&](std::size_t rank) {
    const auto share = std::ranges::find(row, rank, &Share::from);
    return share == row.end() ? 0 : share->weight;
  };
  PlainMessage content = PlainMessage::read(message.transfer.payload.bytes);
  const std::vector<float> own = content.model();
  std::vector<NeighbourModel> honest;
  double hostile_weight = 0;
  std::size_t hostile = 0;
  for (std::size_t rank = 0; rank < generation.peers.size(); ++rank) {
    if (is_hostile(generation.peers[rank])) {
      hostile_weight += weight_of(rank);
      ++hostile;
    } else if (const auto seen = round.honest.find(rank);
               rank != victim && seen != round.honest.end()) {
      honest.push_back({seen->second, weight_of(rank)});
    }
  }
  if (honest.empty()) return;  // There is no honest model from which to compute the attack.
  // A victim without receivers has sent no model. Use the sender's own model in place of the
  // victim's.
  const auto said = round.honest.find(victim);
  const std::vector<float>& model = said == round.honest.end() ? own : said->second;
  const std::optional<double> strength =
      rule.strength > 0 ? std::optional(rule.strength) : std::nullopt;
  const AttackView view{.own = own,
                        .victim = model,
                        .honest = honest,
                        .hostile_weight = hostile_weight,
                        .hostile = hostile};
  const double weight = content.header.weight;
  content.values = attacked(rule.attack, view, strength);
  if (weight != 1) content.values = content.times(weight);
  content.header.weight = attacked_weight(rule.attack, weight, strength);
  message.transfer.payload = content.written();
}

}  // namespace gv
