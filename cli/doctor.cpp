// `grapevine doctor`: says what keeps this machine from training, and how to fix it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>

#include "cli/commands.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/diagnosis.hpp"
#include "net/identity.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/peer_arguments.hpp"

namespace gv {
namespace {

/// Problems that the options have regardless of the machine.
Problems option_problems(const DoctorOptions& options) {
  Problems problems;
  if (!options.listen.empty() && !is_listen_address(options.listen)) {
    problems.push_back({"--listen", fmt::format("'{}' is not HOST:PORT", options.listen),
                        "write for example 192.0.2.1:7000"});
  }
  if (options.listen.empty() && options.lane_port > 0) {
    problems.push_back({"--lane-port", "lanes listen on the host of --listen, which is missing",
                        "give --listen HOST:PORT beside it"});
  }
  if (!options.their_lanes.empty() && !is_address(options.their_lanes)) {
    problems.push_back(
        {"--lanes", fmt::format("'{}' is not HOST:PORT", options.their_lanes),
         "write the address that `grapevine status` shows there behind \"lanes on\""});
  }
  return problems;
}

int run_doctor(DoctorOptions options, bool as_json) {
  // ":7000" means all IPv4 addresses of this machine, as for `grapevine create`.
  if (options.listen.starts_with(':')) options.listen = "0.0.0.0" + options.listen;
  Problems problems = option_problems(options);
  Patient patient = admit(options, problems);
  if (!problems.empty()) return fail(problems);
  const Diagnoses found = examine(patient);
  fmt::print("{}", as_json ? to_json(found) : to_text(found));
  return exit_code_of(found);
}

}  // namespace

void add_doctor(CLI::App& app) {
  struct Arguments {
    DoctorOptions options;
    bool as_json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  DoctorOptions& options = arguments->options;
  auto* command =
      app.add_subcommand("doctor", "Say what keeps a peer on this machine from training");
  command->add_option("SUBJECT", options.subjects,
                      "A ticket, or HOST:PORT or NAME@HOST:PORT of a peer to join; a run folder; a "
                      "config file; one of each at most");
  command->add_option("--key", options.key,
                      "This peer's secret key; default: that of the run folder, or key");
  command->add_option("--authorized", options.authorized,
                      "The allow-list; default: that of the run folder, or authorized_peers");
  command->add_option("--data", options.data, "Folder of the data, whatever the config says");
  command->add_option("--listen", options.listen, "HOST:PORT that this peer is to listen on");
  command->add_option("--lane-port", options.lane_port, "Port that its lanes are to listen on")
      ->check(not_a_port);
  command->add_option("--lanes", options.their_lanes,
                      "HOST:PORT that the lanes of the other peer listen on");
  command
      ->add_option(
          "--link-mbit", options.link_mbit,
          "Bandwidth that TCP buffers have to suffice for, in Mbit/s; default: that to the "
          "other peer, or 1000")
      ->check(number_from(0.001, 1e6));
  command
      ->add_option(
          "--link-ms", options.link_ms,
          "Round-trip time that TCP buffers have to suffice for, in ms; default: that to the "
          "other peer, or 50")
      ->check(number_from(0.001, 1e5));
  command->add_flag("--json", arguments->as_json, "The same as one JSON document");
  command->footer(
      "Each line is ok, a warning or an error, with what mends it. The exit code is 1 if there is\n"
      "an error. Nothing is changed. A live peer that lets this key or ticket in is asked for its\n"
      "clock, for a lane to measure, and to dial the ports of --listen and --lane-port back; to "
      "its\n"
      "swarm this machine is no member afterwards.\n\n"
      "Example:\n  grapevine doctor configs/fashion-mlp.toml --listen 192.0.2.1:7000\n"
      "  grapevine doctor 198.51.100.7:7000\n"
      "  grapevine doctor gv1_...\n"
      "  grapevine doctor runs/run-001/peer-0");
  command->callback([arguments] { exit_with(run_doctor(arguments->options, arguments->as_json)); });
}

}  // namespace gv
