// The arguments that a launcher gives to a program in an environment variable.
#pragma once

#include <string>

#include "base/problems.hpp"
#include "peer/host/peer_arguments.hpp"

namespace gv {

/// The environment variable in which a launcher gives a program the arguments of its peer, as a
/// JSON object.
inline constexpr const char* given_variable = "GRAPEVINE_PEER";

/// Returns the text for the environment variable `given_variable`.
std::string given_text(const PeerArguments& arguments);

/// Replaces the fields of `arguments` that the text sets. Returns the problems of the text.
Problems take_given(const std::string& text, PeerArguments& arguments);

}  // namespace gv
