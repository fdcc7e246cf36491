// The course of lockstep training: barrier, agreement, operations, states for those without.
#include "peer/modes/ring.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "consensus/base/check.hpp"
#include "consensus/base/rng.hpp"

namespace gv {
namespace {

/// Weight of the newest operation in the running averages.
constexpr double recent_weight = 0.1;

/// Numbers that ride along with every sum: whoever is missing or counted twice shows in them.
constexpr std::size_t lanes = 4;
/// Sums of so many values below this are exact in single precision.
constexpr std::uint64_t lane_limit = 1 << 14;

/// The transfer of a whole state within an epoch: no piece of an operation has this number.
constexpr std::uint64_t state_number = ~std::uint64_t{0};

/// Operations that take longer than usual by this factor, and this long at least, are looked into.
constexpr double stall_factor = 4;
constexpr Duration stall_min = std::chrono::seconds(1);
constexpr Duration stall_max = std::chrono::seconds(30);
/// Operations after which the shares are looked at first.
constexpr std::uint64_t first_balance = 16;
/// Newcomers are waited for together.
constexpr Duration gathering = std::chrono::milliseconds(300);
/// Who was lost is asked again and again whether it is back.
constexpr Duration knock_every = std::chrono::seconds(1);

std::array<float, lanes> lanes_of(PeerId peer, std::uint64_t operation) {
  const std::uint64_t id = hash_combine(0, static_cast<std::uint64_t>(peer));
  const std::uint64_t both = hash_combine(id, operation);
  return {1, static_cast<float>(id % lane_limit), static_cast<float>(both % lane_limit),
          static_cast<float>(both / lane_limit % lane_limit)};
}

RingAgreement::Options agreement_options(const RingOptions& options) {
  RingAgreement::Options agreement = options.agreement;
  agreement.batch = options.batch;
  agreement.batch_max = std::max(options.batch, options.batch_max);
  return agreement;
}

}  // namespace

RingMode::RingMode(PeerId self, std::uint64_t session, RingOptions options)
    : self_(self),
      session_(session),
      options_(std::move(options)),
      agreement_(self, session, agreement_options(options_)) {
  check(options_.bucket_elements > 0 && options_.segment_elements > 0, "pieces have elements");
  // Longer vectors in larger pieces, so that all can be named.
  const std::size_t total = options_.elements + lanes;
  const std::size_t bucket = std::max(options_.bucket_elements, total / PieceName::buckets_max + 1);
  for (std::size_t end = total; end > 0;) {
    const std::size_t begin = end > bucket + lanes ? end - bucket : 0;
    shape_.buckets.push_back({begin, end});
    end = begin;
  }
  shape_.segment = options_.segment_elements;
  shape_.unweighted_from = options_.elements;
  shape_.wire = {options_.codec, options_.keep_per_block > 0};
}

RingMode::Vector RingMode::blank(std::vector<Vector>& pool, std::size_t size) {
  for (const Vector& vector : pool) {
    if (vector.use_count() == 1) return vector;
  }
  return pool.emplace_back(std::make_shared<std::vector<float>>(size));
}

void RingMode::start(Time now, std::uint64_t step, bool joins_others, Membership& members,
                     Effects& out, std::vector<Job>& jobs) {
  check(!started_, "a replica starts once");
  started_ = true;
  joins_others_ = joins_others;
  waiting_since_ = now;
  saved_step_ = step;
  // Equal standings must mean equal bits: before the first operation all have the seed's model, and
  // what a checkpoint holds only this process knows.
  agreement_.set_standing(
      {.operation = step,
       .samples = step * options_.batch,
       .history = hash_combine(hash_combine(options_.run_seed, options_.layout_hash),
                               step == 0 ? 0 : hash_combine(step, session_))});
  tick(now, members, out, jobs);
}

// ---- Epochs ----

void RingMode::set_candidates(Time now, Membership& members) {
  std::vector<PeerId> candidates;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    const bool alike =
        peer == self_ || (member != nullptr && member->layout_hash == options_.layout_hash &&
                          member->state != MemberState::dead);
    if (alike) candidates.push_back(peer);
  }
  if (candidates == candidates_) return;
  candidates_ = candidates;
  agreement_.set_candidates(now, std::move(candidates));
}

