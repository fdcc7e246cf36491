// Plots of curves over time, as plain SVG.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gv {

struct PlotCurve {
  std::vector<std::pair<double, double>>
      points;            ///< Pairs of time and value. Times ascend and are not negative.
  bool is_thin = false;  ///< True for one of many curves.
};

struct PlotPanel {
  std::string name;
  std::string below;  ///< Label of the horizontal axis.
  /// True for a logarithmic vertical axis, which shows only values above 0.
  bool logarithmic = false;
  std::vector<PlotCurve> curves;
};

/// Draws the panels in two columns below a title. All horizontal axes begin at 0.
std::string plot_svg(std::span<const PlotPanel> panels, const std::string& title);

}  // namespace gv
