// Messages with any content that the wire lets through, drawn from the fields of their structs.
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

/// Draws messages and names of transfers field by field. Numbers and texts that it has learnt from
/// real ones come back, so that what it draws gets past the first check of its receiver.
class AnyMessage {
 public:
  /// `peers` are the ids of the swarm; other ids are drawn now and then.
  AnyMessage(std::vector<PeerId> peers, Rng rng);

  /// Remembers the content of a real message, or of a transfer's name.
  void learn(const Message& message);
  void learn(const TransferId& id);

  /// Any message of any kind.
  Message any();
  /// The same with some fields changed.
  Message changed(Message message);
  TransferId any_id();
  TransferId changed(TransferId id);

  Rng& rng() { return rng_; }

 private:
  struct Fields;

  std::vector<PeerId> peers_;
  Rng rng_;
  std::deque<std::uint64_t> numbers_;  ///< The newest of a few hundred that were learnt.
  std::deque<std::string> texts_;
};

/// Whether a real peer's network would hand the message on: the bounds of net/wire and the
/// judgement of net/roster, which this library does not include.
bool passes_the_wire(const Message& message);

/// Puts every report that the peer makes of its own training at that step.
void claim_step(Message& message, PeerId self, std::uint64_t step);

/// Signs what the message states of the peer itself, as its key can whatever that is.
void sign_own(Message& message, PeerId self, const Signer& signer);

}  // namespace gv
