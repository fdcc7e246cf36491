// Makes subnormal numbers count as zero.
#pragma once

namespace gv {

/// While this object exists, subnormal numbers count as 0 on its thread, as operands and as
/// results. An x86 processor takes dozens of times as long for them as for other numbers. In float,
/// these are numbers of magnitude below 2^-126. A model that is sure of its answers has many of
/// them: the gradients of the loss for the other answers, and all gradients computed from these.
/// Other processors are not affected. So anything that must have the same bits on all machines,
/// such as decode_fp16(), must not be computed meanwhile.
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