void RingMode::enter_epoch(Time now, Effects& out) {
  leave_epoch();
  const Epoch& epoch = *agreement_.epoch();
  ++counts_.epochs;
  epoch_key_ = epoch.key();
  rank_ = static_cast<std::size_t>(std::ranges::find(epoch.order, self_) - epoch.order.begin());
  shape_.order = epoch.order;
  shape_.epoch = epoch_key_;
  shape_.algorithm = options_.algorithm.value_or(
      shape_.wire.is_plain() ? fastest(epoch.order.size(), options_.elements, ReduceSite{})
                             : ReduceAlgorithm::ring);
  epoch_samples_ = 0;
  for (const std::uint32_t share : epoch.shares) epoch_samples_ += share;
  weight_ = static_cast<float>(static_cast<double>(epoch.shares[rank_]) /
                               static_cast<double>(epoch_samples_));
  progress_at_ = now;
  stall_factor_ = stall_factor;
  knock_at_ = now + knock_every;
  source_ = epoch.sources[rank_];
  fetching_ = source_ != self_;
  if (fetching_) {
    incoming_ = blank(states_, options_.state_elements);
    incoming_bytes_ = 0;
    out.send(source_,
             Fetch{.id = {self_, epoch_key_, state_number}, .layout_hash = options_.layout_hash});
  } else {
    begin_operation(out);
  }
}

void RingMode::leave_epoch() {
  if (reduce_) counts_.reduced_bytes += reduce_->bytes_sent();
  epoch_key_ = 0;
  reduce_.reset();
  owed_state_.clear();
  newcomers_since_ = knock_at_ = never;
  fetching_ = false;
  adopt_.reset();
  incoming_.reset();
  checked_at_.reset();
  idle_checks_ = 0;
  const std::uint64_t next = key_of(agreement_.promised());
  std::erase_if(held_, [next](const Held& piece) { return piece.id.session != next; });
  held_bytes_ = 0;
  for (const Held& piece : held_) held_bytes_ += piece.bytes.size();
}

void RingMode::disturb(Time now, std::optional<PeerId> blamed, Effects& out) {
  if (!wanted_) return;
  if (agreement_.epoch() != nullptr) {
    ++counts_.disturbances;
    become_interrupted(now);
    out.events.push_back({.name = "epoch_ended", .peer = blamed});
  }
  agreement_.disturb(now, blamed, out);
  leave_epoch();
}

void RingMode::become_interrupted(Time now) {
  if (disturbed_at_) return;
  disturbed_at_ = now;
  interrupted_ = shape_.order;
}

/// The first operation after an interruption is finished.
void RingMode::become_resumed(Time now, std::uint64_t operation, Effects& out) {
  if (!disturbed_at_) return;
  RingInterruption over{.seconds = seconds(now - *disturbed_at_),
                        .peers = shape_.order.size(),
                        .operation = operation};
  disturbed_at_.reset();
  for (const PeerId peer : interrupted_) {
    if (std::ranges::find(shape_.order, peer) == shape_.order.end()) over.lost.push_back(peer);
  }
  out.events.push_back({.name = "ring_resumed",
                        .peer = over.lost.empty() ? std::optional<PeerId>() : over.lost.front(),
                        .numbers = {{"seconds_lost", over.seconds},
                                    {"lost", static_cast<double>(over.lost.size())},
                                    {"peers", static_cast<double>(over.peers)},
                                    {"operation", static_cast<double>(operation)}}});
  if (!over.lost.empty()) last_interruption_ = std::move(over);
}

