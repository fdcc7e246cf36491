// Reads gv_options: keys and peer lists, a cohort, a ticket, or a new swarm.
#include "peer/library/join_options.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "net/ticket.hpp"
#include "peer/host/given_peer.hpp"
#include "peer/host/peer_arguments.hpp"
#include "peer/host/swarm_start.hpp"
#include "peer/library/merged_config.hpp"

namespace gv {
namespace {

/// Throws if options contradict a ticket or `create`, which determine the peer's keys, peer list
/// and shard.
void check_certified(const gv_options& given) {
  const bool has_ticket = given.ticket != nullptr;
  if (!has_ticket && given.create == 0) return;
  const std::string field = has_ticket ? "ticket" : "create";
  const std::pair<const char*, bool> excluded[] = {
      {"key", given.key != nullptr},
      {"authorized", given.authorized != nullptr},
      {"cohort", given.cohort != nullptr},
      {"shard", given.shard != nullptr},
      {"join", given.joins > 0},
      {"config", has_ticket && given.config != nullptr},
      {"create", has_ticket && given.create != 0},
  };
  for (const auto& [name, is_given] : excluded) {
    if (!is_given) continue;
    throw std::invalid_argument(
        fmt::format("gv_options: `{}` takes the place of `{}`: leave that out", field, name));
  }
  if (!has_ticket && given.listen == nullptr) {
    throw std::invalid_argument(
        "gv_options: `create` needs `listen`, because the others dial this peer first");
  }
}

PeerArguments arguments_of(const gv_options& given, Problems& problems) {
  PeerArguments arguments;
  if (const char* text = std::getenv(given_variable); text != nullptr) {
    problems = take_given(text, arguments);
  }
  HostOptions& host = arguments.host;
  host.config_path = text_or(given.config, host.config_path);
  host.name = text_or(given.name, host.name);
  host.listen = text_or(given.listen, host.listen);
  host.advertise = text_or(given.advertise, host.advertise);
  host.dial_from = text_or(given.dial_from, host.dial_from);
  if (given.lane_port > std::numeric_limits<std::uint16_t>::max()) {
    throw std::invalid_argument("gv_options: `lane_port` is above 65535: write 0 for any port");
  }
  if (given.lane_port > 0) host.lane_port = static_cast<std::uint16_t>(given.lane_port);
  for (std::size_t i = 0; i < given.joins; ++i) {
    if (given.join == nullptr || given.join[i] == nullptr) {
      throw std::invalid_argument("gv_options: `join` has fewer addresses than `joins` says");
    }
    if (i == 0) host.join.clear();
    host.join.emplace_back(given.join[i]);
  }
  if (given.wait_for > 0) host.wait_for = given.wait_for;
  host.resume = host.resume || given.resume != 0;
  host.quiet = true;
  host.all_samples = given.all_samples;
  arguments.key = text_or(given.key, arguments.key);
  arguments.authorized = text_or(given.authorized, arguments.authorized);
  arguments.folder = text_or(given.folder, arguments.folder);
  arguments.cohort = text_or(given.cohort, "");
  if (given.has_rank != 0) arguments.rank = given.rank;
  if (given.ranks > 0) arguments.ranks = given.ranks;
  arguments.rendezvous = text_or(given.rendezvous, "");
  if (given.cohort != nullptr && (given.key != nullptr || given.authorized != nullptr)) {
    throw std::invalid_argument(
        "gv_options: `cohort` takes the place of `key` and `authorized`: give it alone");
  }
  arguments.shard = text_or(given.shard, arguments.shard);
  return arguments;
}

/// Makes the options of a peer that needs a certificate because it begins a swarm or joins one with
/// a ticket. Throws InviterIsLate.
Problems certified_options(const gv_options& given, const PeerArguments& arguments,
                           const ReadConfig& read, HostOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  const double patience_s = given.patience_s;
  const SwarmArguments certified{.host = arguments.host,
                                 .folder = arguments.folder,
                                 .data = {},
                                 .terms = {},
                                 .has_own_data = true,
                                 .inviter_is_silent = [=](const std::string& sentence) {
                                   const std::chrono::duration<double> passed =
                                       std::chrono::steady_clock::now() - began;
                                   if (patience_s > 0 && passed.count() >= patience_s)
                                     throw InviterIsLate(sentence);
                                 }};
  if (given.ticket != nullptr) return prepare_to_join(certified, given.ticket, options, read);
  Problems problems = prepare_to_create(certified, options, read);
  if (!problems.empty()) return problems;
  options.swarm->config = merged_text(options.config_path, text_or(given.settings, ""));
  if (options.swarm->config.size() > config_bytes_max) {
    return {{"gv_options: settings",
             "with them the config is longer than 32 KiB, the most that a guest is given",
             "leave out what has its default anyway"}};
  }
  options.swarm->first_ticket.reset();  // Otherwise it would be printed.
  return {};
}

}  // namespace

HostOptions options_of(const gv_options& given, Problems& problems) {
  check_certified(given);
  const PeerArguments arguments = arguments_of(given, problems);
  HostOptions options = arguments.host;
  const std::string settings = text_or(given.settings, "");
  const ReadConfig read = [&](const std::string& path, ConfigOverrides overrides) {
    overrides.has_own_data = true;
    return merged_config(path, settings, overrides);
  };
  const bool is_certified = given.ticket != nullptr || given.create != 0;
  Problems more = is_certified ? certified_options(given, arguments, read, options)
                               : prepare(arguments, options, read);
  std::move(more.begin(), more.end(), std::back_inserter(problems));
  return options;
}

std::string joined_text(const Problems& problems) {
  std::string text;
  for (const Problem& problem : problems) text += (text.empty() ? "" : "\n") + to_string(problem);
  return text;
}

}  // namespace gv
