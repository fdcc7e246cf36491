// The commands of the program: each adds itself, with its options and an example, to the parser.
#pragma once

#include "peer/host/host.hpp"

namespace CLI {
class App;
}

namespace gv {

/// Ends the command that is being run with this exit code. Only for callbacks of the parser.
[[noreturn]] void exit_with(int code);

void add_algorithms(CLI::App& app);
void add_bench(CLI::App& app);
void add_eval(CLI::App& app);
void add_keygen(CLI::App& app);
void add_launch(CLI::App& app);
void add_merge(CLI::App& app);
void add_plan(CLI::App& app);
void add_sim(CLI::App& app);
void add_status(CLI::App& app);
void add_switch(CLI::App& app);
void add_topology(CLI::App& app);
/// `hooks` go into the peer that the command runs.
void add_peer(CLI::App& app, const HostHooks& hooks);

}  // namespace gv
