// Prepares the first peer of a swarm, and peers that join with a ticket.
#include "peer/host/swarm_start.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/printable.hpp"
#include "consensus/trust/trust.hpp"
#include "net/admission.hpp"
#include "net/host_address.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/shards.hpp"
#include "peer/config/task.hpp"
#include "peer/host/peer_name.hpp"
#include "peer/host/replace_file.hpp"
#include "peer/host/run_format.hpp"
#include "peer/host/swarm_files.hpp"

namespace gv {
namespace {

std::uint64_t now_s() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// Fills in the address on which the peer listens and the address that other peers dial.
Problems take_addresses(const std::string& towards, HostOptions& options) {
  const bool is_v6_there = towards.find(':') != std::string::npos;
  if (options.listen.starts_with(':')) {
    options.listen = (is_v6_there ? "[::]" : "0.0.0.0") + options.listen;
  }
  if (options.advertise.empty() && is_any_host(options.listen)) {
    const auto own = own_address_towards(towards, is_ipv6(options.listen));
    if (own) options.advertise = *own + options.listen.substr(options.listen.rfind(':'));
  }
  Problems problems = address_problems(options.listen, options.advertise, {});
  const std::string& dialled = options.advertise.empty() ? options.listen : options.advertise;
  // Port 0 will be replaced by the real port, which has up to five digits.
  constexpr std::size_t port_digits = 5;
  if (dialled.size() + port_digits - 1 > ticket_address_bytes_max) {
    problems.push_back({options.advertise.empty() ? "--listen" : "--advertise",
                        "the address is too long for a ticket",
                        "use a shorter name of this machine, or its numeric address"});
  }
  return problems;
}

void append(Problems& problems, Problems more) {
  std::ranges::move(more, std::back_inserter(problems));
}

/// True if the path is relative and cannot leave the folder where it starts.
bool stays_below(const std::filesystem::path& path) {
  return path.is_relative() && std::ranges::find(path, "..") == path.end();
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const std::filesystem::path inner = std::filesystem::absolute(path).lexically_normal();
  const std::filesystem::path outer = std::filesystem::absolute(folder).lexically_normal();
  const auto [in_outer, in_inner] = std::ranges::mismatch(outer, inner);
  return in_outer == outer.end() || in_outer->empty();
}

/// True if the path is below the folder, as written or with links resolved. Also true if the links
/// cannot be resolved.
bool leads_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code error;
  const auto inner = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  const auto outer = std::filesystem::weakly_canonical(std::filesystem::absolute(folder), error);
  return error || is_below(inner, outer) || is_below(path, folder);
}

/// Asks the peer that made the ticket to admit us. For `tell`, see
/// SwarmArguments::inviter_is_silent.
Admission ask_inviter(const Ticket& ticket, const KeyPair& own, const std::string& name,
                      const std::function<void(const std::string&)>& tell) {
  if (!tell) return ask_to_join(ticket, own, name);
  // Long enough for a second connection over a network with long round trips.
  constexpr GuestPatience patience{.silence = std::chrono::seconds(6)};
  Admission admission = ask_to_join(ticket, own, name, patience);
  const std::string sentence = fmt::format(
      "{}: {}; waits for the peer that made the ticket until {}, when the ticket "
      "expires; check that it runs and that this machine can reach it",
      admission.address, admission.problem, time_text(ticket.expires_s));
  while (admission.is_silent) {
    tell(sentence);
    if (now_s() >= ticket.expires_s) {
      admission.problem = "no peer has answered there, and the ticket has expired";
      admission.remedy =
          "start the peer that made it, and ask for a new one there "
          "(`grapevine invite FOLDER`)";
      break;
    }
    admission = ask_to_join(ticket, own, name, patience);
  }
  return admission;
}

/// Returns the problem of a peer that was admitted and cannot write its files. The ticket admits
/// the key in this folder again. A key in another folder would need a further use of the ticket.
Problem unwritten_after_admission(const std::filesystem::path& folder) {
  return {
      folder.string(), "cannot be written",
      "free some space on that disk, or make the folder writable, and start again with the same "
      "folder; with another one the ticket may be used up"};
}

/// Joins with the ticket, and saves keys, certificates and config in the run folder.
Problems redeem(const Ticket& ticket, const HostOptions& options,
                const std::function<void(const std::string&)>& tell, SwarmFiles& files) {
  // The key is on disk before the ticket is used. If the answer is lost, the peer asks again with
  // the same key and is admitted.
  LoadedKeyPair key = keep_swarm_key(options.folder, "key");
  if (!key.problems.empty()) return std::move(key.problems);
  files = {.swarm = ticket.swarm, .identity = key.pair};
  const Admission admission = ask_inviter(ticket, files.identity, options.name, tell);
  if (!admission.problem.empty()) {
    return {{admission.address, admission.problem, admission.remedy}};
  }
  files.certificates = admission.answer.certificates;
  files.revocations = admission.answer.revocations;
  std::string config;
  for (const std::string& piece : admission.answer.config) config += piece;
  const std::filesystem::path folder = swarm_folder(options.folder);
  std::string addresses;
  const auto inviter = std::ranges::find(files.certificates, ticket.inviter, &Certificate::key);
  if (inviter != files.certificates.end()) {
    addresses = inviter->name + "@" + admission.address + "\n";
  }
  for (const std::string& address : admission.answer.addresses) {
    const auto at = address.find('@');
    const bool is_sound = at != std::string::npos && is_peer_name(address.substr(0, at)) &&
                          is_address(address.substr(at + 1));
    if (is_sound) addresses += address + "\n";
  }
  // The folder counts as complete once it has certificates, so they are written last.
  const bool is_written =
      replace_file(folder / "config.toml", config, Readers::owner, Lasts::on_disk) &&
      replace_file(folder / "peers", addresses, Readers::owner, Lasts::on_disk) &&
      write_certificates(options.folder, files.swarm, files.certificates, files.revocations);
  if (!is_written) return {unwritten_after_admission(folder)};
  return {};
}

/// Returns the peer addresses that were saved when this peer joined.
std::vector<std::string> first_peers(const std::filesystem::path& run_folder) {
  std::vector<std::string> peers;
  const std::string text = read_config_text((swarm_folder(run_folder) / "peers").string());
  std::size_t at = 0;
  while (at < text.size() && peers.size() <= answer_addresses_max) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) peers.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return peers;
}

