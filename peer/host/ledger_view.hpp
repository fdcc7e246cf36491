// The swarm's common work as one peer knows it: how much is done, and by which peer.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "base/problems.hpp"

namespace gv {

/// A peer's document about itself (see report_json()).
struct PeerDocument {
  std::string text;
  bool is_running = true;  ///< False: the peer has ended, and the text comes from its result.json.
};

/// Asks the peer that runs in `folder`. If no peer answers, reads the document that the last one
/// left at its end. nullopt: there is neither.
std::optional<PeerDocument> document_in(const std::filesystem::path& folder);

/// Takes from a peer's document what it says of the common work, in at most `bytes_max` bytes. The
/// first members that fit are in it, and `left_out` counts the others.
std::string ledger_part(const std::string& document, std::size_t bytes_max);

/// Why the document has no common work to show, or is not one that a peer writes; empty if it has.
/// Anybody may have written it.
Problems ledger_problems(const PeerDocument& document);

/// The totals and a table of members, for people. Requires that ledger_problems() is empty.
std::string ledger_table(const PeerDocument& document);

/// The same as one JSON object: `peer`, `running`, `work`, `ledger` (null if data are not leased),
/// `peers`, and `samples_of_unknown`, which no peer of the table is known to have trained. If the
/// document lacks members, `left_out` is their number.
std::string ledger_json(const PeerDocument& document);

}  // namespace gv
