// The choice of the connection that gives way.
#include "net/proving_places.hpp"

#include <sodium.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/check.hpp"

namespace gv {

ProvingPlaces::ProvingPlaces(Options options) : options_(options), rng_(options.seed) {
  check(options.places > 0, "there is a place for a connection");
}

std::optional<ProvingPlaces::Id> ProvingPlaces::enter(Time now, Id id, const std::string& source) {
  strangers_[id] = {.since = now, .source = source};
  if (strangers_.size() <= options_.places) return std::nullopt;
  std::map<std::string, std::size_t> held;
  std::size_t most = 0;
  for (const auto& [each, stranger] : strangers_) most = std::max(most, ++held[stranger.source]);
  std::vector<Id> candidates;
  std::optional<Id> oldest;
  // Connections of this moment have not been read yet. They are closed only if no other can be.
  for (const bool spares_newest : {true, false}) {
    if (!candidates.empty()) break;
    for (const auto& [each, stranger] : strangers_) {
      if (each == id || held[stranger.source] < most) continue;
      if (spares_newest && stranger.since == now) continue;
      candidates.push_back(each);
      if (!oldest || stranger.since < strangers_.at(*oldest).since) oldest = each;
    }
  }
  const bool has_had_its_time = now - strangers_.at(*oldest).since >= options_.grace;
  const Id gone = has_had_its_time ? *oldest : candidates[rng_.below(candidates.size())];
  strangers_.erase(gone);
  return gone;
}

void ProvingPlaces::keep(Id id) {
  if (kept_.size() >= options_.kept_max) return;
  const auto found = strangers_.find(id);
  if (found != strangers_.end()) kept_.insert(strangers_.extract(found));
}

void ProvingPlaces::leave(Id id) {
  strangers_.erase(id);
  kept_.erase(id);
}

std::vector<ProvingPlaces::Id> ProvingPlaces::older_than(Time time) const {
  std::vector<Id> old;
  for (const auto* group : {&strangers_, &kept_}) {
    for (const auto& [id, stranger] : *group) {
      if (stranger.since < time) old.push_back(id);
    }
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
