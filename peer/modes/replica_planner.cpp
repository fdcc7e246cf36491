// Plans order, algorithm and shares from measurements, and sources from the versions of models.
#include "peer/modes/replica_planner.hpp"

#include <algorithm>

#include "base/shares.hpp"
#include "consensus/generation/agreement.hpp"
#include "peer/modes/state_transfer.hpp"

namespace gv {
namespace {

/// The largest number of peers that a message can name.
constexpr std::uint64_t peers_max = 1024;

/// True if the generation lets the peer continue from its own model.
bool continues(const Generation& start, PeerId peer) {
  const auto rank = std::ranges::find(start.order, peer) - start.order.begin();
  return rank < std::ssize(start.sources) && start.sources[static_cast<std::size_t>(rank)] == peer;
}

/// True if the peer that gave this answer reports that it cannot reach the peer `from`.
bool is_cut_off(const Answer& answer, PeerId from) {
  return std::ranges::any_of(answer.links, [from](const LinkReport& link) {
    return link.to == from && link.bytes_per_second == 0;
  });
}

/// True unless two peers both report that they cannot reach each other. If only one of two peers
/// reports this, the report may be false.
bool do_all_meet(const Answers& answers) {
  return std::ranges::all_of(answers, [&](const auto& answer) {
    return std::ranges::none_of(answer.second.links, [&](const LinkReport& link) {
      const auto other = answers.find(link.to);
      return other != answers.end() && is_cut_off(answer.second, link.to) &&
             is_cut_off(other->second, answer.first);
    });
  });
}

}  // namespace

/// Returns the order and algorithm of the last generation, if it had the same peers. Otherwise
/// returns the order by id, and an algorithm chosen from assumptions about links. Measurements
/// replace both if they promise an improvement.
ReduceChoice ReplicaPlanner::choice(const Answers& answers, const Generation* last) const {
  LinkTable links;
  ReduceChoice present;
  for (const auto& [peer, answer] : answers) {
    present.order.push_back(peer);
    links.add(peer, answer.links);
  }
  if (options_.names_senders && answers.size() <= direct_max && do_all_meet(answers)) {
    present.algorithm = ReduceAlgorithm::direct;
    return present;
  }
  const bool same = last != nullptr && std::ranges::is_permutation(present.order, last->order);
  if (same) {
    present.order = last->order;
    present.algorithm = static_cast<ReduceAlgorithm>(last->algorithm);
  } else {
    present.algorithm =
        options_.algorithm.value_or(fastest(present.order.size(), options_.elements, site_));
  }
  return better_choice(present, links,
                       {.elements = options_.elements,
                        .algorithm = options_.algorithm,
                        .operation_seconds = same ? operation_seconds_ : 0,
                        .site = site_});
}

/// Returns shares in proportion to the peers' speeds. Returns the previous shares if new ones would
/// not let the slowest peer finish much earlier.
std::vector<std::uint32_t> ReplicaPlanner::shares(const std::vector<PeerId>& order,
                                                  const Answers& answers,
                                                  const Generation* last) const {
  std::vector<std::uint32_t> old(order.size(), options_.batch);
  if (options_.batch_max <= options_.batch) return old;
  const bool same = last != nullptr && std::ranges::is_permutation(order, last->order);
  std::vector<double> speeds;
  for (std::size_t i = 0; i < order.size(); ++i) {
    speeds.push_back(answers.at(order[i]).speed);
    if (!same) continue;
    const auto before = std::ranges::find(last->order, order[i]) - last->order.begin();
    old[i] = last->shares[static_cast<std::size_t>(before)];
  }
  const auto takes = [&](const std::vector<std::uint32_t>& shares) {
    double longest = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (speeds[i] > 0) longest = std::max(longest, shares[i] / speeds[i]);
    }
    return longest;
  };
  std::vector<std::uint32_t> fresh =
      batch_shares(speeds, options_.batch * static_cast<std::uint32_t>(order.size()),
                   options_.batch_max, std::clamp(options_.batch_min, 1U, options_.batch));
  return takes(old) - takes(fresh) > worth_changing * takes(old) ? fresh : old;
}

/// True if a peer at `version` need not download the newest version.
bool ReplicaPlanner::is_near(const ModelVersion& version, const ModelVersion& newest) const {
  return version == newest || (version.lineage == newest.lineage &&
                               version.step + options_.own_models_within > newest.step);
}

/// Returns the newest version. A final version that more than a third of all peers have takes
/// precedence over others.
ModelVersion ReplicaPlanner::version_of(const Answers& answers) const {
  const auto is_of_many = [&](const ModelVersion& version) {
    const auto has_it = [&](const auto& answer) { return answer.second.version == version; };
    const auto holders = static_cast<std::size_t>(std::ranges::count_if(answers, has_it));
    return version.step >= final_step_ &&
           (are_many(holders, answers.size()) || is_shared_by_many(version));
  };
  const auto best = std::ranges::max_element(
      answers,
      [&](const ModelVersion& a, const ModelVersion& b) {
        const bool of_a = is_of_many(a), of_b = is_of_many(b);
        return of_a != of_b ? of_b : is_before(a, b);
      },
      [](const auto& answer) { return answer.second.version; });
  return best->second.version;
}

