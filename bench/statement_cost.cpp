// The cost of signed statements for each peer of a swarm: signatures and bytes are counted on a
// virtual clock, and the times of signatures are measured.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/membership/membership.hpp"
#include "net/key_signer.hpp"
#include "net/wire.hpp"
#include "sim/virtual/stand_in_signer.hpp"

namespace gv {
namespace {

constexpr Duration latency = std::chrono::milliseconds(5);
/// Bytes that a signed statement adds to a member entry. Its number and signature replace the
/// peer's key, which an entry without a statement would contain.
constexpr std::size_t added_bytes = sizeof(std::uint64_t) + sizeof(Signature) - sizeof(PublicKey);

struct Counts {
  std::size_t signatures = 0;
  std::size_t checks = 0;
  std::size_t entries = 0;  ///< Number of member entries in messages.
  std::size_t bytes = 0;    ///< Bytes of membership messages.
};

/// Stands in for Ed25519 and counts calls.
class CountingSigner final : public Signer {
 public:
  CountingSigner(PeerId self, Counts& counts) : signer_(self, 1), counts_(&counts) {}

  Signature sign(std::span<const std::byte> bytes) const override {
    ++counts_->signatures;
    return signer_.sign(bytes);
  }
  bool verify(PeerId signer, std::span<const std::byte> bytes,
              const Signature& signature) const override {
    ++counts_->checks;
    return signer_.verify(signer, bytes, signature);
  }
  bool verify_key(const PeerKey& key, std::span<const std::byte> bytes,
                  const Signature& signature) const override {
    ++counts_->checks;
    return signer_.verify_key(key, bytes, signature);
  }
  Digest digest(std::span<const std::byte> bytes) const override { return signer_.digest(bytes); }
  PeerId id_of(const PeerKey& key) const override { return signer_.id_of(key); }

 private:
  StandInSigner signer_;
  Counts* counts_;
};

PeerId peer(std::size_t number) { return PeerId{number + 1}; }

/// Peers that train all the time, at a hundred steps a second each.
class Swarm {
 public:
  explicit Swarm(std::size_t peers) {
    std::vector<PeerId> all;
    for (std::size_t i = 0; i < peers; ++i) all.push_back(peer(i));
    for (std::size_t i = 0; i < peers; ++i) {
      signers_.push_back(std::make_unique<CountingSigner>(peer(i), counts));
      Member self{.id = peer(i), .name = "peer", .address = "192.0.2.100:7400", .layout_hash = 1};
      members_.emplace_back(std::move(self), all, Membership::Options{}, *signers_.back(), Rng(i));
      Effects out;
      if (i > 0) members_.back().contact(now_, peer(0), out);
      carry_out(i, out);
    }
  }

  void run_until(Time end) {
    while (now_ < end) {
      std::size_t due = 0;
      for (std::size_t i = 1; i < members_.size(); ++i) {
        if (members_[i].deadline() < members_[due].deadline()) due = i;
      }
      const bool delivers =
          !queue_.empty() && queue_.begin()->first.first <= members_[due].deadline();
      now_ = std::max(now_, delivers ? queue_.begin()->first.first : members_[due].deadline());
      Effects out;
      if (delivers) {
        auto [to, envelope] = std::move(queue_.begin()->second);
        queue_.erase(queue_.begin());
        due = to;
        members_[to].receive(now_, envelope.from, envelope.message, out);
      } else {
        members_[due].tick(now_, out);
      }
      members_[due].set_progress({.step = static_cast<std::uint64_t>(100 * seconds(now_ - Time{})),
                                  .steps_per_second = 100,
                                  .phase = Phase::training});
      carry_out(due, out);
    }
  }

  Counts counts;

 private:
  void carry_out(std::size_t from, const Effects& out) {
    for (const Outgoing& outgoing : out.messages) {
      counts.bytes += encode(Frame(outgoing.message)).size();
      counts.entries += std::visit(
          [](const auto& known) -> std::size_t {
            if constexpr (requires { known.rumors; }) return known.rumors.size();
            if constexpr (requires { known.members; }) return known.members.size();
            return 0;
          },
          outgoing.message);
      const auto to = static_cast<std::size_t>(outgoing.to) - 1;
      queue_[{now_ + latency, ++sent_}] = {to, {peer(from), outgoing.message}};
    }
  }

  Time now_{};
  std::size_t sent_ = 0;
  std::vector<std::unique_ptr<CountingSigner>> signers_;
  std::vector<Membership> members_;
  std::map<std::pair<Time, std::size_t>, std::pair<std::size_t, Envelope>> queue_;
};

/// The median time of one call of `work`, in seconds.
template <class Work>
double median_seconds(Work work) {
  std::vector<double> times;
  for (int i = 0; i < 2001; ++i) {
    const auto began = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    times.push_back(took.count());
  }
  std::ranges::nth_element(times, times.begin() + 1000);
  return times[1000];
}

void measure(std::size_t peers) {
  const double warm_up = 60;
  const double measured = 120;
  Swarm swarm(peers);
  swarm.run_until(Time{} + from_seconds(warm_up));
  const Counts before = swarm.counts;
  swarm.run_until(Time{} + from_seconds(warm_up + measured));
  const auto rate = [&](std::size_t Counts::*count) {
    return static_cast<double>(swarm.counts.*count - before.*count) /
           (measured * static_cast<double>(peers));
  };
  const KeyPair pair = generate_key_pair();
  const KeySigner signer(pair, {});
  const std::vector<std::byte> statement(70);
  const Signature signature = signer.sign(statement);
  const double sign = median_seconds([&] { (void)signer.sign(statement); });
  const double check =
      median_seconds([&] { (void)signer.verify(peer_id(pair.public_key), statement, signature); });
  const double load = rate(&Counts::signatures) * sign + rate(&Counts::checks) * check;
  fmt::print(
      "{} peers: {:.2f} signatures/s of {:.0f} us, {:.2f} checks/s of {:.0f} us: {:.3f} % of a "
      "core; "
      "{:.1f} entries/s, {:.2f} kB/s added, {:.2f} kB/s in all\n",
      peers, rate(&Counts::signatures), 1e6 * sign, rate(&Counts::checks), 1e6 * check, 100 * load,
      rate(&Counts::entries), rate(&Counts::entries) * static_cast<double>(added_bytes) / 1000,
      rate(&Counts::bytes) / 1000);
}

}  // namespace
}  // namespace gv

int main(int argc, char** argv) {
  gv::measure(argc > 1 ? static_cast<std::size_t>(std::max(2, std::atoi(argv[1]))) : 100);
  return 0;
}
