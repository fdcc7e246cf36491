// Alternates between the methods of convolution, so that a change in the machine's speed affects
// all of them. Measures processor time, because other programs disturb it less than wall-clock
// time.
#include "bench/convolution/bench_convolution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <span>
#include <utility>

#include "base/rng.hpp"
#include "train/layers/convolution_method.hpp"
#include "train/layers/network.hpp"

namespace gv {
namespace {

using Json = nlohmann::ordered_json;

constexpr double seconds_each = 1;
constexpr std::size_t repeats_min = 3;
constexpr std::size_t repeats_max = 1000;
/// A layer with at most this many input channels counts as the first layer of a model.
constexpr std::size_t pixel_numbers_max = 3;
/// The largest allowed number of a sample's inputs or outputs, and of parameters.
constexpr std::size_t numbers_max = std::size_t{1} << 24;
constexpr std::array passes = {"forward", "backward_input", "backward_weight"};

/// Processor time of this process, which has one thread.
double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

/// One method of computing a layer.
struct Contender {
  std::string_view name;
  ConvolutionMethod method;
  Precision precision = Precision::float32;
};
constexpr std::array contenders = {Contender{"direct", ConvolutionMethod::direct},
                                   Contender{"winograd", ConvolutionMethod::winograd},
                                   Contender{"im2col", ConvolutionMethod::im2col},
                                   Contender{"fft", ConvolutionMethod::fft},
                                   Contender{"bf16", ConvolutionMethod::direct, Precision::bf16}};

/// A network with a single layer, computed by one contender. It has no network if the contender
/// cannot compute the layer on this machine.
class Runner {
 public:
  Runner(const ConvolutionShape& shape, const Contender& contender, std::size_t batch)
      : name_(contender.name) {
    ModelSpec spec{.layers = {shape.layer}, .precision = contender.precision};
    spec.layers.front().convolution = contender.method;
    Problems problems;
    const ModelPlan plan = plan_model(spec, shape.in, problems);
    if (!problems.empty()) return;
    if (contender.precision == Precision::bf16 && !onednn_abilities().bf16) return;
    network_ = make_onednn_network(plan, batch);
    if (!network_) network_ = make_plain_network<float>(plan, batch);
    Rng rng(1);
    fill(parameters_, plan.layout.size(), rng);
    fill(inputs_, batch * elements(plan.in), rng);
    fill(d_outputs_, batch * plan.outputs, rng);
    gradient_.resize(plan.layout.size());
    is_inside_ = shape.in[0] > pixel_numbers_max;
  }

  std::string_view name() const { return name_; }
  bool is_able() const { return network_ != nullptr; }

  void run(bool counts) {
    Rng rng(1);
    const std::array<double, 3> seconds = {
        timed([&] { network_->forward(parameters_, inputs_, true, rng); }),
        timed([&] { network_->backward_input(parameters_, d_outputs_, is_inside_); }),
        timed([&] { network_->backward_weight(parameters_, gradient_); })};
    for (std::size_t i = 0; counts && i < passes.size(); ++i) seconds_[i].push_back(seconds[i]);
  }

  double milliseconds(std::size_t pass) const { return 1e3 * median(seconds_[pass]); }
  double milliseconds() const { return milliseconds(0) + milliseconds(1) + milliseconds(2); }

  Json row() const {
    Json row{{"method", name_}, {"repeats", seconds_[0].size()}, {"milliseconds", milliseconds()}};
    for (std::size_t i = 0; i < passes.size(); ++i) {
      row[passes[i]] = {{"milliseconds", milliseconds(i)}, {"seconds", seconds_[i]}};
    }
    return row;
  }

 private:
  static void fill(std::vector<float>& values, std::size_t count, Rng& rng) {
    values.resize(count);
    for (float& value : values) value = static_cast<float>(rng.normal());
  }

  template <class Work>
  static double timed(Work work) {
    const double begin = processor_seconds();
    work();
    return processor_seconds() - begin;
  }

  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
  }