/// Whoever could take part and does not is let in by the first of those who do, which asks after
/// the lost as well: both sides of a cut may have given each other up.
void RingMode::look_for_newcomers(Time now, Effects& out) {
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr || phase_ == Phase::done || leaving_ ||
      *std::ranges::min_element(epoch->order) != self_) {
    newcomers_since_ = knock_at_ = never;
    return;
  }
  bool newcomers = false;
  const bool knock = now >= knock_at_;
  if (knock) knock_at_ = now + knock_every;
  for (const PeerId peer : candidates_) {
    if (epoch->contains(peer)) continue;
    if (!agreement_.is_blamed(peer)) {
      newcomers = true;
    } else if (knock) {
      out.send(peer, Check{epoch->id});
    }
  }
  if (!newcomers) {
    newcomers_since_ = never;
  } else if (newcomers_since_ == never) {
    newcomers_since_ = now;
  } else if (now - newcomers_since_ >= gathering) {
    newcomers_since_ = never;
    agreement_.disturb(now, std::nullopt, out);
    leave_epoch();
  }
}

/// Shares follow measured speeds, which a ballot collects: after some operations with the same
/// peers, and again after four times as many, so that the ballots cost next to nothing.
void RingMode::balance(Time now, Effects& out) {
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr || options_.batch_max <= options_.batch || leaving_) return;
  if (epoch->order != balanced_order_) {
    balanced_order_ = epoch->order;
    balance_after_ = first_balance;
    balance_count_ = counts_.operations;
  }
  const bool ours = *std::ranges::min_element(epoch->order) == self_;
  // Not while a ballot would wait for somebody who is lost.
  if (!ours || epoch->order.size() < 2 || candidates_.size() != epoch->order.size()) return;
  if (counts_.operations - balance_count_ < balance_after_) return;
  balance_after_ *= 4;
  agreement_.disturb(now, std::nullopt, out);
  leave_epoch();
}

// ---- Operations ----

void RingMode::begin_operation(Effects& out) {
  const std::uint64_t operation = agreement_.standing().operation;
  if (operation >= options_.steps || leaving_) return;
  const auto share = agreement_.epoch()->shares[rank_];
  if (!gradient_.valid || gradient_.samples != share) {
    const bool being_written = job_running_ && gradient_.job == job_number_;
    Vector values = being_written ? nullptr : std::move(gradient_.values);
    if (!values) values = std::make_shared<std::vector<float>>(options_.elements + lanes);
    gradient_ = {.values = std::move(values),
                 .samples = share,
                 .begin = options_.elements + lanes,
                 .job = 0,
                 .valid = true};
  }
  std::ranges::copy(lanes_of(self_, operation),
                    gradient_.values->begin() + static_cast<std::ptrdiff_t>(options_.elements));
  reduce_.emplace(shape_, self_, operation, weight_, gradient_.values,
                  blank(works_, options_.elements + lanes));
  seen_progress_ = 0;
  offered_.assign(shape_.buckets.size(), false);
  offer_buckets(out);
  std::deque<Held> held = std::exchange(held_, {});
  held_bytes_ = 0;
  for (Held& piece : held) {
    const Block block{piece.id, 0, piece.bytes};
    if (piece.id.session != epoch_key_ || reduce_->receive(piece.from, block, out)) continue;
    const std::uint64_t next = (operation + 1) % PieceName::operations;
    if (PieceName::of(piece.id.number).operation != next) continue;
    held_bytes_ += piece.bytes.size();
    held_.push_back(std::move(piece));
  }
}

void RingMode::offer_buckets(Effects& out) {
  if (!reduce_ || !gradient_.valid) return;
  for (std::size_t i = 0; i < offered_.size(); ++i) {
    if (offered_[i] || gradient_.begin > shape_.buckets[i].begin) continue;
    offered_[i] = true;
    reduce_->ready(i, out);
  }
}

