// Trains a population over gossip, in which the worst peers copy the best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/rng.hpp"
#include "consensus/membership/membership.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/mode_report.hpp"
#include "peer/node/hyperparameters.hpp"
#include "peer/node/job.hpp"

namespace gv {

struct PopulationOptions {
  /// Local steps from one validation to the next; 0: there is no population.
  std::uint64_t every_steps = 0;
  double held_out = 0.1;  ///< The fraction of a peer's own samples that it keeps for validation.
  Selection select = Selection::truncation;
  /// Each hyper-parameter begins at the config's value, multiplied or divided by at most this
  /// factor.
  double spread = 1;
  bool has_momentum = false;           ///< True if the momentum varies too.
  std::size_t optimizer_elements = 0;  ///< Number of floats in the optimiser's state.

  bool is_on() const { return every_steps > 0; }
  /// Number of floats that follow the parameters when a complete replica is downloaded.
  std::size_t rest_elements() const {
    return is_on() ? optimizer_elements + replica_tail_elements : 0;
  }
};

/// Returns how many of `peers` peers count as best; equally many count as worst. At least 1, or 0
/// if no peer copies.
std::size_t selected_of(Selection selection, std::size_t peers);

/// True if a peer with the loss `own` should copy a peer with the loss `other`. `losses` contains
/// both. `own` must be in the worst part of `losses` and `other` in the best part, and `other` must
/// be smaller than `own`. So peers with equal losses never copy each other.
bool is_worth_copying(std::span<const float> losses, float own, float other,
                      Selection selection = Selection::truncation);

/// One peer's part in a population. Pure: it only says which jobs and downloads the caller should
/// request.
///
/// After every `every_steps` steps, a peer validates its model, draws a partner, and downloads the
/// partner's replica if that is worthwhile. When the download is complete, the peer takes over the
/// replica. It then changes the hyper-parameters slightly, except in halving. If the partner is
/// lost during the download, nothing changes.
class Population {
 public:
  Population(const PopulationOptions& options, const Rng& rng);

  bool is_on() const { return options_.is_on(); }
  /// Number of steps until the next validation; at least one.
  std::uint64_t steps_to_trial(std::uint64_t step) const;
  bool is_due(std::uint64_t step) const { return is_on() && step % options_.every_steps == 0; }

  /// Takes the result of a validation, and publishes it.
  void learn_from(const result::Validation& validation);
  /// The hyper-parameters in our newest published validation; 0 for those that do not vary.
  const Hyperparameters& own() const { return own_; }
  /// Our newest published validation; empty before the first.
  const std::optional<Trial>& trial() const { return trial_; }

  /// True if we should copy `other`. Compares the losses that `members` report, for all peers that
  /// have this layout and are not joining.
  bool is_worth_copying(PeerId other, const Membership& members, std::uint64_t layout_hash) const;

  void begin_copying() { copying_ = true; }
  void give_up() { copying_ = false; }
  /// True if a download is under way, or is complete but not taken over yet.
  bool is_copying() const { return copying_; }
  /// Turns the download into the new state of our replica at `step`, and so ends the copying.
  /// Returns false if the hyper-parameters in the download are unusable.
  bool take_over(DownloadedModel& model, std::uint64_t step);
  /// Reports once that the replica has taken over a download.
  void tell(Effects& out);

  Rng& draws() { return rng_; }
  std::uint64_t copies() const { return copies_; }
  /// Adds the population's figures to the mode's report.
  void add_to(ModeReport& report) const;

 private:
  /// A copy that has been taken over but not reported yet.
  struct Lineage {
    PeerId source{};
    std::uint64_t source_step = 0;
    std::uint64_t step = 0;
    Hyperparameters source_hyperparameters;
    float loss_before = 0;
  };

  PopulationOptions options_;
  Rng rng_;
  std::optional<Trial> trial_;
  Hyperparameters own_;
  bool copying_ = false;
  std::optional<Lineage> lineage_;
  std::uint64_t copies_ = 0;
};

}  // namespace gv
