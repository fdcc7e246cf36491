// Blocks signals while oneDNN computes.
#pragma once

#include <csignal>

namespace gv {

/// Blocks signals on this thread during its lifetime; signals that arrive are delivered afterwards.
/// Some of oneDNN's kernels use the stack pointer for other data, so a signal handler's frame would
/// be written to a random place: the heap, or the model.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace gv