  std::string_view name_;
  std::unique_ptr<Network<float>> network_;
  bool is_inside_ = false;  ///< False for a first layer, which needs no input gradient.
  std::vector<float> parameters_, inputs_, d_outputs_, gradient_;
  std::array<std::vector<double>, 3> seconds_;
};

std::vector<Runner> run_all(const ConvolutionShape& shape, const BenchConvolutionOptions& options) {
  std::vector<Runner> runners;
  for (const Contender& contender : contenders) {
    runners.emplace_back(shape, contender, options.batch);
    if (runners.back().is_able()) runners.back().run(false);
  }
  const double begin = processor_seconds();
  const double seconds = seconds_each * static_cast<double>(contenders.size());
  const std::size_t least = options.repeats > 0 ? options.repeats : repeats_min;
  const std::size_t most = options.repeats > 0 ? options.repeats : repeats_max;
  for (std::size_t i = 0; i < most; ++i) {
    if (i >= least && processor_seconds() - begin >= seconds) break;
    for (Runner& runner : runners) {
      if (runner.is_able()) runner.run(true);
    }
  }
  return runners;
}

/// The method that convolution = "auto" stands for.
std::string_view chosen(const ConvolutionShape& shape) {
  Problems none;
  const ModelPlan plan = plan_model({.layers = {shape.layer}}, shape.in, none);
  return convolution_names[plan.layers.front().spec.convolution];
}

void print_heading(const BenchConvolutionOptions& options) {
  fmt::print(
      "batch {}, one thread; milliseconds of processor time for a forward and a backward pass, "
      "medians\n\n",
      options.batch);
  fmt::print("{:<22}", "shape");
  for (const Contender& contender : contenders) fmt::print(" {:>9}", contender.name);
  fmt::print("  auto\n");
}

void print_row(const ConvolutionShape& shape, const std::vector<Runner>& runners) {
  fmt::print("{:<22}", to_string(shape));
  for (const Runner& runner : runners) {
    fmt::print(" {:>9}", runner.is_able() ? fmt::format("{:.3f}", runner.milliseconds()) : "-");
  }
  fmt::print("  {}\n", chosen(shape));
  std::fflush(stdout);
}

}  // namespace

std::string to_string(const ConvolutionShape& shape) {
  std::string text = fmt::format("{}x{}x{}:{}k{}", shape.in[0], shape.in[1], shape.in[2],
                                 shape.layer.units, shape.layer.kernel);
  if (shape.layer.stride > 1) text += fmt::format("s{}", shape.layer.stride);
  if (shape.layer.padding > 0) text += fmt::format("p{}", shape.layer.padding);
  return text;
}

std::optional<ConvolutionShape> convolution_from_text(const std::string& text) {
  static const std::regex form(
      R"((\d{1,5})x(\d{1,4})x(\d{1,4}):(\d{1,5})k(\d{1,3})(?:s(\d{1,3}))?(?:p(\d{1,3}))?)");
  std::smatch parts;
  if (!std::regex_match(text, parts, form)) return std::nullopt;
  const auto number = [&](std::size_t part, std::size_t otherwise) {
    return parts[part].matched ? std::stoul(parts[part].str()) : otherwise;
  };
  ConvolutionShape shape{.in = {number(1, 0), number(2, 0), number(3, 0)},
                         .layer = {.kind = LayerKind::conv2d,
                                   .units = number(4, 0),
                                   .kernel = number(5, 0),
                                   .stride = number(6, 1),
                                   .padding = number(7, 0)}};
  if (elements(shape.in) == 0 || elements(shape.in) > numbers_max) return std::nullopt;
  Problems problems;
  const ModelPlan plan = plan_model({.layers = {shape.layer}}, shape.in, problems);
  const bool fits = problems.empty() && std::max(plan.outputs, plan.layout.size()) <= numbers_max;
  return fits ? std::optional(shape) : std::nullopt;
}

std::vector<std::string> usual_convolutions() {
  return {"1x28x28:6k5p2",    "6x14x14:16k5",       "1x28x28:32k3p1",    "32x28x28:64k3p1",
          "64x28x28:64k3p1",  "64x28x28:128k3s2p1", "128x14x14:128k3p1", "512x4x4:512k3p1",
          "32x28x28:32k5p2",  "64x14x14:64k5p2",    "64x28x28:64k7p3",   "64x28x28:64k11p5",
          "3x64x64:64k11s4p2"};
}

int bench_convolution(const BenchConvolutionOptions& options) {
  Json rows = Json::array();
  print_heading(options);
  for (const ConvolutionShape& shape : options.shapes) {
    const std::vector<Runner> runners = run_all(shape, options);
    print_row(shape, runners);
    Json row{{"shape", to_string(shape)}, {"auto", chosen(shape)}, {"methods", Json::array()}};
    for (const Runner& runner : runners) {
      if (runner.is_able()) row["methods"].push_back(runner.row());
    }
    rows.push_back(std::move(row));
  }
  if (options.json.empty()) return 0;
  std::ofstream out(options.json);
  out << Json{{"batch", options.batch}, {"rows", std::move(rows)}}.dump(1) << '\n';
  out.flush();
  if (out) return 0;
  fmt::print(stderr, "bench: {} cannot be written\n", options.json.string());
  return 1;
}

}  // namespace gv