void RingMode::finish_operations(Time now, Effects& out) {
  while (reduce_ && reduce_->done()) {
    check(!result_, "a sum is applied before the next is made");
    const std::uint64_t operation = agreement_.standing().operation;
    std::array<double, lanes> wanted{};
    for (const PeerId peer : shape_.order) {
      const std::array<float, lanes> its = lanes_of(peer, operation);
      for (std::size_t i = 0; i < lanes; ++i) wanted[i] += static_cast<double>(its[i]);
    }
    const Vector& sum = reduce_->result();
    for (std::size_t i = 0; i < lanes; ++i) {
      if (static_cast<double>((*sum)[options_.elements + i]) == wanted[i]) continue;
      out.events.push_back(
          {.name = "sum_refused", .detail = "not everybody's share is in it once"});
      disturb(now, std::nullopt, out);
      return;
    }
    result_ = sum;
    counts_.reduced_bytes += reduce_->bytes_sent();
    reduce_.reset();
    agreement_.set_standing(after_operation(agreement_.standing(), epoch_key_, epoch_samples_));
    owed_state_.clear();
    ++counts_.operations;
    gradient_.valid = false;
    const double took = seconds(now - operation_began_);
    if (counts_.operations > 1 && !disturbed_at_) {
      operation_seconds_ +=
          (operation_seconds_ == 0 ? 1 : recent_weight) * (took - operation_seconds_);
    }
    operation_began_ = progress_at_ = now;
    stall_factor_ = stall_factor;
    checked_at_.reset();
    idle_checks_ = 0;
    become_resumed(now, operation, out);
    begin_operation(out);
  }
}

bool RingMode::is_waiting() const {
  return reduce_ && !reduce_->done() && std::ranges::all_of(offered_, std::identity{});
}

/// When nothing comes for long, asks everybody; who does not answer is left out. Whoever computes
/// is waited for, however long it takes.
void RingMode::watch_for_stalls(Time now, Effects& out) {
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr) return;
  if (fetching_ && !adopt_ && now - progress_at_ >= stall_min) {
    progress_at_ = now;
    if (incoming_bytes_ == 0) {
      out.send(source_,
               Fetch{.id = {self_, epoch_key_, state_number}, .layout_hash = options_.layout_hash});
    } else if (++idle_checks_ > 5) {
      disturb(now, source_, out);
      return;
    }
  }
  if (!is_waiting()) {
    checked_at_.reset();
    if (!fetching_) progress_at_ = std::max(progress_at_, now);
    return;
  }
  if (reduce_->progress() != seen_progress_) {
    seen_progress_ = reduce_->progress();
    progress_at_ = now;
    checked_at_.reset();
    idle_checks_ = 0;
  }
  if (!checked_at_) {
    if (now < progress_at_ + stall_after()) return;
    checked_at_ = now;
    somebody_busy_ = false;
    silent_ = std::set<PeerId>(epoch->order.begin(), epoch->order.end());
    silent_.erase(self_);
    check_again_at_ = now;
  }
  if (now >= check_again_at_) {  // Words get lost: who is there hears one of several.
    check_again_at_ = now + agreement_.patience() / 2;
    for (const PeerId peer : silent_) out.send(peer, Check{epoch->id});
  }
  if (now < *checked_at_ + answers_within()) return;
  if (!silent_.empty()) {
    for (const PeerId peer : std::set<PeerId>(silent_)) disturb(now, peer, out);
    return;
  }
  checked_at_.reset();
  progress_at_ = now;
  stall_factor_ *= 1.5;
  if (somebody_busy_) {
    idle_checks_ = 0;
  } else if (++idle_checks_ >= 2) {
    disturb(now, std::nullopt, out);  // Everybody waits for what was lost.
  }
}

/// Long enough for several questions and answers, some of them lost and some of them late.
Duration RingMode::answers_within() const { return 6 * agreement_.patience(); }

Duration RingMode::stall_after() const {
  return std::clamp(from_seconds(stall_factor_ * operation_seconds_), stall_min, stall_max);
}

