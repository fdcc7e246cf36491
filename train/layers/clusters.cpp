// k-means: a layer whose output is the centre nearest to its input.
#include <Eigen/Core>
#include <algorithm>
#include <limits>
#include <vector>

#include "train/layers/layer.hpp"

namespace gv {
namespace {

/// y is the nearest centre; among equally near centres, the first one. Centre j is sums[j] /
/// counts[j]. The parameters are the sums and counts, because their means over peers or batches
/// give the centres of all samples; means of centres would not. The gradient is the parameters
/// minus the batch's own sums and counts per sample. So plain descent with a rate of 1 is Lloyd's
/// step (Lloyd 1982). With rates of 1/t it is mini-batch k-means (Sculley 2010). With a constant
/// rate it gradually forgets old samples. A centre to which no sample belongs keeps its place,
/// because its sums and its count shrink by the same factor. A centre with a count of 0 or less is
/// never the nearest.
template <class T>
class Clusters final : public Layer<T> {
 public:
  explicit Clusters(const LayerPlan& plan)
      : plan_(plan),
        count_(static_cast<Eigen::Index>(plan.spec.units)),
        width_(static_cast<Eigen::Index>(elements(plan.in))) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const auto rows = static_cast<Eigen::Index>(batch);
    const Eigen::Map<const Matrix> x(in, rows, width_);                              // (B, I)
    const Eigen::Map<const Matrix> sums(parameters + plan_.weight, count_, width_);  // (K, I)
    const Eigen::Map<const Vector> counts(parameters + plan_.bias, count_);          // (K)
    const Matrix centres = sums.array().colwise() / counts.array();
    // Half the squared distance, without half the squared norm of x, which is the same for all
    // centres.
    Matrix distances = -x * centres.transpose();  // (B, K)
    distances.rowwise() += centres.rowwise().squaredNorm().transpose() / 2;
    Eigen::Map<Matrix> y(out, rows, width_);
    nearest_.assign(batch, 0);
    for (Eigen::Index n = 0; n < rows; ++n) {
      T least = std::numeric_limits<T>::infinity();
      for (Eigen::Index j = 0; j < count_; ++j) {
        if (!(counts[j] > 0) || !(distances(n, j) < least)) continue;
        least = distances(n, j);
        nearest_[static_cast<std::size_t>(n)] = j;
      }
      y.row(n) = centres.row(nearest_[static_cast<std::size_t>(n)]);
    }
  }

  /// The gradient is zero, because a sample that moves slightly keeps its nearest centre.
  void backward_input(const T*, const T*, const T*, const T*, T* d_in, std::size_t batch) override {
    if (d_in != nullptr) std::fill_n(d_in, batch * elements(plan_.in), T(0));
  }

  void backward_weight(const T* parameters, const T* in, const T*, const T*, T* d_parameters,
                       std::size_t batch) override {
    const Eigen::Map<const Matrix> x(in, static_cast<Eigen::Index>(batch), width_);
    Eigen::Map<Matrix> d_sums(d_parameters + plan_.weight, count_, width_);
    Eigen::Map<Vector> d_counts(d_parameters + plan_.bias, count_);
    d_sums = Eigen::Map<const Matrix>(parameters + plan_.weight, count_, width_);
    d_counts = Eigen::Map<const Vector>(parameters + plan_.bias, count_);
    const T share = T(1) / static_cast<T>(batch);
    for (std::size_t n = 0; n < batch; ++n) {
      d_sums.row(nearest_[n]) -= share * x.row(static_cast<Eigen::Index>(n));
      d_counts[nearest_[n]] -= share;
    }
    keep_unused(parameters, d_sums, d_counts);
  }

 private:
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

  /// The sums and the count of a centre without samples decay together, so the centre stays in
  /// place. When the count becomes tiny, this function stops the decay. Otherwise the numbers would
  /// lose digits, and the centre would move.
  void keep_unused(const T* parameters, Eigen::Map<Matrix>& d_sums, Eigen::Map<Vector>& d_counts) {
    constexpr T smallest = T(1e-20);
    for (Eigen::Index j = 0; j < count_; ++j) {
      const bool is_used = std::ranges::find(nearest_, j) != nearest_.end();
      if (is_used || parameters[plan_.bias + static_cast<std::size_t>(j)] >= smallest) continue;
      d_sums.row(j).setZero();
      d_counts[j] = 0;
    }
  }

  LayerPlan plan_;
  Eigen::Index count_;
  Eigen::Index width_;
  std::vector<Eigen::Index> nearest_;  ///< The nearest centre of each sample in the last forward().
};

}  // namespace

LayerFamily cluster_layers() { return {make_one<Clusters, float>, make_one<Clusters, double>}; }

}  // namespace gv
