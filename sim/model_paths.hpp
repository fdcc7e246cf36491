// How individual models move around their mean, plotted as in the paper on elastic averaging.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gv {

/// Follows models through a run. Shows each model's distance to the mean, and its position along
/// one fixed direction of random signs. Over all such directions, the root mean square of the
/// distance between two positions is the real distance between the models. Positions are linear, so
/// the mean's position is the mean of the positions. The plot shows how forces pull models towards
/// the mean while the mean learns (Zhang, Choromanska and LeCun 2015, with the mean of all peers as
/// the centre).
class ModelPaths {
 public:
  /// The largest number of models that are drawn. The mean is over all models.
  static constexpr std::size_t drawn_max = 32;

  /// Records all models at one moment, keyed by the numbers of their peers. Moments must be in
  /// order, and all models must have the same size.
  void look(double at, const std::map<std::size_t, std::span<const float>>& models);

  /// True if there are at least two moments, and at least two models at some moment.
  bool can_be_drawn() const { return moments_ > 1 && was_several_; }
  /// An SVG with two panels: positions, and distances to the mean. `below` is the label of the time
  /// axis.
  std::string svg(const std::string& title, const std::string& below) const;

  using Curve = std::vector<std::pair<double, double>>;
  /// The positions of each peer's model and of the mean, relative to the first mean.
  const std::map<std::size_t, Curve>& positions() const { return positions_; }
  const Curve& mean_position() const { return mean_position_; }
  const std::map<std::size_t, Curve>& distances() const { return distances_; }

 private:
  double position_of(std::span<const float> model) const;

  std::vector<float> signs_;
  std::size_t moments_ = 0;
  bool was_several_ = false;
  double origin_ = 0;
  std::map<std::size_t, Curve> positions_;
  std::map<std::size_t, Curve> distances_;
  Curve mean_position_;
};

}  // namespace gv
