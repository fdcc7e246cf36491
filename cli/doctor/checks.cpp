// The checks of `grapevine doctor`, and the table that lists them.
#include "cli/doctor/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/doctor/handshake.hpp"
#include "cli/doctor/judgement.hpp"
#include "cli/doctor/probes.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/trust/trust.hpp"
#include "net/echo_service.hpp"
#include "peer/host/peer_json.hpp"
#include "peer/host/run_format.hpp"

namespace gv {
namespace {

/// Number of vectors that a peer keeps, each as long as the model. The mixing rule adds vectors of
/// its own (docs/operations.md).
constexpr double copies_of_model = 6;
/// A measured speed above this, in bytes per second, may be due to the other peer's limit for
/// echoes and not to the link.
constexpr double echo_nearly_bounded = 0.9 * echo_bytes_per_second;

Diagnoses check_config(Patient& patient) {
  const PlannedRun& run = patient.run;
  if (run.path.empty()) return {};
  const RunConfig& settings = run.parsed.config.run;
  return diagnoses_of(run.parsed.problems, fmt::format("{}: mode {}, {} peers", run.path,
                                                       to_string(settings.mode), settings.peers));
}

Diagnoses check_data(Patient& patient) {
  const PlannedRun& run = patient.run;
  if (!run.is_sound() || run.is_data_in_program) return {};
  return diagnoses_of(
      run.data_problems,
      fmt::format("training and test data suit the model of {} parameters", run.parameters));
}

std::uint64_t now_s() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// True for a guest with a ticket, who needs neither a key nor a list.
bool is_guest(const Patient& patient) {
  return patient.ticket && patient.options.key.empty() && !patient.credentials.swarm;
}

Diagnoses check_ticket(Patient& patient) {
  if (!patient.ticket) return {};
  return {judge(TicketState{
      .expires_s = patient.ticket->expires_s, .now_s = now_s(), .address = patient.other.address})};
}

Diagnoses check_certificate(Patient& patient) {
  const Credentials& mine = patient.credentials;
  if (!mine.swarm || !mine.has_key()) return {};
  CertificateState state{
      .name = "this peer", .inviter_command = "grapevine invite FOLDER", .now_s = now_s()};
  for (const Certificate& certificate : mine.swarm->certificates) {
    const std::uint64_t made_s =
        certificate.expires_s - std::min(certificate.expires_s, certificate_lifetime_s);
    if (certificate.issuer != mine.key->pair.public_key) {
      state.seen_s = std::max(state.seen_s, made_s);
    }
    if (certificate.key != mine.key->pair.public_key) continue;
    state.name = certificate.name;
    state.expires_s = std::max(state.expires_s, certificate.expires_s);
  }
  return judge(state);
}

Diagnoses check_key(Patient& patient) {
  if (is_guest(patient)) return {};
  const Credentials& mine = patient.credentials;
  const std::string file = mine.key_file.string();
  if (mine.key) return diagnoses_of(mine.key->problems, file + ": only its owner can read it");
  return {{.health = patient.options.key.empty() ? Health::warning : Health::error,
           .text = file + ": there is no such key, and a peer needs one",
           .remedy = fmt::format("grapevine keygen {} --name NAME >> {}", file,
                                 mine.authorized_file.string())}};
}

Diagnoses check_allow_list(Patient& patient) {
  if (is_guest(patient)) return {};
  const Credentials& mine = patient.credentials;
  const std::string file = mine.authorized_file.string();
  if (mine.authorized) {
    return diagnoses_of(mine.authorized->problems,
                        fmt::format("{}: {} peers", file, mine.authorized->peers.size()));
  }
  return {{.health = patient.options.authorized.empty() ? Health::warning : Health::error,
           .text = file + ": there is no such allow-list, and a peer needs one",
           .remedy = "write the line that keygen prints on each machine into it"}};
}

/// The line that admits our key if it is added to another peer's allow-list.
std::string own_line(const Credentials& mine) {
  const auto place = mine.place();
  return fmt::format("{} {}", place ? mine.authorized->peers[*place].name : "NAME",
                     to_text(mine.key->pair.public_key));
}

Diagnoses check_name(Patient& patient) {
  const Credentials& mine = patient.credentials;
  if (is_guest(patient) || mine.swarm || !mine.has_key() || !mine.has_list()) return {};
  const auto& peers = mine.authorized->peers;
  const auto place = mine.place();
  if (!place) {
    return {{.health = Health::error,
             .text = "this key is not on the allow-list, so this peer has no name and no shard",
             .remedy = fmt::format("echo '{}' >> {}, on every machine", own_line(mine),
                                   mine.authorized_file.string())}};
  }
  Diagnoses found{{.text = fmt::format("{}, number {} of {} on the allow-list", peers[*place].name,
                                       *place + 1, peers.size())}};
  if (patient.run.is_sound() && peers.size() > patient.run.parsed.config.run.peers) {
    found.push_back({.health = Health::warning,
                     .text = fmt::format("{} peers on the allow-list and run.peers = {}, so some "
                                         "train on the same shard",
                                         peers.size(), patient.run.parsed.config.run.peers),
                     .remedy = fmt::format("set run.peers = {}", peers.size())});
  }
  return found;
}

Diagnoses check_modes(Patient& patient) {
  Diagnoses found;
  for (const std::filesystem::path& path :
       {patient.credentials.authorized_file, std::filesystem::path(patient.run.path),
        patient.folder}) {
    if (path.empty()) continue;
    if (const auto mode = probe_mode(path)) found.push_back(judge(*mode));
  }
  return found;
}

Diagnoses check_folder(Patient& patient) {
  if (patient.folder.empty()) return {};
  const std::string folder = patient.folder.string();
  if (patient.status.empty()) {
    return diagnoses_of(run_format_problems(patient.folder), folder + ": no peer runs here");
  }
  const auto document = parse_peer_json<nlohmann::json>(patient.status);
  if (!document.is_object()) return {{.text = folder + ": a peer runs here"}};
  return {{.text = fmt::format("{}: {} runs here, in phase {}", folder,
                               document.value("self", nlohmann::json::object()).value("name", ""),
                               document.value("phase", ""))}};
}

/// Lists the members that the running peer reaches only through other peers.
Diagnoses check_links(Patient& patient) {
  const auto document = parse_peer_json<nlohmann::json>(patient.status);
  if (!document.is_object()) return {};
  Diagnoses found;
  for (const auto& member : document.value("members", nlohmann::json::array())) {
    const std::string relay = member.value("relay", "");
    if (relay.empty()) continue;
    found.push_back(judge(RelayedMember{.name = member.value("name", ""), .relay = relay}));
  }
  if (found.empty()) found.push_back({.text = "no member is reached through another one"});
  return found;
}

Diagnoses check_clock(Patient&) { return {judge(probe_clock())}; }

/// An address at which the running peer listens: the field `name` of `self` in the peer's status.
/// Empty if no peer runs.
std::string own_address(const Patient& patient, const char* name) {
  const auto document = parse_peer_json<nlohmann::json>(patient.status);
  if (!document.is_object()) return {};
  return document.value("self", nlohmann::json::object()).value(name, "");
}

/// The address at which our lanes would listen.
std::string lanes_address(const DoctorOptions& options) {
  return fmt::format("{}:{}", options.listen.substr(0, options.listen.rfind(':')),
                     options.lane_port);
}

Diagnoses check_ports(Patient& patient) {
  const DoctorOptions& options = patient.options;
  if (options.listen.empty()) return {};
  const std::string lanes = lanes_address(options);
  if (lanes == options.listen && options.lane_port > 0) {
    return {{.health = Health::error,
             .text = options.listen + " cannot be for control links and for lanes",
             .remedy = "give --lane-port another port than --listen"}};
  }
  PortState control = probe_port("control links", options.listen);
  control.is_ours = own_address(patient, "listening") == options.listen;
  Diagnoses found{judge(control)};
  if (options.lane_port == 0) return found;
  PortState bulk = probe_port("lanes", lanes);
  bulk.is_ours = own_address(patient, "lanes") == lanes;
  found.push_back(judge(bulk));
  return found;
}

Diagnoses check_control_port(Patient& patient) {
  OtherPeer& other = patient.other;
  if (other.address.empty()) return {};
  const Connection connection = probe_connection(other.address, true);
  other.round_trip = connection.round_trip;
  other.answers = connection.greets;
  return judge_control_port(connection);
}

/// The address at which the other peer's lanes listen, from the arguments or else from that peer.
std::string their_lanes(const Patient& patient) {
  return patient.options.their_lanes.empty() ? patient.other.answer.lanes
                                             : patient.options.their_lanes;
}

Diagnoses check_lane_port(Patient& patient) {
  const std::string lanes = their_lanes(patient);
  if (!is_address(lanes)) return {};
  const Connection connection = probe_connection(lanes, false);
  // Without a connection to the other peer's lanes, there is nothing to measure.
  if (connection.outcome != Connection::Outcome::connected) patient.other.answer.lane = 0;
  return {judge_lane_port(connection)};
}

/// Asks the other peer for its clock, its lanes and an echo. Later checks use the answer.
Diagnoses check_their_clock(Patient& patient) {
  OtherPeer& other = patient.other;
  if (!other.live) return {};
  const std::optional<Asked> asked = ask_live_peer(*other.live, {.wants_echo = true});
  if (!asked) {
    other.live.reset();
    return {{.health = Health::warning,
             .text = other.address + " answers no question of doctor",
             .remedy = "use the same version of grapevine on all machines"}};
  }
  if (!asked->answer.refusal.empty()) {
    other.live.reset();
    return {{.health = Health::warning,
             .text = fmt::format("{} does not answer: {}", other.address, asked->answer.refusal),
             .remedy = "run doctor again in a minute"}};
  }
  other.answer = asked->answer;
  return {judge(PeerClock{.theirs_us = asked->answer.wall_us,
                          .ours_us = asked->wall_us,
                          .uncertainty = asked->round_trip / 2,
                          .has_certificates = patient.ticket || patient.credentials.swarm})};
}

Diagnoses check_lane_speed(Patient& patient) {
  OtherPeer& other = patient.other;
  if (!other.live || !is_address(other.answer.lanes)) return {};
  if (other.answer.lane == 0) {
    return {{.health = Health::warning,
             .text = "the lane to it was not measured, because it cannot be dialled or another "
                     "doctor measures one",
             .remedy = "mend the lane port, or run doctor again in a minute"}};
  }
  other.lane = measure_lane(other.answer);
  if (!other.lane) {
    return {{.health = Health::error,
             .text = other.answer.lanes + " opens no lane, or returns nothing on it",
             .remedy = "look for a proxy on the way that is no plain TCP"}};
  }
  return {judge(LaneSpeed{.round_trip = other.lane->round_trip,
                          .bits_per_second = 8 * other.lane->bytes_per_second,
                          .is_bounded = other.lane->bytes_per_second > echo_nearly_bounded,
                          .expected_bits = 1e6 * patient.options.link_mbit,
                          .model_bytes = sizeof(float) * patient.run.parameters})};
}

/// A port of this machine that the other peer is asked to dial. Either this program or a running
/// peer holds it open.
struct OwnPort {
  std::string purpose;
  std::uint16_t port = 0;
  std::optional<HeldPort> held;
};

OwnPort own_port(const Patient& patient, const std::string& purpose, const std::string& given,
                 const char* name) {
  const std::string address = given.empty() ? own_address(patient, name) : given;
  OwnPort own{.purpose = purpose, .held = {}};
  if (!is_address(address) && !address.starts_with("*:")) return own;
  own.port = static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
  own.held.emplace(address);
  return own;
}

Diagnosis judge_own_port(OwnPort& own, DialOutcome outcome, const std::string& seen_as) {
  const bool is_elsewhere =
      outcome == DialOutcome::connected && own.held->is_listening() && !own.held->was_dialled();
  return judge(DialledBack{.purpose = own.purpose,
                           .port = own.port,
                           .seen_as = seen_as,
                           .outcome = outcome,
                           .is_elsewhere = is_elsewhere});
}

/// Asks the other peer to dial our ports.
Diagnoses check_dial_back(Patient& patient) {
  if (!patient.other.live) return {};
  const DoctorOptions& options = patient.options;
  OwnPort control = own_port(patient, "control links", options.listen, "listening");
  OwnPort lanes = own_port(patient, "lanes",
                           options.lane_port > 0 ? lanes_address(options) : std::string(), "lanes");
  if (control.port == 0 && lanes.port == 0) return {};
  const std::optional<Asked> asked =
      ask_live_peer(*patient.other.live, {.control_port = control.port, .lane_port = lanes.port});
  if (!asked || !asked->answer.refusal.empty()) {
    return {{.health = Health::warning,
             .text = asked ? "it did not dial this machine: " + asked->answer.refusal
                           : "it has not said whether it reached this machine",
             .remedy = "run doctor again in a minute"}};
  }
  const ExamAnswer& answer = asked->answer;
  Diagnoses found;
  if (control.port != 0) {
    found.push_back(judge_own_port(control, answer.control_port, answer.seen_as));
  }
  if (lanes.port != 0) found.push_back(judge_own_port(lanes, answer.lane_port, answer.seen_as));
  return found;
}

Diagnoses check_handshake(Patient& patient) {
  if (!patient.other.answers) return {};
  return {meet(patient)};
}

Diagnoses check_descriptors(Patient& patient) {
  return {judge(DescriptorLimit{.most = probe_descriptors(), .partners = patient.partners()})};
}

Diagnoses check_shared_memory(Patient&) { return {judge(probe_shared_memory())}; }

Diagnoses check_tcp_buffers(Patient& patient) {
  TcpBuffers buffers = probe_tcp_buffers();
  const OtherPeer& other = patient.other;
  const DoctorOptions& options = patient.options;
  if (options.link_mbit > 0) {
    buffers.bits_per_second = 1e6 * options.link_mbit;
  } else if (other.lane) {
    buffers.bits_per_second = 8 * other.lane->bytes_per_second;
  }
  if (options.link_ms > 0) {
    buffers.round_trip = from_seconds(options.link_ms / 1e3);
  } else if (other.lane) {
    buffers.round_trip = other.lane->round_trip;
  } else if (other.round_trip) {
    buffers.round_trip = *other.round_trip;
  }
  buffers.is_measured = other.lane && options.link_mbit == 0 && options.link_ms == 0;
  return judge(buffers);
}

Diagnoses check_processor(Patient& patient) {
  ProcessorState processor = probe_processor();
  if (patient.run.is_sound()) processor.threads = patient.run.parsed.config.train.threads;
  return judge(processor);
}

/// Checks the memory for the model, except in a pipeline, where a peer's part of the model depends
/// on the swarm.
Diagnoses check_memory(Patient& patient) {
  const PlannedRun& run = patient.run;
  if (run.parameters == 0 || run.parsed.config.run.mode == ModeKind::pipeline) return {};
  double copies = copies_of_model;
  if (run.parsed.config.run.mode == ModeKind::mixing) {
    copies += static_cast<double>(traits_of(run.parsed.config.mixing.rule).vectors);
  }
  return {judge(MemoryState{.available_bytes = probe_available_memory(),
                            .parameters = run.parameters,
                            .copies = copies})};
}

/// The size in bytes of the largest file in the folder; 0 if there is none.
std::uint64_t largest_file(const std::filesystem::path& folder) {
  std::uint64_t largest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    const auto bytes = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    if (!gone) largest = std::max<std::uint64_t>(largest, bytes);
  }
  return largest;
}

Diagnoses check_disk(Patient& patient) {
  const PlannedRun& run = patient.run;
  if (patient.folder.empty() && !run.is_sound()) return {};
  const Config& config = run.parsed.config;
  DiskState disk = probe_disk(patient.folder.empty() ? std::filesystem::path(config.run.folder)
                                                     : patient.folder);
  if (!run.is_sound()) {
    disk.checkpoint_bytes = largest_file(patient.folder / "checkpoints");
  } else {
    disk.checkpoint_bytes = sizeof(float) * run.parameters * (1 + run.optimizer_vectors);
    // The oldest checkpoint is deleted once the newest is complete.
    disk.checkpoints = config.checkpoint.keep + 1;
    disk.log_bytes = config.run.events_mib << 20;
  }
  return {judge(disk)};
}

constexpr std::array checks{
    Check{"config", check_config},
    Check{"data", check_data},
    Check{"ticket", check_ticket},
    Check{"certificate", check_certificate},
    Check{"key", check_key},
    Check{"allow-list", check_allow_list},
    Check{"name", check_name},
    Check{"modes", check_modes},
    Check{"folder", check_folder},
    Check{"links", check_links},
    Check{"clock", check_clock},
    Check{"own ports", check_ports},
    Check{"control port", check_control_port},
    Check{"handshake", check_handshake},
    Check{"their clock", check_their_clock},
    Check{"lane port", check_lane_port},
    Check{"lane speed", check_lane_speed},
    Check{"dialled back", check_dial_back},
    Check{"descriptors", check_descriptors},
    Check{"shared memory", check_shared_memory},
    Check{"TCP buffers", check_tcp_buffers},
    Check{"processor", check_processor},
    Check{"memory", check_memory},
    Check{"disk", check_disk},
};

}  // namespace

