// Messages and streams in transit in an explored world.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.hpp"
#include "base/state_hash.hpp"
#include "consensus/message/effects.hpp"

namespace gv::explore {

/// One event that may happen next in a world.
struct Move {
  enum class Kind {
    deliver,     ///< Message `number` arrives.
    repeat,      ///< Message `number` arrives, and will arrive again.
    lose,        ///< Message `number` never arrives.
    block,       ///< The next block of stream `number` arrives.
    skip,        ///< The next block of stream `number` is lost.
    twice,       ///< The next block of stream `number` arrives twice.
    break_lane,  ///< All data on the lanes are lost, and both ends of each lane notice.
    timer,       ///< Peer `number` wakes up.
    crash,       ///< Peer `number` dies.
    learn,       ///< Peer `number` learns of a crash.
    act,         ///< Peer `number` does something that its world allows.
  };
  Kind kind = Kind::act;
  std::size_t number = 0;
  std::size_t what = 0;  ///< The number of the act in its world, for an `act` move.
};

inline PeerId id_of(std::size_t number) { return PeerId{number + 1}; }
inline std::size_t number_of(PeerId id) { return static_cast<std::size_t>(id) - 1; }

/// The faults that may still happen.
struct Faults {
  int crashes = 0;
  int losses = 0;
  int duplicates = 0;
  int breaks = 0;  ///< Number of times that lanes may break.
};

/// Messages have no order. Equal messages between the same two peers count once: a sender that
/// repeats a question before the first one arrives looks like a sender that asks once, and the
/// protocols must treat both alike. So one loss here loses both messages, where a real link would
/// need two losses.
struct Wire {
  struct Sent {
    std::uint64_t hash = 0;
    std::size_t from = 0;
    std::size_t to = 0;
    Message message;
  };
  struct Stream {
    std::size_t from = 0;
    Transfer transfer;
  };
  std::vector<Sent> messages;  ///< Messages in transit, sorted by hash.
  std::vector<Stream> streams;

  void add(std::size_t from, Effects& out) {
    for (Outgoing& outgoing : out.messages) {
      Sent sent{0, from, number_of(outgoing.to), std::move(outgoing.message)};
      StateHash hash(Time{});
      hash.add(sent.from, sent.to, sent.message);
      sent.hash = hash.value();
      const auto place = std::ranges::lower_bound(messages, sent.hash, {}, &Sent::hash);
      if (place == messages.end() || place->hash != sent.hash) {
        messages.insert(place, std::move(sent));
      }
    }
    for (const Cancel& cancel : out.cancels) drop(from, cancel.id);
    for (Transfer& transfer : out.transfers) {
      drop(from, transfer.id);
      if (transfer.offset < transfer.payload.bytes.size()) {
        streams.push_back({from, std::move(transfer)});
      }
    }
    std::ranges::sort(streams, {}, [](const Stream& stream) {
      return std::pair(stream.from, stream.transfer.id);
    });
  }
  /// Drops all messages to a dead peer, and all streams from and to it. Messages that it sent
  /// earlier still arrive.
  void cut(std::size_t peer) {
    std::erase_if(messages, [&](const Sent& sent) { return sent.to == peer; });
    std::erase_if(streams, [&](const Stream& stream) {
      return stream.from == peer || number_of(stream.transfer.to) == peer;
    });
  }
  /// Delivers the message of a `deliver` or `repeat` move. A repeated message stays in transit.
  Sent arrive(const Move& move, Faults& faults) {
    if (move.kind == Move::Kind::deliver) return take(move.number);
    --faults.duplicates;
    return messages[move.number];
  }
  void lose(const Move& move, Faults& faults) {
    --faults.losses;
    take(move.number);
  }
  struct Arrival {
    Stream stream;
    Block block;
    int times = 1;  ///< How often the block arrives; 0: it is lost.
  };
  /// Delivers or loses the next block of a stream by a `block`, `skip` or `twice` move.
  Arrival arrive(const Move& move, std::size_t bytes_max, Faults& faults) {
    const auto [stream, block] = next_block(move.number, bytes_max);
    const bool is_lost = move.kind == Move::Kind::skip;
    const bool is_double = move.kind == Move::Kind::twice;
    faults.losses -= is_lost ? 1 : 0;
    faults.duplicates -= is_double ? 1 : 0;
    return {stream, block, is_lost ? 0 : is_double ? 2 : 1};
  }
  Sent take(std::size_t number) {
    Sent sent = std::move(messages[number]);
    messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(number));
    return sent;
  }
  /// Removes the next block from a stream.
  std::pair<Stream, Block> next_block(std::size_t number, std::size_t bytes_max) {
    Stream stream = streams[number];
    const auto rest = stream.transfer.payload.bytes.subspan(stream.transfer.offset);
    const Block block{stream.transfer.id, stream.transfer.offset,
                      rest.first(std::min(bytes_max, rest.size()))};
    streams[number].transfer.offset += block.bytes.size();
    if (block.bytes.size() == rest.size()) {
      streams.erase(streams.begin() + static_cast<std::ptrdiff_t>(number));
    }
    return {std::move(stream), block};
  }
  void drop(std::size_t from, const TransferId& id) {
    std::erase_if(streams, [&](const Stream& stream) {
      return stream.from == from && stream.transfer.id == id;
    });
  }

