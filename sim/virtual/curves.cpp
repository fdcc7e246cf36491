// Writing curves.
#include "sim/virtual/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

/// A round number of at least `span` / 5: 1, 2 or 5 times a power of ten.
double tick_step(double span) {
  if (span <= 0) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= span / 5) return factor * power;
  }
  return 10 * power;
}

std::string panel_svg(std::span<const CurvePoint> points, const Panel& panel, double left,
                      double top) {
  // A logarithm has no place for 0: it is drawn at the least value above it.
  double least = 1;
  for (const CurvePoint& point : points) {
    const double value = panel.value(point);
    if (value > 0) least = std::min(least, value);
  }
  const auto scaled = [&](const CurvePoint& point) {
    const double value = panel.value(point);
    return panel.logarithmic ? std::log10(std::max(value, least)) : value;
  };
  double low = panel.logarithmic ? scaled(points.front()) : 0;
  double high = low;
  for (const CurvePoint& point : points) {
    low = std::min(low, scaled(point));
    high = std::max(high, scaled(point));
  }
  if (high - low < 1e-12) high = low + 1;
  const double end = std::max(points.back().time_s, 1e-9);
  const auto x = [&](double time) { return left + panel_width * time / end; };
  const auto y = [&](double value) {
    return top + panel_height * (1 - (value - low) / (high - low));
  };
  std::string svg = fmt::format(
      "<text x='{:.1f}' y='{:.1f}' class='name'>{}</text>\n"
      "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' class='frame'/>\n",
      left, top - 8, panel.name, left, top, panel_width, panel_height);
  const double step =
      panel.logarithmic ? std::max(1.0, tick_step(high - low)) : tick_step(high - low);
  for (double at = std::ceil(low / step) * step; at <= high + 1e-9; at += step) {
    svg += fmt::format(
        "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' class='grid'/>"
        "<text x='{:.1f}' y='{:.1f}' class='tick' text-anchor='end'>{:g}</text>\n",
        left, y(at), left + panel_width, y(at), left - 6, y(at) + 4,
        panel.logarithmic ? std::pow(10.0, at) : at);
  }
  const double time_step = tick_step(end);
  for (double at = 0; at <= end + 1e-9; at += time_step) {
    svg +=
        fmt::format("<text x='{:.1f}' y='{:.1f}' class='tick' text-anchor='middle'>{:g}</text>\n",
                    x(at), top + panel_height + 16, at);
  }
  svg += "<polyline class='curve' points='";
  for (const CurvePoint& point : points) {
    svg += fmt::format("{:.1f},{:.1f} ", x(point.time_s), y(scaled(point)));
  }
  return svg + "'/>\n";
}

}  // namespace

std::string curves_csv(std::span<const CurvePoint> points) {
  std::string text = "time_s,accuracy,loss,spread,steps,exchanges,megabytes,peers\n";
  for (const CurvePoint& p : points) {
    text += fmt::format("{:.6f},{:.6f},{:.8g},{:.8g},{:.2f},{:.1f},{:.3f},{:.0f}\n", p.time_s,
                        p.accuracy, p.loss, p.spread, p.steps, p.exchanges, p.megabytes, p.peers);
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
          : Panel{"loss of the mean model", [](const CurvePoint& p) { return p.loss; }, has_loss},
      {"spread", [](const CurvePoint& p) { return p.spread; }, true},
      {"exchanges", [](const CurvePoint& p) { return p.exchanges; }},
      {"peers that are up", [](const CurvePoint& p) { return p.peers; }}};
  const double width = margin_left + 2 * panel_width + gap + 20;
  const double height = margin_top + 2 * panel_height + 2 * gap;
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
    const double top = margin_top + 14 + static_cast<double>(i / 2) * (panel_height + gap - 14);
    svg += panel_svg(points, panels[i], left, top);
  }
  svg += fmt::format("<text x='{:.0f}' y='{:.0f}' class='tick'>virtual seconds</text>\n",
                     margin_left, height - 12);
  return svg + "</svg>\n";
}

}  // namespace gv