// ---- What comes ----

void RingMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                       Effects& out) {
  if (!started_ || !members.view().contains(from)) return;
  if (std::holds_alternative<Check>(message)) {
    const Epoch* epoch = agreement_.epoch();
    const bool computing = job_running_ && !is_waiting();
    out.send(from, Here{.ballot = epoch != nullptr ? epoch->id : agreement_.promised(),
                        .operation = agreement_.standing().operation,
                        .busy = epoch != nullptr && (computing || fetching_)});
    agreement_.heard(from);
  } else if (const auto* here = std::get_if<Here>(&message)) {
    agreement_.heard(from);
    const Epoch* epoch = agreement_.epoch();
    if (!checked_at_ || epoch == nullptr || !epoch->contains(from)) return;
    silent_.erase(from);
    somebody_busy_ = somebody_busy_ || here->busy;
    if (here->ballot != epoch->id) disturb(now, std::nullopt, out);
  } else if (const auto* fetch = std::get_if<Fetch>(&message)) {
    const Epoch* epoch = agreement_.epoch();
    // Once an operation of the epoch is finished everybody has had the state: asked again, late.
    if (epoch == nullptr || fetch->id != TransferId{from, epoch_key_, state_number} ||
        agreement_.standing() != epoch->standing) {
      return;
    }
    const auto place = std::ranges::find(epoch->order, from);
    if (place == epoch->order.end()) return;
    if (epoch->sources[static_cast<std::size_t>(place - epoch->order.begin())] == self_) {
      owed_state_.insert(from);
    }
  } else if (!leaving_) {
    if (std::holds_alternative<Propose>(message)) wanted_ = true;
    const bool ran = agreement_.epoch() != nullptr;
    agreement_.receive(now, from, message, out);
    if (ran && agreement_.epoch() == nullptr) become_interrupted(now);
  }
}

void RingMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  if (block.id.number == state_number) {
    if (fetching_ && from == source_ && block.id == TransferId{self_, epoch_key_, state_number}) {
      receive_state(now, block);
    }
    return;
  }
  if (reduce_ && reduce_->receive(from, block, out)) {
    finish_operations(now, out);
    return;
  }
  const bool coming = block.id.session == key_of(agreement_.promised()) && block.offset == 0;
  const std::size_t held_max = 2 * sizeof(float) * (options_.elements + lanes);
  if (!coming || held_bytes_ + block.bytes.size() > held_max) return;
  held_bytes_ += block.bytes.size();
  held_.push_back({from, block.id, {block.bytes.begin(), block.bytes.end()}});
}

void RingMode::receive_state(Time now, const Block& block) {
  const std::size_t total = sizeof(float) * options_.state_elements;
  if (adopt_ || block.offset != incoming_bytes_ || block.bytes.size() > total - incoming_bytes_) {
    return;
  }
  std::memcpy(reinterpret_cast<std::byte*>(incoming_->data()) + incoming_bytes_, block.bytes.data(),
              block.bytes.size());
  incoming_bytes_ += block.bytes.size();
  progress_at_ = now;
  idle_checks_ = 0;
  if (incoming_bytes_ == total) adopt_ = agreement_.epoch()->standing;
}

void RingMode::lane_lost(Time now, PeerId peer, Effects& out) {
  // While all stand still, whoever is lost is not waited for.
  const bool concerns = agreement_.epoch() == nullptr || (reduce_ && reduce_->involves(peer)) ||
                        (fetching_ && peer == source_) || owed_state_.contains(peer);
  if (concerns) disturb(now, peer, out);
}

void RingMode::lane_refused(Time now, PeerId peer, Effects& out) { lane_lost(now, peer, out); }

void RingMode::peer_gone(Time now, PeerId peer, Effects& out) {
  std::erase(candidates_, peer);
  agreement_.set_candidates(now, candidates_);
  const Epoch* epoch = agreement_.epoch();
  const bool concerns = epoch == nullptr || (epoch->contains(peer) && phase_ != Phase::done);
  if (concerns) disturb(now, peer, out);
}