Diagnosis meet(Patient& patient) {
  const Credentials& mine = patient.credentials;
  OtherPeer& other = patient.other;
  const auto note_live = [&other](const Handshake& found, const KeyPair& identity) {
    if (found.outcome != Handshake::Outcome::admitted) return;
    other.live = LivePeer{.address = other.address, .key = found.key, .identity = identity};
  };
  if (patient.ticket) {
    const KeyPair guest = guest_keys(*patient.ticket);
    Handshake found =
        shake_hands(other.address, guest, {{.name = "its maker", .key = patient.ticket->inviter}});
    found.by_ticket = true;
    note_live(found, guest);
    return judge(found);
  }
  if (!mine.has_key() || !mine.has_list()) {
    return {.health = Health::warning,
            .text =
                "without a key and an allow-list it is not known which peer answers there, "
                "and if it lets this one in",
            .remedy = "give --key and --authorized"};
  }
  std::vector<AuthorizedPeer> others = mine.authorized->peers;
  std::erase_if(others, [&](const AuthorizedPeer& peer) {
    return peer.key == mine.key->pair.public_key ||
           (!other.name.empty() && peer.name != other.name);
  });
  if (others.empty()) {
    return {.health = Health::error,
            .text = other.name.empty() ? "there is no other peer on the allow-list"
                                       : other.name + " is not on the allow-list",
            .remedy = fmt::format("add the line that keygen printed there to {}",
                                  mine.authorized_file.string())};
  }
  Handshake found = shake_hands(other.address, mine.key->pair, others);
  found.wanted = other.name;
  found.own_line = own_line(mine);
  note_live(found, mine.key->pair);
  return judge(found);
}

std::span<const Check> doctor_checks() { return checks; }

Diagnoses examine(Patient& patient) {
  Diagnoses all;
  for (const Check& check : doctor_checks()) {
    for (Diagnosis& line : check.run(patient)) {
      line.check = check.name;
      all.push_back(std::move(line));
    }
  }
  return all;
}

}  // namespace gv
