// Names of transfers: what they contain, which peer requested or sends them, and their number.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.hpp"

namespace gv {

/// The content of a transfer's blocks. The kind decides which part of the receiving peer handles
/// the blocks.
enum class TransferKind : std::uint8_t {
  exchange,  ///< A snapshot, in a pair exchange.
  state,     ///< The state of a whole model or of one stage, which the receiver requested.
  copy,      ///< A copy of a stage's state, for the receiver to keep.
  piece,     ///< A piece of a sum.
  probe,     ///< Bytes that measure a link.
  pass,      ///< The result of a stage's pass.
  mixing,    ///< A message of a round of mixing.
};

/// The largest kind that is accepted from other peers.
constexpr TransferKind last_value(TransferKind) { return TransferKind::mixing; }

/// True if transfers of this kind are needed only by the peers of one generation, and only while it
/// lasts.
constexpr bool is_work_of_generation(TransferKind kind) {
  using enum TransferKind;
  return kind == piece || kind == probe || kind == pass || kind == mixing;
}

/// Names one bulk transfer, or an exchange of two transfers. The functions below make these ids,
/// and say what the fields mean for each kind.
struct TransferId {
  PeerId owner{};             ///< The peer that requested the transfer, if any; otherwise the
                              ///< sender.
  std::uint64_t session = 0;  ///< Session of the owner's process, or the key of a generation.
  std::uint64_t number = 0;
  TransferKind kind = TransferKind::exchange;
  /// The stage in a pipeline; for a piece of an averaged array, the array's length; otherwise 0.
  std::uint32_t stage = 0;

  friend auto operator<=>(const TransferId&, const TransferId&) = default;
};

/// "owner/number", for events and logs.
std::string to_string(const TransferId& id);

/// A block's name holds the number of its collective or pipeline run modulo this value. Far fewer
/// runs can be under way at the same time, so no two of them share a number.
inline constexpr std::uint64_t operations_named = std::uint64_t{1} << 24;

/// Names a piece of an all-reduce.
struct PieceName {
  std::uint64_t operation = 0;
  std::size_t bucket = 0;
  std::size_t round = 0;
  std::size_t segment = 0;

  static constexpr std::uint64_t operations = operations_named;
  static constexpr std::size_t buckets_max = 256;
  static constexpr std::size_t rounds_max = 4096;
  static constexpr std::size_t segments_max = 1 << 20;

  /// Packs all fields into one number, with the operation modulo `operations`.
  std::uint64_t number() const;
};

/// Identifies the result of a pass: the stage that receives it, the micro-batch, and the direction.
struct PassName {
  std::uint64_t operation = 0;  ///< The pipeline run, modulo `operations_named`.
  std::uint32_t stage = 0;
  std::uint32_t micro_batch = 0;
  bool backward = false;

  auto operator<=>(const PassName&) const = default;
};

/// The id of an exchange that `owner` starts. `session` is drawn at random when the owner's process
/// starts, so ids of an earlier process never match; `number` counts up from 1 within the session.
TransferId exchange_id(PeerId owner, std::uint64_t session, std::uint64_t number);
/// The id of a state that `owner` asks for. `number` distinguishes the owner's requests in a
/// session or generation.
TransferId state_id(PeerId owner, std::uint64_t session, std::uint64_t number,
                    std::uint32_t stage = 0);
/// The id of a stage's state after pipeline run `operation`, sent to a peer that keeps a copy.
TransferId copy_id(PeerId sender, std::uint64_t generation, std::uint32_t stage,
                   std::uint64_t operation);
TransferId piece_id(PeerId sender, std::uint64_t generation, const PieceName& piece,
                    std::uint32_t stage = 0);
/// The id of the small or the large probe of collective `operation`.
TransferId probe_id(PeerId sender, std::uint64_t generation, std::uint64_t operation, bool large);
TransferId pass_id(PeerId sender, std::uint64_t generation, const PassName& pass);
TransferId mixing_id(PeerId sender, std::uint64_t generation, std::uint64_t round,
                     std::uint32_t stage = 0);

/// The name that an id holds; nullopt if the id is of another kind.
std::optional<PieceName> piece_named(const TransferId& id);
std::optional<PassName> pass_named(const TransferId& id);

/// Numbers the exchanges and state requests that a peer starts in one session.
struct TransferNumbers {
  std::uint64_t session = 0;
  std::uint64_t last = 0;

  TransferId next_exchange(PeerId owner) { return exchange_id(owner, session, ++last); }
  TransferId next_state(PeerId owner, std::uint32_t stage = 0) {
    return state_id(owner, session, ++last, stage);
  }
};

}  // namespace gv