void RingMode::woke_up(Time, Membership&, Effects&) {
  // Others went on without us: the next word from them says so.
}

// ---- Jobs ----

void RingMode::gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) {
  if (!gradient_.valid || gradient_.job != job || begin >= gradient_.begin) return;
  gradient_.begin = begin;
  offer_buckets(out);
  finish_operations(now, out);
}

void RingMode::complete(Time now, JobDone done, Membership& members, Effects& out,
                        std::vector<Job>& jobs) {
  check(job_running_ && done.number == job_number_, "a job completes once");
  job_running_ = false;
  learn_from(done);
  if (last_job_) {
    finished_ = true;
    report(members);
    return;
  }
  // Taken before an operation that finished meanwhile, it is not what the epoch goes on from: then
  // the next job takes it again.
  const Epoch* epoch = agreement_.epoch();
  if (done.state && epoch != nullptr && taken_state_ == epoch->standing) {
    for (const PeerId peer : std::exchange(owed_state_, {})) {
      ++counts_.states_sent;
      out.transfers.push_back(
          {.to = peer,
           .id = {peer, epoch_key_, state_number},
           .payload = {done.state, std::as_bytes(std::span<const float>(*done.state))}});
    }
  }
  if (done.gradient_samples > 0) gradient_ready(now, done.number, 0, out);
  tick(now, members, out, jobs);
}

void RingMode::learn_from(const JobDone& done) {
  learning_rate_ = done.learning_rate;
  if (done.gradient_samples > 0) {
    const double busy = seconds(done.busy);
    if (busy > 0) agreement_.set_speed(static_cast<double>(done.gradient_samples) / busy);
    const double weight = recent_loss_ == 0 ? 1 : recent_weight;
    recent_loss_ += weight * (done.score.mean_loss() - recent_loss_);
    recent_accuracy_ += weight * (done.score.accuracy() - recent_accuracy_);
  }
  if (operation_seconds_ > 0) steps_per_second_ = 1 / operation_seconds_;
  if (!done.saved) return;
  saved_step_ = done.step;
  ++(done.save_problem.empty() ? counts_.saves : counts_.save_failures);
}

void RingMode::next_job(std::vector<Job>& jobs, Effects& out) {
  if (job_running_ || last_job_) return;
  Job job;
  if (adopt_) {
    job.become = ReplicaState{incoming_, adopt_->operation};
    agreement_.set_standing(*adopt_);
    saved_step_ = std::min(saved_step_, adopt_->operation);
    adopt_.reset();
    incoming_.reset();
    fetching_ = false;
    gradient_.valid = false;
    result_.reset();
    ++counts_.states_adopted;
    out.events.push_back(
        {.name = "state_adopted",
         .peer = source_,
         .numbers = {{"operation", static_cast<double>(agreement_.standing().operation)}}});
    begin_operation(out);
  }
  job.update = std::exchange(result_, nullptr);
  if (!owed_state_.empty()) {
    job.state = blank(states_, options_.state_elements);
    taken_state_ = agreement_.standing();
  }
  const std::uint64_t step = agreement_.standing().operation;
  const bool save_due =
      step > saved_step_ &&
      (step >= options_.steps ||
       (options_.save_every_steps > 0 && step >= saved_step_ + options_.save_every_steps));
  job.save = leaving_ || save_due;
  if (leaving_) {
    last_job_ = true;
  } else if (reduce_ && gradient_.valid && gradient_.job == 0) {
    job.gradient = GradientOrder{.samples = gradient_.samples,
                                 .keep_per_block = options_.keep_per_block,
                                 .codec = options_.codec,
                                 .values = gradient_.values};
    for (const Range& bucket : shape_.buckets) job.gradient->marks.push_back(bucket.begin);
  }
  if (!job.become && !job.update && !job.state && !job.save && !job.gradient) return;
  job.number = ++job_number_;
  if (job.gradient) gradient_.job = job.number;
  job_running_ = true;
  jobs.push_back(std::move(job));
}

