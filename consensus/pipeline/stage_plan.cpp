// Finds the newest version of which peers hold every part, and assigns the stages.
#include "consensus/pipeline/stage_plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/shares.hpp"
#include "consensus/pipeline/chain_map.hpp"

namespace gv {
namespace {

/// The parts of one version that peers hold.
class Held {
 public:
  Held(std::span<const StageOffer> offers, const ModelVersion& version) : version_(version) {
    for (const StageOffer& offer : offers) {
      for (const StageHolding& holding : offer.holdings) {
        if (holding.version == version) by_part_[holding.stage].insert(offer.peer);
      }
    }
  }

  /// True if every part is held. At step 0, it is enough that every peer holds some part.
  bool is_complete(std::span<const StageOffer> offers, std::uint32_t parts) const {
    if (version_.step > 0) {
      for (std::uint32_t part = 0; part < parts; ++part) {
        if (!by_part_.contains(part)) return false;
      }
      return true;
    }
    return std::ranges::all_of(offers, [&](const StageOffer& offer) {
      return std::ranges::any_of(
          by_part_, [&](const auto& entry) { return entry.second.contains(offer.peer); });
    });
  }

  /// The peer from which `carrier` gets the part: itself if it has the part. Otherwise, of the
  /// peers that have the part, the one with the fewest other parts to send.
  PeerId source(std::uint32_t part, PeerId carrier) {
    if (version_.step == 0) return carrier;
    const std::set<PeerId>& peers = by_part_.at(part);
    if (peers.contains(carrier)) return carrier;
    const PeerId best = *std::ranges::min_element(
        peers, {}, [this](PeerId peer) { return std::pair(sent_[peer], peer); });
    ++sent_[best];
    return best;
  }

