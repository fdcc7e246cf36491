// Makes subnormal numbers zero.
#pragma once

namespace gv {

/// On x86, subnormal numbers count as 0 on this thread during its lifetime, as operands and as
/// results, because they take the processor dozens of times as long as others. In float these are
/// numbers below 2^-126. A model that is sure of its answers has many of them: the gradients of
/// the loss for the other answers, and all gradients that follow. No effect on other processors. So
/// whatever must have the same bits on all machines, such as decode_fp16(), may not be computed
/// meanwhile.
class SubnormalsFlushed {
 public:
#ifdef __SSE__
  SubnormalsFlushed() { __builtin_ia32_ldmxcsr(before_ | zeros); }
  ~SubnormalsFlushed() { __builtin_ia32_ldmxcsr(before_); }
#else
  SubnormalsFlushed() {}
#endif
  SubnormalsFlushed(const SubnormalsFlushed&) = delete;
  SubnormalsFlushed& operator=(const SubnormalsFlushed&) = delete;

#ifdef __SSE__
 private:
  /// Two bits of the register MXCSR: flush to zero (results) and denormals are zeros (operands).
  static constexpr unsigned zeros = 0x8040;
  unsigned before_ = __builtin_ia32_stmxcsr();
#endif
};

}  // namespace gv
