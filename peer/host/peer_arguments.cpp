// Reads keys, lists and cohorts, and checks names, addresses and shards.
#include "peer/host/peer_arguments.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "net/cohort.hpp"
#include "net/host_address.hpp"
#include "net/identity.hpp"
#include "peer/host/engines.hpp"
#include "peer/host/peer_name.hpp"

namespace gv {
namespace {

/// A shard given as "K/N", with K < N and N at most run_peers_max.
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

/// Makes the given kind of lane override the config's.
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

/// Reads the key and the allow-list.
Problems take_keys(const PeerArguments& arguments, HostOptions& options) {
  LoadedKeyPair key = load_key_pair(arguments.key);
  options.identity = key.pair;
  options.authorized_file = arguments.authorized;
  LoadedAuthorizedPeers authorized = load_authorized_peers(arguments.authorized);
  options.authorized = std::move(authorized.peers);
  Problems problems = std::move(key.problems);
  problems.insert(problems.end(), authorized.problems.begin(), authorized.problems.end());
  return problems;
}

std::string host_name() {
  std::array<char, 256> buffer{};
  return ::gethostname(buffer.data(), buffer.size() - 1) == 0 ? buffer.data() : "";
}

/// Fills in the address on which a peer of a cohort listens and the addresses that it dials, if
/// they are not given. All peers have the same command line, so a given address to join may be this
/// peer's own.
Problems take_addresses(const CohortPlace& place, HostOptions& options) {
  if (options.listen.empty() && options.join.empty()) options.listen = "0.0.0.0:0";
  const std::string port = options.listen.substr(options.listen.rfind(':') + 1);
  const bool is_fixed = !options.listen.empty() && port != "0";
  if (options.join.empty() && !place.host.empty() && place.rank != 0 && is_fixed) {
    options.join = {name_of_rank(0) + "@" + bracketed(place.host) + ":" + port};
  }
  if (options.advertise.empty() && is_any_host(options.listen)) {
    options.advertise = host_name() + ":0";
    if (!is_address(host_name() + ":1")) {
      return {{"--advertise", "the name of this machine is no name of a host",
               "say with --advertise HOST:PORT what others should dial"}};
    }
  }
  const std::string own = name_of_rank(place.rank) + "@";
  std::erase_if(options.join, [&](const std::string& address) {
    return address.starts_with(own) || address == options.advertise;
  });
  return {};
}

/// Finds this peer's place in the cohort, and computes the keys of all ranks.
Problems take_cohort(const PeerArguments& arguments, HostOptions& options) {
  LoadedCohortSecret loaded = load_cohort_secret(arguments.cohort);
  Problems problems = std::move(loaded.problems);
  CohortPlace place;
  const Problems more =
      find_place(read_engines(own_variables()), arguments.rank, arguments.ranks, place);
  problems.insert(problems.end(), more.begin(), more.end());
  if (!problems.empty()) return problems;
  options.identity = key_pair_of_rank(loaded.secret, place.rank);
  options.authorized = peers_of_cohort(loaded.secret, place.ranks);
  sodium_memzero(loaded.secret.data(), loaded.secret.size());
  options.cohort =
      CohortOptions{.rank = place.rank,
                    .rendezvous = arguments.rendezvous.empty() ? arguments.cohort + ".peers"
                                                               : arguments.rendezvous};
  return take_addresses(place, options);
}

}  // namespace

bool is_listen_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  // Replaces "any host" and "any port" with values that is_address() accepts.
  const std::string host = text.substr(0, colon), port = text.substr(colon + 1);
  return is_address((host == "*" ? "any" : host) + ":" + (port == "0" ? "1" : port));
}

