// Packs the names of blocks into numbers, and unpacks them.
#include "consensus/message/transfer_id.hpp"

namespace gv {

std::string to_string(const TransferId& id) {
  return to_string(id.owner) + "/" + std::to_string(id.number);
}

/// Packs, from the highest bit down, 24 bits of the collective, 8 of the bucket, 12 of the round,
/// and 20 of the segment.
std::uint64_t PieceName::number() const {
  return operation % operations << 40 | static_cast<std::uint64_t>(bucket) << 32 |
         static_cast<std::uint64_t>(round) << 20 | static_cast<std::uint64_t>(segment);
}

TransferId exchange_id(PeerId owner, std::uint64_t session, std::uint64_t number) {
  return {owner, session, number, TransferKind::exchange};
}

TransferId state_id(PeerId owner, std::uint64_t session, std::uint64_t number,
                    std::uint32_t stage) {
  return {owner, session, number, TransferKind::state, stage};
}

TransferId copy_id(PeerId sender, std::uint64_t generation, std::uint32_t stage,
                   std::uint64_t operation) {
  return {sender, generation, operation, TransferKind::copy, stage};
}

TransferId piece_id(PeerId sender, std::uint64_t generation, const PieceName& piece,
                    std::uint32_t stage) {
  return {sender, generation, piece.number(), TransferKind::piece, stage};
}

TransferId probe_id(PeerId sender, std::uint64_t generation, std::uint64_t operation, bool large) {
  return {sender, generation, operation << 1 | std::uint64_t{large}, TransferKind::probe};
}

TransferId pass_id(PeerId sender, std::uint64_t generation, const PassName& pass) {
  const std::uint64_t number = pass.operation % operations_named << 40 |
                               std::uint64_t{pass.backward} << 32 | pass.micro_batch;
  return {sender, generation, number, TransferKind::pass, pass.stage};
}

TransferId mixing_id(PeerId sender, std::uint64_t generation, std::uint64_t round,
                     std::uint32_t stage) {
  return {sender, generation, round, TransferKind::mixing, stage};
}

std::optional<PieceName> piece_named(const TransferId& id) {
  if (id.kind != TransferKind::piece) return std::nullopt;
  return PieceName{.operation = id.number >> 40,
                   .bucket = static_cast<std::size_t>(id.number >> 32) % PieceName::buckets_max,
                   .round = static_cast<std::size_t>(id.number >> 20) % PieceName::rounds_max,
                   .segment = static_cast<std::size_t>(id.number) % PieceName::segments_max};
}

std::optional<PassName> pass_named(const TransferId& id) {
  const std::uint64_t direction = id.number >> 32 & 0xff;
  if (id.kind != TransferKind::pass || direction > 1) return std::nullopt;
  return PassName{.operation = id.number >> 40,
                  .stage = id.stage,
                  .micro_batch = static_cast<std::uint32_t>(id.number),
                  .backward = direction == 1};
}

}  // namespace gv
