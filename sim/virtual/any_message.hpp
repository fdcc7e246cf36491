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

  /// Remembers the content of a real message, or of a transfer's name.
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
  std::deque<std::uint64_t> numbers_;  ///< The newest learnt numbers, a few hundred.
  std::deque<std::string> texts_;
};

/// Returns true if a real peer's network would accept the message. Repeats the bounds of net/wire
/// and the checks of net/roster, which this library does not include.
bool passes_the_wire(const Message& message);

/// Sets all steps that the peer reports of its own training.
void claim_step(Message& message, PeerId self, std::uint64_t step);

/// Signs the message's statements about the peer itself, true or not, as its key allows.
void sign_own(Message& message, PeerId self, const Signer& signer);

}  // namespace gv
