// Chooses the probe of each collective, and computes measurements from the acknowledgements.
#include "consensus/generation/link_survey.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include "base/state_hash.hpp"

namespace gv {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

constexpr std::size_t small_bytes = 64;
constexpr std::size_t large_bytes_min = 16 * 1024;

/// Upper bound of a measured speed. No memory is faster.
constexpr double bytes_per_second_max = 20e9;

/// A probe that takes longer than this is given up when the next one is due.
constexpr Duration probe_max = std::chrono::seconds(1);

/// About as many bytes as the busiest link carries in a ring, within the bounds of a block.
std::size_t large_bytes(std::size_t elements) {
  return std::clamp(2 * sizeof(float) * elements, large_bytes_min, block_bytes_usual);
}

}  // namespace

std::array<double, LinkSurvey::rounds> LinkSurvey::Samples::none() {
  std::array<double, rounds> none{};
  none.fill(infinity);
  return none;
}

void LinkSurvey::Samples::add(double measured) { seconds[next++ % seconds.size()] = measured; }

double LinkSurvey::Samples::fastest() const { return *std::ranges::min_element(seconds); }

LinkSurvey::LinkSurvey(PeerId self, std::size_t elements)
    : self_(self), bytes_(std::make_shared<const std::vector<std::byte>>(large_bytes(elements))) {}

void LinkSurvey::begin(const std::vector<PeerId>& order, std::uint64_t generation_key) {
  end();
  if (operations(order.size()) == 0) return;
  order_ = order;
  rank_ = static_cast<std::size_t>(std::ranges::find(order, self_) - order.begin());
  generation_key_ = generation_key;
  std::erase_if(known_, [&](const auto& entry) {
    return std::ranges::find(order, entry.first) == order.end();
  });
}

void LinkSurvey::end() {
  order_.clear();
  probe_.reset();
}

void LinkSurvey::operation_began(Time now, std::uint64_t operation, Duration usual, Effects& out) {
  if (order_.empty() || operation == 0 || operation > operations(order_.size())) return;
  if (probe_) {
    if (now - probe_->sent < probe_max) return;
    give_up(seconds(now - probe_->sent));
  }
  const std::size_t ranks = order_.size();
  const std::size_t round = (operation - 1) / (ranks - 1);
  const std::size_t places = 1 + (operation - 1) % (ranks - 1);
  // Two peers that would probe each other take turns. Otherwise an acknowledgement would wait
  // behind the other peer's block.
  if (2 * places == ranks && (round % 2 == 0) != (rank_ < places)) return;
  const Duration quiet = usual > Duration{} ? std::min(usual, quiet_max) : quiet_max;
  probe_ = Probe{
      .to = order_[(rank_ + places) % ranks], .operation = operation, .quiet_until = now + quiet};
  send(now, false, out);
}

TransferId LinkSurvey::id_of(const Probe& probe) const {
  return probe_id(self_, generation_key_, probe.operation, probe.large);
}

void LinkSurvey::send(Time now, bool large, Effects& out) {
  probe_->large = large;
  probe_->sent = now;
  const std::span<const std::byte> bytes(*bytes_);
  out.transfers.push_back({.to = probe_->to,
                           .id = id_of(*probe_),
                           .payload = {bytes_, large ? bytes : bytes.first(small_bytes)}});
}

void LinkSurvey::receive_block(PeerId from, const Block& block, Effects& out) const {
  const bool expected = block.id.kind == TransferKind::probe && block.id.owner == from &&
                        block.id.session == generation_key_ &&
                        std::ranges::find(order_, from) != order_.end();
  if (expected) out.send(from, ProbeAck{block.id});
}

void LinkSurvey::receive(Time now, PeerId from, const ProbeAck& message, Effects& out) {
  if (!probe_ || from != probe_->to || message.id != id_of(*probe_)) return;
  const double took = seconds(now - probe_->sent);
  Known& known = known_[from];
  (probe_->large ? known.large : known.small).add(took);
  if (probe_->large) {
    probe_.reset();
  } else {
    send(now, true, out);
  }
}

/// Gives up the probe under way, and records that it would have taken at least `seconds`.
void LinkSurvey::give_up(double seconds) {
  Known& known = known_[probe_->to];
  if (!probe_->large) known.small.add(seconds);
  known.large.add(seconds);
  probe_.reset();
}

void LinkSurvey::lane_lost(PeerId peer) {
  if (probe_ && probe_->to == peer) give_up(infinity);
}

void LinkSurvey::lane_refused(PeerId peer) {
  lane_lost(peer);
  if (std::ranges::find(order_, peer) != order_.end()) known_[peer] = {};
}

std::vector<LinkReport> LinkSurvey::reports() const {
  std::vector<LinkReport> reports;
  for (const auto& [peer, known] : known_) {
    const double small = known.small.fastest();
    const double large = known.large.fastest();
    LinkReport& report = reports.emplace_back(LinkReport{.to = peer});
    if (!std::isfinite(large) || !std::isfinite(small)) continue;
    // If the large block took no longer than the small one, the link is taken to be as fast as
    // memory.
    const auto bytes = static_cast<double>(bytes_->size());
    const double bytes_took = std::max(large - small, bytes / bytes_per_second_max);
    report.latency_s = static_cast<float>(small / 2);
    report.bytes_per_second = static_cast<float>(bytes / bytes_took);
  }
  return reports;
}

bool operator==(const LinkSurvey& a, const LinkSurvey& b) { return equal_states(a, b); }

}  // namespace gv
