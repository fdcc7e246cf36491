// Downloads and serves states, and chooses the version under which a state travels.
#include "peer/modes/state_transfer.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <utility>

namespace gv {
namespace {

/// The version under which a state travels from `source`: that of the generation only where any
/// other peer at that version would send the same bits.
ModelVersion travels_as(const Generation& generation, PeerId source, bool is_common) {
  return is_common ? generation.version
                   : version_of_own(generation.version, source, generation.key());
}

}  // namespace

StateDownload::Options generation_download(std::uint64_t layout_hash, std::size_t elements,
                                           std::uint32_t stage) {
  return {.layout_hash = layout_hash,
          .elements = elements,
          .stage = stage,
          .answer_deadline = std::chrono::seconds(1),
          .waits_for_answer = true,
          .progress_deadline = std::chrono::seconds(6),
          .resumes_max = 0,
          .rounds_max = 1};
}

StateServer::Options generation_server(std::uint64_t layout_hash) {
  return {.layout_hash = layout_hash,
          .served_max = std::numeric_limits<std::size_t>::max(),
          .waits = true};
}

StateTransfer::StateTransfer(PeerId self, std::uint64_t layout_hash, std::size_t elements,
                             std::pmr::memory_resource* memory)
    : self_(self),
      states_(elements, memory),
      download_(self, 0, generation_download(layout_hash, elements)),
      server_(generation_server(layout_hash)) {}

void StateTransfer::fetch(Time now, const Generation& generation, PeerId source, bool is_common,
                          Effects& out) {
  fetching_ = true;
  source_ = source;
  coming_version_ = generation.version;
  download_.set_session(generation.key());
  if (!incoming_) incoming_ = states_.blank();
  download_.want(now, {source}, travels_as(generation, source, is_common), out);
}

void StateTransfer::leave_generation() {
  fetching_ = false;
  download_.stop();
  server_.clear();
}

void StateTransfer::receive(Time now, PeerId from, const Block& block, Effects& out) {
  if (fetching_) download_.receive_block(now, from, block, *incoming_, out);
}

void StateTransfer::receive(Time now, PeerId from, const Message& message, Effects& out) {
  if (fetching_) download_.receive(now, from, message, *incoming_, out);
  server_.receive(from, message, out);
}

std::optional<ArrivedState> StateTransfer::take() {
  if (!fetching_ || !download_.take()) return std::nullopt;
  fetching_ = false;
  return ArrivedState{std::exchange(incoming_, nullptr), coming_version_, source_};
}

bool StateTransfer::is_asked(const Generation& generation, PeerId from,
                             const StateRequest& request) const {
  const TransferId& id = request.id;
  if (id != state_id(from, generation.key(), id.number)) return false;
  const auto place = std::ranges::find(generation.order, from);
  return place != generation.order.end() &&
         generation.sources[static_cast<std::size_t>(place - generation.order.begin())] == self_;
}

VectorPool::Vector StateTransfer::blank(const ModelVersion& version) {
  taken_ = version;
  return states_.blank();
}

std::size_t StateTransfer::send(const Generation& generation, const VectorPool::Vector& state,
                                bool is_common, Effects& out) {
  // A copy taken before a collective that finished meanwhile is not the state that the generation
  // starts from; the next job copies again.
  if (taken_ != generation.version) return 0;
  return server_.provide(0,
                         {.version = travels_as(generation, self_, is_common),
                          .payload = {state, std::as_bytes(std::span<const float>(*state))}},
                         out);
}

std::optional<PeerId> StateTransfer::tick(Time now, Effects& out) {
  if (!fetching_) return std::nullopt;
  download_.tick(now, out);
  return download_.failed() ? std::optional(source_) : std::nullopt;
}

}  // namespace gv