  /// Adds the possible moves of all messages and streams in transit.
  void add_moves(const Faults& faults, std::vector<Move>& moves) const {
    using Kind = Move::Kind;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      moves.push_back({Kind::deliver, i});
      if (faults.losses > 0) moves.push_back({Kind::lose, i});
      if (faults.duplicates > 0) moves.push_back({Kind::repeat, i});
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      moves.push_back({Kind::block, i});
      if (faults.losses > 0) moves.push_back({Kind::skip, i});
      if (faults.duplicates > 0) moves.push_back({Kind::twice, i});
    }
    if (faults.breaks > 0 && !streams.empty()) moves.push_back({Kind::break_lane});
  }

  std::string text(const Move& move) const {
    const auto between = [](std::size_t from, std::size_t to) {
      return " from " + std::to_string(from) + " to " + std::to_string(to);
    };
    using Kind = Move::Kind;
    switch (move.kind) {
      case Kind::deliver:
      case Kind::repeat:
      case Kind::lose: {
        const Sent& sent = messages[move.number];
        const auto name = std::visit(
            [](const auto& message) {
              return std::string(type_name<std::remove_cvref_t<decltype(message)>>());
            },
            sent.message);
        const char* how = move.kind == Kind::deliver  ? "deliver "
                          : move.kind == Kind::repeat ? "deliver and keep "
                                                      : "lose ";
        return how + name + between(sent.from, sent.to);
      }
      case Kind::block:
      case Kind::skip:
      case Kind::twice: {
        const Stream& stream = streams[move.number];
        const char* how = move.kind == Kind::block  ? "deliver block "
                          : move.kind == Kind::skip ? "lose block "
                                                    : "deliver twice block ";
        return how + std::to_string(stream.transfer.offset) +
               between(stream.from, number_of(stream.transfer.to));
      }
      case Kind::break_lane:
        return "break all lanes";
      case Kind::timer:
        return "timer of " + std::to_string(move.number);
      case Kind::crash:
        return "crash of " + std::to_string(move.number);
      case Kind::learn:
        return std::to_string(move.number) + " learns of the crash";
      case Kind::act:
        break;
    }
    return std::to_string(move.number) + " acts: " + std::to_string(move.what);
  }

  /// Messages enter the hash through their own hashes.
  void add_to(StateHash& hash) const {
    hash.add(messages.size());
    for (const Sent& sent : messages) hash.add(sent.hash);
    hash.add(streams.size());
    for (const Stream& stream : streams) {
      hash.add(stream.from, stream.transfer.to, stream.transfer.id, stream.transfer.offset,
               stream.transfer.payload);
    }
  }
};

}  // namespace gv::explore