/// Copies keys, certificates and config from the run folder into the options.
void take_files(const SwarmFiles& files, const std::string& config, HostOptions& options) {
  options.identity = files.identity;
  options.swarm = CertifiedSwarm{.swarm = files.swarm,
                                 .swarm_key = files.swarm_key,
                                 .certificates = files.certificates,
                                 .revocations = files.revocations,
                                 .config = config};
  const Certificate* own = nullptr;
  for (const Certificate& certificate : files.certificates) {
    const bool is_later = own == nullptr || certificate.expires_s > own->expires_s;
    if (certificate.key == files.identity.public_key && is_later) own = &certificate;
  }
  if (own == nullptr) return;
  options.name = own->name;
  options.shard = own->number % options.config.run.peers;
  const std::string warning = shared_shard(options.config, own->number);
  if (!warning.empty() && !options.quiet) say(stderr, warning + "\n");
}

/// Reports a problem if our certificate has expired, because other peers would not admit us.
Problems problems_of_expiry(const SwarmFiles& files, const std::filesystem::path& folder) {
  std::uint64_t until_s = 0;
  for (const Certificate& certificate : files.certificates) {
    if (certificate.key == files.identity.public_key) {
      until_s = std::max(until_s, certificate.expires_s);
    }
  }
  if (until_s > now_s()) return {};
  return {{folder.string(),
           fmt::format("the certificate of this peer expired {} days ago by this machine's clock",
                       (now_s() - until_s) / 86'400),
           "join with a new ticket and another --folder, or set the clock"}};
}

/// Reports a problem if our clock is behind. Certificates and revocations would then seem to come
/// from the future and be ignored. The first peer of a swarm would even certify itself again, and
/// overwrite its certificates.
Problems problems_of_clock(const SwarmFiles& files, const std::filesystem::path& folder) {
  const auto made_s = [](const Certificate& one) {
    return one.expires_s - std::min(one.expires_s, certificate_lifetime_s);
  };
  std::uint64_t newest_s = 0;
  std::optional<std::uint64_t> own_s;  // When our oldest certificate was made.
  for (const Certificate& one : files.certificates) {
    newest_s = std::max(newest_s, made_s(one));
    if (one.key == files.identity.public_key) own_s = std::min(own_s.value_or(~0ULL), made_s(one));
  }
  for (const Revocation& one : files.revocations) newest_s = std::max(newest_s, one.signed_s);
  const std::uint64_t until_s = files.swarm_key ? newest_s : own_s.value_or(0);
  if (until_s <= now_s() + clock_slack_s) return {};
  const std::string file = (swarm_folder(folder) / "certificates").string();
  return {{folder.string(),
           fmt::format(
               "this machine's clock says {}, and a certificate or revocation here was made at {}",
               time_text(now_s()), time_text(until_s)),
           files.swarm_key ? "set the clock; if it is right, remove " + file +
                                 ", and this peer signs new certificates; revocations in it are "
                                 "forgotten"
                           : "set the clock; if it is right, join with a new ticket and another "
                             "--folder"}};
}

ConfigOverrides overrides_of(const SwarmArguments& arguments) {
  return {.data_folder = arguments.data, .peers = {}, .has_own_data = arguments.has_own_data};
}

/// Prints the settings with which the peer will join. `wanted` is the name that the peer asked for.
void say_plan(const HostOptions& options, const std::string& wanted) {
  const Config& config = options.config;
  const bool has_files = config.data.kind != DataKind::generated;
  const std::string why =
      options.name == wanted ? "" : fmt::format(" because another peer is named {}", wanted);
  say(stdout, fmt::format("joins as {}{}: mode {}, model {}, data {}\n", options.name, why,
                          to_string(config.run.mode), to_string(config.model.kind),
                          has_files ? "from " + printable(config.data.folder) + ", all there"
                                    : std::string("generated here")));
}

}  // namespace

