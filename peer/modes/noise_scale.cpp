// Averages the two unknowns from which the gradient noise scale is computed.
#include "peer/modes/noise_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace gv {
namespace {

/// The weight of the previous average when a new step is added.
constexpr double kept_share = 0.98;
/// The fewest steps for an estimate. With fewer, the quotient would be mostly chance.
constexpr std::size_t steps_min = 10;

}  // namespace

void NoiseScale::add(const result::GradientSquares& squares) {
  if (squares.own_samples == 0 || squares.samples <= squares.own_samples) return;
  const auto small = static_cast<double>(squares.own_samples);
  const auto large = static_cast<double>(squares.samples);
  const double square = (large * squares.mean - small * squares.own) / (large - small);
  const double variance = (squares.own - squares.mean) / (1 / small - 1 / large);
  if (!std::isfinite(square) || !std::isfinite(variance)) return;
  square_ = kept_share * square_ + square;
  variance_ = kept_share * variance_ + variance;
  weight_ = kept_share * weight_ + 1;
  ++steps_;
  batch_ = squares.samples;
  peers_ =
      std::max<std::size_t>(1, (squares.samples + squares.own_samples / 2) / squares.own_samples);
}

std::optional<double> NoiseScale::samples() const {
  if (steps_ < steps_min || square() <= 0 || variance() < 0) return {};
  return variance() / square();
}

void NoiseScale::add_to(ModeReport& report) const {
  if (steps_ == 0) return;
  const std::optional<double> scale = samples();
  ReportSection section{
      .name = "noise_scale",
      .figures = {{"variance", variance()}, {"square", square()}, {"batch", batch_}}};
  std::string text = "gradient noise scale not known yet";
  if (scale) {
    section.figures.emplace_back("samples", *scale);
    report.metrics.push_back({"gradient_noise_scale", ReportMetric::Kind::gauge,
                              "Samples of a batch beyond which larger ones save few steps.",
                              *scale});
    text = fmt::format("gradient noise scale {:.3g} samples, a batch of {:.3g} for each peer",
                       *scale, std::max(1.0, *scale / static_cast<double>(peers_)));
  }
  text += fmt::format("; a step has {}", batch_);
  section.figures.emplace_back("text", text);
  report.sections.push_back(std::move(section));
  report.details.push_back(std::move(text));
}

}  // namespace gv