 private:
  ModelVersion version_;
  std::map<std::uint32_t, std::set<PeerId>> by_part_;
  std::map<PeerId, std::size_t> sent_;
};

/// The peers that may carry stages. If stages are mapped in pairs, a stage and its mirror image
/// count as one.
template <class Mapped>
std::vector<StageCarrier> carriers_among(std::span<const StageOffer> offers,
                                         const ModelVersion& version,
                                         const StagePlanOptions& options, const Mapped& mapped) {
  std::vector<StageCarrier> carriers;
  for (const StageOffer& offer : offers) {
    if (offer.leaves) continue;
    StageCarrier carrier{.peer = offer.peer, .speed = offer.speed, .stages = {}, .copies = {}};
    const auto pin = options.pins.find(offer.peer);
    if (pin != options.pins.end()) carrier.pin = mapped(pin->second);
    for (const StageHolding& holding : offer.holdings) {
      // A carrier of slices also holds the common part, so slices need not be read.
      if (holding.stage >= options.parts.stages()) continue;
      if (holding.carried) {
        carrier.stages.push_back(mapped(holding.stage));
      } else if (version.step > 0 && holding.version == version) {
        carrier.copies.push_back(mapped(holding.stage));
      }
    }
    std::ranges::sort(carrier.stages);
    carrier.stages.erase(std::unique(carrier.stages.begin(), carrier.stages.end()),
                         carrier.stages.end());
    carriers.push_back(std::move(carrier));
  }
  return carriers;
}

/// The slices of each rank, which are the same in each stage that it carries. Returns nullopt if a
/// group has too few members to hold all slices in memory, or more members than slices.
std::optional<std::vector<Range>> slices_of_ranks(const StageLayout& layout,
                                                  const std::vector<StageCarrier>& carriers,
                                                  const StagePlanOptions& options) {
  std::vector<Range> slices(layout.stages.size());
  for (const auto& members : layout.groups.members) {
    std::size_t all = 0;
    for (const std::uint32_t stage : layout.stages[members.front()]) {
      if (options.parts.has_slices(stage)) all = options.parts.slices_of(stage).size();
    }
    if (all == 0) continue;
    const std::size_t most = options.slices_most == 0 ? all : std::min(all, options.slices_most);
    if (members.size() * most < all || members.size() > all) return std::nullopt;
    std::vector<double> speeds;
    for (const std::uint32_t rank : members) speeds.push_back(carriers[rank].speed);
    const std::vector<Range> shares = member_slices(speeds, all, most);
    for (std::size_t i = 0; i < members.size(); ++i) slices[members[i]] = shares[i];
  }
  return slices;
}

/// True if a group of several peers can share these stages.
bool can_share(const std::vector<std::uint32_t>& stages, const StageParts& parts) {
  return std::ranges::all_of(stages, [&](std::uint32_t stage) { return parts.has_slices(stage); });
}

/// Divides the ranks that carry the same stages into as few groups as possible.
PeerGroups largest_groups(const std::vector<std::vector<std::uint32_t>>& stages,
                          const StagePlanOptions& options) {
  std::vector<GroupSize> sizes;
  for (const std::vector<std::uint32_t>& carried : stages) {
    sizes.push_back(can_share(carried, options.parts) ? options.group : GroupSize{});
  }
  return peer_groups(stages, sizes);
}

/// True if the peer carries the first slice of a stage, as the first member of a group does.
bool begins_group(const StageOffer& offer, const StageParts& parts) {
  return std::ranges::any_of(offer.holdings, [&](const StageHolding& holding) {
    return holding.carried && parts.is_slice(holding.stage) && parts.slice_of(holding.stage) == 0;
  });
}

/// Carriers of the same stages keep their present groups if all of them already carried these
/// stages. Other carriers form as few groups as possible.
PeerGroups kept_groups(const std::vector<std::vector<std::uint32_t>>& stages,
                       const std::vector<StageCarrier>& carriers,
                       std::span<const StageOffer> offers, const StagePlanOptions& options) {
  std::map<std::vector<std::uint32_t>, std::vector<std::vector<std::uint32_t>>> kept;
  std::set<std::vector<std::uint32_t>> changed;
  std::uint32_t rank = 0;
  for (const StageOffer& offer : offers) {
    if (offer.leaves) continue;
    auto& groups = kept[stages[rank]];
    const bool begins = begins_group(offer, options.parts);
    if (begins) groups.emplace_back();
    const bool is_same = carriers[rank].stages == stages[rank] && !groups.empty() &&
                         groups.back().size() < options.group.limit() &&
                         can_share(stages[rank], options.parts);
    if (is_same) {
      groups.back().push_back(rank);
    } else {
      changed.insert(stages[rank]);
    }
    ++rank;
  }
  std::vector<std::vector<std::uint32_t>> all;
  for (const auto& members : largest_groups(stages, options).members) {
    if (changed.contains(stages[members.front()])) all.push_back(members);
  }
  for (const auto& [carried, groups] : kept) {
    if (!changed.contains(carried)) all.insert(all.end(), groups.begin(), groups.end());
  }
  return numbered(std::move(all), stages.size());
}

/// The peers and links in the form that predictions need. Returns nullopt if no peer's speed is
/// known. A peer whose speed is unknown or not finite gets the median of the known speeds.
std::optional<SplitSite> site_of(const std::vector<StageCarrier>& carriers,
                                 const LinkBetween& link) {
  std::vector<double> stated;
  for (const StageCarrier& carrier : carriers) stated.push_back(carrier.speed);
  const bool is_any_known =
      std::ranges::any_of(stated, [](double speed) { return speed > 0 && std::isfinite(speed); });
  if (!is_any_known) return std::nullopt;
  SplitSite site;
  for (const double speed : known_speeds(stated)) {
    site.peers.push_back({.name = {}, .operations_per_s = speed});
  }
  for (const StageCarrier& carrier : carriers) {
    auto& links = site.links.emplace_back();
    for (const StageCarrier& other : carriers) {
      const bool is_free = !link || other.peer == carrier.peer;
      links.push_back(is_free ? SplitLink{} : link(carrier.peer, other.peer));
    }
  }
  return site;
}

/// Replaces the layout with the best one if the gain is worth the change.
void improve(StageLayout& layout, const std::vector<StageCarrier>& carriers,
             const LayoutCosts& costs, const LinkBetween& link) {
  const std::optional<SplitSite> site = site_of(carriers, link);
  if (!site) return;
  std::vector<std::optional<std::uint32_t>> pins;
  for (const StageCarrier& carrier : carriers) pins.push_back(carrier.pin);
  std::optional<StageLayout> best = best_layout(layout, costs, *site, pins);
  const bool is_worth_it = best && predicted_step(*best, costs, *site) <
                                       (1 - worth_changing) * predicted_step(layout, costs, *site);
  if (is_worth_it) layout = *std::move(best);
}

}  // namespace

std::optional<ModelVersion> newest_complete(std::span<const StageOffer> offers,
                                            std::uint32_t parts) {
  std::optional<ModelVersion> newest;
  std::vector<ModelVersion> seen;
  for (const StageOffer& offer : offers) {
    for (const StageHolding& holding : offer.holdings) {
      const ModelVersion& version = holding.version;
      if (std::ranges::find(seen, version) != seen.end()) continue;
      seen.push_back(version);
      const bool is_better = !newest || is_before(*newest, version);
      if (is_better && Held(offers, version).is_complete(offers, parts)) newest = version;
    }
  }
  return newest;
}

PeerGroups groups_of(const HeldParts& held, const StageParts& parts) {
  std::vector<std::vector<std::uint32_t>> members;
  struct Open {
    std::vector<std::uint32_t> ranks;
    std::size_t slices = 0;  ///< Number of slices that these ranks hold together.
  };
  std::map<std::vector<std::uint32_t>, Open> open;
  for (std::uint32_t rank = 0; rank < held.stages.size(); ++rank) {
    const std::vector<std::uint32_t>& stages = held.stages[rank];
    if (stages.empty() || !can_share(stages, parts) || !held.slices[rank].contains(stages[0])) {
      members.push_back({rank});
      continue;
    }
    Open& group = open[stages];
    group.ranks.push_back(rank);
    group.slices += held.slices[rank].at(stages[0]).size();
    if (group.slices < parts.slices_of(stages[0]).size()) continue;
    members.push_back(std::move(group.ranks));
    group = {};
  }
  for (auto& [stages, group] : open) {
    if (!group.ranks.empty()) members.push_back(std::move(group.ranks));
  }
  return numbered(std::move(members), held.stages.size());
}

HeldParts held_parts(std::span<const PeerId> order, const std::vector<StageAssignment>& assignments,
                     const StageParts& parts) {
  HeldParts held;
  held.stages.resize(order.size());
  held.slices.resize(order.size());
  for (const StageAssignment& assignment : parts.unpacked(assignments)) {
    const auto rank =
        static_cast<std::size_t>(std::ranges::find(order, assignment.carrier) - order.begin());
    const std::uint32_t stage = parts.stage_of(assignment.stage);
    if (!parts.is_slice(assignment.stage)) {
      held.stages[rank].push_back(stage);
      continue;
    }
    const std::size_t slice = parts.slice_of(assignment.stage);
    Range& own = held.slices[rank].try_emplace(stage, Range{slice, slice}).first->second;
    held.is_ragged = held.is_ragged || own.end != slice;
    own.end = slice + 1;
  }
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    std::ranges::sort(held.stages[rank]);
    for (const auto& [stage, slices] : held.slices[rank]) {
      held.is_ragged = held.is_ragged || !std::ranges::binary_search(held.stages[rank], stage);
    }
  }
  return held;
}

