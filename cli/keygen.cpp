// `grapevine keygen`: makes a peer's key pair, or a cohort's secret.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "cli/commands.hpp"
#include "cli/exit_codes.hpp"
#include "net/cohort.hpp"
#include "net/identity.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/peer_name.hpp"

namespace gv {
namespace {

int keygen(const std::string& file, const std::string& name) {
  if (const Problems problems = problems_of_name(name); !problems.empty()) return fail(problems);
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error)) {
    const LoadedKeyPair known = load_key_pair(file);
    if (known.problems.empty()) {
      return fail({{file, "there is a key already",
                    fmt::format("its line for everybody's authorized_peers: {} {}", name,
                                to_text(known.pair.public_key))}});
    }
  }
  const KeyPair pair = generate_key_pair();
  const Problems problems = save_key_pair(file, pair);
  if (!problems.empty()) return fail(problems);
  fmt::print(stderr, "secret key written to {}; the line for everybody's authorized_peers:\n",
             file);
  say(stdout, fmt::format("{} {}\n", name, to_text(pair.public_key)));
  if (std::ferror(stdout) == 0) return exit_clean;
  fmt::print(stderr,
             "that line could not be written; grapevine keygen {} --name {} shows it again\n", file,
             name);
  return exit_failed;
}

int cohort_keygen(const std::string& file) {
  const Problems problems = save_cohort_secret(file, generate_cohort_secret());
  if (!problems.empty()) return fail(problems);
  fmt::print(stderr,
             "secret of a cohort written to {}; give it to all its peers, and to no one else: with "
             "it anyone can be any of them\n",
             file);
  return 0;
}

}  // namespace

void add_keygen(CLI::App& app) {
  struct Arguments {
    std::string file = "key";
    std::string name = machine_name();
    bool is_cohort = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("keygen", "Make a peer's key pair, or the secret of a cohort");
  command->add_option("FILE", arguments->file, "Where the secret key goes (mode 0600)")
      ->capture_default_str();
  auto* name = command->add_option("--name", arguments->name, "The peer's name in allow-lists")
                   ->capture_default_str();
  command
      ->add_flag("--cohort", arguments->is_cohort,
                 "Make one secret for all peers of a cohort instead (grapevine peer --cohort)")
      ->excludes(name);
  command->footer(
      "Example:\n  grapevine keygen key --name laptop >> authorized_peers\n"
      "  grapevine keygen cohort --cohort");
  command->callback([arguments] {
    exit_with(arguments->is_cohort ? cohort_keygen(arguments->file)
                                   : keygen(arguments->file, arguments->name));
  });
}

}  // namespace gv
