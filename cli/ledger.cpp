// `grapevine ledger`: shows how much of a swarm's common work is done, and by which peers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/live_exam.hpp"
#include "cli/doctor/probes.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/ledger_view.hpp"
#include "peer/host/peer_socket.hpp"

namespace gv {
namespace {

/// Turns a diagnosis of the peer at `address` into a problem. Drops the address from the start of
/// the text, because a problem begins with its place anyway.
Problem problem_at(const std::string& address, const Diagnosis& line) {
  const std::string repeated = address + ": ";
  const bool repeats = line.text.starts_with(repeated);
  return {address, repeats ? line.text.substr(repeated.size()) : line.text, line.remedy};
}

/// Asks the live peer at the given address for its ledger. That peer must admit our key, but asking
/// does not make us a member of its swarm. Returns nullopt and adds a problem if the peer does not
/// answer.
std::optional<PeerDocument> ask_for_ledger(Patient& patient, Problems& problems) {
  const std::string& address = patient.other.address;
  const Diagnoses reached = judge_control_port(probe_connection(address, true));
  for (const Diagnosis& line : reached) {
    if (line.health == Health::error) problems.push_back(problem_at(address, line));
  }
  if (!problems.empty()) return std::nullopt;
  const Diagnosis met = meet(patient);
  if (!patient.other.live) {
    problems.push_back(problem_at(address, met));
    return std::nullopt;
  }
  const std::optional<Asked> asked = ask_live_peer(*patient.other.live, {.wants_ledger = true});
  if (!asked) {
    problems.push_back({address, "it does not answer this question",
                        "use the same version of grapevine on all machines"});
    return std::nullopt;
  }
  if (!asked->answer.refusal.empty()) {
    problems.push_back({address, "it refuses: " + asked->answer.refusal,
                        "ask later, or with the key of a peer of the swarm"});
    return std::nullopt;
  }
  PeerDocument document;
  for (const std::string& piece : asked->answer.ledger) document.text += piece;
  return document;
}

int show_ledger(const DoctorOptions& options, bool as_json) {
  Problems problems;
  Patient patient = identify(options, problems);
  if (!problems.empty()) return fail(problems);
  const bool is_remote = !patient.other.address.empty();
  const std::optional<PeerDocument> document =
      is_remote ? ask_for_ledger(patient, problems) : document_in(patient.folder);
  if (!problems.empty()) return fail(problems);
  if (!document) {
    const std::optional<Problem> silent = unanswering_peer(patient.folder);
    return fail({silent.value_or(Problem{
        options.subjects.front(), "no running peer answers here, and none has left a result",
        "give the run folder of a peer, the one its first line names"})});
  }
  problems = ledger_problems(*document);
  if (!problems.empty()) return fail(problems);
  fmt::print("{}", as_json ? ledger_json(*document) : ledger_table(*document));
  return 0;
}

}  // namespace

void add_ledger(CLI::App& app) {
  struct Arguments {
    DoctorOptions options;
    bool as_json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command =
      app.add_subcommand("ledger", "Show what the peers of a swarm have trained, and how often");
  command
      ->add_option("SUBJECT", arguments->options.subjects,
                   "The run folder of any of its peers, running or ended; or HOST:PORT or "
                   "NAME@HOST:PORT of one that runs, with the folder of another for its key")
      ->required()
      ->expected(1, 2);
  command->add_option("--key", arguments->options.key,
                      "Secret key to ask an address with; default: that of the folder, or key");
  command->add_option("--authorized", arguments->options.authorized,
                      "The allow-list; default: that of the folder, or authorized_peers");
  command->add_flag("--json", arguments->as_json, "The same as one JSON document");
  command->footer(
      "A peer answers over the network if the key is on its allow-list or certified, "
      "a few times a\nminute. The key may belong to a peer that is running.\n\n"
      "Example:\n  grapevine ledger runs/run-001/peer-0\n"
      "  grapevine ledger 192.0.2.1:7000 --key key --authorized authorized_peers");
  command->callback(
      [arguments] { exit_with(show_ledger(arguments->options, arguments->as_json)); });
}

}  // namespace gv
