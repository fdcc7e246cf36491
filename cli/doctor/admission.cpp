// Sorts doctor's arguments, and reads keys, lists, config and data once.
#include <algorithm>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "cli/doctor/checks.hpp"
#include "peer/config/task.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/swarm_start.hpp"
#include "sim/local/keys.hpp"
#include "train/model_stages.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// Stores `subject` in the field for its kind. Returns the problems of the subject.
Problems sort(const std::string& subject, Patient& patient) {
  const std::size_t at = subject.find('@');
  const std::string address = at == std::string::npos ? subject : subject.substr(at + 1);
  const Problem twice{subject, "a second one of its kind", "examine them one by one"};
  if (subject.starts_with("gv1_") && !is_there(subject)) {
    ReadTicket read = read_ticket(subject);
    if (!read.problem.empty()) {
      return {{"TICKET", read.problem, "copy the whole word that `grapevine invite` has printed"}};
    }
    if (!patient.other.address.empty()) return {twice};
    patient.other = {.address = read.ticket.addresses.front(), .name = {}};
    patient.ticket = std::move(read.ticket);
    return {};
  }
  if (is_folder(subject)) {
    if (!patient.folder.empty()) return {twice};
    const std::string first = (std::filesystem::path(subject) / peer_name(0)).string();
    if (is_folder(first) && !is_there(std::filesystem::path(subject) / "key")) {
      return {{subject, "the folder of a whole run, not of a peer",
               "name a peer's folder, for example " + first}};
    }
    patient.folder = subject;
  } else if (is_there(subject)) {
    if (!patient.run.path.empty()) return {twice};
    patient.run.path = subject;
  } else if (is_address(address)) {
    if (!patient.other.address.empty()) return {twice};
    patient.other = {.address = address,
                     .name = at == std::string::npos ? std::string() : subject.substr(0, at)};
  } else {
    return {{subject, "is no address, and no folder or file has this name",
             "write a ticket, HOST:PORT or NAME@HOST:PORT of a peer, its run folder, or a config "
             "file"}};
  }
  return {};
}

/// The path of a key or list. It is `given` if that is not empty, or else an existing file `name`
/// in `folder` or in the folder above, where `launch` writes it. If there is no such file, it is
/// `name` in the current folder.
std::filesystem::path credential(const std::string& given, const std::filesystem::path& folder,
                                 const char* name) {
  if (!given.empty()) return given;
  if (!folder.empty() && is_there(folder / name)) return folder / name;
  const std::filesystem::path above = folder / ".." / name;
  return !folder.empty() && is_there(above) ? above.lexically_normal()
                                            : std::filesystem::path(name);
}

/// Reads our key and the certificates, which replace the allow-list, from the run folder. Returns
/// false if the folder has none.
bool read_certificates(Patient& patient) {
  if (patient.folder.empty() || !has_swarm(patient.folder)) return false;
  Credentials& mine = patient.credentials;
  mine.swarm = read_swarm(patient.folder);
  mine.key_file = swarm_folder(patient.folder) / "key";
  mine.authorized_file = swarm_folder(patient.folder) / "certificates";
  mine.key = {.pair = mine.swarm->identity, .problems = mine.swarm->problems};
  mine.authorized.emplace();
  std::set<PublicKey> listed;
  for (const Certificate& certificate : mine.swarm->certificates) {
    if (!listed.insert(certificate.key).second) continue;
    mine.authorized->peers.push_back({.name = certificate.name, .key = certificate.key});
  }
  const std::filesystem::path config = swarm_folder(patient.folder) / "config.toml";
  if (patient.run.path.empty() && is_there(config)) patient.run.path = config.string();
  return true;
}

void read_credentials(Patient& patient) {
  if (patient.options.key.empty() && read_certificates(patient)) return;
  Credentials& mine = patient.credentials;
  mine.key_file = credential(patient.options.key, patient.folder, "key");
  mine.authorized_file = credential(patient.options.authorized, patient.folder, "authorized_peers");
  if (is_there(mine.key_file)) mine.key = load_key_pair(mine.key_file);
  if (is_there(mine.authorized_file)) mine.authorized = load_authorized_peers(mine.authorized_file);
}

/// True if the config is from the swarm that the folder's peer joined by a ticket.
bool is_joined(const Patient& patient) {
  return !patient.folder.empty() && has_swarm(patient.folder) &&
         patient.run.path == swarm_folder(patient.folder) / "config.toml";
}

void read_run(Patient& patient) {
  PlannedRun& run = patient.run;
  if (run.path.empty()) return;
  DataPlace data{.folder = patient.options.data};
  if (data.folder.empty() && is_joined(patient)) data = read_data_place(patient.folder);
  run.is_data_in_program = data.is_in_program;
  run.parsed = parse_config_file(
      run.path, {.data_folder = data.folder, .peers = {}, .has_own_data = data.is_in_program});
  if (!run.is_sound() || run.is_data_in_program) return;
  const Config& config = run.parsed.config;
  // Another peer wrote this config, so the config may name files only in certain places.
  if (is_joined(patient)) {
    run.data_problems = problems_of_places(config, patient.folder, data.folder);
  }
  if (run.data_problems.empty()) run.data_problems = problems_with_data(config);
  if (!run.data_problems.empty()) {
    run.data_problems = run.parsed.places.placed(std::move(run.data_problems));
    return;
  }
  const Task task = load_task(config, 0);
  if (!task.problems.empty()) return;
  for (const LayerWork& layer : layer_work(task.trainer.model, task.shard->shape)) {
    run.parameters += layer.parameters;
  }
  run.optimizer_vectors = optimizer_vectors(task.trainer.optimizer);
}

}  // namespace

std::optional<std::size_t> Credentials::place() const {
  if (!has_key() || !authorized) return std::nullopt;
  const auto& peers = authorized->peers;
  const auto own = std::ranges::find(peers, key->pair.public_key, &AuthorizedPeer::key);
  if (own == peers.end()) return std::nullopt;
  return static_cast<std::size_t>(own - peers.begin());
}

std::size_t Patient::partners() const {
  std::size_t peers = run.is_sound() ? run.parsed.config.run.peers : 1;
  if (credentials.authorized) peers = std::max(peers, credentials.authorized->peers.size());
  return peers - 1;
}

Patient identify(const DoctorOptions& options, Problems& problems) {
  Patient patient{.options = options};
  for (const std::string& subject : options.subjects) {
    for (Problem& problem : sort(subject, patient)) problems.push_back(std::move(problem));
  }
  if (problems.empty()) read_credentials(patient);
  return patient;
}

Patient admit(const DoctorOptions& options, Problems& problems) {
  Patient patient = identify(options, problems);
  if (!problems.empty()) return patient;
  if (!patient.folder.empty()) patient.status = ask_peer(patient.folder).value_or("");
  read_run(patient);
  return patient;
}

}  // namespace gv
