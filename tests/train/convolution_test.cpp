// Every method of convolution, compared with directly computed sums, and what each method refuses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <numbers>
#include <string>
#include <vector>

#include "tests/train/drawn.hpp"
#include "train/layers/convolution_method.hpp"
#include "train/layers/fourier.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/network.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

using Method = ConvolutionMethod;

LayerSpec convolution(std::size_t units, std::size_t kernel, std::size_t stride = 1,
                      std::size_t padding = 0, Method method = Method::automatic) {
  return {.kind = LayerKind::conv2d,
          .units = units,
          .kernel = kernel,
          .stride = stride,
          .padding = padding,
          .convolution = method};
}

ModelPlan plan_of(const LayerSpec& spec, const SampleShape& in) {
  Problems problems;
  ModelPlan plan = plan_model({.layers = {spec}}, in, problems);
  REQUIRE(problems.empty());
  return plan;
}

template <class T>
struct Passes {
  std::vector<T> y, dx, gradient;
};

struct Given {
  Given(const ModelPlan& plan, std::size_t samples) : batch(samples) {
    Rng rng(11);
    parameters = normals<double>(plan.layout.size(), rng);
    x = normals<double>(batch * elements(plan.in), rng);
    dy = normals<double>(batch * plan.outputs, rng);
  }
  std::size_t batch;
  std::vector<double> parameters, x, dy;
};

/// A convolution by its definition, for stride s and padding p: y(o, i, j) = b(o) + the sum over c,
/// k, l of w(o, c, k, l) x(c, i s + k - p, j s + l - p).
Passes<double> written_out(const LayerPlan& plan, const Given& given) {
  const auto [channels, height, width] = plan.in;
  const LayerSpec& spec = plan.spec;
  const std::size_t k = spec.kernel;
  Passes<double> all{.y = std::vector<double>(given.batch * elements(plan.out)),
                     .dx = std::vector<double>(given.x.size()),
                     .gradient = std::vector<double>(given.parameters.size())};
  std::size_t at = 0;
  for (std::size_t n = 0; n < given.batch; ++n) {
    for (std::size_t o = 0; o < spec.units; ++o) {
      for (std::size_t place = 0; place < plan.out[1] * plan.out[2]; ++place, ++at) {
        all.y[at] = given.parameters[plan.bias + o];
        all.gradient[plan.bias + o] += given.dy[at];
        for (std::size_t tap = 0; tap < channels * k * k; ++tap) {
          const std::size_t y = place / plan.out[2] * spec.stride + tap / k % k - spec.padding;
          const std::size_t x = place % plan.out[2] * spec.stride + tap % k - spec.padding;
          if (y >= height || x >= width) continue;  // Numbers below zero wrap to huge ones.
          const std::size_t from = ((n * channels + tap / (k * k)) * height + y) * width + x;
          const std::size_t weight = plan.weight + o * channels * k * k + tap;
          all.y[at] += given.parameters[weight] * given.x[from];
          all.dx[from] += given.parameters[weight] * given.dy[at];
          all.gradient[weight] += given.x[from] * given.dy[at];
        }
      }
    }
  }
  return all;
}

template <class T>
std::vector<T> converted(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

template <class T>
Passes<T> passes_of(Network<T>& network, const Given& given) {
  const std::vector<T> parameters = converted<T>(given.parameters);
  const std::vector<T> inputs = converted<T>(given.x);
  Rng unused(0);
  Passes<T> all{.gradient = std::vector<T>(parameters.size(), T(NAN))};
  const auto y = network.forward(parameters, inputs, true, unused);
  all.y.assign(y.begin(), y.end());
  const auto dx = network.backward(parameters, converted<T>(given.dy), all.gradient, {}, true);
  all.dx.assign(dx.begin(), dx.end());
  return all;
}

/// The largest difference in any of the three results, relative to the largest value in that
/// result.
template <class T>
double difference(const Passes<T>& found, const Passes<double>& expected) {
  double worst = 0;
  const auto compare = [&](const std::vector<T>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double apart = 0;
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      apart = std::max(apart, std::abs(static_cast<double>(a[i]) - b[i]));
      largest = std::max(largest, std::abs(b[i]));
    }
    worst = std::max(worst, apart / largest);
  };
  compare(found.y, expected.y);
  compare(found.dx, expected.dx);
  compare(found.gradient, expected.gradient);
  return worst;
}

std::string name_of(const LayerPlan& plan) {
  return std::to_string(plan.in[0]) + "x" + std::to_string(plan.in[1]) + "x" +
         std::to_string(plan.in[2]) + " kernel " + std::to_string(plan.spec.kernel) + " stride " +
         std::to_string(plan.spec.stride) + " padding " + std::to_string(plan.spec.padding);
}

