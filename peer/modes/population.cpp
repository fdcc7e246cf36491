// Decides which known peer to copy, takes over copies, and reports them.
#include "peer/modes/population.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

namespace gv {

std::size_t selected_of(Selection selection, std::size_t peers) {
  if (selection == Selection::none) return 0;
  return std::max<std::size_t>(1, peers / (selection == Selection::halving ? 2 : 5));
}

bool is_worth_copying(std::span<const float> losses, float own, float other, Selection selection) {
  const auto part = static_cast<std::ptrdiff_t>(selected_of(selection, losses.size()));
  const auto worse = std::ranges::count_if(losses, [&](float loss) { return loss > own; });
  const auto better = std::ranges::count_if(losses, [&](float loss) { return loss < other; });
  return other < own && worse < part && better < part;
}

Population::Population(const PopulationOptions& options, const Rng& rng)
    : options_(options), rng_(rng.fork("population")) {}

std::uint64_t Population::steps_to_trial(std::uint64_t step) const {
  return options_.every_steps - step % options_.every_steps;
}

void Population::learn_from(const result::Validation& validation) {
  const auto loss = static_cast<float>(validation.loss);
  own_ = validation.hyperparameters;
  trial_ = {.learning_rate = static_cast<float>(validation.hyperparameters.learning_rate),
            .momentum = static_cast<float>(validation.hyperparameters.momentum),
            .validation_loss = std::isfinite(loss) ? loss : std::numeric_limits<float>::max()};
}

bool Population::is_worth_copying(PeerId other, const Membership& members,
                                  std::uint64_t layout_hash) const {
  const PeerId self = members.self().id;
  if (!trial_ || other == self) return false;
  std::vector<float> losses = {trial_->validation_loss};
  std::optional<float> others;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    const bool counts = peer != self && member != nullptr && member->progress.trial &&
                        member->progress.phase != Phase::joining &&
                        member->layout_hash == layout_hash;
    if (!counts) continue;
    losses.push_back(member->progress.trial->validation_loss);
    if (peer == other && member->state == MemberState::alive) others = losses.back();
  }
  return others && gv::is_worth_copying(losses, trial_->validation_loss, *others, options_.select);
}

bool Population::take_over(DownloadedModel& model, std::uint64_t step) {
  copying_ = false;
  std::optional<ReplicaTail> tail = tail_of(model.values);
  if (!tail) return false;
  lineage_ = {.source = model.source,
              .source_step = model.step,
              .step = step,
              .source_hyperparameters = tail->hyperparameters,
              .loss_before = trial_ ? trial_->validation_loss : 0};
  if (options_.select == Selection::truncation) {
    tail->hyperparameters = explored(tail->hyperparameters, options_.has_momentum, rng_);
  }
  set_tail(*tail, model.values);
  // The model comes from another peer, but our used budget and our position in the samples do not
  // change.
  model.step = step;
  return true;
}

void Population::tell(Effects& out) {
  const auto told = std::exchange(lineage_, std::nullopt);
  if (!told || !trial_) return;
  ++copies_;
  out.tell(Exploited{.peer = told->source,
                     .step = told->step,
                     .source_step = told->source_step,
                     .source_learning_rate = told->source_hyperparameters.learning_rate,
                     .source_momentum = told->source_hyperparameters.momentum,
                     .learning_rate = trial_->learning_rate,
                     .momentum = trial_->momentum,
                     .loss_before = told->loss_before,
                     .loss_after = trial_->validation_loss});
}

void Population::add_to(ModeReport& report) const {
  using enum ReportMetric::Kind;
  ReportSection section{.name = "population", .figures = {}};
  std::vector<ReportColumn> cells = {{"rate", ""}, {"momentum", ""}, {"held-out", ""}};
  if (trial_) {
    const double rate = trial_->learning_rate;
    const double momentum = trial_->momentum;
    const double loss = trial_->validation_loss;
    section.figures = {{"learning_rate", rate}, {"momentum", momentum}, {"validation_loss", loss}};
    cells = {{"rate", fmt::format("{:.3g}", rate)},
             {"momentum", fmt::format("{:.3g}", momentum)},
             {"held-out", fmt::format("{:.4f}", loss)}};
    report.metrics.push_back(
        {"momentum", gauge, "Momentum of this member of a population.", momentum});
    report.metrics.push_back(
        {"validation_loss", gauge, "Loss on what the peer holds out of its own data.", loss});
    report.metrics.push_back({"copies_total", counter, "Times this peer took over another's model.",
                              static_cast<double>(copies_)});
    report.line += fmt::format("  rate {:.3g}  momentum {:.3g}  held-out loss {:.4f}  copies {}",
                               rate, momentum, loss, copies_);
  }
  const auto also = [&](std::string_view name, double value) {
    if (value == 0) return;
    section.figures.emplace_back(name, value);
    cells.push_back({name, fmt::format("{:.3g}", value)});
  };
  also("weight_decay", own_.weight_decay);
  also("batch", own_.batch);
  also("alpha", own_.alpha);
  also("period", own_.period);
  if (own_.batch > 0) report.samples_per_step = own_.batch;
  section.figures.emplace_back("copies", copies_);
  cells.push_back({"copies", std::to_string(copies_)});
  report.details.push_back(fmt::format("in a population: copied others {} times", copies_));
  report.sections.push_back(std::move(section));
  std::ranges::move(cells, std::back_inserter(report.columns));
}

}  // namespace gv
