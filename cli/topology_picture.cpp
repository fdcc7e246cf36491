// Draws peers as nodes on circles, and lines between them.
#include "cli/topology_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/counted.hpp"

namespace gv {
namespace {

constexpr double pi = 3.14159265358979323846;
constexpr std::size_t columns_max = 4;
constexpr double margin = 30;
constexpr double head = 62;

/// The sizes of a picture's parts. Many peers need a large circle; many rounds need small ones.
struct Sizes {
  double radius = 150;
  double node = 11;
  bool numbered = true;

  double panel() const { return 2 * (radius + node + margin); }
};

Sizes sizes_for(std::size_t peers, std::size_t panels) {
  Sizes sizes;
  sizes.radius = panels == 1 ? 220 : 120;
  const double room = pi * sizes.radius / static_cast<double>(std::max<std::size_t>(peers, 1));
  sizes.node = std::clamp(0.7 * room, 2.0, 13.0);
  sizes.numbered = sizes.node >= 6;
  return sizes;
}

struct Point {
  double x = 0;
  double y = 0;
};

Point place_of(std::size_t rank, std::size_t peers, const Sizes& sizes, Point centre) {
  const double turn = 2 * pi * static_cast<double>(rank) / static_cast<double>(peers);
  return {centre.x + sizes.radius * std::sin(turn), centre.y - sizes.radius * std::cos(turn)};
}

/// A line from the rim of one node to the rim of another.
std::string line_svg(Point from, Point to, double node, double weight, double strongest,
                     bool arrow) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  const double cut = std::min(node / std::max(length, 1e-9), 0.45);
  const Point step{(to.x - from.x) * cut, (to.y - from.y) * cut};
  return fmt::format(
      "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' class='edge' "
      "stroke-opacity='{:.2f}'{}/>\n",
      from.x + step.x, from.y + step.y, to.x - step.x, to.y - step.y,
      0.25 + 0.75 * weight / strongest, arrow ? " marker-end='url(#arrow)'" : "");
}

std::string edges_svg(const Mixing& round, const Sizes& sizes, Point centre) {
  double strongest = 1e-9;
  double lines = 1;
  for (const auto& row : round) {
    for (const Share& share : row) strongest = std::max(strongest, share.weight);
    lines += static_cast<double>(row.size());
  }
  const std::size_t n = round.size();
  // Many lines are drawn thin, so that they remain distinct.
  const double thick = std::clamp(1.6 * std::sqrt(150 / lines), 0.2, 1.6);
  std::string svg = fmt::format("<g stroke-width='{:.2f}'>\n", thick);
  for (std::size_t to = 0; to < n; ++to) {
    for (const Share& share : round[to]) {
      const bool both =
          std::ranges::find(round[share.from], to, &Share::from) != round[share.from].end();
      if (both && share.from < to) continue;
      svg += line_svg(place_of(share.from, n, sizes, centre), place_of(to, n, sizes, centre),
                      sizes.node, share.weight, strongest, !both);
    }
  }
  return svg + "</g>\n";
}

std::string nodes_svg(const Mixing& round, const Sizes& sizes, Point centre) {
  const std::size_t n = round.size();
  std::vector<bool> busy(n, false);
  for (std::size_t to = 0; to < n; ++to) {
    for (const Share& share : round[to]) busy[to] = busy[share.from] = true;
  }
  std::string svg;
  for (std::size_t rank = 0; rank < n; ++rank) {
    const Point at = place_of(rank, n, sizes, centre);
    svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='{:.1f}' class='{}'/>\n", at.x, at.y,
                       sizes.node, busy[rank] ? "node" : "idle");
    if (!sizes.numbered) continue;
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}' class='{}' text-anchor='middle'>{}</text>\n",
                       at.x, at.y + 0.35 * sizes.node, busy[rank] ? "on" : "off", rank);
  }
  return svg;
}

}  // namespace

std::string topology_svg(const TopologyQuestion& question) {
  const std::size_t panels = rounds_shown(question);
  const Sizes sizes = sizes_for(question.peers, panels);
  const std::size_t columns = std::min(panels, columns_max);
  const std::size_t rows = (panels + columns - 1) / columns;
  const double name = panels > 1 ? 16 : 0;
  const double width = std::max(420.0, sizes.panel() * static_cast<double>(columns));
  const double height = head + (sizes.panel() + name) * static_cast<double>(rows);
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' height='{1:.0f}' "
      "viewBox='0 0 {0:.0f} {1:.0f}'>\n<style>text{{font:12px sans-serif;fill:#222}}"
      ".title{{font-size:15px}}.below{{fill:#555}}.name{{font-weight:bold}}"
      ".edge{{stroke:#0b6e4f}}.node{{fill:#0b6e4f}}"
      ".idle{{fill:#fff;stroke:#999}}.on{{fill:#fff;font-size:{2:.1f}px}}"
      ".off{{fill:#999;font-size:{2:.1f}px}}</style>\n"
      "<defs><marker id='arrow' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' "
      "markerHeight='7' orient='auto'><path d='M0 0L8 4L0 8z' fill='#0b6e4f'/></marker></defs>\n"
      "<rect width='100%' height='100%' fill='#fff'/>\n"
      "<text x='{3:.0f}' y='24' class='title'>{4} of {5}{6}</text>\n"
      "<text x='{3:.0f}' y='44' class='below'>{7}</text>\n",
      width, height, 0.95 * sizes.node, margin, to_string(question.topology.kind),
      counted(question.peers, "peer"), question.in_pairs ? ", in pairs" : "",
      meaning_of(question.topology.kind));
  for (std::size_t i = 0; i < panels; ++i) {
    const double left = (width - sizes.panel() * static_cast<double>(columns)) / 2 +
                        static_cast<double>(i % columns) * sizes.panel();
    const double top = head + static_cast<double>(i / columns) * (sizes.panel() + name);
    const Point centre{left + sizes.panel() / 2, top + name + sizes.panel() / 2};
    if (panels > 1) {
      svg += fmt::format(
          "<text x='{:.1f}' y='{:.1f}' class='name' text-anchor='middle'>round "
          "{}</text>\n",
          centre.x, top + 12, i);
    }
    const Mixing round = round_shown(question, i);
    svg += edges_svg(round, sizes, centre) + nodes_svg(round, sizes, centre);
  }
  return svg + "</svg>\n";
}

}  // namespace gv
