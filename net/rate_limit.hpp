// Limits how often something may happen, per second and in a burst.
#pragma once

#include <algorithm>

#include "base/time.hpp"

namespace gv {

/// A token bucket (RFC 2697 without colours). It is full at first.
class RateLimit {
 public:
  struct Options {
    double per_second = 1;
    double burst = 1;  ///< Size of the bucket, in tokens.
  };

  explicit RateLimit(Options options) : options_(options), tokens_(options.burst) {}

  /// Takes one token; returns false if there is none. `now` must not go backwards.
  bool take(Time now) {
    tokens_ = tokens_at(now);
    filled_ = std::max(filled_, now);
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

  /// True if the bucket is full. A full bucket can be forgotten without any effect.
  bool is_full(Time now) const { return tokens_at(now) >= options_.burst; }

 private:
  double tokens_at(Time now) const {
    if (now <= filled_) return tokens_;
    return std::min(options_.burst, tokens_ + seconds(now - filled_) * options_.per_second);
  }

  Options options_;
  double tokens_ = 0;
  Time filled_{};
};

}  // namespace gv
