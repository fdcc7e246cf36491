// Chooses the connection that loses its place.
#include "net/proving_places.hpp"

#include <sodium.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace gv {

ProvingPlaces::ProvingPlaces(Options options) : options_(options), rng_(options.seed) {
  check(options.places > 0, "there is a place for a connection");
}

std::optional<ProvingPlaces::Id> ProvingPlaces::enter(Time now, Id id, const std::string& source) {
  leave(id);
  const auto own = sources_.try_emplace(source).first;
  ++own->second;
  strangers_[id] = {.since = now, .source = own};
  if (strangers_.size() <= options_.places) return std::nullopt;
  std::size_t most = 0;
  for (const auto& [each, held] : sources_) most = std::max(most, held);
  // Connections that came at this moment have not been read yet. One of them is closed only if
  // there is no other candidate.
  std::vector<Id> candidates;
  std::vector<Id> newest;
  std::optional<std::pair<Time, Id>> oldest;
  for (const auto& [each, stranger] : strangers_) {
    if (each == id || stranger.source->second < most) continue;
    (stranger.since == now ? newest : candidates).push_back(each);
    if (!oldest || stranger.since < oldest->first) oldest = {stranger.since, each};
  }
  if (candidates.empty()) candidates = std::move(newest);
  const bool has_had_its_time = now - oldest->first >= options_.grace;
  const Id gone = has_had_its_time ? oldest->second : candidates[rng_.below(candidates.size())];
  leave(gone);
  return gone;
}

void ProvingPlaces::keep(Id id) {
  const auto found = strangers_.find(id);
  if (found == strangers_.end() || kept_.size() >= options_.kept_max) return;
  kept_.emplace(id, found->second.since);
  forget(found);
}

void ProvingPlaces::leave(Id id) {
  const auto found = strangers_.find(id);
  if (found != strangers_.end()) forget(found);
  kept_.erase(id);
}

void ProvingPlaces::forget(std::map<Id, Stranger>::iterator stranger) {
  const auto source = stranger->second.source;
  if (--source->second == 0) sources_.erase(source);
  strangers_.erase(stranger);
}

std::vector<ProvingPlaces::Id> ProvingPlaces::older_than(Time time) const {
  std::vector<Id> old;
  for (const auto& [id, stranger] : strangers_) {
    if (stranger.since < time) old.push_back(id);
  }
  for (const auto& [id, since] : kept_) {
    if (since < time) old.push_back(id);
  }
  return old;
}

ProvingPlaces::Options usual_places() {
  ProvingPlaces::Options options;
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    options.places = std::clamp<std::size_t>(limit.rlim_cur / 8, 4, options.places);
    options.kept_max = std::min(options.kept_max, options.places);
  }
  randombytes_buf(&options.seed, sizeof options.seed);
  return options;
}

}  // namespace gv
