// The program's commands. Each function adds one to the parser, with its options and an example.
#pragma once

#include <string>
#include <vector>

#include "peer/host/host.hpp"

namespace CLI {
class App;
class Validator;
}

namespace gv {

/// Ends the running command with this exit code. May only be called in callbacks of the parser.
[[noreturn]] void exit_with(int code);

/// Checks for CLI::Option::check(). Each says why the text is not a port (0 to 65535), not a whole
/// number from 0 on, or not the name of a folder; empty if the text is valid. Without the first
/// two, the parser would read -1 as a very large number. Without the third, an empty name would
/// mean the default folder.
std::string not_a_port(const std::string& text);
std::string not_a_whole_number(const std::string& text);
std::string not_a_folder(const std::string& text);

/// A check for CLI::Option::check(): accepts a number from `low` to `high`. CLI::Range would also
/// accept NaN, because NaN is neither below nor above any bound.
CLI::Validator number_from(double low, double high);

void add_algorithms(CLI::App& app);
void add_bench(CLI::App& app);
/// Adds `grapevine completions`, which covers all commands that `app` has by the time the command
/// runs.
void add_completions(CLI::App& app);
/// Adds `grapevine create`. `hooks` are passed to the peer that the command runs, as for `join` and
/// `peer`.
void add_create(CLI::App& app, const HostHooks& hooks);
void add_env(CLI::App& app);
void add_doctor(CLI::App& app);
void add_eval(CLI::App& app);
void add_export(CLI::App& app);
void add_import(CLI::App& app);
void add_explain(CLI::App& app);
void add_invite(CLI::App& app);
void add_join(CLI::App& app, const HostHooks& hooks);
void add_keygen(CLI::App& app);
/// Adds `grapevine launch`. `program` has the arguments after `--`.
void add_launch(CLI::App& app, const std::vector<std::string>& program);
void add_ledger(CLI::App& app);
void add_merge(CLI::App& app);
void add_plan(CLI::App& app);
void add_revoke(CLI::App& app);
void add_sim(CLI::App& app);
void add_status(CLI::App& app);
void add_switch(CLI::App& app);
void add_topology(CLI::App& app);
/// Adds `grapevine peer`. `hooks` are passed to the peer that the command runs.
void add_peer(CLI::App& app, const HostHooks& hooks);

}  // namespace gv
