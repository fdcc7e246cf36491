// Projects models, and measures their distances to the mean.
#include "sim/model_paths.hpp"

#include <cmath>
#include <cstdint>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "sim/mean.hpp"
#include "sim/plot.hpp"

namespace gv {
namespace {

double distance_of(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

}  // namespace

double ModelPaths::position_of(std::span<const float> model) const {
  double position = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    position += static_cast<double>(signs_[i]) * static_cast<double>(model[i]);
  }
  return position;
}

void ModelPaths::look(double at, const std::map<std::size_t, std::span<const float>>& models) {
  if (models.empty()) return;
  std::vector<std::span<const float>> all;
  for (const auto& [peer, model] : models) all.push_back(model);
  const std::vector<float> mean = mean_of(all);
  if (signs_.empty()) {
    Rng draws = Rng(1).fork("direction");
    for (std::size_t i = 0; i < mean.size(); ++i) signs_.push_back(draws.chance(0.5) ? 1 : -1);
    origin_ = position_of(mean);
  }
  check(mean.size() == signs_.size(), "all models have the same size");
  was_several_ = was_several_ || models.size() > 1;
  ++moments_;
  mean_position_.emplace_back(at, position_of(mean) - origin_);
  for (const auto& [peer, model] : models) {
    if (!positions_.contains(peer) && positions_.size() == drawn_max) continue;
    positions_[peer].emplace_back(at, position_of(model) - origin_);
    distances_[peer].emplace_back(at, distance_of(model, mean));
  }
}

std::string ModelPaths::svg(const std::string& title, const std::string& below) const {
  std::vector<PlotPanel> panels{
      {"models (thin) and their mean, along one direction", below, false, {}},
      {"distances of the models to their mean, logarithmic", below, true, {}}};
  for (const auto& [peer, curve] : positions_) panels[0].curves.push_back({curve, true});
  panels[0].curves.push_back({mean_position_, false});
  for (const auto& [peer, curve] : distances_) panels[1].curves.push_back({curve, true});
  return plot_svg(panels, title);
}

}  // namespace gv
