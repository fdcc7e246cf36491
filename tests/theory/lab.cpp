// Runs rounds of a few mixers.
#include "tests/theory/lab.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "base/rng.hpp"

namespace gv::theory {

std::vector<Vector> drawn_models(std::size_t peers, std::size_t elements, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Vector> models(peers, Vector(elements));
  for (Vector& x : models) {
    for (double& value : x) value = rng.normal();
  }
  return models;
}

double mean_of(const Vector& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double scatter(const Vector& x) {
  const double mean = mean_of(x);
  double sum = 0;
  for (const double value : x) sum += (value - mean) * (value - mean);
  return sum;
}

std::vector<PeerId> order_of(std::size_t peers) {
  std::vector<PeerId> order;
  for (std::size_t i = 0; i < peers; ++i) order.push_back(PeerId{i + 1});
  return order;
}

Lab::Lab(const MixRule& rule, std::vector<Vector> models, std::uint64_t seed)
    : rule_(rule), models_(std::move(models)) {
  const std::vector<PeerId> order = order_of(models_.size());
  for (std::size_t i = 0; i < models_.size(); ++i) {
    mixers_.emplace_back(rule, models_[i].size(), seed);
    mixers_[i].begin_generation(i, order, 1, models_[i]);
  }
}

void Lab::round(const Gradient& gradient, double learning_rate) {
  std::vector<MixMessage> sent;
  const bool is_first = rule_.order == MixOrder::combine_then_adapt;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    Vector& x = models_[i];
    const auto send = [&] {
      for (MixMessage& message : mixers_[i].messages(round_, x)) {
        sent.push_back(std::move(message));
      }
    };
    mixers_[i].begin_round(round_, x);
    if (is_first) send();
    if (gradient) {
      Vector g(x.size());
      for (std::size_t k = 0; k < x.size(); ++k) g[k] = gradient(i, k, x[k]);
      if (mixers_[i].directs()) mixers_[i].direct(g);
      for (std::size_t k = 0; k < x.size(); ++k) x[k] -= learning_rate * g[k];
    }
    mixers_[i].end_steps(x, learning_rate, 1);
    if (!is_first) send();
  }
  std::vector<std::vector<MixMessage>> arrived(models_.size());
  for (const MixMessage& message : sent) {
    for (const std::size_t to : message.to) arrived[to].push_back(message);
  }
  for (std::size_t i = 0; i < models_.size(); ++i) mixers_[i].mix(round_, models_[i], arrived[i]);
  ++round_;
}

void Lab::rounds(std::size_t count, const Gradient& gradient, double learning_rate) {
  for (std::size_t i = 0; i < count; ++i) round(gradient, learning_rate);
}

Vector Lab::mean() const {
  Vector mean(models_.front().size(), 0);
  for (const Vector& x : models_) {
    for (std::size_t k = 0; k < x.size(); ++k) {
      mean[k] += x[k] / static_cast<double>(models_.size());
    }
  }
  return mean;
}

double Lab::spread_squared() const {
  const Vector mean = this->mean();
  double sum = 0;
  for (const Vector& x : models_) {
    for (std::size_t k = 0; k < x.size(); ++k) sum += (x[k] - mean[k]) * (x[k] - mean[k]);
  }
  return sum / static_cast<double>(models_.size());
}

double Lab::rescale() {
  const Vector mean = this->mean();
  const double before = spread_squared();
  for (Vector& x : models_) {
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = (x[k] - mean[k]) / std::sqrt(before);
  }
  return std::log(before);
}

}  // namespace gv::theory
