// Writes curves.
#include "sim/virtual/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace gv {
namespace {

constexpr double panel_width = 380;
constexpr double panel_height = 200;
constexpr double margin_left = 64;
constexpr double margin_top = 40;
constexpr double gap = 70;

struct Panel {
  std::string name;
  std::function<double(const CurvePoint&)> value;
  bool logarithmic = false;
};

/// Returns 1, 2 or 5 times a power of ten, at least `span` / 5.
double tick_step(double span) {
  if (span <= 0) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= span / 5) return factor * power;
  }
  return 10 * power;
}

/// Range and ticks of a panel's vertical axis; logarithms if the axis is logarithmic.
struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks;
};

/// An axis from 0 to a round number.
Axis linear_axis(double most) {
  const double step = tick_step(most);
  Axis axis{.low = 0, .high = step * std::max(1.0, std::ceil(most / step - 1e-9)), .ticks = {}};
  for (int i = 0; i * step <= axis.high + 1e-9; ++i) axis.ticks.push_back(i * step);
  return axis;
}

/// An axis over the range of the values, with ticks at 1, 2 and 5 of every power of ten, or only at
/// some powers if there are many.
Axis logarithmic_axis(double least, double most) {
  Axis axis{.low = std::log10(least), .high = std::log10(most), .ticks = {}};
  // The range is at least a factor of five, so that it has two ticks.
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

std::string panel_svg(std::span<const CurvePoint> points, const Panel& panel, double left,
                      double top) {
  // A logarithmic axis has no 0, so the curve leaves out such values.
  std::vector<std::pair<double, double>> curve;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const CurvePoint& point : points) {
    const double value = panel.value(point);
    if (panel.logarithmic && value <= 0) continue;
    curve.emplace_back(point.time_s, panel.logarithmic ? std::log10(value) : value);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const bool logarithmic = panel.logarithmic && !curve.empty();
  const Axis axis = logarithmic ? logarithmic_axis(least, most) : linear_axis(most);
  const double end = std::max(points.back().time_s, 1e-9);
  const auto x = [&](double time) { return left + panel_width * time / end; };
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
  const double time_step = tick_step(end);
  for (int i = 0; i * time_step <= end + 1e-9; ++i) {
    const double at = x(i * time_step);
    svg += line(at, top, at, top + panel_height) +
           tick(at, top + panel_height + 15, "middle", i * time_step);
  }
  svg += fmt::format(
      "<text x='{:.1f}' y='{:.1f}' class='tick' text-anchor='middle'>virtual seconds</text>\n"
      "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' class='frame'/>\n"
      "<polyline class='curve' points='",
      left + panel_width / 2, top + panel_height + 30, left, top, panel_width, panel_height);
  for (const auto& [time, value] : curve) svg += fmt::format("{:.1f},{:.1f} ", x(time), y(value));
  return svg + "'/>\n";
}

}  // namespace

std::string curves_csv(std::span<const CurvePoint> points) {
  const bool by_r2 =
      std::ranges::any_of(points, [](const CurvePoint& p) { return p.r2.has_value(); });
  std::string text = fmt::format("time_s,{},loss,spread,steps,exchanges,megabytes,peers\n",
                                 by_r2 ? "r2" : "accuracy");
  for (const CurvePoint& p : points) {
    text += fmt::format("{:.6f},{:.6f},{:.8g},{:.8g},{:.2f},{:.1f},{:.3f},{:.0f}\n", p.time_s,
                        p.merit(), p.loss, p.spread, p.steps, p.exchanges, p.megabytes, p.peers);
  }
  return text;
}

std::string curves_svg(std::span<const CurvePoint> points, const std::string& title) {
  if (points.empty()) return {};
  const bool has_accuracy =
      std::ranges::any_of(points, [](const CurvePoint& p) { return p.accuracy > 0; });
  const bool has_loss = std::ranges::any_of(points, [](const CurvePoint& p) { return p.loss > 0; });
  const std::vector<Panel> panels = {
      has_accuracy
          ? Panel{"accuracy of the mean model (%)",
                  [](const CurvePoint& p) { return 100 * p.accuracy; }}
          : Panel{has_loss ? "loss of the mean model, logarithmic" : "loss of the mean model",
                  [](const CurvePoint& p) { return p.loss; }, has_loss},
      {"spread of the models around their mean, logarithmic",
       [](const CurvePoint& p) { return p.spread; }, true},
      {"exchanges so far", [](const CurvePoint& p) { return p.exchanges; }},
      {"peers that are up", [](const CurvePoint& p) { return p.peers; }}};
  const double width = margin_left + 2 * panel_width + gap + 20;
  const double height = margin_top + 14 + 2 * panel_height + gap + 45;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{:.0f}' height='{:.0f}' "
      "viewBox='0 0 {:.0f} {:.0f}'>\n<style>text{{font:12px sans-serif;fill:#222}}"
      ".title{{font-size:15px}}.name{{font-weight:bold}}.tick{{font-size:10px;fill:#555}}"
      ".frame{{fill:none;stroke:#999}}.grid{{stroke:#e4e4e4}}"
      ".curve{{fill:none;stroke:#0b6e4f;stroke-width:1.8}}</style>\n"
      "<rect width='100%' height='100%' fill='#fff'/>\n"
      "<text x='{:.0f}' y='20' class='title'>{}</text>\n",
      width, height, width, height, margin_left, title);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double left = margin_left + static_cast<double>(i % 2) * (panel_width + gap);
    const double top = margin_top + 14 + static_cast<double>(i / 2) * (panel_height + gap);
    svg += panel_svg(points, panels[i], left, top);
  }
  return svg + "</svg>\n";
}

}  // namespace gv
