// Random messages with any content that the decoder accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/rng.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Draws messages and names of transfers field by field. Reuses numbers and texts from real
/// messages, so that the drawn ones pass the receiver's first checks.
class AnyMessage {
 public:
  /// `peers` are the ids of the swarm; occasionally other ids are drawn.
  AnyMessage(std::vector<PeerId> peers, Rng rng);

  /// Remembers the numbers and texts in a real message, or in a transfer's name.
  void learn(const Message& message);
  void learn(const TransferId& id);

  /// Any message of any kind.
  Message any();
  /// A copy of the message with some fields changed.
  Message changed(Message message);
  TransferId any_id();
  TransferId changed(TransferId id);

  Rng& rng() { return rng_; }

 private:
  struct Fields;

  std::vector<PeerId> peers_;
  Rng rng_;
  std::deque<std::uint64_t> numbers_;  ///< A few hundred of the newest learnt numbers.
  std::deque<std::string> texts_;
};

/// Returns true if a real peer's network would accept the message. Repeats the bounds of net/wire
/// and the checks of net/roster, because this library uses neither of them.
bool passes_the_wire(const Message& message);

/// Sets every step that the message reports about peer `self`'s own training to `step`.
void claim_step(Message& message, PeerId self, std::uint64_t step);

/// Signs the message's statements about peer `self`, true or not, with that peer's key.
void sign_own(Message& message, PeerId self, const Signer& signer);

}  // namespace gv