Problems address_problems(const std::string& listen, const std::string& advertise,
                          const std::vector<std::string>& join) {
  Problems problems;
  if (!listen.empty() && !is_listen_address(listen)) {
    problems.push_back({"--listen", fmt::format("'{}' is not HOST:PORT", listen),
                        "write for example 192.0.2.1:7000, or port 0 for any free one"});
  } else if (!listen.empty() && is_any_host(listen) && advertise.empty()) {
    problems.push_back({"--listen",
                        "this listens everywhere, and others cannot dial '" + host_of(listen) + "'",
                        "say with --advertise HOST:PORT what they should dial"});
  }
  if (!advertise.empty() && (!is_listen_address(advertise) || is_any_host(advertise))) {
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

Problem no_lane(const std::string& name) {
  return {"--lane", "'" + name + "' is no kind of lane", "write auto, tls, plain or unix"};
}

std::vector<std::string> command_line(const PeerArguments& arguments) {
  const HostOptions& host = arguments.host;
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  if (!host.config_path.empty()) words.push_back(host.config_path);
  if (arguments.cohort.empty()) {
    add("--key", arguments.key);
    add("--authorized", arguments.authorized);
  }
  add("--cohort", arguments.cohort);
  if (arguments.rank) add("--rank", std::to_string(*arguments.rank));
  if (arguments.ranks) add("--ranks", std::to_string(*arguments.ranks));
  add("--rendezvous", arguments.rendezvous);
  add("--name", host.name);
  add("--folder", arguments.folder);
  add("--listen", host.listen);
  add("--advertise", host.advertise);
  add("--dial-from", host.dial_from);
  if (host.lane_port > 0) add("--lane-port", std::to_string(host.lane_port));
  add("--lane", arguments.lane);
  for (const std::string& address : host.join) add("--join", address);
  add("--shard", arguments.shard);
  add("--wait-for", std::to_string(host.wait_for));
  if (host.resume) words.emplace_back("--resume");
  if (host.quiet) words.emplace_back("--quiet");
  return words;
}

ParsedConfig read_config(const std::string& path, const ConfigOverrides& overrides) {
  return path.empty() ? ParsedConfig{default_config(), {}} : parse_config_file(path, overrides);
}

Problems prepare(const PeerArguments& arguments, HostOptions& options, const ReadConfig& read) {
  Problems problems;
  const auto add = [&](const Problems& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  const Problems of_keys =
      arguments.cohort.empty() ? take_keys(arguments, options) : take_cohort(arguments, options);
  std::optional<Shard> shard = parse_shard(arguments.shard);
  if (arguments.shard.empty() && options.cohort) {
    shard = Shard{.number = options.cohort->rank, .of = options.authorized.size()};
  }
  ConfigOverrides overrides;
  if (shard) overrides.peers = shard->of;
  ParsedConfig parsed = read(options.config_path, overrides);
  add(parsed.problems);
  options.config = std::move(parsed.config);
  options.places = std::move(parsed.places);
  add(of_keys);

  std::optional<std::size_t> position;
  for (std::size_t i = 0; i < options.authorized.size(); ++i) {
    if (options.authorized[i].key == options.identity.public_key) position = i;
  }
  if (!options.name.empty()) add(problems_of_name(options.name));
  if (options.name.empty()) {
    options.name = position ? options.authorized[*position].name
                            : to_string(peer_id(options.identity.public_key));
  }
  if (shard) {
    options.shard = shard->number;
    options.config.run.peers = shard->of;
  } else if (!arguments.shard.empty()) {
    problems.push_back(
        {"--shard", fmt::format("'{}' is not a shard", arguments.shard),
         fmt::format("write K/N with K from 0 to N-1 and N at most {}, for example 0/4",
                     run_peers_max)});
  } else if (position) {
    options.shard = *position % options.config.run.peers;
  } else if (of_keys.empty()) {
    problems.push_back({arguments.authorized, "this peer's own key is not in the allow-list",
                        "add it (its place decides the shard), or choose one with --shard K/N"});
  }
  add(address_problems(options.listen, options.advertise, options.join));
  const bool is_lost = !arguments.cohort.empty() && !of_keys.empty();
  const bool has_address = std::ranges::any_of(options.authorized, [&](const auto& peer) {
    return peer.key != options.identity.public_key && !peer.address.empty();
  });
  if (options.listen.empty() && options.join.empty() && !has_address && !is_lost) {
    problems.push_back({"--listen",
                        "neither --listen nor --join is given, and the allow-list has no address "
                        "of another peer, so none can be met",
                        "give --listen HOST:PORT, --join HOST:PORT, or both"});
  }
  options.folder = arguments.folder.empty()
                       ? std::filesystem::path(options.config.run.folder) / options.name
                       : std::filesystem::path(arguments.folder);
  add(choose_lane(arguments.lane, options.config.network));
  return problems;
}

}  // namespace gv
