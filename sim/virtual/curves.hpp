// Curves of a virtual run over virtual time, as CSV and as a picture.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gv {

/// The state of the swarm at one moment.
struct CurvePoint {
  double time_s = 0;
  double accuracy = 0;  ///< Accuracy of the mean model, 0 to 1; 0 without labels.
  double loss = 0;      ///< Loss of the mean model: cross-entropy, or the quadratic's excess loss.
  double spread = 0;    ///< sqrt((1/n) sum ||x_i - mean||^2) over the peers that are up.
  double steps = 0;     ///< Mean local steps of a peer.
  double exchanges = 0;
  double megabytes = 0;           ///< Megabytes sent on all links.
  double peers = 0;               ///< Peers that are up.
  std::optional<double> r2 = {};  ///< R2 of the mean model, if the samples have targets.

  /// Accuracy or R2, whichever the samples have. Larger is better.
  double merit() const { return r2.value_or(accuracy); }
};

/// One line for each point, with a header.
std::string curves_csv(std::span<const CurvePoint> points);

/// Four panels over time: accuracy (or loss), spread, exchanges, peers. Plain SVG.
std::string curves_svg(std::span<const CurvePoint> points, const std::string& title);

}  // namespace gv
