// The names of the enumerations in messages, and the bounds of the structs.
#include "consensus/message/message.hpp"

#include <algorithm>
#include <tuple>
#include <variant>

#include "base/rng.hpp"

namespace gv {
namespace {

/// Returns the text of an error if `count` exceeds `most`; otherwise an empty string.
std::string too_many(std::size_t count, std::size_t most, const char* what) {
  if (count <= most) return "";
  return std::to_string(count) + " " + what + " are over the limit of " + std::to_string(most);
}

}  // namespace

Message::Message() = default;
Message::Message(std::size_t index, void* message)
    : MessageVariant(variant_from<MessageVariant>(index, message)) {}
Message::Message(const Message& other) = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(const Message& other) = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::~Message() = default;

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::none:
      return "none";
    case Reason::busy:
      return "busy";
    case Reason::not_ready:
      return "not ready";
    case Reason::unknown_layout:
      return "unknown layout";
    case Reason::unknown_codec:
      return "unknown codec";
    case Reason::quarantined:
      return "quarantined";
    case Reason::stale:
      return "stale";
    case Reason::unknown_peer:
      return "unknown peer";
    case Reason::unknown_transfer:
      return "unknown transfer";
    case Reason::not_finite:
      return "not finite";
    case Reason::norm_exceeded:
      return "norm exceeded";
    case Reason::bad_length:
      return "bad length";
    case Reason::timed_out:
      return "timed out";
    case Reason::peer_gone:
      return "peer gone";
    case Reason::unreachable:
      return "unreachable";
    case Reason::impossible:
      return "impossible";
    case Reason::resting:
      return "resting";
    case Reason::forged:
      return "forged";
    case Reason::doubtful:
      return "doubtful";
  }
  return "unknown";
}

std::string_view to_string(MemberState state) {
  switch (state) {
    case MemberState::alive:
      return "alive";
    case MemberState::suspect:
      return "suspect";
    case MemberState::dead:
      return "dead";
    case MemberState::left:
      return "left";
  }
  return "unknown";
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::joining:
      return "joining";
    case Phase::training:
      return "training";
    case Phase::finishing:
      return "finishing";
    case Phase::done:
      return "done";
  }
  return "unknown";
}

std::string Trial::problem() const {
  if (!(learning_rate > 0)) return "the learning rate is not above 0";
  if (!(momentum >= 0 && momentum < 1)) return "the momentum is not between 0 and 1";
  return "";
}

std::string ChunkRange::problem() const {
  const bool fits = begin <= chunk_number_max && count >= 1 && count <= chunk_number_max;
  return fits ? "" : "a range of chunks is beyond all bounds";
}

std::string LedgerEntry::problem() const {
  std::string found = too_many(done.size(), ledger_ranges_max, "ranges of done chunks");
  if (found.empty()) found = too_many(leases.size(), ledger_leases_max, "leases");
  std::uint64_t taken = 0;
  for (const Lease& lease : leases) taken += std::min(lease.chunks.count, chunk_number_max);
  if (found.empty()) found = too_many(taken, leased_chunks_max, "leased chunks");
  return found;
}

std::string GenerationId::problem() const {
  return number > ballot_number_max ? "the number of a ballot is beyond all bounds" : "";
}

std::string SettingsRevision::problem() const {
  if (number > revision_number_max) return "the number of a settings revision is beyond all bounds";
  return too_many(settings.size(), revision_bytes_max, "bytes of a settings revision");
}

std::string Answer::problem() const {
  const std::string links_problem = too_many(links.size(), link_reports_max, "links");
  if (!links_problem.empty()) return links_problem;
  return too_many(holdings.size(), stage_holdings_max, "stages");
}

std::uint64_t key_of(const GenerationId& id) {
  const std::uint64_t numbers = hash_combine(hash_combine(0, id.number), id.session);
  return hash_combine(numbers, static_cast<std::uint64_t>(id.proposer));
}

bool Generation::contains(PeerId peer) const {
  return std::ranges::find(order, peer) != order.end();
}

bool is_before(const ModelVersion& a, const ModelVersion& b) {
  return std::tuple(a.samples, a.step, a.lineage) < std::tuple(b.samples, b.step, b.lineage);
}

ModelVersion after_operation(ModelVersion version, std::uint64_t generation_key,
                             std::uint64_t samples, std::uint64_t steps) {
  version.lineage = hash_combine(hash_combine(version.lineage, generation_key), version.step);
  version.step += steps;
  version.samples += samples;
  return version;
}

const GenerationId* ballot_of(const Message& message) {
  if (const auto* install = std::get_if<Install>(&message)) return &install->generation.id;
  if (const auto* decided = std::get_if<Decided>(&message)) return &decided->decision.ballot;
  if (const auto* proof = std::get_if<Equivocation>(&message)) return &proof->one.ballot;
  return std::visit(
      [](const auto& known) -> const GenerationId* {
        if constexpr (requires { known.ballot.number; }) return &known.ballot;
        return nullptr;
      },
      message);
}

const TransferId* transfer_of(const Message& message) {
  return std::visit(
      [](const auto& known) -> const TransferId* {
        if constexpr (requires { known.id; }) return &known.id;
        return nullptr;
      },
      message);
}

}  // namespace gv
