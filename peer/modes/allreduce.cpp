// Collectives of mode `allreduce`, and the jobs they need.
#include "peer/modes/allreduce.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

ReplicaPlanner::Options planner_options(const CourseOptions& course,
                                        const AllReduceOptions& options) {
  const bool plain = options.codec == ValueCodec::identity && options.top_k_per_512 == 0;
  return {.batch = options.batch,
          .batch_max = std::max(options.batch, options.batch_max),
          .elements = options.summed(course.elements),
          .algorithm = plain ? options.algorithm : ReduceAlgorithm::ring};
}

/// The first peer to have a sum must not end the generation before the others have it too, or they
/// would have to download its model. They get it within a part of a collective's time.
constexpr Duration settle_min = std::chrono::milliseconds(5);
constexpr Duration settle_max = std::chrono::milliseconds(250);

/// The bytes of a sum, as a number of floats. Sparse sums vary in size; dense ones are the largest.
std::size_t carried_as_floats(const CourseOptions& course, const AllReduceOptions& options) {
  return encoded_size(options.codec, options.summed(course.elements)) / sizeof(float);
}

/// "host" of "host:port".
std::string_view host_of(std::string_view address) { return address.substr(0, address.rfind(':')); }

}  // namespace

AllReduceMode::AllReduceMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                             const AllReduceOptions& options)
    : GenerationMode(self, session, course, options.agreement),
      session_(session),
      planner_(planner_options(course, options)),
      options_(options),
      operation_(self, course.elements, options),
      survey_(self, carried_as_floats(course, options)),
      states_(self, course.layout_hash, options.state_elements, options.memory) {}

AllReduceCounts AllReduceMode::counts() const {
  AllReduceCounts counts = counts_;
  counts.operations = operations_;
  counts.generations = generations_;
  counts.losses = recoveries_.losses();
  counts.reduced_bytes = operation_.bytes_sent();
  return counts;
}

void AllReduceMode::begin_at(std::uint64_t step) {
  // Equal versions must mean equal bits. Before the first collective all peers have the seed's
  // model; what a checkpoint holds only this process knows.
  agreement_.set_version(
      {.step = step,
       .samples = step * options_.batch,
       .lineage = hash_combine(hash_combine(course_.run_seed, course_.layout_hash),
                               step == 0 ? 0 : hash_combine(step, session_))});
}

// ---- Generations ----

void AllReduceMode::candidates_changed(const Membership& members) {
  const auto on_our_host = static_cast<double>(std::ranges::count_if(candidates_, [&](PeerId peer) {
    const Member* member = members.find(peer);
    return peer == self_ ||
           (member != nullptr && host_of(member->address) == host_of(members.self().address));
  }));
  on_one_host_ = on_our_host == static_cast<double>(candidates_.size());
  const bool shares = on_one_host_ && options_.memory != std::pmr::get_default_resource();
  planner_.set_site(
      {.link = shares         ? memory_link
               : on_one_host_ ? host_link
                              : network_link,
       .peers_per_processor = options_.processors > 0 ? on_our_host / options_.processors : 0,
       .is_one_host = on_one_host_,
       .shares_memory = shares});
}

void AllReduceMode::begin_generation(Time now, const Generation& generation, Effects& out) {
  operation_.enter(generation);
  audit_.begin(generation.order);
  begun_in_generation_ = 0;
  survey_.begin(generation.order, generation_key_);
  const auto rank = std::ranges::find(generation.order, self_) - generation.order.begin();
  const PeerId source = generation.sources[static_cast<std::size_t>(rank)];
  if (source != self_) {
    states_.fetch(now, generation, source, out);
  } else {
    begin_operation(now, out);
  }
}

void AllReduceMode::abandon() {
  operation_.leave(key_of(agreement_.promised()));
  survey_.end();
  audit_.end();
  states_.leave_generation();
}

bool AllReduceMode::is_busy() const {
  return (jobs_under_way_ > 0 && !operation_.is_waiting()) || states_.is_fetching();
}

// ---- Collectives ----

