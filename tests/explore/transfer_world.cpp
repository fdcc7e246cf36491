// The moves of a download, and the laws that it must obey.
#include "tests/explore/transfer_world.hpp"

#include <algorithm>
#include <memory>

namespace gv::explore {
namespace {

constexpr std::size_t block_bytes = sizeof(float);
const ModelVersion first_version{.step = 1, .samples = 1, .lineage = 1};

/// The state of a version. Each value encodes its lineage and its index.
std::vector<float> state_of(const ModelVersion& version, std::size_t elements) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    values[i] = static_cast<float>(100 * version.lineage + i);
  }
  return values;
}

}  // namespace

TransferWorld::TransferWorld(const TransferBound& bound)
    : bound_(&bound),
      download_(id_of(0), 1,
                {.elements = elements,
                 .answer_deadline = std::chrono::seconds(4),
                 .progress_deadline = std::chrono::seconds(4),
                 .block_least = block_bytes,
                 .resumes_max = 1,
                 .rounds_max = 1,
                 .retry_after = std::chrono::seconds(4)}),
      faults_(bound.faults),
      changes_left_(bound.changes),
      wants_left_(bound.wants) {
  for (Source& source : sources_) {
    source.server.emplace(StateServer::Options{});
    source.version = first_version;
  }
}

void TransferWorld::carry_out(std::size_t number, Effects& out) {
  wire_.add(number, out);
  for (std::size_t other = 1; other <= sources_.size(); ++other) {
    if (!source(other).server) wire_.cut(other);
  }
}

template <class Call>
void TransferWorld::download(Call call) {
  Effects out;
  call(out);
  carry_out(0, out);
  const auto arrival = download_.take();
  if (!arrival) return;
  if (memory_ != state_of(arrival->version, elements)) {
    broken_ = "a finished state is not that of its version";
  }
  if (wanted_ && arrival->version != *wanted_) broken_ = "another version came than was wanted";
}

void TransferWorld::give(std::size_t to, std::size_t from, const Message& message) {
  if (to == 0) {
    download([&](Effects& out) { download_.receive(now_, id_of(from), message, memory_, out); });
    return;
  }
  Effects out;
  StateServer& server = *source(to).server;
  if (const auto* request = std::get_if<StateRequest>(&message)) {
    if (server.ask(Time{}, id_of(from), *request, true, out)) {
      const auto state =
          std::make_shared<const std::vector<float>>(state_of(source(to).version, elements));
      server.provide(0, {source(to).version, {state, std::as_bytes(std::span(*state))}}, out);
    }
  } else {
    server.receive(now_, id_of(from), message, out);
  }
  carry_out(to, out);
}

void TransferWorld::give_block(std::size_t to, std::size_t from, const Block& block) {
  if (to != 0) return;
  download([&](Effects& out) { download_.receive_block(now_, id_of(from), block, memory_, out); });
}

void TransferWorld::do_act(const Move& move) {
  if (move.what == change) {
    --changes_left_;
    ModelVersion& version = source(move.number).version;
    version = {.step = version.step + 1, .samples = version.samples + 1, .lineage = 2};
  } else if (move.what == give_up) {
    download_.stop();
  } else {
    --wants_left_;
    wanted_ = move.what == want_first ? std::optional(first_version) : std::nullopt;
    std::vector<PeerId> alive;
    for (std::size_t number = 1; number <= sources_.size(); ++number) {
      if (!source(number).is_known_dead) alive.push_back(id_of(number));
    }
    download([&](Effects& out) { download_.want(now_, alive, wanted_, out); });
  }
}

std::vector<Move> TransferWorld::moves() const {
  using Kind = Move::Kind;
  std::vector<Move> moves;
  wire_.add_moves(faults_, moves);
  if (download_.is_waiting()) {
    moves.push_back({Kind::timer, 0});
    if (wants_left_ > 0) moves.push_back({Kind::act, 0, give_up});
  } else if (wants_left_ > 0) {
    moves.push_back({Kind::act, 0, want_any});
    moves.push_back({Kind::act, 0, want_first});
  }
  for (std::size_t number = 1; number <= sources_.size(); ++number) {
    const Source& one = sources_[number - 1];
    if (!one.server) {
      if (!one.is_known_dead) moves.push_back({Kind::learn, number});
      continue;
    }
    if (faults_.crashes > 0) moves.push_back({Kind::crash, number});
    if (changes_left_ > 0) moves.push_back({Kind::act, number, change});
  }
  return moves;
}

void TransferWorld::apply(const Move& move) {
  using Kind = Move::Kind;
  switch (move.kind) {
    case Kind::deliver:
    case Kind::repeat: {
      const Wire::Sent sent = wire_.arrive(move, faults_);
      give(sent.to, sent.from, sent.message);
      break;
    }
    case Kind::lose:
      wire_.lose(move, faults_);
      break;
    case Kind::block:
    case Kind::skip:
    case Kind::twice: {
      const auto [stream, block, times] = wire_.arrive(move, block_bytes, faults_);
      for (int time = 0; time < times; ++time) {
        give_block(number_of(stream.transfer.to), stream.from, block);
      }
      break;
    }
    case Kind::break_lane:
      --faults_.breaks;
      wire_.streams.clear();
      for (std::size_t number = 1; number <= sources_.size(); ++number) {
        if (!source(number).server) continue;
        Effects out;
        source(number).server->lane_lost(id_of(0), out);
        carry_out(number, out);
        download([&](Effects& more) { download_.lane_lost(now_, id_of(number), more); });
      }
      break;
    case Kind::timer:
      now_ = std::max(now_, download_.deadline());
      download([&](Effects& out) { download_.tick(now_, out); });
      break;
    case Kind::crash:
      --faults_.crashes;
      source(move.number).server.reset();
      wire_.cut(move.number);
      break;
    case Kind::learn:
      source(move.number).is_known_dead = true;
      download([&](Effects& out) { download_.peer_gone(now_, id_of(move.number), out); });
      break;
    case Kind::act:
      do_act(move);
  }
}

std::uint64_t TransferWorld::hash() const {
  StateHash hash(now_, std::chrono::minutes(1));
  hash.add(download_, memory_, sources_, wire_, faults_, changes_left_, wants_left_, wanted_);
  return hash.value();
}

std::string TransferWorld::text(const Move& move) const {
  if (move.kind != Move::Kind::act) return wire_.text(move);
  constexpr std::array names{"wants any version", "wants the first version", "gives up",
                             "has a new version"};
  return std::to_string(move.number) + " " + names[move.what];
}

}  // namespace gv::explore
