// Blocks signals and flushes subnormal numbers on a thread while a network computes on it.
#pragma once

#include <csignal>

#include "train/layers/subnormals_flushed.hpp"

namespace gv {

/// While this object exists, signals are blocked on its thread, and subnormal numbers count as
/// zero. Signals that arrive meanwhile are delivered afterwards. They are blocked because some of
/// oneDNN's kernels use the stack pointer for other data. A signal handler would then write its
/// frame to a random place, such as the heap or the model.
class ComputeScope {
 public:
  ComputeScope() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &signals_before_);
  }
  ~ComputeScope() { ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr); }
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  SubnormalsFlushed flushed_;
  sigset_t signals_before_{};
};

}  // namespace gv
