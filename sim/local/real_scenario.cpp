// Combines addresses, proxy and injector.
#include "sim/local/real_scenario.hpp"

#include <utility>

#include "peer/host/peer_socket.hpp"
#include "peer/host/switch_command.hpp"

namespace gv {
namespace {

/// Time that a peer has to answer a command.
constexpr std::chrono::seconds command_limit{2};

/// The largest number of running peers' addresses that a joining peer gets.
constexpr std::size_t joins_max = 3;

}  // namespace

RealScenario::RealScenario(asio::io_context& io, const Scenario& scenario, std::uint64_t seed,
                           std::deque<LaunchedPeer>& peers, Calls calls)
    : peers_(peers), links_(scenario) {
  const bool behind_proxy = has_bad_links(scenario);
  FaultProxy::Options options{.rng = Rng(seed).fork("links")};
  for (std::size_t number = 0; number < peers.size(); ++number) {
    addresses_.emplace_back(io, number, behind_proxy);
    options.sources[addresses_.back().own()] = number;
    log_offsets_.push_back(event_bytes(peers[number].folder()));
  }
  if (behind_proxy) {
    proxy_.emplace(io, std::move(options),
                   [this](std::size_t from, std::size_t to) { return links_.between(from, to); });
    for (std::size_t number = 0; number < peers.size(); ++number) {
      for (const auto& [front, back] : addresses_[number].forwards()) {
        proxy_->forward(number, front, back);
      }
    }
  }
  injector_.emplace(
      io, timeline(scenario, peers.size(), faults_end, Rng(seed).fork("faults")), peers,
      Injector::Calls{.start = std::move(calls.start),
                      .links =
                          [this](const FaultEvent& fault_event) {
                            links_.apply(fault_event);
                            if (proxy_) proxy_->refresh();
                          },
                      .switch_to =
                          [this, &io](std::size_t peer, const std::string& settings) {
                            // The result appears in the peer's events.
                            ask_peer(io, peers_[peer].folder(), switch_command_text(settings),
                                     command_limit, [](const auto&) {});
                          },
                      .tell = std::move(calls.tell)});
}

void RealScenario::set_addresses(std::size_t peer, PeerArguments& arguments) const {
  addresses_[peer].set(arguments);
}

std::vector<std::string> RealScenario::joins_for(std::size_t peer) const {
  std::vector<std::string> joins;
  for (std::size_t i = 1; i < peers_.size() && joins.size() < joins_max; ++i) {
    const std::size_t other = (peer + i) % peers_.size();
    if (peers_[other].state() != LaunchedPeer::State::running) continue;
    joins.push_back(peers_[other].name() + "@" + addresses_[other].advertised());
  }
  return joins;
}

std::size_t RealScenario::starters() const {
  std::size_t count = 0;
  for (std::size_t number = 0; number < peers_.size(); ++number) {
    count += !injector_->joins_late(number);
  }
  return count;
}

void RealScenario::begin() {
  begun_ = true;
  injector_->begin();
}

FaultReport RealScenario::report() const {
  FaultReport report{.injected = injector_->counts(), .skipped = injector_->skipped()};
  if (proxy_) report.proxy = proxy_->counters();
  for (std::size_t number = 0; number < peers_.size(); ++number) {
    const LaunchedPeer& peer = peers_[number];
    report.down_s += peer.down_s();
    report.stopped_s += peer.stopped_s();
    report.events.push_back(count_events(peer.folder(), log_offsets_[number]));
  }
  return report;
}

}  // namespace gv
