// One copy of the model and the jobs that change it: the only code that touches live parameters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/floats.hpp"
#include "consensus/codec/value_codec.hpp"
#include "consensus/compression/error_feedback.hpp"
#include "consensus/compression/outer_step.hpp"
#include "consensus/compression/power_sgd.hpp"
#include "consensus/compression/sufficient_factors.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/message/snapshot.hpp"
#include "peer/node/mix_job.hpp"
#include "peer/node/stage_job.hpp"
#include "train/trainer.hpp"

namespace gv {

/// Everything of another's replica: parameters, then what the optimiser keeps, then what the outer
/// step keeps.
struct ReplicaState {
  std::shared_ptr<const Floats> values;
  std::uint64_t step = 0;
  /// The optimiser stays one's own, unless it has not made a step yet.
  bool own_optimizer = false;
};

/// What we bring to a sum: a gradient, or what local steps take from the model.
struct GradientOrder {
  std::size_t samples = 0;        ///< Of the mean; with local steps, of each of them.
  std::uint64_t local_steps = 0;  ///< 0: a gradient.
  /// Only so many values of largest magnitude of every 512, the rest is kept for the next; 0 = all.
  std::size_t top_k_per_512 = 0;
  double momentum = 0;                      ///< Of a gradient, before they are chosen.
  ValueCodec codec = ValueCodec::identity;  ///< What is kept of each block is rounded to this.
  std::optional<PowerSgd::Turn> turn;       ///< Its matrices travel as factors.
  /// Dense layers' travel so, if it is not null, and this is our rank.
  std::shared_ptr<const SufficientFactors> sufficient_factors;
  std::size_t rank = 0;
  /// Where it goes: the layout's size, or that of what travels of it, or longer.
  std::shared_ptr<Floats> values;
  /// Of a gradient, falling; tell when it is final from each of these on.
  std::vector<std::size_t> marks;

  std::size_t all_samples() const { return samples * std::max<std::size_t>(1, local_steps); }
};

/// Work for whoever owns the replica: done in the order of the fields.
struct Job {
  std::uint64_t number = 0;
  std::optional<DownloadedModel> adopt;    ///< Replace the model first (a newcomer's download).
  std::optional<ReplicaState> load_state;  ///< Become a copy of another replica.
  std::shared_ptr<const Floats> update;    ///< One optimiser step with this gradient,
  /// unpacked by this unless it is null,
  std::shared_ptr<const SufficientFactors> update_sufficient_factors;
  std::size_t update_samples = 0;  ///< the mean of so many of everybody (0: not told),
  std::uint64_t update_steps = 0;  ///< or the outer step that ends so many local ones.
  bool fingerprint = false;        ///< Find that of the parameters.
  std::shared_ptr<Floats> state;   ///< Copy the whole state here.
  std::vector<Force> forces;       ///< Add these.
  std::uint64_t steps = 0;         ///< Take this many optimiser steps.
  std::optional<GradientOrder> gradient;
  std::optional<MixJob> mix;           ///< The steps are those of its round.
  std::optional<StageJob> stages;      ///< Of a pipeline, where all the rest but `save` is empty.
  std::shared_ptr<Snapshot> snapshot;  ///< Copy the parameters here at the end, if not null.
  bool snapshot_rest = false;          ///< With the rest that a whole download takes.
  bool validate = false;               ///< Find the loss on what is held out, after the steps.
  bool save = false;                   ///< Write a checkpoint at the end.
};

/// What a job came to.
struct JobDone {
  std::uint64_t number = 0;
  std::uint64_t step = 0;                          ///< Local steps taken in all.
  std::uint64_t steps_run = 0;                     ///< By this job.
  Score score;                                     ///< Training loss and hits over those steps.
  double learning_rate = 0;                        ///< Of the next step.
  std::shared_ptr<Snapshot> snapshot;              ///< The one asked for, filled.
  std::optional<double> validation_loss;           ///< If it was asked for.
  std::optional<Hyperparameters> hyperparameters;  ///< In a population: those from here on.
  std::optional<std::uint64_t> fingerprint;        ///< Likewise.
  std::vector<Force> spent;          ///< What was added, back with the thread that lent it.
  std::shared_ptr<Floats> state;     ///< The one asked for, filled.
  std::size_t gradient_samples = 0;  ///< Of what was computed for a sum, if it was.
  bool gradient_writable = true;     ///< That is finite, and so in its codec.
  std::optional<MixJob> mix;         ///< What was asked for, done.
  std::optional<StageJob> stages;    ///< The same.
  Duration busy{};                   ///< How long the job took, as measured by the one who ran it.
  bool saved = false;                ///< A checkpoint was asked for and written.
  std::string save_problem;          ///< Why it could not be written; empty if it was.
};

/// Makes a job's steps, or its gradient, which is as good as one, by calling `make` once; it may
/// take more time over that than they need.
using StepPace = std::function<void(std::uint64_t steps, const std::function<void()>& make)>;

/// Tensors of two dimensions and more, rows by the first, where so many ranks of factors are at
/// most half of them in the mean of two turns.
FactorShape factor_shape(const Layout& layout, std::size_t rank);

/// Of layers whose gradients may travel as sufficient factors.
std::vector<DensePlace> dense_places(const std::vector<DenseWeights>& layers);

/// A trainer with the conservation checksum coordinates that follow its parameters through every
/// exchange.
class Replica {
 public:
  /// `peer` seeds the conservation checksum, so that every replica starts with different integers.
  Replica(Trainer trainer, std::uint64_t peer, const LocalSteps& local = {});

