// Keeps and transfers the states of stages.
#include "peer/modes/stage_states.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/magnitude.hpp"
#include "peer/modes/state_transfer.hpp"

namespace gv {

StageStates::StageStates(PeerId self, std::uint64_t layout_hash, const PipelineOptions& options,
                         const Rng& draws)
    : self_(self),
      layout_hash_(layout_hash),
      sizes_(options.part_sizes()),
      pools_(options.memory),
      draws_(draws.fork("review")),
      is_common_(options.consensus == StageConsensus::allreduce && is_synchronous(options.kind)),
      server_(generation_server(layout_hash)),
      sketches_(layout_hash),
      audit_(self) {}

StageValues StageStates::blank(std::uint32_t stage) { return pools_.blank(sizes_[stage].state); }

// ---- States kept ----

void StageStates::keep(std::uint32_t stage, const ModelVersion& version, StageValues values) {
  std::vector<Kept>& kept = kept_[stage];
  std::erase_if(kept, [&](const Kept& one) { return one.version == version; });
  kept.push_back({version, std::move(values)});
}

void StageStates::keep_until_run(std::uint32_t stage, const ModelVersion& version,
                                 StageValues values) {
  if (!find(stage, version)) kept_[stage].push_back({version, std::move(values), true});
}

void StageStates::settle(const ModelVersion& version) {
  audit_.settle();
  for (auto& [stage, kept] : kept_) {
    std::erase_if(kept, [](const Kept& one) { return one.is_until_run; });
    std::erase_if(kept, [&](const Kept& one) { return is_before(one.version, version); });
  }
}

void StageStates::drop(std::uint32_t stage, const ModelVersion& version) {
  const auto kept = kept_.find(stage);
  if (kept == kept_.end()) return;
  std::erase_if(kept->second, [&](const Kept& one) { return one.version == version; });
}

StageValues StageStates::find(std::uint32_t stage, const ModelVersion& version) const {
  const auto kept = kept_.find(stage);
  if (kept == kept_.end()) return nullptr;
  const auto found = std::ranges::find(kept->second, version, &Kept::version);
  return found == kept->second.end() ? nullptr : found->values;
}

std::vector<StageHolding> StageStates::holdings() const {
  std::vector<StageHolding> holdings;
  for (const auto& [stage, kept] : kept_) {
    for (const Kept& one : kept) holdings.push_back({stage, false, one.version});
  }
  return holdings;
}

// ---- At the beginning of a generation ----

void StageStates::enter(const Generation& generation) {
  leave();
  key_ = generation.key();
  version_ = generation.version;
  // If each carrier of a stage has a model of its own, their values always differ. At step 0 all
  // states come from the seed. In both cases there is nothing to audit.
  if (is_common_ && version_.step > 0) audit_.enter(generation);
  for (const StageAssignment& assignment : generation.assignments) {
    if (assignment.carrier == assignment.source) {
      holders_[assignment.stage].push_back(assignment.carrier);
      continue;
    }
    lacking_.emplace(assignment.stage, assignment.carrier);
    if (assignment.source != self_) continue;
    owed_[assignment.stage].push_back(assignment.carrier);
    has_ready(assignment.stage);
  }
}

void StageStates::leave() {
  key_ = 0;
  reported_sources_.clear();
  if (!fetched_.empty()) partial_ = std::exchange(fetched_, {});
  for (auto& [stage, part] : partial_) part.download.stop();
  holders_.clear();
  lacking_.clear();
  owed_.clear();
  asked_.clear();
  to_copy_.clear();
  handed_over_.clear();
  server_.clear();
  sketches_.clear();
  audit_.leave();
  copies_.clear();
  newest_copies_.clear();
  expected_.clear();
  unsound_from_.reset();
  pools_.clear();  // The next generation may give us fewer parts.
}

void StageStates::prepare_reviews() {
  for (const auto& [stage, peer] : lacking_) {
    if (may_ask(peer, stage)) has_ready(stage);
  }
}

void StageStates::begin_audit(Effects& out) {
  for (const std::uint32_t stage : audit_.own_parts()) {
    if (has_ready(stage)) tell(stage, out);
  }
}

/// Tells the other carriers the fingerprint of our values of the stage, if the audit compares them.
void StageStates::tell(std::uint32_t stage, Effects& out) {
  const std::span<const float> values = *handed_over_.at(stage);
  audit_.tell(stage, values.first(compared(stage)), out);
}

/// Returns how many floats, from the beginning of a stage's state, other carriers confirm. If bits
/// may differ, only parameters are compared, because the optimiser's state says little about the
/// distance between two models.
std::size_t StageStates::compared(std::uint32_t stage) const {
  return is_common_ ? sizes_[stage].state : sizes_[stage].parameters;
}

/// Returns a new download of the stage's state.
auto StageStates::begun(std::uint32_t stage) -> Fetched {
  const ReviewedDownload::Options options{
      .download = generation_download(layout_hash_, sizes_[stage].state, stage),
      .compared = compared(stage)};
  return {.download = ReviewedDownload(self_, options, draws_.fork(stage)),
          .values = blank(stage),
          .source = {},
          .version = {}};
}

void StageStates::fetch(Time now, std::uint32_t stage, PeerId source, Effects& out) {
  auto part = partial_.extract(stage);
  if (part.empty()) {
    fetched_.emplace(stage, begun(stage));
  } else {
    fetched_.insert(std::move(part));
  }
  Fetched& fetched = fetched_.at(stage);
  const ModelVersion version = travels_as(version_, source, key_, is_common_);
  fetched.source = source;
  fetched.is_whole = fetched.is_whole && fetched.version == version;
  fetched.version = version;
  if (fetched.is_whole) return;
  std::vector<PeerId> others = holders_[stage];
  std::erase(others, source);
  const auto before = static_cast<std::ptrdiff_t>(out.facts.size());
  fetched.download.want(now,
                        {.session = key_,
                         .version = version_,
                         .is_common = is_common_,
                         .source = source,
                         .holders = std::move(others)},
                        out);
  // A source may send many slices, but one report per source is enough for human readers.
  if (reported_sources_.insert(source).second) return;
  const auto repeated =
      std::remove_if(out.facts.begin() + before, out.facts.end(),
                     [](const Fact& fact) { return std::holds_alternative<FetchAsked>(fact); });
  out.facts.erase(repeated, out.facts.end());
}

bool StageStates::is_fetching() const {
  return std::ranges::any_of(fetched_, [](const auto& entry) { return !entry.second.is_whole; });
}

bool StageStates::fetches_from(PeerId peer) const {
  return std::ranges::any_of(
      fetched_, [&](const auto& entry) { return entry.second.download.source() == peer; });
}

std::map<std::uint32_t, StageValues> StageStates::take() {
  std::map<std::uint32_t, StageValues> states;
  for (auto& [stage, fetched] : std::exchange(fetched_, {})) {
    states[stage] = std::move(fetched.values);
  }
  partial_.clear();
  return states;
}

/// True if the stage's state can be sent now. If not, requests a copy of the state from a job.
bool StageStates::has_ready(std::uint32_t stage) {
  if (handed_over_.contains(stage)) return true;
  if (StageValues kept = find(stage, version_)) {
    handed_over_[stage] = std::move(kept);
    return true;
  }
  if (asked_.insert(stage).second) to_copy_.push_back(stage);
  return false;
}

void StageStates::hand_over(std::uint32_t stage, StageValues values, Effects& out) {
  if (!asked_.contains(stage)) return;
  handed_over_[stage] = std::move(values);
  send(stage, out);
  tell(stage, out);
}

/// If a copy of the stage's state exists, sends the state, or sketches of it, to all peers that
/// have asked for it.
void StageStates::send(std::uint32_t stage, Effects& out) {
  const auto there = handed_over_.find(stage);
  if (there == handed_over_.end()) return;
  const StageValues& values = there->second;
  sketches_.answer(stage, std::span<const float>(*values).first(compared(stage)), version_.step,
                   out);
  sent_ += server_.provide(stage,
                           {.version = travels_as(version_, self_, key_, is_common_),
                            .payload = {values, std::as_bytes(std::span<const float>(*values))}},
                           out);
}

void StageStates::receive(Time now, PeerId from, const Message& message, Effects& out) {
  const TransferId* id = transfer_of(message);
  if (key_ == 0 || id == nullptr || *id != state_id(id->owner, key_, id->number, id->stage)) return;
  if (const auto* request = std::get_if<StateRequest>(&message))
    return ask(now, from, *request, out);
  if (const auto* request = std::get_if<SketchRequest>(&message)) return ask(from, *request, out);
  server_.receive(now, from, message, out);
  if (const auto found = fetched_.find(id->stage); found != fetched_.end()) {
    Fetched& fetched = found->second;
    fetched.download.receive(now, from, message, *fetched.values, out);
    if (fetched.download.take()) fetched.is_whole = true;
  }
}

/// True if we have the stage's state, and `from` has to carry the stage but lacks its state.
bool StageStates::may_ask(PeerId from, std::uint32_t stage) const {
  const auto holders = holders_.find(stage);
  const bool is_holder = holders != holders_.end() &&
                         std::ranges::find(holders->second, self_) != holders->second.end();
  return (is_holder || owed_.contains(stage)) && lacking_.contains({stage, from});
}

void StageStates::ask(Time now, PeerId from, const StateRequest& request, Effects& out) {
  const std::uint32_t stage = request.id.stage;
  if (!may_ask(from, stage)) return;
  if (server_.ask(now, from, request, has_ready(stage), out)) send(stage, out);
}

void StageStates::ask(PeerId from, const SketchRequest& request, Effects& out) {
  const std::uint32_t stage = request.id.stage;
  if (!may_ask(from, stage)) return;
  sketches_.ask(from, request, out);
  if (has_ready(stage)) send(stage, out);
}

void StageStates::taken_over(PeerId peer) {
  for (auto& [stage, carriers] : owed_) std::erase(carriers, peer);
  std::erase_if(owed_, [](const auto& entry) { return entry.second.empty(); });
}

// ---- Copies for neighbours ----

void StageStates::send_copy(std::uint32_t stage, std::uint64_t operation, const StageValues& values,
                            PeerId to, Effects& out) const {
  out.transfers.push_back({.to = to,
                           .id = copy_id(self_, key_, stage, operation),
                           .payload = {values, std::as_bytes(std::span<const float>(*values))}});
}

void StageStates::expect_copy(std::uint32_t stage, const ModelVersion& version, PeerId from) {
  expected_[{stage, version.step}] = {version, from};
  settle_copies();
}

/// Keeps the expected copies that have arrived completely. A copy may arrive before it is expected.
void StageStates::settle_copies() {
  std::erase_if(expected_, [this](const auto& entry) {
    const auto came = copies_.find(entry.first);
    const bool whole = came != copies_.end() && came->second.source == entry.second.from &&
                       came->second.blocks.is_whole();
    if (!whole) return false;
    if (!is_finite(*came->second.values)) {
      unsound_from_ = came->second.source;
      copies_.erase(came);
      return false;
    }
    const auto [part, run] = entry.first;
    keep(part, entry.second.version, std::move(came->second.values));
    newest_copies_[part] = run;
    copies_.erase(came);
    return true;
  });
}

bool StageStates::receive(Time now, PeerId from, const Block& block, Effects& out) {
  if (key_ == 0 || block.id.session != key_) return false;
  return block.id.kind == TransferKind::state ? receive_fetched(now, from, block, out)
                                              : receive_copy(from, block);
}

bool StageStates::receive_fetched(Time now, PeerId from, const Block& block, Effects& out) {
  const auto found = fetched_.find(block.id.stage);
  if (found == fetched_.end() || found->second.is_whole) return false;
  Fetched& fetched = found->second;
  const std::uint64_t before = fetched.download.received();
  fetched.download.receive_block(now, from, block, *fetched.values, out);
  const bool is_new = fetched.download.received() != before;
  if (is_new) ++progress_;
  if (fetched.download.take()) fetched.is_whole = true;
  return is_new;
}

bool StageStates::receive_copy(PeerId from, const Block& block) {
  const std::uint32_t stage = block.id.stage;
  if (block.id != copy_id(from, key_, stage, block.id.number)) return false;
  // A repeated block of an old copy must not take the place of a later copy.
  const auto newest = newest_copies_.find(stage);
  if (newest != newest_copies_.end() && block.id.number <= newest->second) return false;
  // Of each part, at most two copies are under way: for this copying point and for the next.
  const auto first = copies_.lower_bound({stage, 0});
  const auto others = std::distance(first, copies_.lower_bound({stage + 1, 0}));
  const bool is_new = !copies_.contains({stage, block.id.number});
  if (is_new && others > 1) return false;
  Copy& copy = copies_[{stage, block.id.number}];
  if (!copy.values) {
    copy = {from, blank(stage), Reassembly(sizeof(float) * sizes_[stage].state, sizeof(float))};
  }
  const auto memory = std::as_writable_bytes(std::span<float>(*copy.values));
  const bool fits = copy.source == from && copy.blocks.take(block, memory) == BlockFit::next;
  if (fits) ++progress_;
  settle_copies();
  return fits;
}

std::optional<PeerId> StageStates::tick(Time now, Effects& out) {
  if (unsound_from_) return std::exchange(unsound_from_, std::nullopt);
  for (auto& [stage, fetched] : fetched_) {
    fetched.download.tick(now, out);
    if (fetched.download.failed()) return fetched.source;
  }
  return std::nullopt;
}

Time StageStates::deadline() const {
  Time earliest = never;
  for (const auto& [stage, fetched] : fetched_) {
    earliest = std::min(earliest, fetched.download.deadline());
  }
  return earliest;
}

}  // namespace gv
