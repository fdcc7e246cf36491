// Reads the list of hosts, and writes the command for a host's shell.
#include "sim/local/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/printable.hpp"
#include "net/cohort.hpp"
#include "net/host_address.hpp"
#include "peer/config/config.hpp"

namespace gv {
namespace {

constexpr std::size_t shown_bytes = 80;  ///< Longest part of a line that a problem quotes.
constexpr std::size_t contacts_max = 2;  ///< Number of ranks that every peer dials first.
constexpr std::uint32_t port_max = 65535;

/// Quotes a text so that a shell reads it as one argument.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return word + "'";
}

/// True if the address is HOST:PORT or [HOST]:PORT. An IPv6 address has more than one colon.
bool has_port(std::string_view address) {
  return std::ranges::count(address, ':') == 1 || address.find("]:") != std::string_view::npos;
}

}  // namespace

RunHosts read_hosts(std::string_view text, std::string_view file, std::uint16_t port) {
  RunHosts read;
  std::map<std::string, std::uint32_t> next_ports;
  std::istringstream lines{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string ssh, address, more;
    words >> ssh >> address >> more;
    if (ssh.empty() || ssh.front() == '#') continue;
    const std::string place = fmt::format("{}:{}", file, number);
    if (!more.empty() || ssh.front() == '-') {
      read.problems.push_back({place, "'" + printable(line, shown_bytes) + "' is not a host",
                               "write HOST, or HOST and the ADDRESS where other peers reach it"});
      continue;
    }
    if (address.empty()) address = ssh.substr(ssh.find('@') + 1);
    if (has_port(address)) {
      read.problems.push_back({place, "'" + printable(address, shown_bytes) + "' names a port",
                               "write the address alone; the first port is that of --port"});
      continue;
    }
    address = bracketed(address);
    const std::uint32_t own = next_ports.try_emplace(address, port).first->second++;
    if (own > port_max) {
      read.problems.push_back({place, "no port is left for this peer", "begin at a lower --port"});
    }
    read.hosts.push_back({ssh, fmt::format("{}:{}", address, own)});
  }
  if (read.problems.empty() && (read.hosts.empty() || read.hosts.size() > run_peers_max)) {
    read.problems.push_back({std::string(file), fmt::format("names {} hosts", read.hosts.size()),
                             fmt::format("name from 1 to {}, one a line", run_peers_max)});
  }
  return read;
}

std::string remote_command(const std::vector<RunHost>& hosts, std::size_t rank,
                           const RemoteStart& start) {
  const RunHost& host = hosts[rank];
  const std::string port = host.address.substr(host.address.rfind(':') + 1);
  std::string options = fmt::format(
      "--rank {} --ranks {} --folder . --listen {}:{} --advertise {}", rank, hosts.size(),
      host.address.front() == '[' ? "[::]" : "0.0.0.0", port, quoted(host.address));
  for (std::size_t contact = 0; contact < hosts.size() && contact < contacts_max; ++contact) {
    options += " --join " + quoted(name_of_rank(contact) + "@" + hosts[contact].address);
  }
  if (start.resume) options += " --resume";
  const std::string folder = quoted(start.folder + "/" + name_of_rank(rank));
  return fmt::format(
      "set -eu; umask 077; mkdir -p {0}; cd {0}; rm -f run.toml cohort; "
      "head -c {1} >run.toml; head -c {2} >cohort; exec 3<&0; "
      "grapevine peer run.toml --cohort cohort {3} </dev/null 3<&- & peer=$!; "
      "{{ cat <&3; kill -TERM $peer; }} >/dev/null 2>&1 & watch=$!; "
      "set +e; wait $peer; code=$?; kill $watch 2>/dev/null; exit $code",
      folder, start.config_bytes, start.secret_bytes, options);
}

}  // namespace gv
