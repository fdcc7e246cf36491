// Names of the enumerations that travel in messages.
#include "consensus/message/message.hpp"

#include <concepts>
#include <tuple>
#include <variant>

namespace gv {

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
    case Reason::leaving:
      return "leaving";
    case Reason::resting:
      return "resting";
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
    case Phase::done:
      return "done";
  }
  return "unknown";
}

bool is_before(const ModelVersion& a, const ModelVersion& b) {
  return std::tuple(a.samples, a.step, a.lineage) < std::tuple(b.samples, b.step, b.lineage);
}

const TransferId* transfer_of(const Message& message) {
  return std::visit(
      [](const auto& known) -> const TransferId* {
        if constexpr (requires {
                        { known.id } -> std::convertible_to<const TransferId&>;
                      }) {
          return &known.id;
        } else {
          return nullptr;
        }
      },
      message);
}

}  // namespace gv