  /// From here on it mixes with neighbours by that rule, in a run of that seed.
  void mix_by(const MixRule& rule, std::uint64_t run_seed);

  /// From here on matrices of its gradients travel as factors.
  void send_factors(const FactorShape& shape) { memory_.send_factors(shape); }

  /// From here on its hyper-parameters are its own, and so a part of its state, and it can be
  /// validated on these samples, of which there is one at least.
  void join_population(std::shared_ptr<const DataSet> held_out);
  /// For measurements of peers that are slower than their machine. Empty: as fast as it goes.
  void set_pace(StepPace pace) { pace_ = std::move(pace); }

  /// Told, while a job runs, that the gradient it computes is final and writable from an element
  /// on; or, of element 0, that the messages of its round are in the outbox.
  using Ready = std::function<void(std::size_t begin)>;

  /// Runs everything of the job but the save. Sizes of forces and models must match the layout.
  JobDone run(Job job, const Ready& ready = {});

  const Trainer& trainer() const { return trainer_; }
  Trainer& trainer() { return trainer_; }

  /// Floats of a whole state, as ReplicaState has them.
  std::size_t state_size() const;
  /// What a checkpoint has to hold beside the parameters, and the inverse: why it does not fit,
  /// having changed nothing, or an empty string.
  OptimizerState optimizer_state() const;
  std::string restore(std::span<const float> parameters, OptimizerState state);

  const ConservationChecksum& checksum() const { return checksum_; }
  void set_checksum(const ConservationChecksum& checksum) { checksum_ = checksum; }

  /// The conservation checksum as text for a checkpoint, and back; text of another form changes
  /// nothing.
  std::string checksum_text() const;
  void restore_checksum(const std::string& text);

 private:
  Score compute(const GradientOrder& order, const Ready& ready, bool& writable);
  Score compute_factors(const GradientOrder& order, bool& writable);
  Score compute_sufficient_factors(const GradientOrder& order, bool& writable);
  void at_pace(std::uint64_t steps, const std::function<void()>& make) const;
  void update(const Job& job);
  void load_state(const ReplicaState& state);
  void adopt(const DownloadedModel& fetched);
  double validation_loss();

  /// What a member of a population is validated with.
  struct Validation {
    std::shared_ptr<const DataSet> held_out;
    Model model;
  };

  Trainer trainer_;
  OuterStep outer_;
  std::optional<MixRunner> mixing_;
  std::optional<Validation> validation_;
  StepPace pace_;
  ConservationChecksum checksum_;
  ErrorFeedback memory_;
};

/// The conservation checksum a replica of this number starts with: what the sum over all peers must
/// come back to.
ConservationChecksum initial_checksum(std::uint64_t peer);

}  // namespace gv