std::string shared_shard(const Config& config, std::uint32_t number) {
  if (!has_shards(config) || number < config.run.peers) return {};
  return fmt::format(
      "all {} shards of the data (run.peers) have owners already, so this peer shares shard {}; if "
      "it replaces a machine that is gone, revoke that machine's name first (`grapevine revoke "
      "FOLDER NAME`), and join with a new ticket and another --folder",
      config.run.peers, number % config.run.peers);
}

bool has_checkpoints(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / "checkpoints", error);
}

std::string time_text(std::uint64_t at_s) {
  // The calendar of the fmt library ends with the year 9999, but a ticket may state any time.
  constexpr std::uint64_t last_s = 253'402'300'799;
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(static_cast<std::time_t>(std::min(at_s, last_s))));
}

Problems problems_of_places(const Config& config, const std::filesystem::path& own_folder,
                            const std::string& data) {
  Problems problems;
  if (config.data.kind == DataKind::generated) return problems;
  const bool is_allowed = !data.empty() || is_below(config.data.folder, own_folder) ||
                          is_below(config.data.folder, "/usr/share");
  if (!is_allowed) {
    problems.push_back({"data.folder",
                        "the swarm's config reads " + config.data.folder +
                            ", which is outside of this peer's folder",
                        "if it may, say so with --data FOLDER"});
  }
  const std::filesystem::path own_keys = swarm_folder(own_folder);
  const std::filesystem::path folder = config.data.folder;
  bool reads_keys = leads_below(folder, own_keys);
  for (const auto* files : {&config.data.train_files, &config.data.test_files}) {
    for (const std::string& file : *files) {
      reads_keys = reads_keys || leads_below(folder / file, own_keys);
      if (stays_below(file)) continue;
      problems.push_back({"data",
                          "the swarm's config names " + file +
                              ", which leads out of the "
                              "folder of the data",
                          "do not join this swarm"});
    }
  }
  const std::filesystem::path centres = config.data.centres;
  if (!centres.empty() && (!leads_below(centres, folder) || leads_below(centres, own_keys))) {
    problems.push_back({"data.centres",
                        "the swarm's config reads " + centres.string() +
                            ", which is outside of the folder of the data",
                        "put the file into that folder at all peers, and name it by its path"});
  }
  if (reads_keys) {
    problems.push_back({"data.folder",
                        "the swarm's config reads data in " + own_keys.string() +
                            ", where this peer keeps its secret key",
                        "put the data elsewhere, and say where with --data FOLDER"});
  }
  return problems;
}

