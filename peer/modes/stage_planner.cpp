// Makes plans from answers, and checks that a plan's assignments form a complete pipeline.
#include "peer/modes/stage_planner.hpp"

#include <algorithm>
#include <set>

namespace gv {
namespace {

/// The share that a plan gives to the fastest peer. The other shares are in proportion to it.
constexpr std::uint32_t share_max = 1000;

std::vector<StageOffer> offers_in(const Answers& answers, const StageParts& parts) {
  std::vector<StageOffer> offers;
  for (const auto& [peer, answer] : answers) {
    offers.push_back({peer, answer.speed, parts.unpacked(answer.holdings), answer.leaves});
  }
  return offers;
}

/// Returns the larger latency and the lower bandwidth of the two directions of a link. For a
/// direction that is not reported, the cost of a network link is assumed.
SplitLink link_between(const LinkTable& links, PeerId a, PeerId b) {
  LinkCost slowest;
  for (const auto& cost : {links.find(a, b), links.find(b, a)}) {
    slowest.latency_s = std::max(slowest.latency_s, cost.value_or(network_link).latency_s);
    slowest.seconds_per_byte =
        std::max(slowest.seconds_per_byte, cost.value_or(network_link).seconds_per_byte);
  }
  return {.latency_s = slowest.latency_s, .bytes_per_s = 1 / slowest.seconds_per_byte};
}

/// Returns the offers without those holdings whose versions are not believed.
template <class IsBelieved>
std::vector<StageOffer> believed_among(std::vector<StageOffer> offers, IsBelieved is_believed) {
  for (StageOffer& offer : offers) {
    std::erase_if(offer.holdings,
                  [&](const StageHolding& holding) { return !is_believed(holding.version); });
  }
  return offers;
}

std::size_t holders_among(const std::vector<StageOffer>& offers, const ModelVersion& version) {
  return static_cast<std::size_t>(std::ranges::count_if(offers, [&](const StageOffer& offer) {
    return std::ranges::find(offer.holdings, version, &StageHolding::version) !=
           offer.holdings.end();
  }));
}

}  // namespace

StagePlanner::StagePlanner(std::vector<double> stage_seconds, std::uint64_t samples,
                           StagePlanOptions options)
    : stage_seconds_(std::move(stage_seconds)), samples_(samples), options_(std::move(options)) {
  if (options_.parts.count() > 0) return;
  options_.parts = StageParts(std::vector<std::size_t>(stage_seconds_.size(), 0));
}

std::optional<Generation> StagePlanner::plan(const Answers& answers, const Generation*) const {
  const std::vector<StageOffer> offers = offers_in(answers, options_.parts);
  double fastest = 0;
  for (const StageOffer& offer : offers) fastest = std::max(fastest, offer.speed);
  LinkTable links;
  if (options_.layouts) {
    for (const auto& [peer, answer] : answers) links.add(peer, answer.links);
  }
  std::optional<StagePlan> plan = plan_with(offers, links);
  if (!plan) return std::nullopt;
  Generation start{.version = plan->version, .ends = is_end_agreed(answers, plan->version)};
  for (const StageOffer& offer : offers) {
    if (offer.leaves) continue;
    start.order.push_back(offer.peer);
    start.sources.push_back(offer.peer);
    const double share = offer.speed > 0 ? offer.speed / fastest : 1;
    start.shares.push_back(static_cast<std::uint32_t>(std::max(1.0, share_max * share)));
  }
  start.assignments = options_.parts.packed(plan->assignments);
  if (start.assignments.size() > assignments_max) return std::nullopt;
  return start;
}

/// True if the version is plausible, judged by the pace of our own runs.
bool StagePlanner::is_near(const ModelVersion& version) const {
  return !believed_ || (version.step <= believed_->step && version.samples <= believed_->samples);
}

/// Makes a plan without the versions that we do not believe. If no other version is complete, uses
/// all versions, because the peers that report them may have continued without us.
std::optional<StagePlan> StagePlanner::plan_with(const std::vector<StageOffer>& offers,
                                                 const LinkTable& links) const {
  const auto plan_of = [&](const std::vector<StageOffer>& some) {
    return plan_stages(some, stage_seconds_, options_,
                       [&](PeerId a, PeerId b) { return link_between(links, a, b); });
  };
  if (!believed_) return plan_of(offers);
  std::optional<StagePlan> plan = plan_of(believed_among(offers, [&](const ModelVersion& version) {
    return is_near(version) || are_many(holders_among(offers, version), offers.size());
  }));
  return plan ? plan : plan_of(offers);
}

/// A single hostile peer could claim all parts of a version that exists nowhere. Some peers would
/// then give up the last run, while peers that know the run to be complete would not. So a version
/// counts only if we, or more than a third of all peers, have a part of it. If no such version is
/// complete, all versions count.
ModelVersion StagePlanner::newest_version(const Answers& answers, const Answer& own) const {
  const std::vector<StageOffer> offers = offers_in(answers, options_.parts);
  const auto believed = believed_among(offers, [&](const ModelVersion& version) {
    return std::ranges::find(own.holdings, version, &StageHolding::version) != own.holdings.end() ||
           are_many(holders_among(offers, version), offers.size());
  });
  const std::uint32_t parts = options_.parts.count();
  const auto newest = newest_complete(believed, parts);
  return newest ? *newest : newest_complete(offers, parts).value_or(ModelVersion());
}

std::string StagePlanner::problem(const Generation& generation) const {
  for (const std::uint32_t share : generation.shares) {
    if (share == 0 || share > share_max) return "a speed it installs is not one of a peer";
  }
  std::set<std::uint32_t> carried;
  std::set<std::pair<std::uint32_t, PeerId>> assignments;
  std::size_t named = 0;
  for (const StageAssignment& assignment : generation.assignments) {
    if (!options_.parts.names(assignment)) return "it assigns a stage that does not exist";
    named += StageParts::parts_in(assignment);
  }
  // Count the parts before unpacking the assignments, so that a hostile generation cannot fill the
  // memory.
  if (named > generation.order.size() * options_.parts.count()) {
    return "it assigns a stage twice to the same peer";
  }
  for (const StageAssignment& assignment : options_.parts.unpacked(generation.assignments)) {
    if (!generation.contains(assignment.carrier)) {
      return "it assigns a stage to a peer that takes no part";
    }
    if (!assignments.emplace(assignment.stage, assignment.carrier).second) {
      return "it assigns a stage twice to the same peer";
    }
    carried.insert(assignment.stage);
  }
  if (carried.size() != options_.parts.count()) return "it assigns a stage to no peer";
  for (const auto& [part, carrier] : assignments) {
    if (!options_.mirrored || options_.parts.is_slice(part)) continue;
    if (!assignments.contains({options_.parts.stages() - 1 - part, carrier})) {
      return "it assigns a stage without its mirror image";
    }
  }
  return problem_of_slices(generation);
}

/// Returns a problem unless every group has each slice of its stages exactly once, and each member
/// has consecutive slices that are the same in all of its stages.
std::string StagePlanner::problem_of_slices(const Generation& generation) const {
  const HeldParts held = held_parts(generation.order, generation.assignments, options_.parts);
  if (held.is_ragged) return "it assigns slices that do not follow each other";
  for (const auto& members : groups_of(held, options_.parts).members) {
    if (members.size() > options_.group.limit()) return "it makes a group of too many peers";
    for (const std::uint32_t stage : held.stages[members.front()]) {
      std::size_t next = 0;
      for (const std::uint32_t rank : members) {
        if (!options_.parts.has_slices(stage)) continue;
        const auto own = held.slices[rank].find(stage);
        if (own == held.slices[rank].end() || own->second != held.slices[rank].begin()->second ||
            own->second.begin != next || own->second.empty()) {
          return "it does not share a stage out among the members of a group";
        }
        next = own->second.end;
      }
      if (options_.parts.has_slices(stage) && next != options_.parts.slices_of(stage).size()) {
        return "it leaves out a part of a stage that a group shares";
      }
    }
  }
  return "";
}

std::string StagePlanner::problem(const Answer& answer) const {
  for (const StageHolding& holding : answer.holdings) {
    if (!options_.parts.names(holding)) return "it promises a stage that does not exist";
  }
  return "";
}

double StagePlanner::predicted_s(const Generation& generation, PeerId self, double speed,
                                 const std::vector<LinkReport>& links) const {
  const auto own = static_cast<std::size_t>(std::ranges::find(generation.order, self) -
                                            generation.order.begin());
  if (!options_.layouts || speed <= 0 || own == generation.order.size()) return 0;
  // A ballot uses the slower direction of each link, but we know only the direction from us.
  LinkTable table;
  table.add(self, links);
  for (const LinkReport& link : links) {
    table.add(link.to, {{self, link.latency_s, link.bytes_per_second}});
  }
  SplitSite site;
  for (std::size_t a = 0; a < generation.order.size(); ++a) {
    const double ratio = static_cast<double>(generation.shares[a]) / generation.shares[own];
    site.peers.push_back({.name = {}, .operations_per_s = speed * ratio});
    auto& row = site.links.emplace_back();
    const SplitLink to_a = link_between(table, self, generation.order[a]);
    for (std::size_t b = 0; b < generation.order.size(); ++b) {
      SplitLink link = link_between(table, self, generation.order[b]);
      if (b == own) link = to_a;
      if (a != own && b != own) {
        link.latency_s = std::max(link.latency_s, to_a.latency_s);
        link.bytes_per_s = std::min(link.bytes_per_s, to_a.bytes_per_s);
      }
      row.push_back(link);
    }
  }
  const HeldParts held = held_parts(generation.order, generation.assignments, options_.parts);
  return predicted_step({held.stages, groups_of(held, options_.parts)}, *options_.layouts, site);
}

/// A valid plan names us as the source only of states that we have promised. If the plan leaves us
/// out, it does so only if we are about to leave. At step 0 every peer makes its states from the
/// seed. A generation without peers has no sources.
std::string StagePlanner::problem_of_sources(const Generation& start, PeerId self,
                                             const Answer& own) const {
  if (start.version.step == 0 || start.order.empty()) return "";
  const std::vector<StageHolding> holdings = options_.parts.unpacked(own.holdings);
  for (const StageAssignment& assignment : options_.parts.unpacked(start.assignments)) {
    if (assignment.source != self) continue;
    if (!start.contains(self) && !own.leaves) return "it leaves us out and names us as a source";
    const bool is_promised = std::ranges::any_of(holdings, [&](const StageHolding& holding) {
      return holding.stage == assignment.stage && holding.version == start.version;
    });
    if (!is_promised) return "it names us as the source of a stage that we have not promised";
  }
  return "";
}

/// True if the generation assigns a stage to us, and we believe that its version exists.
bool StagePlanner::can_begin(const Generation& start, PeerId self, const Answer& /*own*/) const {
  std::set<PeerId> sources;
  for (const StageAssignment& assignment : start.assignments) sources.insert(assignment.source);
  if (!is_near(start.version) && !are_many(sources.size(), start.order.size())) return false;
  return std::ranges::find(start.assignments, self, &StageAssignment::carrier) !=
         start.assignments.end();
}

}  // namespace gv
