// `grapevine peer`: turns arguments and files into a running peer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/lane_names.hpp"
#include "net/identity.hpp"
#include "peer/config/config.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/host.hpp"
#include "peer/host/network_options.hpp"

namespace gv {
namespace {

/// A shard given as "K/N" with K < N, and N at most run_peers_max.
struct Shard {
  std::size_t number = 0;
  std::size_t of = 1;
};

std::optional<Shard> parse_shard(const std::string& text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto [slash, error] = std::from_chars(text.data(), end, shard.number);
  if (error != std::errc() || slash == end || *slash != '/') return std::nullopt;
  const auto [last, second_error] = std::from_chars(slash + 1, end, shard.of);
  if (second_error != std::errc() || last != end || shard.number >= shard.of) return std::nullopt;
  if (shard.of > run_peers_max) return std::nullopt;
  return shard;
}

/// True for "HOST:PORT" with a port from 0 to 65535. Port 0 means any free port.
bool is_listen_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  // Replace "any host" and "any port" by values that the check for dialled addresses accepts.
  const std::string host = text.substr(0, colon), port = text.substr(colon + 1);
  return is_address((host == "*" ? "any" : host) + ":" + (port == "0" ? "1" : port));
}

bool is_any_interface(const std::string& address) {
  const std::string host = host_part(address);
  return host == "0.0.0.0" || host == "::" || host == "*";
}

/// Lists what is wrong with the given addresses. Addresses are never guessed.
Problems address_problems(const std::string& listen, const std::string& advertise,
                          const std::vector<std::string>& join) {
  Problems problems;
  if (!listen.empty() && !is_listen_address(listen)) {
    problems.push_back({"--listen", fmt::format("'{}' is not HOST:PORT", listen),
                        "write for example 192.0.2.1:7000, or port 0 for any free one"});
  } else if (!listen.empty() && is_any_interface(listen) && advertise.empty()) {
    problems.push_back(
        {"--listen", "this listens everywhere, and others cannot dial '" + host_part(listen) + "'",
         "say with --advertise HOST:PORT what they should dial"});
  }
  if (!advertise.empty() && (!is_listen_address(advertise) || is_any_interface(advertise))) {
    problems.push_back({"--advertise", fmt::format("'{}' cannot be dialled", advertise),
                        "write the HOST:PORT at which others reach this peer"});
  }
  for (const std::string& address : join) {
    const auto at = address.find('@');
    if (is_address(at == std::string::npos ? address : address.substr(at + 1))) continue;
    problems.push_back({"--join", fmt::format("'{}' is not HOST:PORT or NAME@HOST:PORT", address),
                        "write the address a running peer prints as advertised"});
  }
  return problems;
}

/// Overrides the config's choice of lanes with the one given.
Problems choose_lane(const std::string& given, NetworkConfig& network) {
  if (given.empty()) return {};
  const auto lane = lane_names.find(given);
  if (!lane) return {no_lane(given)};
  if (lane == LaneKind::plain && !network.trusted) {
    return {{"--lane", "plain lanes on a network that is not trusted",
             "set network.trusted = true in the config if nobody can listen in, or use tls"}};
  }
  network.lane = *lane;
  return {};
}

/// The arguments that need parsing before they become options, and the host's own options.
struct PeerArguments {
  HostOptions host;
  std::string key = "key";
  std::string authorized = "authorized_peers";
  std::string folder;
  std::string lane;
  std::string shard;
};

/// Fills in omitted arguments and collects all problems.
Problems prepare(const PeerArguments& arguments, HostOptions& options) {
  Problems problems;
  const auto add = [&](const Problems& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  const std::optional<Shard> shard = parse_shard(arguments.shard);
  ConfigOverrides overrides;
  if (shard) overrides.peers = shard->of;
  ParsedConfig parsed = options.config_path.empty()
                            ? ParsedConfig{default_config(), {}}
                            : parse_config_file(options.config_path, overrides);
  add(parsed.problems);
  options.config = std::move(parsed.config);
  options.places = std::move(parsed.places);
  LoadedKeyPair key = load_key_pair(arguments.key);
  add(key.problems);
  options.identity = key.pair;
  options.authorized_file = arguments.authorized;
  LoadedAuthorizedPeers authorized = load_authorized_peers(arguments.authorized);
  add(authorized.problems);

  std::optional<std::size_t> position;
  for (std::size_t i = 0; i < authorized.peers.size(); ++i) {
    if (key.problems.empty() && authorized.peers[i].key == options.identity.public_key)
      position = i;
  }
  if (!options.name.empty() && !is_peer_name(options.name)) {
    problems.push_back({"--name", "this is not a name",
                        "use 1 to 64 letters, digits, dots, dashes or underscores"});
  }
  if (options.name.empty()) {
    options.name = position ? authorized.peers[*position].name
                            : to_string(peer_id(options.identity.public_key));
  }
  options.authorized = std::move(authorized.peers);
  if (!arguments.shard.empty()) {
    if (shard) {
      options.shard = shard->number;
      options.config.run.peers = shard->of;
    } else {
      problems.push_back(
          {"--shard", fmt::format("'{}' is not a shard", arguments.shard),
           fmt::format("write K/N with K from 0 to N-1 and N at most {}, for example 0/4",
                       run_peers_max)});
    }
  } else if (position) {
    options.shard = *position % options.config.run.peers;
  } else if (key.problems.empty() && authorized.problems.empty()) {
    problems.push_back({arguments.authorized, "this peer's own key is not in the allow-list",
                        "add it (its place decides the shard), or choose one with --shard K/N"});
  }
  add(address_problems(options.listen, options.advertise, options.join));
  if (options.listen.empty() && options.join.empty()) {
    problems.push_back({"--listen", "neither --listen nor --join is given, so no peer can be met",
                        "give --listen HOST:PORT, --join HOST:PORT, or both"});
  }
  options.folder = arguments.folder.empty()
                       ? std::filesystem::path(options.config.run.folder) / options.name
                       : std::filesystem::path(arguments.folder);
  add(choose_lane(arguments.lane, options.config.network));
  return problems;
}

int peer(const PeerArguments& arguments, const HostHooks& hooks) {
  HostOptions options = arguments.host;
  options.hooks = hooks;
  const Problems problems = prepare(arguments, options);
  if (!problems.empty()) return fail(problems);
  // Training must not stop because the reader of its progress lines has gone away.
  std::signal(SIGPIPE, SIG_IGN);
  return run_peer(options);
}

}  // namespace

void add_peer(CLI::App& app, const HostHooks& hooks) {
  const auto arguments = std::make_shared<PeerArguments>();
  auto* command = app.add_subcommand("peer", "Run one peer");
  command->add_option("CONFIG", arguments->host.config_path,
                      "The run's TOML file; without it a built-in task");
  command->add_option("--key", arguments->key, "This peer's secret key, from keygen")
      ->capture_default_str();
  command
      ->add_option("--authorized", arguments->authorized, "The allow-list: one 'name key' a line")
      ->capture_default_str();
  command->add_option(
      "--name", arguments->host.name,
      "Name of this peer in what it prints; default: the allow-list's, by which others call it");
  command->add_option("--folder", arguments->folder,
                      "Run folder: events, metrics, checkpoints; default: run.folder/NAME");
  command->add_option("--listen", arguments->host.listen,
                      "HOST:PORT to listen on, port 0 for any; without it the peer only dials out");
  command->add_option("--advertise", arguments->host.advertise,
                      "HOST:PORT others dial, when it differs from --listen");
  command->add_option("--dial-from", arguments->host.dial_from,
                      "Address of this machine that connections to others come from; default: the "
                      "system's choice");
  command->add_option("--lane-port", arguments->host.lane_port,
                      "Port that bulk lanes listen on, beside --listen's; default: any free one");
  command->add_option("--lane", arguments->lane,
                      "auto, tls, plain or unix, whatever network.lane of the config says");
  command->add_option("--join", arguments->host.join,
                      "HOST:PORT or NAME@HOST:PORT of a running peer");
  command->add_option("--shard", arguments->shard,
                      "K/N: train on part K of N; default: the place in the allow-list");
  command
      ->add_option("--wait-for", arguments->host.wait_for, "Begin when this many peers are there")
      ->capture_default_str();
  command->add_flag("--resume", arguments->host.resume,
                    "Go on from the newest checkpoint in the folder");
  command->add_flag("--quiet", arguments->host.quiet, "No progress lines");
  command->footer(
      "If the reader of its output goes away, the peer goes on.\n\n"
      "Example:\n  grapevine peer configs/fashion-mlp.toml --listen 192.0.2.1:7000\n"
      "  grapevine peer configs/fashion-mlp.toml --listen 192.0.2.2:7000 --join 192.0.2.1:7000");
  command->callback([arguments, hooks] { exit_with(peer(*arguments, hooks)); });
}

}  // namespace gv
