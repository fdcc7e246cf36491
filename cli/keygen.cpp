// `grapevine keygen`: makes a peer's key pair.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "net/identity.hpp"
#include "peer/config/refusal.hpp"

namespace gv {
namespace {

std::string host_name() {
  char buffer[256] = {};
  return ::gethostname(buffer, sizeof buffer - 1) == 0 && buffer[0] != 0 ? buffer : "peer";
}

int keygen(const std::string& file, const std::string& name) {
  const KeyPair pair = generate_key_pair();
  const Problems problems = save_key_pair(file, pair);
  if (!problems.empty()) return fail(problems);
  fmt::print(stderr, "secret key written to {}; the line for everybody's authorized_peers:\n",
             file);
  fmt::print("{} {}\n", name, to_text(pair.public_key));
  return 0;
}

}  // namespace

void add_keygen(CLI::App& app) {
  struct Arguments {
    std::string file = "key";
    std::string name = host_name();
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("keygen", "Make a peer's key pair");
  command->add_option("FILE", arguments->file, "Where the secret key goes (mode 0600)")
      ->capture_default_str();
  command->add_option("--name", arguments->name, "The peer's name in allow-lists")
      ->capture_default_str();
  command->footer("Example:\n  grapevine keygen key --name laptop >> authorized_peers");
  command->callback([arguments] { exit_with(keygen(arguments->file, arguments->name)); });
}

}  // namespace gv