/// Calls check(spec, shape) for kernels of 1 to 5, strides of 1 to 3 and every padding.
template <class Check>
void each_small_shape(Method method, Check check) {
  for (std::size_t kernel = 1; kernel <= 5; ++kernel) {
    for (std::size_t stride = 1; stride <= 3; ++stride) {
      for (std::size_t padding = 0; padding < kernel; ++padding) {
        for (const SampleShape& in : {SampleShape{2, 5, 9}, SampleShape{3, 8, 5}}) {
          check(convolution(3, kernel, stride, padding, method), in);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("convolutions by unrolled windows and by spectra are those by the definition") {
  for (const Method method : {Method::im2col, Method::fft}) {
    each_small_shape(method, [&](const LayerSpec& spec, const SampleShape& in) {
      const ModelPlan plan = plan_of(spec, in);
      const Given given(plan, 2);
      INFO(convolution_names[method] << ' ' << name_of(plan.layers[0]));
      // Direct sums have up to 75 terms in double. A transform's error grows with the logarithm of
      // its size.
      CHECK(difference(passes_of(*make_plain_network<double>(plan, 2), given),
                       written_out(plan.layers[0], given)) < 1e-13);
    });
  }
}

TEST_CASE("images of several strips or tiles are computed as a whole") {
  const ModelPlan strips = plan_of(convolution(2, 5, 1, 2, Method::im2col), {12, 40, 36});
  const ModelPlan tiles = plan_of(convolution(2, 3, 1, 1, Method::fft), {2, 150, 70});
  const ModelPlan strided = plan_of(convolution(2, 4, 3, 2, Method::fft), {2, 150, 61});
  const FftTiles cut = fft_tiles(tiles.layers[0]);
  CHECK(cut.rows * cut.columns > 1);
  CHECK(fft_tiles(strided.layers[0]).rows > 1);
  for (const ModelPlan& plan : {strips, tiles, strided}) {
    const Given given(plan, 2);
    CHECK(difference(passes_of(*make_plain_network<double>(plan, 2), given),
                     written_out(plan.layers[0], given)) < 1e-12);
  }
}

TEST_CASE("every method in float differs from the definition by rounding alone") {
  for (const Method method : {Method::direct, Method::winograd, Method::im2col, Method::fft}) {
    for (const auto& [kernel, stride] : {std::pair{3, 1}, {3, 2}, {5, 1}, {7, 1}}) {
      LayerSpec spec = convolution(20, static_cast<std::size_t>(kernel),
                                   static_cast<std::size_t>(stride), 1, method);
      Problems problems;
      const ModelPlan plan = plan_model({.layers = {spec}}, {18, 14, 13}, problems);
      if (!problems.empty()) continue;  // This method does not support the shape or the processor.
      const Given given(plan, 4);
      auto network = make_onednn_network(plan, 4);
      if (!network) network = make_plain_network<float>(plan, 4);
      INFO(convolution_names[method] << ' ' << name_of(plan.layers[0]));
      // Up to 882 terms have an error of 6e-8 each. The error of a sum grows with the root of their
      // number. Winograd's transforms multiply by numbers up to 10 and lose another digit.
      CHECK(difference(passes_of(*network, given), written_out(plan.layers[0], given)) <
            (method == Method::winograd ? 2e-5 : 2e-6));
    }
  }
}

TEST_CASE("a convolution by spectra with a kernel of one element shifts the image") {
  const LayerPlan plan = plan_of(convolution(1, 3, 1, 1, Method::fft), {1, 6, 7}).layers[0];
  std::vector<double> parameters(plan.end);
  parameters[2] = 1;  // The last element of the kernel's first row.
  Rng rng(2);
  const auto x = normals<double>(42, rng);
  std::vector<double> y(42);
  make_layer<double>(plan)->forward(parameters.data(), x.data(), y.data(), 1, true, rng);
  for (std::size_t i = 0; i < 42; ++i) {
    const bool is_inside = i >= 7 && i % 7 < 6;
    CHECK(y[i] == Approx(is_inside ? x[i - 6] : 0).margin(1e-14));
  }
}

TEST_CASE("a transform of many images gives each one's spectrum and goes back") {
  for (const std::size_t side : {1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 27, 32}) {
    INFO(side);
    CHECK(Fourier<double>::side_for(side) == side);
    // The images fill a whole block and a part of another, with an odd number of images.
    constexpr std::size_t images = 32 + 19;
    const std::size_t frequencies = Fourier<double>::frequencies(side);
    Rng rng(side);
    const auto values = normals<double>(images * side * side, rng);
    std::vector<double> spectra(frequencies * 2 * images);
    Fourier<double> fourier(side);
    const auto load = [&](std::size_t image, std::size_t y, double* to) {
      for (std::size_t x = 0; x < side; ++x) {
        to[x * Fourier<double>::lanes] = values[(image * side + y) * side + x];
      }
    };
    fourier.forward(images, side, load, spectra.data());
    for (const std::size_t image : {std::size_t{0}, std::size_t{17}, images - 1}) {
      const std::size_t f = frequencies - 1;  // The last row, and column side / 2.
      std::complex<double> sum = 0;
      for (std::size_t place = 0; place < side * side; ++place) {
        const double turns =
            static_cast<double>(place / side * (side - 1) + place % side * (side / 2)) /
            static_cast<double>(side);
        sum += values[image * side * side + place] * std::polar(1.0, -2 * std::numbers::pi * turns);
      }
      CHECK(spectra[f * 2 * images + image] == Approx(sum.real()).margin(1e-11));
      CHECK(spectra[(f * 2 + 1) * images + image] == Approx(sum.imag()).margin(1e-11));
    }
    double worst = 0;
    fourier.inverse(images, side, 1, spectra.data(),
                    [&](std::size_t image, std::size_t y, const double* from) {
                      for (std::size_t x = 0; x < side; ++x) {
                        worst = std::max(worst, std::abs(from[x * Fourier<double>::lanes] -
                                                         values[(image * side + y) * side + x]));
                      }
                    });
    CHECK(worst < 1e-13);
  }
  CHECK(Fourier<double>::side_for(5) == 6);
  CHECK(Fourier<double>::side_for(25) == 27);
  CHECK(Fourier<double>::side_for(33) == 36);
}

TEST_CASE("auto takes the method that was measured to be the quickest") {
  const auto chosen = [](const LayerSpec& spec, const SampleShape& in,
                         Precision precision = Precision::float32) {
    Problems none;
    const ModelPlan plan = plan_model({.layers = {spec}, .precision = precision}, in, none);
    return plan.layers[0].spec.convolution;
  };
  CHECK(chosen(convolution(6, 5, 1, 2), {1, 28, 28}) == Method::direct);
  CHECK(chosen(convolution(64, 3, 1, 1), {32, 28, 28}) == Method::winograd);
  CHECK(chosen(convolution(16, 3, 1, 1), {16, 4, 4}) == Method::direct);
  CHECK(chosen(convolution(512, 3, 1, 1), {512, 4, 4}) == Method::winograd);
  CHECK(chosen(convolution(64, 3, 2, 1), {64, 28, 28}) == Method::direct);
  CHECK(chosen(convolution(32, 7, 1, 3), {32, 14, 14}) == Method::direct);
  CHECK(chosen(convolution(64, 5, 1, 2), {64, 28, 28}) == Method::fft);
  CHECK(chosen(convolution(64, 7, 1, 3), {64, 28, 28}) == Method::fft);
  CHECK(chosen(convolution(64, 7, 2, 3), {64, 28, 28}) == Method::direct);
  CHECK(chosen(convolution(64, 7, 1, 3), {64, 28, 28}, Precision::bf16) == Method::direct);
}

TEST_CASE("a method that cannot compute a layer is refused with its reason") {
  const auto reason = [](const LayerSpec& spec, const SampleShape& in,
                         Precision precision = Precision::float32) {
    const Problems found = problems({.layers = {spec}, .precision = precision}, in);
    CHECK(found.size() < 2);
    return found.empty() ? std::string() : found.front().place + ": " + found.front().reason;
  };
  CHECK(reason(convolution(4, 5, 1, 0, Method::winograd), {1, 8, 8}) ==
        "layers[0]: Winograd's method is for a kernel of 3 and a stride of 1");
  CHECK(reason(convolution(4, 3, 2, 0, Method::winograd), {1, 8, 8}).find("stride of 1") !=
        std::string::npos);
  CHECK(reason(convolution(8192, 3, 1, 0, Method::fft), {8192, 8, 8}).find("1 GiB") !=
        std::string::npos);
  CHECK(reason(convolution(4, 3, 1, 0, Method::fft), {1, 8, 8}, Precision::bf16)
            .find("no products of bfloat16") != std::string::npos);
  CHECK(reason(convolution(4, 3, 1, 0, Method::direct), {1, 8, 8}).empty() ==
        onednn_abilities().is_built_in);
  CHECK(reason(convolution(4, 3, 1, 0, Method::fft), {1, 8, 8}).empty());
  CHECK(reason(convolution(4, 3, 1, 0, Method::automatic), {1, 8, 8}, Precision::bf16).empty());
}

}  // namespace gv
