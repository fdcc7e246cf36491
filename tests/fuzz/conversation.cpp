// Delivers messages between lone peers, millisecond by millisecond.
#include "tests/fuzz/conversation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "net/wire.hpp"

namespace gv::fuzz {
namespace {

constexpr auto moment = std::chrono::milliseconds(1);
constexpr auto job_takes = std::chrono::milliseconds(4);
constexpr auto longest = std::chrono::seconds(60);

/// Something in transit to a peer.
struct Travelling {
  Time due{};
  std::size_t to = 0;
  Step step;
};

Bytes record_of(const Transfer& transfer, std::size_t offset, std::span<const std::byte> bytes) {
  const RecordHeader header{.length = static_cast<std::uint32_t>(bytes.size()),
                            .owner = static_cast<std::uint64_t>(transfer.id.owner),
                            .session = transfer.id.session,
                            .number = transfer.id.number,
                            .offset = offset,
                            .stage = transfer.id.stage,
                            .transfer = transfer.id.kind};
  Bytes record(sizeof header + bytes.size());
  std::memcpy(record.data(), &header, sizeof header);
  std::ranges::copy(bytes, record.begin() + sizeof header);
  return record;
}

class Swarm {
 public:
  Swarm(std::size_t kind, std::size_t steps) : steps_(steps) {
    recorded_.script.kind = static_cast<std::uint8_t>(kind);
    for (std::size_t i = 0; i < swarm_peers; ++i) {
      peers_.push_back(std::make_unique<LonePeer>(peer_kinds()[kind], i));
    }
    for (std::size_t to = 0; to < swarm_peers; ++to) {
      for (std::size_t from = 0; from < swarm_peers; ++from) {
        if (from != to) post(from, to, {.action = Action::contact});
      }
    }
  }

  Conversation run() {
    while (now_ < Time(longest) && recorded_.script.steps.size() < steps_) {
      now_ += moment;
      for (std::size_t i = 0; i < swarm_peers; ++i) {
        peers_[i]->advance(now_);
        pass_on(i);
      }
      while (!travelling_.empty() && travelling_.front().due <= now_) {
        const Travelling arrived = std::move(travelling_.front());
        travelling_.pop_front();
        apply(arrived.to, arrived.step);
      }
      for (std::size_t i = 0; i < swarm_peers; ++i) {
        if (peers_[i]->jobs() == 0) job_began_[i] = now_;
        if (now_ - job_began_[i] < job_takes) continue;
        job_began_[i] = now_;
        apply(i, {.action = Action::job_done});
      }
    }
    recorded_.jobs_done = peers_[0]->jobs_done();
    recorded_.step = peers_[0]->node().mode().step();
    return std::move(recorded_);
  }

 private:
  void apply(std::size_t to, const Step& step) {
    if (to == 0 && recorded_.script.steps.size() == steps_) return;
    if (to == 0) {
      recorded_.script.steps.push_back(step);
      recorded_.script.steps.back().wait_ms =
          static_cast<std::uint16_t>((now_ - std::exchange(last_, now_)) / moment);
    }
    peers_[to]->apply(step);
    pass_on(to);
  }

  void post(std::size_t from, std::size_t to, Step step) {
    step.from = peers_[to]->number_of_other(listed_id(from));
    travelling_.push_back({now_ + moment, to, std::move(step)});
  }

  void pass_on(std::size_t from) {
    Sent sent = peers_[from]->take_sent();
    if (from == 0) recorded_.messages_sent += sent.messages.size();
    for (const Outgoing& outgoing : sent.messages) {
      if (const auto to = running(outgoing.to)) {
        post(from, *to, {.action = Action::frame, .bytes = encode(outgoing.message)});
      }
    }
    for (const Transfer& transfer : sent.transfers) {
      const auto to = running(transfer.to);
      if (!to) continue;
      for (std::size_t at = transfer.offset; at < transfer.payload.bytes.size();) {
        const auto left = transfer.payload.bytes.subspan(at);
        const auto block = left.first(next_block_bytes(left.size()));
        post(from, *to, {.action = Action::records, .bytes = record_of(transfer, at, block)});
        at += block.size();
      }
    }
  }

  static std::optional<std::size_t> running(PeerId peer) {
    for (std::size_t i = 0; i < swarm_peers; ++i) {
      if (listed_id(i) == peer) return i;
    }
    return std::nullopt;
  }

  std::size_t steps_;
  Time now_{};
  Time last_{};
  std::vector<std::unique_ptr<LonePeer>> peers_;
  std::array<Time, swarm_peers> job_began_{};
  std::deque<Travelling> travelling_;
  Conversation recorded_;
};

}  // namespace

Conversation converse(std::size_t kind, std::size_t steps) { return Swarm(kind, steps).run(); }

}  // namespace gv::fuzz
