// Peers that mix synchronously, on functions with known solutions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "consensus/mixing/mixer.hpp"

namespace gv {

/// The ids of the peers, by rank.
inline std::vector<PeerId> order_of(std::size_t peers) {
  std::vector<PeerId> order;
  for (std::size_t i = 0; i < peers; ++i) order.push_back(PeerId{i + 1});
  return order;
}

/// n peers in one generation, each with its own model. They run round after round. Uses doubles, so
/// that results can be compared with closed forms.
class MixingLab {
 public:
  using Vector = std::vector<double>;
  /// The gradient of a peer's function at the model x.
  using Gradient = std::function<Vector(std::size_t peer, const Vector& x)>;

  /// `samples` holds each peer's number of samples; empty means one each. `hosts` is as in
  /// RoundPlan.
  MixingLab(const MixRule& rule, std::vector<Vector> models, std::uint64_t seed = 1,
            const std::vector<double>& samples = {}, std::vector<std::size_t> hosts = {})
      : rule_(rule), models_(std::move(models)), hosts_(std::move(hosts)) {
    for (std::size_t i = 0; i < models_.size(); ++i) {
      mixers_.emplace_back(rule, models_[i].size(), seed, samples.empty() ? 1 : samples[i]);
    }
    begin(1);
  }

  void begin(std::uint64_t key) {
    const std::vector<PeerId> order = order_of(models_.size());
    for (std::size_t i = 0; i < models_.size(); ++i) {
      mixers_[i].begin_generation(i, order, key, models_[i], hosts_);
    }
    round_ = 0;
  }

  /// Makes local steps of plain gradient descent, then a round of mixing.
  void round(const Gradient& gradient, double learning_rate, std::uint64_t steps = 1) {
    std::vector<std::vector<MixMessage>> sent(models_.size());
    for (std::size_t i = 0; i < models_.size(); ++i) {
      Vector& x = models_[i];
      mixers_[i].begin_round(round_, x);
      const bool first = rule_.order == MixOrder::combine_then_adapt;
      if (first) sent[i] = mixers_[i].messages(round_, x);
      for (std::uint64_t step = 0; step < steps && gradient; ++step) {
        Vector g = gradient(i, x);
        if (mixers_[i].directs()) mixers_[i].direct(g);
        for (std::size_t k = 0; k < x.size(); ++k) x[k] -= learning_rate * g[k];
      }
      mixers_[i].end_steps(x, learning_rate, steps);
      if (!first) sent[i] = mixers_[i].messages(round_, x);
    }
    for (std::size_t i = 0; i < models_.size(); ++i) {
      std::vector<MixMessage> arrived;
      for (std::size_t from = 0; from < sent.size(); ++from) {
        for (const MixMessage& message : sent[from]) {
          for (const std::size_t to : message.to) {
            if (to == i) arrived.push_back(message);
          }
        }
      }
      refused_ += mixers_[i].mix(round_, models_[i], arrived);
    }
    ++round_;
  }

  void rounds(std::size_t count, const Gradient& gradient = {}, double learning_rate = 0) {
    for (std::size_t i = 0; i < count; ++i) round(gradient, learning_rate);
  }

  Vector mean() const {
    Vector mean(models_.front().size(), 0);
    for (const Vector& x : models_) {
      for (std::size_t k = 0; k < x.size(); ++k) {
        mean[k] += x[k] / static_cast<double>(models_.size());
      }
    }
    return mean;
  }

  /// The mean squared distance from the mean: (1/n) sum ||x_i - mean||^2.
  double spread_squared() const {
    const Vector mean = this->mean();
    double sum = 0;
    for (const Vector& x : models_) {
      for (std::size_t k = 0; k < x.size(); ++k) sum += (x[k] - mean[k]) * (x[k] - mean[k]);
    }
    return sum / static_cast<double>(models_.size());
  }

  std::vector<Vector>& models() { return models_; }
  std::vector<Mixer<double>>& mixers() { return mixers_; }
  std::size_t refused() const { return refused_; }

 private:
  MixRule rule_;
  std::vector<Vector> models_;
  std::vector<std::size_t> hosts_;
  std::vector<Mixer<double>> mixers_;
  std::uint64_t round_ = 0;
  std::size_t refused_ = 0;
};

/// The rounding error of a few hundred additions of numbers of size 1.
inline constexpr double rounding = 1e-12;

inline double largest_difference(const MixingLab::Vector& a, const MixingLab::Vector& b) {
  double largest = 0;
  for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, std::abs(a[k] - b[k]));
  return largest;
}

/// Random models with normally distributed values.
inline std::vector<MixingLab::Vector> drawn_models(std::size_t peers, std::size_t elements,
                                                   std::uint64_t seed = 7) {
  Rng rng(seed);
  std::vector<MixingLab::Vector> models(peers, MixingLab::Vector(elements));
  for (auto& x : models) {
    for (double& value : x) value = rng.normal();
  }
  return models;
}

/// The gradient if peer i minimises (x - b_i)^2 / 2.
inline MixingLab::Gradient pulls_to(std::vector<MixingLab::Vector> b) {
  return [b = std::move(b)](std::size_t peer, const MixingLab::Vector& x) {
    MixingLab::Vector g(x.size());
    for (std::size_t k = 0; k < x.size(); ++k) g[k] = x[k] - b[peer][k];
    return g;
  };
}

/// Every rule that problems_of() accepts for `peers` peers, in all variants that behave
/// differently.
inline std::vector<MixRule> all_rules(std::size_t peers) {
  std::vector<MixRule> all;
  const auto add = [&](const MixRule& rule) {
    if (problems_of(rule, peers).empty()) all.push_back(rule);
  };
  for (const TopologyKind topology : topology_kinds) {
    for (const bool lazy : {false, true}) {
      for (const Partners partners : partner_kinds) {
        for (const MixKind kind : mix_kinds) {
          for (const MixCorrection correction : mix_corrections) {
            for (const MixMemory memory : mix_memories) {
              for (const MixOrder order : mix_orders) {
                for (const MixOuter outer : mix_outers) {
                  MixRule rule{.topology = {.kind = topology, .lazy = lazy},
                               .partners = partners,
                               .kind = kind,
                               .order = order,
                               .memory = memory,
                               .correction = correction,
                               .outer = outer};
                  if (kind == MixKind::noloco) rule.momentum = 0.5, rule.gamma = 0.7;
                  add(rule);
                  rule.fragments = 3;
                  rule.fragment_order = FragmentOrder::largest;
                  add(rule);
                }
              }
            }
          }
        }
      }
    }
  }
  return all;
}

inline std::string name_of(const MixRule& rule) {
  std::string name(to_string(rule.kind));
  for (const std::string_view part :
       {to_string(rule.topology.kind), to_string(rule.partners), to_string(rule.order),
        to_string(rule.memory), to_string(rule.correction), to_string(rule.outer)}) {
    name.append(", ").append(part);
  }
  if (rule.fragments > 1) name.append(", pieces ").append(to_string(rule.fragment_order));
  return name + (rule.topology.lazy ? ", lazy" : "");
}

}  // namespace gv
