// Allows something so often in a second, and a number of times at once.
#pragma once

#include <algorithm>

#include "base/time.hpp"

namespace gv {

/// A bucket of tokens (RFC 2697 without colours): full at first, and filled again with time.
class RateLimit {
 public:
  struct Options {
    double per_second = 1;
    double burst = 1;  ///< At once, after a while without any.
  };

  explicit RateLimit(Options options) : options_(options), tokens_(options.burst) {}

  /// Takes one token; false if there is none. `now` must not go backwards.
  bool take(Time now) {
    if (now > filled_) {
      tokens_ = std::min(options_.burst, tokens_ + seconds(now - filled_) * options_.per_second);
      filled_ = now;
    }
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  Options options_;
  double tokens_ = 0;
  Time filled_{};
};

}  // namespace gv
