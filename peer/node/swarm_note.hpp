// Writes and reads a checkpoint's note about the swarm's work.
#pragma once

#include <map>
#include <string>

#include "peer/node/job.hpp"

namespace gv {

/// The notes of a checkpoint, by name.
using Notes = std::map<std::string, std::string>;

/// Adds the swarm's note to the notes of a checkpoint. Unknown values add nothing.
void write(const SwarmNote& note, Notes& notes);

/// Reads the notes that write() added. Missing or invalid parts stay as in an empty note.
SwarmNote swarm_note_in(const Notes& notes);

}  // namespace gv