std::optional<Generation> ReplicaPlanner::plan(const Answers& answers,
                                               const Generation* last) const {
  Generation start;
  start.version = version_of(answers);
  const ReduceChoice chosen = choice(answers, last);
  start.order = chosen.order;
  start.algorithm = static_cast<std::uint8_t>(chosen.algorithm);
  if (chosen.slowest) {
    start.slowest_from = chosen.slowest->from;
    start.slowest = {
        .to = chosen.slowest->to,
        .latency_s = static_cast<float>(chosen.slowest->cost.latency_s),
        .bytes_per_second = static_cast<float>(1 / chosen.slowest->cost.seconds_per_byte)};
  }
  std::vector<PeerId> holders;
  for (const auto& [peer, answer] : answers) {
    if (answer.version == start.version) holders.push_back(peer);
  }
  start.ends = is_end_agreed(answers, start.version);
  std::size_t next = 0;
  for (const PeerId peer : start.order) {
    const bool has_it = is_near(answers.at(peer).version, start.version);
    start.sources.push_back(has_it ? peer : holders[next++ % holders.size()]);
  }
  start.shares = shares(start.order, answers, last);
  for (const PeerId peer : start.order) start.hosts.push_back(answers.at(peer).host);
  if (std::ranges::count(start.hosts, 0) == std::ssize(start.hosts)) start.hosts.clear();
  return start;
}

std::uint64_t ReplicaPlanner::samples_max() const {
  const std::uint64_t largest = std::max(options_.batch, options_.batch_max);
  return largest * options_.growth_max * peers_max;
}

std::uint64_t ReplicaPlanner::samples_at(std::uint64_t step, std::uint64_t counted) const {
  return counted > 0 ? std::min(counted, step * samples_max()) : step * options_.batch;
}

std::string ReplicaPlanner::problem(const Generation& generation) const {
  if (generation.algorithm >= reduce_algorithms().size()) {
    return "it installs an algorithm that does not exist";
  }
  const std::uint64_t most = std::max(options_.batch, options_.batch_max);
  const std::uint64_t all = std::uint64_t{options_.batch} * generation.order.size();
  std::uint64_t sum = 0;
  for (const std::uint32_t share : generation.shares) {
    if (share == 0 || share > most) return "a share is not one that a peer could compute";
    sum += share;
  }
  if (sum != all) return "the shares it installs are not those of the run's batch";
  if (!generation.assignments.empty()) return "it assigns stages where there are none";
  return "";
}

std::string ReplicaPlanner::problem(const Answer& answer) const {
  const bool has_stages = !answer.holdings.empty() || answer.leaves;
  return has_stages ? "it promises stages where there are none" : "";
}

std::string ReplicaPlanner::problem(const SettingsRevision& revision) const {
  if (!options_.revision_problem) return GenerationPlanner::problem(revision);
  return revision == SettingsRevision{} ? "" : options_.revision_problem(revision);
}

/// Only a peer that has promised exactly the version of `start` sends it to others. The rest of a
/// plan can be judged only if all peers continue from one model. Otherwise each peer has its own
/// limit for how far behind the others may be.
std::string ReplicaPlanner::problem_of_sources(const Generation& start, PeerId self,
                                               const Answer& own) const {
  const bool has_it = continues(start, self);
  const auto receivers = std::ranges::count(start.sources, self) - (has_it ? 1 : 0);
  const bool is_promised = own.version == start.version;
  if (receivers > 0 && !is_promised) return "it names us as the source of a state that we lack";
  if (start.contains(self) && !has_it && is_promised) return "it makes us download our own state";
  const bool is_judged = has_it && options_.own_models_within == 0;
  return is_judged && !is_near(own.version, start.version)
             ? "it continues from a state that we have not promised"
             : "";
}

/// True if we may begin this generation. Its plan must let us continue from our own model if and
/// only if the version in our answer is near enough.
bool ReplicaPlanner::can_begin(const Generation& start, PeerId self, const Answer& own) const {
  if (continues(start, self) != is_near(own.version, start.version)) return false;
  const std::size_t holders = holders_of(start, {}).size();
  return may_replace(own.version, start.version, are_many(holders, start.order.size()));
}

/// True if the version `other` may replace ours. `is_of_many` means that more than a third of the
/// peers have `other`. Only then does an honest proposer choose a version older than the one in our
/// answer, because `other` is final for those peers.
bool ReplicaPlanner::may_replace(const ModelVersion& own, const ModelVersion& other,
                                 bool is_of_many) const {
  if (own == other) return true;
  if (own.step < final_step_) return is_before(own, other) || is_of_many;
  return is_before(own, other) && (is_of_many || !is_shared_by_many(own));
}

bool ReplicaPlanner::is_shared_by_many(const ModelVersion& version) const {
  return are_many(version == shared_ ? sharers_ : 1, 1);
}

void ReplicaPlanner::note_sharers(const ModelVersion& own, std::size_t peers) {
  sharers_ = own == shared_ ? std::max(sharers_, peers) : peers;
  shared_ = own;
}

}  // namespace gv
