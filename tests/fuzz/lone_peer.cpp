// Does a host's work for a lone peer: decodes bytes, ticks when due, and runs jobs.
#include "tests/fuzz/lone_peer.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "base/check.hpp"
#include "net/wire.hpp"
#include "sim/virtual/draw.hpp"
#include "tests/signers.hpp"

namespace gv::fuzz {
namespace {

/// No correct peer needs more ticks at one moment.
constexpr std::size_t ticks_max = 2000;
constexpr std::uint64_t session = 77;

/// A kind of peer, described by its config. Each kind handles its input with different code.
struct KindText {
  std::string_view name;
  std::string_view config;
  std::size_t dimension = 40;
  bool bounds_models = false;
};
constexpr std::array kind_texts = {
    KindText{"gossip", "[run]\nmode = \"gossip\"\n[gossip]\nperiod_steps = 2\n", 40, true},
    KindText{"gossip in half precision",
             "[run]\nmode = \"gossip\"\n[gossip]\nperiod_steps = 2\ncodec = \"fp16\"\n"
             "pairing = \"uniform\"\n",
             40, true},
    KindText{"allreduce", "[run]\nmode = \"allreduce\"\n", 700},
    KindText{"allreduce of sparse gradients",
             "[run]\nmode = \"allreduce\"\n[allreduce]\ntop_k_per_512 = 32\n", 700},
    KindText{"mixing", "[run]\nmode = \"mixing\"\n"},
    KindText{"mixing of differences", "[run]\nmode = \"mixing\"\nalgorithm = \"choco\"\n"},
    KindText{
        "gossip of leased data",
        "[run]\nmode = \"gossip\"\n[data]\npartition = \"leased\"\n[gossip]\nperiod_steps = 2\n",
        40, true},
    KindText{"gossip of a pair's largest differences",
             "[run]\nmode = \"gossip\"\n[gossip]\nperiod_steps = 2\ncodec = \"top_k\"\n"
             "codec_fraction = 0.1\n",
             40, true},
    KindText{"pipeline", "[run]\nmode = \"pipeline\"\n[pipeline]\nstages = 2\n"},
};

PeerKind made(const KindText& text) {
  DrawnWorld world;
  const ParsedConfig parsed = parse_config_text(text.config, text.name);
  for (const Problem& problem : parsed.problems) check(false, to_string(problem));
  world.config = parsed.config;
  world.config.run.steps = 1'000'000;
  world.config.train.schedule.learning_rate = 0.05;
  world.config.checkpoint.every_steps = 20;
  world.scenario.peers = swarm_peers;
  world.scenario.work = WorkKind::quadratic;
  world.scenario.dimension = text.dimension;
  PeerKind kind{text.name, simulator_options(world).node, workloads(world), text.bounds_models};
  kind.options.course.wait_for_peers = 3;
  return kind;
}

PublicKey key_of(std::size_t number) {
  PublicKey key{};
  key[0] = static_cast<std::uint8_t>(number + 1);
  return key;
}

AuthorizedPeer listed(std::size_t number) {
  return {.name = "p" + std::to_string(number), .key = key_of(number), .address = {}};
}

Roster roster_of(std::size_t self) {
  std::vector<AuthorizedPeer> all;
  for (std::size_t i = 0; i < listed_peers; ++i) all.push_back(listed(i));
  return {all[self], all};
}

}  // namespace

PeerId listed_id(std::size_t number) {
  static const std::vector<PeerId> ids = [] {
    std::vector<PeerId> made;
    for (std::size_t i = 0; i < listed_peers; ++i) made.push_back(peer_id(key_of(i)));
    return made;
  }();
  return ids[number];
}

const std::vector<PeerKind>& peer_kinds() {
  static const std::vector<PeerKind> kinds = [] {
    std::vector<PeerKind> all;
    for (const KindText& text : kind_texts) all.push_back(made(text));
    return all;
  }();
  return kinds;
}

LonePeer::LonePeer(const PeerKind& kind, std::size_t number)
    : kind_(kind), number_(number), roster_(roster_of(number)), work_(kind.make(number)) {
  const NodeOptions& options = kind.options;
  std::vector<PeerId> authorized;
  for (std::size_t i = 0; i < listed_peers; ++i) authorized.push_back(listed_id(i));
  node_ = std::make_unique<Node>(Member{.id = listed_id(number),
                                        .name = listed(number).name,
                                        .address = "127.0.0.1:" + std::to_string(5000 + number),
                                        .layout_hash = options.course.layout_hash},
                                 std::move(authorized), session + number, options,
                                 signer_of(listed_id(number)), Rng(session + number));
  call([&](Node& node, NodeEffects& out) { node.start(now_, 0, number > 0, out); });
}

PeerId LonePeer::other(std::uint8_t from) const {
  const std::size_t number = from % (listed_peers - 1);
  return listed_id(number < number_ ? number : number + 1);
}

std::uint8_t LonePeer::number_of_other(PeerId peer) const {
  for (std::uint8_t from = 0; from + 1U < listed_peers; ++from) {
    if (other(from) == peer) return from;
  }
  check(false, "a peer sends only to peers on its list");
  return 0;
}

void LonePeer::advance(Time until) {
  for (std::size_t ticks = 0; !is_over() && node_->deadline() <= until; ++ticks) {
    check(ticks < ticks_max, "timers do not go off all the time");
    now_ = std::max(now_, node_->deadline());
    call([&](Node& node, NodeEffects& out) { node.tick(now_, out); });
    check(node_->deadline() > now_, "nothing is due after a tick");
  }
  now_ = std::max(now_, until);
}

void LonePeer::apply(const Step& step) {
  advance(now_ + std::chrono::milliseconds(step.wait_ms));
  if (is_over()) return;
  const PeerId from = other(step.from);
  switch (step.action) {
    case Action::frame:
      receive_frame(from, step.bytes);
      break;
    case Action::records:
      receive_records(from, step.bytes);
      break;
    case Action::contact:
      call([&](Node& node, NodeEffects& out) { node.contact(now_, from, out); });
      break;
    case Action::restart:
      call([&](Node& node, NodeEffects& out) { node.restarted(now_, from, out); });
      break;
    case Action::lost:
      call([&](Node& node, NodeEffects& out) { node.lane_lost(now_, from, out); });
      break;
    case Action::refused:
      call([&](Node& node, NodeEffects& out) { node.lane_refused(now_, from, out); });
      break;
    case Action::job_done:
      finish_job();
      break;
    case Action::leave:
      call([&](Node& node, NodeEffects& out) { node.leave(now_, out); });
      break;
  }
}

bool LonePeer::is_finite() const {
  return std::ranges::all_of(work_->parameters(), [](float x) { return std::isfinite(x); });
}

void LonePeer::receive_frame(PeerId from, std::span<const std::byte> bytes) {
  Decoded decoded = decode(bytes);
  if (!decoded.frame) return;
  check(std::ranges::equal(encode(*decoded.frame), bytes), "a frame has one encoding");
  auto* message = std::get_if<Message>(&*decoded.frame);
  if (message == nullptr || !roster_.admit(*message).empty()) return;
  const Envelope envelope{from, std::move(*message)};
  call([&](Node& node, NodeEffects& out) { node.receive(now_, envelope, out); });
}

void LonePeer::receive_records(PeerId from, std::span<const std::byte> bytes) {
  RecordReader& reader = readers_[number_of_other(from)];
  const auto place = [&](const RecordHeader& header) {
    const TransferId id{.owner = static_cast<PeerId>(header.owner),
                        .session = header.session,
                        .number = header.number,
                        .kind = header.transfer,
                        .stage = header.stage};
    return node_->place(from, id, header.offset, header.length);
  };
  while (!bytes.empty() && !is_over()) {
    const auto room = reader.room(place);
    const std::size_t first = std::min(bytes.size(), room[0].size());
    const std::size_t second = std::min(bytes.size() - first, room[1].size());
    std::ranges::copy(bytes.first(first), room[0].begin());
    std::ranges::copy(bytes.subspan(first, second), room[1].begin());
    bytes = bytes.subspan(first + second);
    reader.came(first + second);
    while (const auto record = reader.next()) receive_record(from, *record);
    if (!reader.is_malformed()) continue;
    reader = {};
    call([&](Node& node, NodeEffects& out) { node.lane_lost(now_, from, out); });
    return;
  }
}

void LonePeer::receive_record(PeerId from, const Record& record) {
  if (record.header.kind == RecordKind::message) receive_frame(from, record.bytes);
  if (record.header.kind != RecordKind::block) return;
  const Block block{.id = {.owner = static_cast<PeerId>(record.header.owner),
                           .session = record.header.session,
                           .number = record.header.number,
                           .kind = record.header.transfer,
                           .stage = record.header.stage},
                    .offset = record.header.offset,
                    .bytes = record.bytes};
  call([&](Node& node, NodeEffects& out) { node.receive_block(now_, from, block, out); });
}

void LonePeer::finish_job() {
  if (jobs_.empty()) return;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  JobDone done = work_->run(std::move(job));
  if (done.job.saves()) done.results.emplace_back(result::Saved{});
  done.busy = std::chrono::milliseconds(1);
  ++jobs_done_;
  check(!kind_.bounds_models || is_finite(), "the model stays finite");
  call([&](Node& node, NodeEffects& out) { node.complete(now_, std::move(done), out); });
}

void LonePeer::carry_out(NodeEffects& out) {
  for (Outgoing& outgoing : out.messages) {
    check(!encode(outgoing.message).empty(), "what a peer says can be sent");
    sent_.messages.push_back(std::move(outgoing));
  }
  for (Transfer& transfer : out.transfers) sent_.transfers.push_back(std::move(transfer));
  for (Job& job : out.jobs) jobs_.push_back(std::move(job));
  check(jobs_.size() <= 2, "at most two jobs are under way");
}

}  // namespace gv::fuzz
