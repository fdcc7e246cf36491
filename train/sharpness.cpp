// Finds the sharpness by power iteration with differences of gradients.
#include "train/sharpness.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/magnitude.hpp"
#include "train/evaluation.hpp"

namespace gv {
namespace {

/// Number of widths to try for the differences of gradients. Each is half the previous one.
constexpr int widths = 8;

/// The Hessian times a vector of length 1, with some figures about the product.
struct Product {
  std::vector<float> values;
  double quotient = 0;  ///< Rayleigh quotient.
  double length = 0;
  double residual = 0;
};

/// Computes products with the Hessian at `x`.
class Hessian {
 public:
  Hessian(const GradientAt& gradient, std::span<const float> x)
      : gradient_(gradient), x_(x), at_(x.size()), low_(x.size()) {}

  /// The product with `v`, by a difference of gradients at distances `width` on both sides of `x`.
  /// `v` must have length 1. Returns nullopt if a value is not finite.
  std::optional<Product> times(std::span<const float> v, double width) {
    Product product{.values = std::vector<float>(v.size())};
    move(v, width);
    gradient_(at_, product.values);
    move(v, -width);
    gradient_(at_, low_);
    double quotient = 0;
    double square = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double high = product.values[i];
      const double value = (high - static_cast<double>(low_[i])) / (2 * width);
      product.values[i] = static_cast<float>(value);
      quotient += value * static_cast<double>(v[i]);
      square += value * value;
    }
    if (!std::isfinite(square)) return {};
    product.quotient = quotient;
    product.length = std::sqrt(square);
    product.residual = std::sqrt(std::max(0.0, square - quotient * quotient));
    return product;
  }

 private:
  void move(std::span<const float> v, double by) {
    for (std::size_t i = 0; i < v.size(); ++i) {
      at_[i] = static_cast<float>(static_cast<double>(x_[i]) + by * static_cast<double>(v[i]));
    }
  }

  const GradientAt& gradient_;
  std::span<const float> x_;
  std::vector<float> at_;
  std::vector<float> low_;
};

bool agree(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

void make_unit(std::vector<float>& v, double length) {
  for (float& value : v) value = static_cast<float>(static_cast<double>(value) / length);
}

/// Power iteration with one width, which starts from `v` and replaces it with the last vector.
/// Returns nullopt if a value is not finite.
std::optional<Sharpness> iterate(Hessian& hessian, std::vector<float>& v, double width,
                                 const SharpnessOptions& options) {
  Sharpness found;
  for (; found.iterations < options.iterations && !found.has_settled; ++found.iterations) {
    std::optional<Product> product = hessian.times(v, width);
    if (!product) return {};
    found.has_settled =
        found.iterations > 0 && agree(found.eigenvalue, product->quotient, options.tolerance);
    found.eigenvalue = product->quotient;
    found.residual = product->residual;
    if (found.has_settled || product->length == 0) break;
    make_unit(product->values, product->length);
    v = std::move(product->values);
  }
  return found;
}

}  // namespace

std::optional<Sharpness> sharpness(const GradientAt& gradient, std::span<const float> x, Rng rng,
                                   const SharpnessOptions& options) {
  std::vector<float> v(x.size());
  for (float& value : v) value = static_cast<float>(rng.normal());
  const double length = norm_of(v);
  if (!(length > 0)) return {};
  make_unit(v, length);
  Hessian hessian(gradient, x);
  double width = 0.005 * std::max(1.0, norm_of(x));
  for (int tried = 0; tried < widths; ++tried, width /= 2) {
    const std::optional<Sharpness> found = iterate(hessian, v, width, options);
    if (!found) continue;
    const std::optional<Product> wide = hessian.times(v, width);
    const std::optional<Product> narrow = hessian.times(v, width / 2);
    if (wide && narrow && agree(wide->quotient, narrow->quotient, options.tolerance)) return found;
  }
  return {};
}

GradientAt gradient_on(Model& model, const DataSet& data, std::size_t samples) {
  const std::size_t all = std::clamp<std::size_t>(samples, 1, data.size());
  const std::size_t batch_max = std::min(all, evaluation_batch(data));
  return [&model, &data, all, batch_max](std::span<const float> x, std::span<float> gradient) {
    std::vector<float> inputs(batch_max * data.features());
    std::vector<float> part(gradient.size());
    std::vector<double> sum(gradient.size());
    Rng unused(0);
    for (std::size_t begin = 0; begin < all; begin += batch_max) {
      const Batch batch = read_batch(data, begin, std::min(batch_max, all - begin), inputs);
      model.gradient(x, batch, part, unused);
      const double weight = static_cast<double>(batch.size) / static_cast<double>(all);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * static_cast<double>(part[i]);
    }
    // Where parameters are running statistics, the gradient has their difference from the batch's
    // statistics in place of a derivative.
    for (const auto& [begin, end] : model.statistics()) {
      std::fill(sum.begin() + static_cast<std::ptrdiff_t>(begin),
                sum.begin() + static_cast<std::ptrdiff_t>(end), 0.0);
    }
    std::ranges::transform(sum, gradient.begin(), [](double v) { return static_cast<float>(v); });
  };
}

ModelSpec without_dropout(ModelSpec spec) {
  const auto strip = [](auto& self, std::vector<LayerSpec>& layers) -> void {
    for (LayerSpec& layer : layers) {
      if (layer.kind == LayerKind::dropout) layer.rate = 0;
      self(self, layer.layers);
      self(self, layer.shortcut);
    }
  };
  strip(strip, spec.layers);
  return spec;
}

}  // namespace gv
