// Makes results that are subnormal numbers zero.
#pragma once

namespace gv {

/// On x86, results of this thread below 2^-126 (subnormal numbers) become 0 during its lifetime,
/// because such a number takes the processor about a hundred times as long as others. A model that
/// is sure of its answers has many of them: the probabilities of the other answers, and all
/// gradients that follow. No effect on other processors. So whatever must have the same bits on all
/// machines may not be computed meanwhile.
class SubnormalsFlushed {
 public:
#ifdef __SSE__
  SubnormalsFlushed() { __builtin_ia32_ldmxcsr(before_ | flush_to_zero); }
  ~SubnormalsFlushed() { __builtin_ia32_ldmxcsr(before_); }
#else
  SubnormalsFlushed() {}
#endif
  SubnormalsFlushed(const SubnormalsFlushed&) = delete;
  SubnormalsFlushed& operator=(const SubnormalsFlushed&) = delete;

#ifdef __SSE__
 private:
  static constexpr unsigned flush_to_zero = 0x8000;  ///< A bit of the register MXCSR.
  unsigned before_ = __builtin_ia32_stmxcsr();
#endif
};

}  // namespace gv