void AllReduceMode::begin_operation(Time now, Effects& out) {
  if (step() >= course_.steps || leaving_) return;
  survey_.operation_began(now, begun_in_generation_++, from_seconds(operation_seconds()), out);
  settled_at_ = now + std::clamp(from_seconds(operation_seconds() / 2), settle_min, settle_max);
  operation_.set_quiet(is_quiet(now), out);
  operation_.begin(step(), options_.local.steps_at(step(), course_.steps), out);
}

void AllReduceMode::finish_operations(Time now, Effects& out) {
  while (operation_.is_done()) {
    check(!result_, "a sum is applied before the next is made");
    Collective::Vector sum = operation_.finish();
    if (!sum) {
      out.tell(SumRefused{.why = "not everybody's share is in it once"});
      disturb(now, {}, out);
      return;
    }
    result_ = std::move(sum);
    result_samples_ = operation_.samples();
    result_sufficient_factors_ = operation_.sufficient_factors();
    result_steps_ = operation_.is_local() ? operation_.steps() : 0;
    const ModelVersion before = agreement_.version();
    agreement_.set_version(
        after_operation(before, generation_key_, operation_.samples(), operation_.steps()));
    audit_due_.reset();
    if (ModelAudit::is_due(before.step, step())) audit_due_ = {generation_key_, step()};
    states_.forget_debts();
    operation_done(now, before.step, operation_.steps(), out);
    planner_.set_operation_seconds(operation_seconds());
    begin_operation(now, out);
  }
}

// ---- Messages, blocks and lanes ----

void AllReduceMode::receive_own(Time now, PeerId from, const Message& message,
                                const Generation* generation, Effects& out) {
  if (const auto* fetch = std::get_if<StateRequest>(&message)) {
    // Once a collective of the generation is finished, every peer has had the state: a later
    // request is a late repetition.
    if (generation == nullptr || agreement_.version() != generation->version) return;
    if (states_.is_asked(*generation, from, *fetch)) states_.owe(from);
  } else if (const auto* audit = std::get_if<Audit>(&message)) {
    const bool is_near = audit->step <= step() + 2 * ModelAudit::every;
    if (generation == nullptr || audit->ballot != generation->id || !is_near) return;
    compare(now, from, audit->step, audit->fingerprint, out);
  } else if (const auto* probed = std::get_if<ProbeAck>(&message)) {
    survey_.receive(now, from, *probed, out);
    agreement_.set_links(survey_.reports());
  }
}

void AllReduceMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  if (StateTransfer::concerns(block)) {
    states_.receive(now, from, block);
  } else if (survey_.receive_block(from, block, out)) {
    return;
  } else if (operation_.receive(from, block, out)) {
    finish_operations(now, out);
  } else if (block.id.session == key_of(agreement_.promised()) && block.offset == 0) {
    operation_.keep(from, block);
  }
}

void AllReduceMode::lane_lost(Time now, PeerId peer, Effects& out) {
  survey_.lane_lost(peer);
  agreement_.set_links(survey_.reports());
  // Between generations a lost peer should not be waited for.
  const bool concerns = agreement_.generation() == nullptr || operation_.involves(peer) ||
                        states_.fetches_from(peer) || states_.owes(peer);
  if (concerns) disturb(now, {peer}, out);
}

void AllReduceMode::lane_refused(Time now, PeerId peer, Effects& out) {
  survey_.lane_refused(peer);
  lane_lost(now, peer, out);
}

// ---- Jobs ----

void AllReduceMode::gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) {
  operation_.ready(job, begin, out);
  finish_operations(now, out);
}

void AllReduceMode::take(Time now, JobDone done, Membership&, Effects& out) {
  operation_.job_done();
  if (done.gradient_samples > 0) {
    const double busy = seconds(done.busy);
    if (busy > 0) agreement_.set_speed(static_cast<double>(done.gradient_samples) / busy);
    learn_from(done.score);
  }
  if (last_job_) return;
  if (!done.gradient_writable) {
    become_unfit(done.step, out);
    return;
  }
  const Generation* generation = agreement_.generation();
  if (done.state && generation != nullptr) {
    counts_.states_sent += states_.send(*generation, done.state, out);
  }
  if (done.gradient_samples > 0) gradient_ready(now, done.number, 0, out);
  if (done.fingerprint) audited(now, *done.fingerprint, out);
}

