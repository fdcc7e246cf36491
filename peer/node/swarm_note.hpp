// Writes what a checkpoint says about the swarm's work, and reads it.
#pragma once

#include <map>
#include <string>

#include "peer/node/job.hpp"

namespace gv {

/// The notes of a checkpoint, by name.
using Notes = std::map<std::string, std::string>;

/// Adds the note to those of a checkpoint. What is not known adds nothing.
void write(const SwarmNote& note, Notes& notes);

/// Reads what write() has added. Parts that are missing or unsound are as in an empty note.
SwarmNote swarm_note_in(const Notes& notes);

}  // namespace gv
