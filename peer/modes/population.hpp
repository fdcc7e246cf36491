// Population-based training over gossip: one of the worst peers copies one of the best.
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
  std::uint64_t every_steps = 0;  ///< Local steps between two validations; 0 = no population.
  double held_out = 0.1;          ///< Fraction of a peer's own samples that is used for validation.
  Selection select = Selection::truncation;
  /// Hyper-parameters begin within this factor of the config's values.
  double spread = 1;
  bool has_momentum = false;           ///< True if the momentum is varied, too.
  std::size_t optimizer_elements = 0;  ///< Floats of optimiser state.

  bool is_on() const { return every_steps > 0; }
  /// Floats that follow a model's own when a whole replica is downloaded.
  std::size_t rest_elements() const {
    return is_on() ? optimizer_elements + replica_tail_elements : 0;
  }
};

/// The number of the best of `peers`, and of the worst: at least 1, or 0 if none is copied.
std::size_t selected_of(Selection selection, std::size_t peers);

/// True if a peer with loss `own` copies one with loss `other`: `own` must be in the worst part of
/// `losses`, `other` in the best part, and `other` must be smaller. `losses` contains both. Equal
/// losses never copy.
bool is_worth_copying(std::span<const float> losses, float own, float other,
                      Selection selection = Selection::truncation);

/// One peer's part in a population. Pure: it tells its caller which jobs and downloads to request.
///
/// After every `every_steps` steps: validate, draw a partner, and download its replica if that is
/// worthwhile. Once the download is complete: take it over, with slightly different
/// hyper-parameters, or in halving with the same ones. If the partner is lost before that, nothing
/// changes.
class Population {
 public:
  Population(const PopulationOptions& options, const Rng& rng);

  bool is_on() const { return options_.is_on(); }
  /// Steps until the next validation; at least one.
  std::uint64_t steps_to_trial(std::uint64_t step) const;
  bool is_due(std::uint64_t step) const { return is_on() && step % options_.every_steps == 0; }

  /// Takes the result of a validation.
  void learn_from(const result::Validation& validation);
  /// Our values as published by the newest validation; 0 if they are not varied.
  const Hyperparameters& own() const { return own_; }
  /// Our newest published validation; empty before the first.
  const std::optional<Trial>& trial() const { return trial_; }

  /// Compares the losses in `members` of all peers with this layout that are not joining.
  bool is_worth_copying(PeerId other, const Membership& members, std::uint64_t layout_hash) const;

  void begin_copying() { copying_ = true; }
  void give_up() { copying_ = false; }
  /// True if a download is under way, or has arrived and has not been taken over yet.
  bool is_copying() const { return copying_; }
  /// Turns the download into our replica's new state at `step`, which ends copying. Returns false
  /// if its hyper-parameters are unusable.
  bool take_over(DownloadedModel& model, std::uint64_t step);
  /// Reports that the replica has taken over the download, once.
  void tell(Effects& out);

  Rng& draws() { return rng_; }
  std::uint64_t copies() const { return copies_; }
  /// Adds the figures of a population to the report of its mode.
  void add_to(ModeReport& report) const;

 private:
  /// A copy that was taken over and not reported yet.
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
