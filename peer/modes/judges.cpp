// Draws judges, and counts their verdicts.
#include "peer/modes/judges.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/rng.hpp"

namespace gv {
namespace {

/// Number of judges for a sitting, if there are enough peers.
constexpr std::size_t judges_count = 3;
/// Counts of samples lag behind, so other peers may be this many sittings ahead of us or behind us.
constexpr std::uint64_t apart_max = 4;
/// The shortest time between two readings of the members' reports. Each reading is a pass over all
/// members.
constexpr Duration reads_every = std::chrono::milliseconds(50);

bool has_vote(const Member& member, const Progress& progress) {
  // A suspected peer keeps its vote. Otherwise a hostile peer could take away the others' votes by
  // suspecting them.
  return is_live(member.state) && progress.work && progress.phase != Phase::joining;
}

}  // namespace

void Judges::hear(Time now, std::uint64_t counted, const Membership& members,
                  const std::vector<PeerId>* panel) {
  if (!is_on() || (heard_ && now < *heard_ + reads_every)) return;
  heard_ = now;
  sitting_ = counted / options_.every;
  std::vector<Voter> all{{self_, verdict_}};
  members.for_each_report([&](const Member& member, const Progress& progress) {
    if (has_vote(member, progress)) all.push_back({member.id, progress.work->verdict});
  });
  count_votes(now, all, panel);
  due_ = 0;
  if (panel != nullptr)
    return;  // A panel measures whenever all peers test the model, so no judges are drawn.
  const std::uint64_t first = sitting_ - std::min(sitting_, apart_max);
  for (std::uint64_t sitting = std::max<std::uint64_t>(1, first); sitting <= sitting_ + apart_max;
       ++sitting) {
    if (must_measure(sitting, all)) due_ = sitting;
  }
}

void Judges::count_votes(Time now, const std::vector<Voter>& all,
                         const std::vector<PeerId>* panel) {
  // If a stage is lost, the peers of a pipeline roll back together, and may reach the same sitting
  // again. In that case, verdicts from later sittings do not count.
  const auto counts = [&](const Voter& voter) {
    return panel == nullptr || (std::ranges::find(*panel, voter.peer) != panel->end() &&
                                voter.verdict->sitting <= sitting_);
  };
  voters_ = panel != nullptr ? panel->size() : all.size();
  votes_ = static_cast<std::size_t>(std::ranges::count_if(all, [&](const Voter& voter) {
    return voter.verdict && voter.verdict->reached && counts(voter);
  }));
  if (2 * votes_ <= voters_) {
    reached_since_.reset();
  } else if (!reached_since_) {
    reached_since_ = now;
  }
}

/// Returns the judges, as indices in `all`. All peers that know the same voters draw the same
/// judges.
std::vector<std::size_t> Judges::drawn_for(std::uint64_t sitting,
                                           const std::vector<Voter>& all) const {
  std::vector<std::size_t> places(all.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const auto rank = [&](std::size_t place) {
    const auto id = static_cast<std::uint64_t>(all[place].peer);
    return std::pair(hash_combine(hash_combine(options_.seed, sitting), id), id);
  };
  const std::size_t count = std::min(judges_count, all.size());
  const auto end = places.begin() + static_cast<std::ptrdiff_t>(count);
  std::ranges::partial_sort(places, end, {}, rank);
  places.resize(count);
  return places;
}

/// True if we have to measure, either because we are a judge of this sitting and it has begun, or
/// because most of its judges have reached the target.
bool Judges::must_measure(std::uint64_t sitting, const std::vector<Voter>& all) const {
  const std::vector<std::size_t> judges = drawn_for(sitting, all);
  const auto have_it = static_cast<std::size_t>(std::ranges::count_if(judges, [&](std::size_t at) {
    const std::optional<TargetVerdict>& verdict = all[at].verdict;
    return verdict && verdict->reached && verdict->sitting >= sitting;
  }));
  // A judge may also measure for the previous sitting. We may be ahead of all others, or may have
  // been busy during all of the previous sitting.
  const bool is_judge = std::ranges::find(judges, std::size_t{0}) != judges.end();
  const bool is_now = sitting <= sitting_ && sitting + 1 >= sitting_;
  return (is_judge && is_now) || 2 * have_it > judges.size();
}

void Judges::learn(double value) {
  if (!under_way_) return;
  measured_ = value;
  verdict_ = TargetVerdict{*std::exchange(under_way_, std::nullopt), value >= options_.value};
}

}  // namespace gv
