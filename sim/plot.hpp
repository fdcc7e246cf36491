// Pictures of curves over time, as plain SVG.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gv {

struct PlotCurve {
  std::vector<std::pair<double, double>>
      points;            ///< Times, ascending and not negative, and values.
  bool is_thin = false;  ///< True for one of many curves.
};

struct PlotPanel {
  std::string name;
  std::string below;         ///< What the horizontal axis shows.
  bool logarithmic = false;  ///< Values that are not positive are left out.
  std::vector<PlotCurve> curves;
};

/// Panels in two columns below a title. All horizontal axes begin at 0.
std::string plot_svg(std::span<const PlotPanel> panels, const std::string& title);

}  // namespace gv