std::optional<StagePlan> plan_stages(std::span<const StageOffer> offers,
                                     std::span<const double> stage_seconds,
                                     StagePlanOptions options, const LinkBetween& link) {
  const auto all = static_cast<std::uint32_t>(stage_seconds.size());
  if (options.parts.count() == 0) options.parts = StageParts(std::vector<std::size_t>(all, 0));
  const StageParts& parts = options.parts;
  const std::optional<ModelVersion> version = newest_complete(offers, parts.count());
  if (!version) return std::nullopt;
  // A stage and its mirror image are assigned together.
  const auto mapped = [&](std::uint32_t stage) {
    return options.mirrored ? std::min(stage, all - 1 - stage) : stage;
  };
  std::vector<double> work(options.mirrored ? all / 2 : all, 0);
  for (std::uint32_t stage = 0; stage < all; ++stage) work[mapped(stage)] += stage_seconds[stage];
  const std::vector<StageCarrier> carriers = carriers_among(offers, *version, options, mapped);
  if (carriers.empty()) return std::nullopt;
  const bool searches = options.layouts && carriers.size() <= planned_peers_max;
  std::vector<std::size_t> least(work.size(), 1);
  for (std::uint32_t stage = 0; stage < all; ++stage) {
    if (parts.has_slices(stage)) least[mapped(stage)] = options.group.least;
  }
  std::vector<std::vector<std::uint32_t>> map = map_stages(carriers, work, !searches, least);
  for (std::vector<std::uint32_t>& stages : map) {
    if (!options.mirrored) break;
    for (std::size_t i = stages.size(); i-- > 0;) stages.push_back(all - 1 - stages[i]);
    std::ranges::sort(stages);
  }
  StageLayout layout{.stages = std::move(map), .groups = {}};
  layout.groups = searches ? kept_groups(layout.stages, carriers, offers, options)
                           : largest_groups(layout.stages, options);
  if (searches) improve(layout, carriers, *options.layouts, link);
  const auto slices = slices_of_ranks(layout, carriers, options);
  if (!slices) return std::nullopt;
  StagePlan plan{.version = *version, .assignments = {}};
  Held held(offers, *version);
  for (std::size_t rank = 0; rank < carriers.size(); ++rank) {
    const PeerId peer = carriers[rank].peer;
    const auto assign = [&](std::uint32_t part) {
      plan.assignments.push_back(
          {.stage = part, .carrier = peer, .source = held.source(part, peer)});
    };
    for (const std::uint32_t stage : layout.stages[rank]) assign(stage);
    for (const std::uint32_t stage : layout.stages[rank]) {
      if (!parts.has_slices(stage)) continue;
      const auto first = static_cast<std::uint32_t>(parts.slices_of(stage).begin);
      for (std::size_t s = (*slices)[rank].begin; s < (*slices)[rank].end; ++s) {
        assign(first + static_cast<std::uint32_t>(s));
      }
    }
  }
  return plan;
}

}  // namespace gv
