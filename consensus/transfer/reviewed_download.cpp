// Starts a review of each downloaded state, and changes the source if the review finds it wrong.
#include "consensus/transfer/reviewed_download.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

namespace gv {
namespace {

/// Number of rounds in which witnesses are asked. It is large because a witness can answer only
/// after it has finished its current job and copied its state.
constexpr std::size_t rounds_of_questions = 30;

ModelReview::Options review_options(const ReviewedDownload::Wanted& wanted,
                                    const StateDownload::Options& download) {
  ModelReview::Options options{.layout_hash = download.layout_hash,
                               .compares_bits = wanted.is_common,
                               .believes_fresh_witnesses = false,
                               .rounds = rounds_of_questions};
  // If a single witness's model is far from the source's, nothing shows which of the two is wrong.
  (wanted.is_common ? options.asked : options.quorum) = 2;
  return options;
}

}  // namespace

ModelVersion travels_as(const ModelVersion& version, PeerId source, std::uint64_t session,
                        bool is_common) {
  return is_common ? version : version_of_own(version, source, session);
}

ReviewedDownload::ReviewedDownload(PeerId self, const Options& options, const Rng& draws)
    : self_(self),
      options_(options),
      download_(self, 0, options.download),
      review_({}),
      draws_(draws) {}

void ReviewedDownload::want(Time now, Wanted wanted, Effects& out) {
  is_wanted_ = true;
  failed_ = false;
  confirmed_.reset();
  wanted_ = std::move(wanted);
  reviews_ = {.session = wanted_.session, .last = reviews_from};
  review_ = ModelReview(review_options(wanted_, options_.download));
  download_.set_session(wanted_.session);
  untried_ = wanted_.holders;
  draws_.shuffle(std::span(untried_));
  untried_.push_back(wanted_.source);
  ask_next(now, out);
}

void ReviewedDownload::stop() {
  is_wanted_ = false;
  download_.stop();
  review_.stop();
}

/// Downloads from the next source, or gives up if none is left.
void ReviewedDownload::ask_next(Time now, Effects& out) {
  if (untried_.empty()) {
    is_wanted_ = false;
    failed_ = true;
    return;
  }
  const PeerId before = std::exchange(source_, untried_.back());
  untried_.pop_back();
  download_.want(now, {source_},
                 travels_as(wanted_.version, source_, wanted_.session, wanted_.is_common), out);
  is_mixed_ = download_.received() > 0 && (is_mixed_ || before != source_);
}

void ReviewedDownload::receive(Time now, PeerId from, const Message& message,
                               std::span<const float> memory, Effects& out) {
  if (!is_wanted_) return;
  download_.receive(now, from, message, memory, out);
  review_.receive(from, message);
  // A peer may have reached the version without holding the state. Another peer may hold it.
  const auto* refusal = std::get_if<Refuse>(&message);
  const bool lacks_it =
      refusal != nullptr && refusal->reason == Reason::not_ready && from == source_;
  if (lacks_it && download_.failed() && !untried_.empty()) return ask_next(now, out);
  review(now, memory, out);
}

void ReviewedDownload::receive_block(Time now, PeerId from, const Block& block,
                                     std::span<float> memory, Effects& out) {
  if (!is_wanted_) return;
  download_.receive_block(now, from, block, memory, out);
  review(now, memory, out);
}

/// Begins the review of a state that has just arrived, and acts on a verdict.
void ReviewedDownload::review(Time now, std::span<const float> memory, Effects& out) {
  if (download_.take()) {
    review_.begin(now, reviews_.next_state(self_, options_.download.stage),
                  memory.first(options_.compared), std::nullopt, draws_.next(), now);
    std::vector<PeerId> witnesses = wanted_.holders;
    if (source_ != wanted_.source) witnesses.push_back(wanted_.source);
    std::erase(witnesses, source_);
    // States with equal versions may differ in their bits, and then parts from two sources do not
    // fit together.
    has_others_ = !witnesses.empty();
    if (!has_others_ && is_mixed_) witnesses.push_back(source_);
    draws_.shuffle(std::span(witnesses));
    review_.meet(witnesses, out);
  }
  settle(now, out);
}

void ReviewedDownload::settle(Time now, Effects& out) {
  if (download_.failed()) {
    is_wanted_ = false;
    failed_ = true;
  }
  const auto verdict = review_.take(now);
  if (!verdict) return;
  if (verdict->problem == Reason::none) {
    is_wanted_ = false;
    confirmed_ = source_;
    has_witness_ = has_others_ && verdict->step.has_value();
    return;
  }
  out.tell(ModelRefused{.peer = source_, .reason = verdict->problem, .norm = std::nullopt});
  ask_next(now, out);
}

void ReviewedDownload::tick(Time now, Effects& out) {
  if (!is_wanted_) return;
  download_.tick(now, out);
  review_.tick(now, out);
  settle(now, out);
}

Time ReviewedDownload::deadline() const {
  return is_wanted_ ? std::min(download_.deadline(), review_.deadline()) : never;
}

std::optional<PeerId> ReviewedDownload::source() const {
  return is_wanted_ ? std::optional(source_) : std::nullopt;
}

}  // namespace gv
