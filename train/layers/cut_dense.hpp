// One member's part of a dense layer, or of a pair of them, that several peers share.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/layer.hpp"

namespace gv {

/// How a dense layer y = x W^T + b with weights (outputs, inputs) is cut. Either the outputs or the
/// inputs are divided, and each member has a range of them.
enum class DenseCut {
  outputs,  ///< Rows of W: a member has some of the outputs, for which it needs all inputs.
  inputs    ///< Columns of W: a member has a summand of all outputs, from some of the inputs.
};

/// The exchange that the members of a group must make before they can use a pass's result.
/// Afterwards all members hold the same bits.
enum class GroupExchange {
  none,    ///< All members already have the complete result.
  gather,  ///< Every member has the columns of its own range, and all members need all columns.
  sum      ///< Every member has a summand. The sum is taken in the order of the members' ranges.
};

/// One member's part of a dense layer. A pass ends where members have to exchange data. The caller
/// carries out the exchange, so it can compute something else meanwhile. Signals must be blocked
/// during passes (ComputeScope). T is float or double.
///
/// A member with outputs [a, z) holds weights (z - a, inputs) and z - a biases. A member with
/// inputs [a, z) holds weights (outputs, z - a) and all biases. Members of the second kind add the
/// biases after the sum. They all compute the same gradient of the biases, because they have the
/// same gradient of the outputs.
template <class T>
class CutDense {
 public:
  /// `part` is a range of the outputs or inputs, and must not be empty.
  CutDense(DenseCut cut, std::size_t inputs, std::size_t outputs, Range part);

  std::size_t in_width() const { return cut_ == DenseCut::inputs ? part_.size() : inputs_; }
  std::size_t out_width() const { return cut_ == DenseCut::outputs ? part_.size() : outputs_; }
  std::size_t weights() const { return in_width() * out_width(); }
  std::size_t biases() const { return out_width(); }

  GroupExchange after_forward() const {
    return cut_ == DenseCut::outputs ? GroupExchange::gather : GroupExchange::sum;
  }
  GroupExchange after_backward() const {
    return cut_ == DenseCut::outputs ? GroupExchange::sum : GroupExchange::none;
  }

  /// Copies a member's part out of the weights of the layer (outputs, inputs), or back into them.
  /// Pass biases as weights with one input; in a layer that is cut by inputs, every member has all
  /// biases.
  void take_weights(std::span<const T> whole, std::span<T> part) const;
  void put_weights(std::span<const T> part, std::span<T> whole) const;

  /// Computes `out` (rows, out_width) from `in` (rows, in_width). If `out` will be gathered, it
  /// includes the biases. If it will be summed, it does not, and the caller then calls add_biases()
  /// on the sum.
  void forward(const T* weights, const T* biases, const T* in, T* out, std::size_t rows) const;
  /// Adds the biases once, after a sum; does nothing after a gather.
  void add_biases(const T* biases, T* out, std::size_t rows) const;

  /// Computes `d_in` (rows, in_width) from `d_out` (rows, out_width). If outputs are gathered,
  /// `d_out` has the member's own columns of the outputs' gradient; if they are summed, it has all
  /// columns.
  void backward_input(const T* weights, const T* d_out, T* d_in, std::size_t rows) const;
  /// Overwrites the gradients of weights and biases. They need no exchange.
  void backward_weight(const T* in, const T* d_out, T* d_weights, T* d_biases,
                       std::size_t rows) const;

 private:
  DenseCut cut_;
  std::size_t inputs_;
  std::size_t outputs_;
  Range part_;
};

/// One member's part of two dense layers with an activation between them (Shoeybi 2019, Megatron).
/// The first layer is cut by its outputs and the second by its inputs, which are the same hidden
/// units. So one sum is needed after forward() and one after backward_input(), and none in between.
template <class T>
class CutPair {
 public:
  /// `hidden` is the number of all hidden units, and `part` is this member's range of them. The
  /// activation acts on each value separately.
  CutPair(std::size_t inputs, std::size_t hidden, std::size_t outputs, LayerKind activation,
          Range part);

  const CutDense<T>& first() const { return first_; }
  const CutDense<T>& second() const { return second_; }

  /// A member's parameters or their gradients.
  template <class Value>
  struct Parameters {
    Value* first_weights = nullptr;
    Value* first_biases = nullptr;
    Value* second_weights = nullptr;
    Value* second_biases = nullptr;
  };

  /// Computes `out` (rows, outputs), which members must sum. Then call second().add_biases() on the
  /// sum.
  void forward(const Parameters<const T>& parameters, const T* in, T* out, std::size_t rows);
  /// Computes `d_in` (rows, inputs), which members must sum; it may be null. `d_out` is the
  /// gradient of the summed outputs.
  void backward_input(const Parameters<const T>& parameters, const T* d_out, T* d_in,
                      std::size_t rows);
  /// Overwrites `gradient`. Call after backward_input(), with the arrays of both passes.
  void backward_weight(const T* in, const T* d_out, const Parameters<T>& gradient,
                       std::size_t rows) const;

 private:
  CutDense<T> first_;
  CutDense<T> second_;
  std::unique_ptr<Layer<T>> activation_;
  std::vector<T> before_;  ///< The hidden values before the activation, (rows, own hidden units).
  std::vector<T> after_;
  std::vector<T> d_before_;
};

}  // namespace gv
