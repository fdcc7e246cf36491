// No signals while oneDNN computes.
#pragma once

#include <csignal>

namespace gv {

/// Keeps signals away from this thread while it exists; what comes meanwhile is delivered after.
/// Some of oneDNN's kernels use the stack pointer for something else, so a handler that ran then
/// would get its frame written into whatever that points to: the heap, or the model.
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
