// The options for peers with certificates, and for tickets.
#include "cli/ticket_options.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "cli/commands.hpp"
#include "consensus/trust/trust.hpp"

namespace gv {

void add_peer_options(CLI::App& command, SwarmArguments& arguments, const std::string& folder) {
  command
      .add_option("--listen", arguments.host.listen,
                  "HOST:PORT to listen on; :PORT listens everywhere; port 0 for any")
      ->check([](const std::string& text) {
        return text.starts_with(':') ? not_a_port(text.substr(1)) : std::string();
      });
  command.add_option("--advertise", arguments.host.advertise,
                     "HOST:PORT others dial; default: the address by which this machine reaches "
                     "others");
  command.add_option("--name", arguments.host.name, "Name of this peer; default: the machine's");
  command
      .add_option("--folder", arguments.folder,
                  "Run folder: keys, certificates, events, checkpoints; default: " + folder)
      ->check(not_a_folder);
  command.add_option("--data", arguments.data, "Folder of the data, whatever the config says");
  command
      .add_option("--lane-port", arguments.host.lane_port,
                  "Port that bulk lanes listen on, beside --listen's; default: any free one")
      ->check(not_a_port);
  command.add_flag("--quiet", arguments.host.quiet, "No progress lines");
}

void add_ticket_options(CLI::App& command, TicketTerms& terms) {
  command.add_option("--uses", terms.uses, "How many machines may join with the ticket")
      ->check(CLI::Range(std::uint32_t{1}, ticket_uses_max))
      ->capture_default_str();
  command.add_option("--valid", terms.valid_s, "Seconds for which the ticket is good")
      ->check(CLI::Range(std::uint64_t{1}, certificate_lifetime_s))
      ->capture_default_str();
  command.add_flag_callback(
      "--may-not-invite", [&terms] { terms.may_invite = false; },
      "The machines that join with it may not invite others");
}

}  // namespace gv
