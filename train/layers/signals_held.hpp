// Holds back signals while oneDNN computes.
#pragma once

#include <csignal>

namespace gv {

/// Blocks signals on this thread while it exists; signals that arrive meanwhile are delivered
/// after. Some of oneDNN's kernels use the stack pointer for other data. The frame of a handler
/// would then be written to wherever it points: into the heap, or the model.
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
