// How single models move around their mean: the picture of elastic averaging.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gv {

/// Follows models through a run. Each model is shown by its position along one fixed direction of
/// random signs, in which two models are on average (root mean square) as far apart as they really
/// are, and by its distance to the mean. Positions are linear, so the mean's position is the mean
/// of the positions. The picture shows how forces pull models to the mean while the mean learns
/// (Zhang, Choromanska and LeCun 2015, with the mean of all peers as the centre).
class ModelPaths {
 public:
  /// The largest number of models that are drawn. All models count for the mean.
  static constexpr std::size_t drawn_max = 32;

  /// Notes all models at one moment, each under the number of its peer. Moments must be in order;
  /// all models have the same size.
  void look(double at, const std::map<std::size_t, std::span<const float>>& models);

  /// True if there are at least two moments, and at least two models at some moment.
  bool can_be_drawn() const { return moments_ > 1 && was_several_; }
  /// Two panels: positions, and distances to the mean. `below`: the label of the time axis.
  std::string svg(const std::string& title, const std::string& below) const;

  using Curve = std::vector<std::pair<double, double>>;
  /// The curve of each peer relative to the first mean, and that of the mean.
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