// ---- The course ----

void RingMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!started_ || finished_) return;
  set_candidates(now, members);
  if (!wanted_ && !leaving_) {
    const std::size_t needed =
        std::max<std::size_t>(options_.wait_for_peers, joins_others_ ? 2 : 1);
    if (candidates_.size() >= needed || now - waiting_since_ >= options_.wait_max) {
      wanted_ = true;
      agreement_.disturb(now, std::nullopt, out);
    }
  }
  if (wanted_ && !leaving_) {
    look_for_newcomers(now, out);
    balance(now, out);
    watch_for_stalls(now, out);
    agreement_.tick(now, out);
  }
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr) {
    if (epoch_key_ != 0) leave_epoch();
  } else if (epoch->key() != epoch_key_) {
    enter_epoch(now, out);
    finish_operations(now, out);
  }
  next_job(jobs, out);
  if (phase_ == Phase::done && now - done_since_ >= options_.linger) linger_over_ = true;
  const Phase before = phase_;
  if (phase_ == Phase::joining && agreement_.epoch() != nullptr && !fetching_) {
    phase_ = Phase::training;
    operation_began_ = now;
    out.events.push_back({.name = "training_began",
                          .numbers = {{"step", static_cast<double>(step())},
                                      {"peers", static_cast<double>(shape_.order.size())}}});
  }
  if (phase_ == Phase::done && !leaving_ && step() < options_.steps) phase_ = Phase::training;
  if (phase_ == Phase::training && step() >= options_.steps) {
    phase_ = Phase::done;
    done_since_ = now;
    out.events.push_back(
        {.name = "budget_done", .numbers = {{"step", static_cast<double>(step())}}});
  }
  report(members);
  if (phase_ != before) members.announce(out);
}

Time RingMode::deadline() const {
  if (!started_ || finished_) return never;
  Time earliest = never;
  if (!wanted_ && !leaving_) earliest = waiting_since_ + options_.wait_max;
  if (wanted_ && !leaving_) {
    earliest = std::min(earliest, agreement_.deadline());
    if (newcomers_since_ != never) earliest = std::min(earliest, newcomers_since_ + gathering);
    if (knock_at_ != never) earliest = std::min(earliest, knock_at_);
    if (fetching_ && !adopt_) earliest = std::min(earliest, progress_at_ + stall_min);
    if (checked_at_) {
      earliest = std::min({earliest, check_again_at_, *checked_at_ + answers_within()});
    } else if (is_waiting()) {
      earliest = std::min(earliest, progress_at_ + stall_after());
    }
  }
  if (phase_ == Phase::done && !leaving_ && !linger_over_)
    earliest = std::min(earliest, done_since_ + options_.linger);
  return earliest;
}

void RingMode::leave(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (leaving_) return;
  leaving_ = true;
  if (phase_ != Phase::done) agreement_.disturb(now, std::nullopt, out);
  leave_epoch();
  if (!started_) {
    finished_ = true;
    return;
  }
  tick(now, members, out, jobs);
}

bool RingMode::is_over(const Membership& members) const {
  return phase_ == Phase::done && !job_running_ && !result_ && owed_state_.empty() &&
         (linger_over_ || others_done(members));
}

bool RingMode::others_done(const Membership& members) const {
  return std::ranges::all_of(members.view().peers(), [&](PeerId peer) {
    const Member* member = members.find(peer);
    return peer == self_ || member == nullptr || member->progress.phase == Phase::done;
  });
}

void RingMode::report(Membership& members) const {
  members.set_progress(
      {.step = step(), .steps_per_second = static_cast<float>(steps_per_second_), .phase = phase_});
}

}  // namespace gv
