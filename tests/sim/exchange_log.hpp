// Records exchanges of a virtual run and their effect on models. Computes means with errors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Mean and standard error of independent draws.
class Sample {
 public:
  void add(double value) {
    ++n_;
    sum_ += value;
    squares_ += value * value;
  }
  double mean() const { return sum_ / n_; }
  double error() const {
    return std::sqrt(std::max(0.0, squares_ / n_ - mean() * mean()) / (n_ - 1));
  }

 private:
  double n_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

/// The scatter of models, sum_i ||x_i - mean||^2, in double.
template <class Models>
double scatter(const Models& models) {
  const std::size_t dimension = models.front().size();
  double total = 0;
  for (std::size_t k = 0; k < dimension; ++k) {
    double mean = 0;
    for (const auto& model : models) mean += model[k] / static_cast<double>(models.size());
    for (const auto& model : models) total += (model[k] - mean) * (model[k] - mean);
  }
  return total;
}

/// Records every exchange in the order of the decisions, and every force as it was added. The
/// models between any two exchanges can then be computed.
class ExchangeLog : public Watcher {
 public:
  struct Entry {
    PeerNumber initiator = 0;
    PeerNumber responder = 0;
    std::uint64_t round = 0;
    std::map<PeerNumber, Force> forces;
  };

  void on_restore(const Simulator& world, PeerNumber peer, const Image*) override {
    const auto values = world.peer(peer).work->parameters();
    start.resize(std::max<std::size_t>(start.size(), peer + 1));
    start[peer].assign(values.begin(), values.end());
  }
  void on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) override {
    for (const Outgoing& out : effects.messages) {
      if (const auto* offer = std::get_if<Offer>(&out.message)) rounds_[offer->id] = offer->round;
      const auto* word = std::get_if<Commit>(&out.message);
      if (word == nullptr) continue;
      places_[word->id] = entries.size();
      entries.push_back({peer, number_of(out.to), rounds_[word->id], {}});
    }
  }
  void on_job(const Simulator&, PeerNumber peer, const Job& job) override {
    const auto* adds = first_of<task::AddForces>(job.tasks);
    if (adds == nullptr) return;
    for (const Force& force : adds->forces) {
      // Copied, because buffers are reused.
      Force own = force;
      own.values = std::make_shared<const std::vector<float>>(*force.values);
      entries[places_.at(force.exchange)].forces.emplace(peer, std::move(own));
    }
  }

  /// Adds the forces of one exchange. Returns false if one of them was never added.
  static bool apply(const Entry& entry, std::vector<std::vector<float>>& models) {
    if (entry.forces.size() != 2) return false;
    for (const auto& [peer, force] : entry.forces) {
      for (std::size_t k = 0; k < models[peer].size(); ++k) {
        models[peer][k] += force.scale * (*force.values)[k];
      }
    }
    return true;
  }

  std::vector<std::vector<float>> start;  ///< The model of each peer at the start.
  std::vector<Entry> entries;

 private:
  std::map<TransferId, std::uint64_t> rounds_;
  std::map<TransferId, std::size_t> places_;
};

}  // namespace gv