Problems prepare_to_create(const SwarmArguments& arguments, HostOptions& options,
                           const ReadConfig& read) {
  options = arguments.host;
  ParsedConfig parsed = read(options.config_path, overrides_of(arguments));
  Problems problems = std::move(parsed.problems);
  options.config = std::move(parsed.config);
  options.places = std::move(parsed.places);
  if (options.name.empty()) options.name = machine_name();
  append(problems, problems_of_name(options.name));
  append(problems, take_addresses("", options));
  const std::string config = read_config_text(options.config_path);
  if (config.size() > config_bytes_max) {
    problems.push_back({options.config_path,
                        "is longer than 32 KiB, the most that a guest is given",
                        "make it shorter, or copy it and use `grapevine peer`"});
  }
  if (!problems.empty()) return problems;
  options.folder = arguments.folder.empty()
                       ? std::filesystem::path(options.config.run.folder) / options.name
                       : std::filesystem::path(arguments.folder);
  SwarmFiles files;
  if (has_swarm(options.folder)) {
    files = read_swarm(options.folder);
    options.resume = true;
    options.join = first_peers(options.folder);
    if (files.problems.empty()) files.problems = problems_of_clock(files, options.folder);
    // A peer with the swarm's key renews its own certificate, so an expired one is no problem.
    if (files.problems.empty() && !files.swarm_key) {
      files.problems = problems_of_expiry(files, options.folder);
    }
  } else {
    LoadedKeyPair own = keep_swarm_key(options.folder, "key");
    if (!own.problems.empty()) return std::move(own.problems);
    LoadedKeyPair swarm = keep_swarm_key(options.folder, "swarm_key");
    if (!swarm.problems.empty()) return std::move(swarm.problems);
    options.resume = has_checkpoints(options.folder);
    files.identity = own.pair;
    files.swarm_key = swarm.pair;
    files.swarm = swarm.pair.public_key;
    if (!write_certificates(options.folder, files.swarm, {}, {})) {
      files.problems.push_back(
          {swarm_folder(options.folder).string(), "cannot be written", "choose another --folder"});
    }
  }
  if (!files.problems.empty()) return files.problems;
  take_files(files, config.empty() ? std::string(default_config_text()) : config, options);
  options.swarm->first_ticket = arguments.terms;
  return {};
}

