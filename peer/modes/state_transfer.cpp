// Downloads and serves states, and decides under which version a state is sent.
#include "peer/modes/state_transfer.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <utility>

namespace gv {
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

std::vector<PeerId> holders_of(const Generation& generation, PeerId self) {
  std::vector<PeerId> holders;
  for (std::size_t rank = 0; rank < generation.order.size(); ++rank) {
    const PeerId peer = generation.order[rank];
    if (peer != self && generation.sources[rank] == peer) holders.push_back(peer);
  }
  return holders;
}

StateTransfer::StateTransfer(PeerId self, const Options& options, const Rng& draws)
    : self_(self),
      compared_(options.compared),
      states_(options.elements, options.memory),
      download_(self,
                {.download = generation_download(options.layout_hash, options.elements),
                 .compared = options.compared},
                draws.fork("review")),
      server_(generation_server(options.layout_hash)),
      sketches_(options.layout_hash) {}

void StateTransfer::fetch(Time now, const Generation& generation, PeerId source, bool is_common,
                          Effects& out) {
  fetching_ = true;
  source_ = source;
  coming_version_ = generation.version;
  if (!incoming_) incoming_ = states_.blank();
  std::vector<PeerId> holders = holders_of(generation, self_);
  std::erase(holders, source);
  download_.want(now,
                 {.session = generation.key(),
                  .version = generation.version,
                  .is_common = is_common,
                  .source = source,
                  .holders = std::move(holders)},
                 out);
}

void StateTransfer::leave_generation() {
  fetching_ = false;
  download_.stop();
  forget_debts();
}

void StateTransfer::receive(Time now, PeerId from, const Block& block, Effects& out) {
  if (fetching_) download_.receive_block(now, from, block, *incoming_, out);
}

void StateTransfer::receive(Time now, PeerId from, const Message& message, Effects& out) {
  if (fetching_) download_.receive(now, from, message, *incoming_, out);
  server_.receive(now, from, message, out);
}

std::optional<ArrivedState> StateTransfer::take() {
  if (!fetching_) return std::nullopt;
  const std::optional<PeerId> from = download_.take();
  if (!from) return std::nullopt;
  fetching_ = false;
  return ArrivedState{.values = std::exchange(incoming_, nullptr),
                      .version = coming_version_,
                      .from = *from,
                      .has_witness = download_.has_witness()};
}

bool StateTransfer::may_ask(const Generation& generation, PeerId from,
                            const TransferId& request) const {
  if (request != state_id(from, generation.key(), request.number)) return false;
  const auto has_it = [&](PeerId peer) {
    const auto place = std::ranges::find(generation.order, peer);
    const auto rank = static_cast<std::size_t>(place - generation.order.begin());
    return place != generation.order.end() && generation.sources[rank] == peer;
  };
  return generation.contains(from) && !has_it(from) && has_it(self_);
}

VectorPool::Vector StateTransfer::blank(const ModelVersion& version) {
  taken_ = version;
  return states_.blank();
}

std::size_t StateTransfer::send(const Generation& generation, const VectorPool::Vector& state,
                                bool is_common, Effects& out) {
  // If a collective has finished since the copy was taken, the generation no longer starts from the
  // copied state. The next job then copies the state again.
  if (taken_ != generation.version) return 0;
  sketches_.answer(0, std::span<const float>(*state).first(compared_), generation.version.step,
                   out);
  return server_.provide(
      0,
      {.version = travels_as(generation.version, self_, generation.key(), is_common),
       .payload = {state, std::as_bytes(std::span<const float>(*state))}},
      out);
}

std::optional<PeerId> StateTransfer::tick(Time now, Effects& out) {
  if (!fetching_) return std::nullopt;
  download_.tick(now, out);
  return download_.failed() ? std::optional(source_) : std::nullopt;
}

}  // namespace gv
