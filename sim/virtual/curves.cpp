// Writes curves as CSV and SVG.
#include "sim/virtual/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "sim/plot.hpp"

namespace gv {

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
  std::vector<PlotPanel> panels;
  const auto add = [&](std::string name, bool logarithmic,
                       const std::function<double(const CurvePoint&)>& value) {
    PlotCurve curve;
    for (const CurvePoint& point : points) curve.points.emplace_back(point.time_s, value(point));
    panels.push_back({std::move(name), "virtual seconds", logarithmic, {std::move(curve)}});
  };
  if (has_accuracy) {
    add("accuracy of the mean model (%)", false,
        [](const CurvePoint& p) { return 100 * p.accuracy; });
  } else {
    add(has_loss ? "loss of the mean model, logarithmic" : "loss of the mean model", has_loss,
        [](const CurvePoint& p) { return p.loss; });
  }
  add("spread of the models around their mean, logarithmic", true,
      [](const CurvePoint& p) { return p.spread; });
  add("exchanges so far", false, [](const CurvePoint& p) { return p.exchanges; });
  add("peers that are up", false, [](const CurvePoint& p) { return p.peers; });
  return plot_svg(panels, title);
}

}  // namespace gv
