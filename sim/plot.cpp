// Draws panels with curves, and axes with round ticks.
#include "sim/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace gv {
namespace {

constexpr double panel_width = 380;
constexpr double panel_height = 200;
constexpr double margin_left = 64;
constexpr double margin_top = 40;
constexpr double gap = 70;

/// Returns the smallest distance between ticks that is at least `span` / 5, and 1, 2 or 5 times a
/// power of ten.
double tick_step(double span) {
  if (span <= 0) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= span / 5) return factor * power;
  }
  return 10 * power;
}

/// Range and ticks of a panel's vertical axis. If the axis is logarithmic, these are logarithms.
struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks;
};

/// A linear axis from one round number to another, which contains 0 and all values from `least` to
/// `most`.
Axis linear_axis(double least, double most) {
  const double step = tick_step(std::max(most, 0.0) - std::min(least, 0.0));
  const auto first = std::min(0.0, std::floor(least / step + 1e-9));
  const auto last = std::max(first + 1, std::ceil(most / step - 1e-9));
  Axis axis{.low = first * step, .high = last * step, .ticks = {}};
  for (double i = first; i <= last; ++i) axis.ticks.push_back(i * step);
  return axis;
}

/// A logarithmic axis from `least` to `most`, with ticks at 1, 2 and 5 times every power of ten, or
/// only at some powers if there are many.
Axis logarithmic_axis(double least, double most) {
  Axis axis{.low = std::log10(least), .high = std::log10(most), .ticks = {}};
  // The range covers at least a factor of five, so that it has two ticks.
  const double missing = std::max(0.0, std::log10(5.0) - (axis.high - axis.low));
  axis.low -= missing / 2;
  axis.high += missing / 2;
  const double span = axis.high - axis.low;
  const double step = std::max(1.0, tick_step(span));
  for (double power = std::floor(axis.low / step) * step; power <= axis.high; power += step) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = power + std::log10(factor);
      const bool wanted = factor == 1 || span <= 2.5;
      if (wanted && at >= axis.low && at <= axis.high) axis.ticks.push_back(at);
    }
  }
  return axis;
}

/// The ranges that a panel's contents cover.
struct Extent {
  double end = 1e-9;  ///< The end of the time axis.
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  bool is_empty() const { return most < least; }
};

bool is_shown(const PlotPanel& panel, double value) {
  return std::isfinite(value) && (!panel.logarithmic || value > 0);
}

Extent extent_of(const PlotPanel& panel) {
  Extent extent;
  for (const PlotCurve& curve : panel.curves) {
    for (const auto& [time, value] : curve.points) {
      extent.end = std::max(extent.end, time);
      if (!is_shown(panel, value)) continue;
      extent.least = std::min(extent.least, value);
      extent.most = std::max(extent.most, value);
    }
  }
  return extent;
}

std::string panel_svg(const PlotPanel& panel, double left, double top) {
  const Extent extent = extent_of(panel);
  const bool logarithmic = panel.logarithmic && !extent.is_empty();
  const Axis axis = logarithmic         ? logarithmic_axis(extent.least, extent.most)
                    : extent.is_empty() ? linear_axis(0, 1)
                                        : linear_axis(extent.least, extent.most);
  const auto x = [&](double time) { return left + panel_width * time / extent.end; };
  const auto y = [&](double value) {
    return top + panel_height * (1 - (value - axis.low) / (axis.high - axis.low));
  };
  const auto line = [](double x1, double y1, double x2, double y2) {
    return fmt::format("<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' class='grid'/>", x1,
                       y1, x2, y2);
  };
  const auto tick = [](double at_x, double at_y, const char* anchor, double value) {
    return fmt::format("<text x='{:.1f}' y='{:.1f}' class='tick' text-anchor='{}'>{:.6g}</text>\n",
                       at_x, at_y, anchor, value);
  };
  std::string svg = fmt::format("<text x='{:.1f}' y='{:.1f}' class='name'>{}</text>\n", left,
                                top - 8, panel.name);
  for (const double at : axis.ticks) {
    svg += line(left, y(at), left + panel_width, y(at)) +
           tick(left - 6, y(at) + 4, "end", logarithmic ? std::pow(10.0, at) : at);
  }
  const double time_step = tick_step(extent.end);
  for (int i = 0; i * time_step <= extent.end + 1e-9; ++i) {
    const double at = x(i * time_step);
    svg += line(at, top, at, top + panel_height) +
           tick(at, top + panel_height + 15, "middle", i * time_step);
  }
  svg += fmt::format(
      "<text x='{:.1f}' y='{:.1f}' class='tick' text-anchor='middle'>{}</text>\n"
      "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' class='frame'/>\n",
      left + panel_width / 2, top + panel_height + 30, panel.below, left, top, panel_width,
      panel_height);
  for (const PlotCurve& curve : panel.curves) {
    svg += fmt::format("<polyline class='{}' points='", curve.is_thin ? "thin" : "curve");
    for (const auto& [time, value] : curve.points) {
      if (!is_shown(panel, value)) continue;
      svg += fmt::format("{:.1f},{:.1f} ", x(time), y(logarithmic ? std::log10(value) : value));
    }
    svg += "'/>\n";
  }
  return svg;
}

}  // namespace

std::string plot_svg(std::span<const PlotPanel> panels, const std::string& title) {
  const auto rows = static_cast<double>((panels.size() + 1) / 2);
  const double width = margin_left + 2 * panel_width + gap + 20;
  const double height = margin_top + 14 + rows * panel_height + (rows - 1) * gap + 45;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{:.0f}' height='{:.0f}' "
      "viewBox='0 0 {:.0f} {:.0f}'>\n<style>text{{font:12px sans-serif;fill:#222}}"
      ".title{{font-size:15px}}.name{{font-weight:bold}}.tick{{font-size:10px;fill:#555}}"
      ".frame{{fill:none;stroke:#999}}.grid{{stroke:#e4e4e4}}"
      ".curve{{fill:none;stroke:#0b6e4f;stroke-width:1.8}}"
      ".thin{{fill:none;stroke:#c2703d;stroke-width:0.8;stroke-opacity:0.7}}</style>\n"
      "<rect width='100%' height='100%' fill='#fff'/>\n"
      "<text x='{:.0f}' y='20' class='title'>{}</text>\n",
      width, height, width, height, margin_left, title);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double left = margin_left + static_cast<double>(i % 2) * (panel_width + gap);
    const double top = margin_top + 14 + static_cast<double>(i / 2) * (panel_height + gap);
    svg += panel_svg(panels[i], left, top);
  }
  return svg + "</svg>\n";
}

}  // namespace gv
