// The swarm's common work as one peer knows it: how much is done, and by which peer.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "base/problems.hpp"

namespace gv {

/// The document that a peer writes about itself (see report_json()).
struct PeerDocument {
  std::string text;
  /// False if the peer has ended; the text then comes from its result.json.
  bool is_running = true;
};

/// Asks the peer that runs in `folder` for its document. If no peer runs there, reads the document
/// that the last peer left when it ended. Returns nullopt if there is none, or if a peer runs there
/// but does not answer.
std::optional<PeerDocument> document_in(const std::filesystem::path& folder);

/// Extracts the part about the common work from a peer's document, in at most `bytes_max` bytes.
/// The result includes as many members as fit, in order; `left_out` counts the others.
std::string ledger_part(const std::string& document, std::size_t bytes_max);

/// Lists why the document has no common work to show, or is not a valid document of a peer. Anyone
/// may have written it.
Problems ledger_problems(const PeerDocument& document);

/// Returns the totals and a table of members, for people. Requires that ledger_problems() is empty.
std::string ledger_table(const PeerDocument& document);

/// Like ledger_table(), but as one JSON object with `peer`, `running`, `work`, `ledger` (null if
/// data are not leased), `peers` and `samples_of_unknown`. The last field counts samples that no
/// peer in the table is known to have trained on. If members are missing from the document,
/// `left_out` is their number.
std::string ledger_json(const PeerDocument& document);

}  // namespace gv
