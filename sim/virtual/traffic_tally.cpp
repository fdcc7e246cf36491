// Encodes messages as for the wire, and counts their bytes.
#include "sim/virtual/traffic_tally.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/canonical.hpp"
#include "base/fields.hpp"

namespace gv {
namespace {

/// Bytes of version and kind, which precede a message's fields on a control link.
constexpr std::uint64_t head = 2;

/// Bytes of a value on the wire, where fields are written as in canonical bytes.
template <class Value>
std::uint64_t bytes_of(const Value& value) {
  static const std::uint64_t domain = CanonicalBytes("").bytes().size();
  return canonical_bytes("", value).size() - domain;
}

std::uint64_t work_in(const Progress& progress) {
  return progress.work ? bytes_of(*progress.work) : 0;
}

std::uint64_t work_in(const std::vector<Member>& members) {
  std::uint64_t sum = 0;
  for (const Member& member : members) sum += work_in(member.progress);
  return sum;
}

/// Bytes in the message that report what peers have trained.
template <class M>
std::uint64_t work_in_message(const M& message) {
  std::uint64_t sum = 0;
  if constexpr (requires { message.progress; }) sum += work_in(message.progress);
  if constexpr (requires { message.rumors; }) sum += work_in(message.rumors);
  if constexpr (requires { message.members; }) sum += work_in(message.members);
  return sum;
}

}  // namespace

std::uint64_t bytes_on_link(const Message& message) {
  return std::visit([](const auto& known) { return head + bytes_of(known); }, message);
}

void TrafficTally::on_effects(const Simulator&, PeerNumber, const NodeEffects& effects) {
  for (const Outgoing& out : effects.messages) {
    const std::uint64_t bytes = bytes_on_link(out.message);
    bytes_ += bytes;
    longest_ = std::max(longest_, bytes);
    std::visit(
        [&](const auto& known) {
          Kind& kind = kinds_[std::string(type_name<std::decay_t<decltype(known)>>())];
          ++kind.messages;
          kind.bytes += bytes;
          work_bytes_ += work_in_message(known);
        },
        out.message);
  }
}

std::string TrafficTally::to_json(double peer_seconds) const {
  using Json = nlohmann::ordered_json;
  const auto each = [peer_seconds](std::uint64_t bytes) {
    return static_cast<double>(bytes) / std::max(peer_seconds, 1e-9);
  };
  Json kinds;
  for (const auto& [name, kind] : kinds_) {
    kinds[name] = {{"messages", kind.messages},
                   {"bytes", kind.bytes},
                   {"bytes_a_second_and_peer", each(kind.bytes)}};
  }
  const Json whole{{"bytes", bytes_},
                   {"bytes_a_second_and_peer", each(bytes_)},
                   {"work_bytes", work_bytes_},
                   {"work_bytes_a_second_and_peer", each(work_bytes_)},
                   {"longest_message", longest_},
                   {"kinds", std::move(kinds)}};
  return whole.dump(1) + '\n';
}

}  // namespace gv
