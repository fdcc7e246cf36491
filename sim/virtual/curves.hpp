// Curves of a virtual run over virtual time, as CSV and as a plot.
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
  /// Consensus distance sqrt((1/n) sum ||x_i - mean||^2) of the n peers that are up.
  double spread = 0;
  double steps = 0;  ///< Mean number of local steps per peer.
  double exchanges = 0;
  double megabytes = 0;           ///< Megabytes sent on all links.
  double peers = 0;               ///< Peers that are up.
  std::optional<double> r2 = {};  ///< R2 of the mean model, if the samples have targets.

  /// R2 if the samples have targets, else accuracy. Larger is better.
  double merit() const { return r2.value_or(accuracy); }
};

/// A header, and one line for each point.
std::string curves_csv(std::span<const CurvePoint> points);

/// A plain SVG with four panels over time: accuracy (or loss), spread, exchanges, peers.
std::string curves_svg(std::span<const CurvePoint> points, const std::string& title);

}  // namespace gv
