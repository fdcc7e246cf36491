// Chooses the keys to try at each address to join, and when to move on to the next keys.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "net/control_links_impl.hpp"
#include "net/descriptor.hpp"

namespace gv {
namespace {

constexpr std::size_t joins_max = 64;  ///< Most keys tried at once at an address without a name.
constexpr auto join_patience = std::chrono::seconds(10);

}  // namespace

/// Creates dealers, while places are free, for keys that may answer at the address and have no
/// dealer yet. Starts after the last key that got a dealer.
void ControlLinks::Impl::seek(Join& join) {
  join.sought = Clock::now();
  auto at = join.last ? links.upper_bound(*join.last) : links.begin();
  for (std::size_t left = links.size(); left > 0 && join.dealers.size() < joins_max; --left) {
    if (at == links.end()) at = links.begin();
    const auto& [peer, link] = *at++;
    const bool is_wanted = join.name.empty() || link.peer.name == join.name;
    if (!is_wanted || is_quarantined(peer) || join.dealers.contains(peer)) continue;
    if (!has_spare_descriptors()) return refuse(peer, too_few_descriptors);
    join.last = peer;
    std::optional<Dealer> dealer = dial(peer, link.peer.key, join.address);
    // The next key would fail at this address too.
    if (!dealer) return;
    say_hello(*dealer);
    join.dealers.emplace(peer, *std::move(dealer));
  }
}

/// Called when a peer answers at an address given without a name. Keeps the link to that peer, and
/// drops the dealers of the other keys tried there.
void ControlLinks::Impl::joined(PeerId peer, SocketWatch* watch) {
  for (auto join = joins.begin(); join != joins.end(); ++join) {
    const auto dealer = join->dealers.find(peer);
    if (dealer == join->dealers.end() || dealer->second.watch.get() != watch) continue;
    Link& link = links.at(peer);
    if (!link.dealer) {
      link.address = join->address;
      link.dealer = std::move(dealer->second);
    }
    joins.erase(join);
    return;
  }
}

/// Keeps trying the addresses to join, and reports those at which no peer answers.
void ControlLinks::Impl::tend_joins() {
  const auto now = Clock::now();
  // Drop an address if its named peer is already linked. The peer may have been reached at another
  // address, for example after a restart.
  std::erase_if(joins, [this](const Join& join) {
    return !join.name.empty() && std::ranges::any_of(links, [&](const auto& item) {
      const Link& link = item.second;
      const bool is_up = (link.dealer && link.dealer->up) || link.route.works();
      return link.peer.name == join.name && link.session != 0 && !link.refused && is_up;
    });
  });
  for (Join& join : joins) {
    if (now - join.sought > options.handshake_deadline) {
      // The keys being tried have had time for a complete handshake. If there are more keys than
      // places, the next keys get their turn.
      if (join.name.empty() && links.size() > joins_max) join.dealers.clear();
      seek(join);
    }
    for (auto& [peer, dealer] : join.dealers) {
      connect_by_name(peer, dealer);
      if (now - dealer.dialled > dial_again_after) {
        dial_again(peer, links.at(peer).peer.key, dealer);
      } else if (now - dealer.said_hello > hello_again) {
        say_hello(dealer);
      }
    }
    if (!join.told && now - join.began > join_patience) {
      join.told = true;
      callbacks.fact(JoinFailed{.address = join.address});
    }
  }
}

void ControlLinks::join(const std::string& address) {
  const auto at = address.find('@');
  const bool has_name = at != std::string::npos;
  Impl::Join join{.address = has_name ? address.substr(at + 1) : address,
                  .name = has_name ? address.substr(0, at) : std::string(),
                  .dealers = {}};
  impl_->seek(join);
  impl_->joins.push_back(std::move(join));
}

}  // namespace gv