// ---- Comparing models ----

/// A job has computed the fingerprint of our parameters.
void AllReduceMode::audited(Time now, std::uint64_t fingerprint, Effects& out) {
  const auto [generation_key, operation] = *std::exchange(auditing_, std::nullopt);
  const Generation* generation = agreement_.generation();
  if (generation == nullptr || generation_key != generation_key_) return;
  for (const PeerId peer : generation->order) {
    if (peer != self_) out.send(peer, Audit{generation->id, operation, fingerprint});
  }
  compare(now, self_, operation, fingerprint, out);
}

void AllReduceMode::compare(Time now, PeerId from, std::uint64_t operation,
                            std::uint64_t fingerprint, Effects& out) {
  const auto odd = audit_.tell(from, operation, fingerprint);
  if (!odd) return;
  for (const PeerId peer : *odd) {
    out.tell(ModelsDiffer{.peer = peer, .step = operation});
  }
  if (std::ranges::find(*odd, self_) == odd->end()) return;
  // Our version now counts less than any other and equals none, so the next ballot makes us
  // download a model.
  ModelVersion version = agreement_.version();
  version.samples = 0;
  version.lineage = hash_combine(hash_combine(version.lineage, session_), operation);
  agreement_.set_version(version);
  disturb(now, {}, out);
}

void AllReduceMode::adopt(Time now, ArrivedState state, Job& job, Effects& out) {
  job.load_state = ReplicaState{.values = std::move(state.values),
                                .step = state.version.step,
                                .own_optimizer = options_.local.is_local(state.version.step)};
  agreement_.set_version(state.version);
  saved_step_ = std::min(saved_step_, state.version.step);
  operation_.forget_gradient();
  result_.reset();
  audit_due_.reset();
  ++counts_.states_adopted;
  out.tell(StateAdopted{.peer = state.from, .step = state.version.step});
  begin_operation(now, out);
}

void AllReduceMode::next_job(Time now, std::vector<Job>& jobs, Effects& out) {
  if (jobs_under_way_ > 0 || last_job_) return;
  Job job;
  if (auto state = states_.take()) adopt(now, *std::move(state), job, out);
  job.update = std::exchange(result_, nullptr);
  if (job.update) {
    job.update_samples = result_samples_;
    job.update_steps = result_steps_;
    job.update_sufficient_factors = std::move(result_sufficient_factors_);
    auditing_ = std::exchange(audit_due_, std::nullopt);
    job.fingerprint = auditing_.has_value();
  }
  if (states_.owes_any()) job.state = states_.blank(agreement_.version());
  job.save = leaving_ || is_save_due(step());
  if (leaving_) {
    last_job_ = true;
  } else {
    job.gradient = operation_.order(job_number_ + 1);
  }
  if (!job.load_state && !job.update && !job.state && !job.save && !job.gradient) return;
  post(std::move(job), jobs);
}

void AllReduceMode::go_on(Time now, Effects& out) {
  finish_operations(now, out);
  const bool quiet = is_quiet(now);
  if (quiet == operation_.is_quiet()) return;
  operation_.set_quiet(quiet, out);
  finish_operations(now, out);
}

/// Quiet while a probe is on its way, and shortly before the generation ends for a better one.
bool AllReduceMode::is_quiet(Time now) const {
  return now < survey_.quiet_until() ||
         (is_rebalance_due() && operation_.is_untouched() && now < settled_at_);
}

Time AllReduceMode::own_deadline() const {
  const bool ends = is_rebalance_due() && phase_ != Phase::done && operation_.is_untouched();
  const Time quiet_until = operation_.is_quiet() ? survey_.quiet_until() : never;
  return std::min(states_.deadline(), ends ? settled_at_ : quiet_until);
}

}  // namespace gv