Problems prepare_to_join(const SwarmArguments& arguments, const std::string& text,
                         HostOptions& options, const ReadConfig& read) {
  options = arguments.host;
  const ReadTicket given = read_ticket(text);
  if (!given.problem.empty()) {
    return {{"TICKET", given.problem, "copy the whole word that `grapevine invite` has printed"}};
  }
  if (options.name.empty()) options.name = machine_name();
  if (Problems unnamed = problems_of_name(options.name); !unnamed.empty()) return unnamed;
  options.folder = arguments.folder.empty() ? std::filesystem::path("grapevine-" + options.name)
                                            : std::filesystem::path(arguments.folder);
  if (options.listen.empty()) options.listen = ":0";
  Problems problems = take_addresses(host_of(given.ticket.addresses.front()), options);
  if (!problems.empty()) return problems;

  SwarmFiles files;
  const bool is_new = !has_swarm(options.folder);
  if (!is_new) {
    files = read_swarm(options.folder);
    options.resume = true;
    if (files.problems.empty() && files.swarm != given.ticket.swarm) {
      files.problems.push_back({options.folder.string(), "belongs to another swarm",
                                "choose another --folder for this one"});
    }
    problems = files.problems;
    if (problems.empty()) problems = problems_of_clock(files, options.folder);
    if (problems.empty()) problems = problems_of_expiry(files, options.folder);
  } else if (now_s() >= given.ticket.expires_s) {
    problems.push_back({"TICKET",
                        fmt::format("the ticket has expired: it was good until {}, and this "
                                    "machine's clock says {}",
                                    time_text(given.ticket.expires_s), time_text(now_s())),
                        "ask for a new one (`grapevine invite FOLDER`), or set the clock"});
  } else {
    options.resume = has_checkpoints(options.folder);
    problems = redeem(given.ticket, options, arguments.inviter_is_silent, files);
    if (problems.empty()) problems = problems_of_clock(files, options.folder);
  }
  if (!problems.empty()) return problems;

  options.config_path = (swarm_folder(options.folder) / "config.toml").string();
  const std::string config = read_config_text(options.config_path);
  if (config.empty()) {
    return {{options.config_path, "the swarm's config that this peer received is empty or missing",
             "copy this file from another peer of the swarm that joined, or join with a new ticket "
             "and another --folder"}};
  }
  ParsedConfig parsed = read(options.config_path, overrides_of(arguments));
  if (!arguments.has_own_data) {
    problems = problems_of_places(parsed.config, options.folder, arguments.data);
  }
  append(problems, std::move(parsed.problems));
  if (!problems.empty()) return problems;
  const DataPlace data{.folder = arguments.data, .is_in_program = arguments.has_own_data};
  if (!write_data_place(options.folder, data)) {
    const std::string folder = swarm_folder(options.folder).string();
    // A program would not see a warning here, so this is an error.
    if (data.is_in_program) return {unwritten_after_admission(folder)};
    say(stderr, fmt::format("{}: cannot be written; give --data to `grapevine doctor` as well\n",
                            printable(folder)));
  }
  options.config = std::move(parsed.config);
  options.places = std::move(parsed.places);
  options.join = first_peers(options.folder);
  const std::string wanted = options.name;
  take_files(files, config, options);
  // After a restart the peer keeps the name that it was given when it joined.
  if (!options.quiet) say_plan(options, is_new ? wanted : options.name);
  return {};
}

std::string swarm_command_text(const SwarmCommand& command) {
  if (!command.invite.has_value()) {
    // A name with bytes that are not UTF-8 is no peer's name, but must not end the command.
    return nlohmann::json{{"revoke", command.revoke}, {"with_invited", command.with_invited}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  const TicketTerms& terms = *command.invite;
  return nlohmann::json{
      {"invite",
       {{"uses", terms.uses}, {"valid_s", terms.valid_s}, {"may_invite", terms.may_invite}}}}
      .dump();
}

InviteAnswer read_invite_answer(const std::string& text) {
  try {
    const nlohmann::json answer = nlohmann::json::parse(text);
    return {.ticket = answer.value("ticket", ""), .problem = answer.value("problem", "")};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

SwarmCommand read_swarm_command(const std::string& text) {
  try {
    const nlohmann::json asked = nlohmann::json::parse(text);
    SwarmCommand command;
    if (asked.contains("invite")) {
      TicketTerms terms;
      const nlohmann::json& invite = asked.at("invite");
      terms.uses = std::clamp<std::uint32_t>(invite.value("uses", terms.uses), 1, ticket_uses_max);
      terms.valid_s = std::min(invite.value("valid_s", terms.valid_s), certificate_lifetime_s);
      terms.may_invite = invite.value("may_invite", terms.may_invite);
      command.invite = terms;
    }
    command.revoke = asked.value("revoke", std::string());
    command.with_invited = asked.value("with_invited", false);
    return command;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace gv
