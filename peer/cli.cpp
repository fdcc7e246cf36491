// Subcommands and their options, each with an example in its help.
#include "peer/cli.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "consensus/topology/pairs.hpp"
#include "net/identity.hpp"
#include "peer/algorithms.hpp"
#include "peer/config.hpp"
#include "peer/evaluate.hpp"
#include "peer/host.hpp"
#include "peer/peer_socket.hpp"
#include "peer/plan.hpp"
#include "peer/reduce_peer.hpp"
#include "peer/refusal.hpp"
#include "peer/settings.hpp"
#include "peer/status.hpp"
#include "peer/switch_command.hpp"
#include "peer/toml.hpp"
#include "sim/algorithm_text.hpp"
#include "sim/local/bench_allreduce.hpp"
#include "sim/local/launch.hpp"
#include "sim/local/whole_model.hpp"
#include "sim/theory.hpp"
#include "sim/topology_picture.hpp"
#include "sim/topology_text.hpp"
#include "sim/virtual/simulate.hpp"
#include "sim/virtual/swarm.hpp"

namespace gv {
namespace {

/// "K/N" with K < N.
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
  return shard;
}

/// "HOST:PORT" with a port from 0 to 65535, where 0 stands for any free one.
bool is_listen_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string port = text.substr(colon + 1);
  return port == "0" || is_address(text);
}

bool is_any_interface(const std::string& address) {
  const std::string host = host_part(address);
  return host == "0.0.0.0" || host == "::" || host == "*";
}

/// What is wrong with the addresses given. None is ever guessed.
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

std::optional<LaneKind> lane_kind(const std::string& name) {
  if (name == "auto") return LaneKind::automatic;
  if (name == "tls") return LaneKind::tls;
  if (name == "plain") return LaneKind::plain;
  if (name == "unix") return LaneKind::unix_socket;
  return std::nullopt;
}

Problem no_lane(const std::string& name) {
  return {"--lane", fmt::format("'{}' is no kind of lane", name), "write auto, tls, plain or unix"};
}

/// How this peer's lanes travel, where that differs from what its config says.
Problems choose_lane(const std::string& given, NetworkConfig& network) {
  if (given.empty()) return {};
  const auto lane = lane_kind(given);
  if (!lane) return {no_lane(given)};
  if (lane == LaneKind::plain && !network.trusted) {
    return {{"--lane", "plain lanes on a network that is not trusted",
             "set network.trusted = true in the config if nobody can listen in, or use tls"}};
  }
  network.lane = *lane;
  return {};
}

struct PeerArguments {
  std::string config;
  std::string key;
  std::string authorized;
  std::string name;
  std::string folder;
  std::string listen;
  std::string advertise;
  std::string dial_from;
  std::uint16_t lane_port = 0;
  std::string lane;
  std::vector<std::string> join;
  std::string shard;
  std::size_t wait_for = 1;
  bool resume = false;
  bool quiet = false;
};

/// Fills in what the arguments leave open and collects everything wrong with them.
Problems prepare(const PeerArguments& arguments, HostOptions& options) {
  Problems problems;
  const auto add = [&](const Problems& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  ParsedConfig parsed = arguments.config.empty() ? ParsedConfig{default_config(), {}}
                                                 : parse_config_file(arguments.config);
  add(parsed.problems);
  options.config = std::move(parsed.config);
  options.config_path = arguments.config;
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
  options.name = arguments.name;
  if (options.name.empty()) {
    options.name = position ? authorized.peers[*position].name
                            : to_string(peer_id(options.identity.public_key));
  }
  options.authorized = std::move(authorized.peers);
  if (!arguments.shard.empty()) {
    const auto shard = parse_shard(arguments.shard);
    if (shard) {
      options.shard = shard->number;
      options.config.run.peers = shard->of;
    } else {
      problems.push_back({"--shard", fmt::format("'{}' is not a shard", arguments.shard),
                          "write K/N with K from 0 to N-1, for example 0/4"});
    }
  } else if (position) {
    options.shard = *position % options.config.run.peers;
  } else if (key.problems.empty() && authorized.problems.empty()) {
    problems.push_back({arguments.authorized, "this peer's own key is not in the allow-list",
                        "add it (its place decides the shard), or choose one with --shard K/N"});
  }
  add(address_problems(arguments.listen, arguments.advertise, arguments.join));
  if (arguments.listen.empty() && arguments.join.empty()) {
    problems.push_back({"--listen", "neither --listen nor --join is given, so nobody can be met",
                        "give --listen HOST:PORT, --join HOST:PORT, or both"});
  }
  options.folder = arguments.folder.empty()
                       ? std::filesystem::path(options.config.run.folder) / options.name
                       : std::filesystem::path(arguments.folder);
  options.listen = arguments.listen;
  options.advertise = arguments.advertise;
  options.dial_from = arguments.dial_from;
  options.lane_port = arguments.lane_port;
  add(choose_lane(arguments.lane, options.config.network));
  options.join = arguments.join;
  options.wait_for = arguments.wait_for;
  options.resume = arguments.resume;
  options.quiet = arguments.quiet;
  return problems;
}

int peer_command(const PeerArguments& arguments, const HostHooks& hooks) {
  HostOptions options;
  options.hooks = hooks;
  const Problems problems = prepare(arguments, options);
  if (!problems.empty()) return fail(problems);
  return run_peer(options);
}

int keygen_command(const std::string& file, const std::string& name) {
  const KeyPair pair = generate_key_pair();
  const Problems problems = save_key_pair(file, pair);
  if (!problems.empty()) return fail(problems);
  fmt::print(stderr, "secret key written to {}; the line for everybody's authorized_peers:\n",
             file);
  fmt::print("{} {}\n", name, to_text(pair.public_key));
  return 0;
}

int status_command(const std::string& folder, bool as_json) {
  const auto document = ask_peer(folder);
  if (!document) {
    return fail({{folder, "no running peer answers here",
                  "give the run folder of a running peer, the one its first line names"}});
  }
  fmt::print("{}", as_json ? *document + "\n" : status_table(*document));
  return 0;
}

/// What `bench allreduce` and its ranks are both told.
struct ReduceArguments {
  std::vector<std::string> sizes{"4KiB", "64KiB", "1MiB", "16MiB", "128MiB"};
  std::string lane = "auto";
  std::string algorithm = "auto";
  std::size_t repeats = 0;
  std::string segment = "254KiB";

  void add_to(CLI::App& command) {
    command.add_option("--sizes", sizes, "Of the vectors: with B, KiB, MiB or GiB, 4 B to 1 GiB")
        ->delimiter(',')
        ->capture_default_str();
    command
        .add_option("--lane", lane,
                    "auto (shared memory on one machine), tls, plain (TCP without encryption), "
                    "unix")
        ->capture_default_str();
    command.add_option("--algorithm", algorithm, "auto, ring, halving_doubling, tree or direct")
        ->capture_default_str();
    command
        .add_option("--repeats", repeats,
                    "Operations timed for each size; 0: what a second allows, 5 to 1000")
        ->capture_default_str()
        ->check(CLI::Range(0, 1000000));
    command
        .add_option("--segment", segment, "Bytes of a block that is sent on at once, up to 256KiB")
        ->capture_default_str();
  }

  Problems read(ReduceTask& task) const {
    Problems problems;
    for (const std::string& size : sizes) {
      const auto bytes = bytes_from_text(size);
      if (bytes && *bytes >= sizeof(float) && *bytes <= std::size_t{1} << 30 &&
          *bytes % sizeof(float) == 0) {
        task.sizes.push_back(*bytes);
      } else {
        problems.push_back({"--sizes", fmt::format("'{}' is no size of a vector", size),
                            "write for example 64KiB: a multiple of 4 bytes, up to 1GiB"});
      }
    }
    if (const auto kind = lane_kind(lane)) {
      task.lane = *kind;
    } else {
      problems.push_back(no_lane(lane));
    }
    task.algorithm = algorithm_named(algorithm);
    if (!task.algorithm && algorithm != "auto") {
      problems.push_back({"--algorithm", fmt::format("'{}' is no algorithm", algorithm),
                          "write auto, ring, halving_doubling, tree or direct"});
    }
    task.repeats = repeats;
    task.segment_bytes = bytes_from_text(segment).value_or(0);
    if (task.segment_bytes < sizeof(float) || task.segment_bytes > segment_bytes_max ||
        task.segment_bytes % sizeof(float) != 0) {
      problems.push_back({"--segment", fmt::format("'{}' is no size of a block", segment),
                          "write for example 64KiB: a multiple of 4 bytes, up to 256KiB"});
    }
    return problems;
  }
};

/// What `topology` is asked for; without a name all kinds.
struct TopologyArguments {
  std::string name;
  TopologyQuestion question;
  std::string svg;
};

Problems read_name(const std::string& name, Topology& topology) {
  const auto kind = topology_named(name);
  if (kind) {
    topology.kind = *kind;
    return {};
  }
  std::vector<std::string> names;
  std::string all;
  for (const TopologyKind known : topology_kinds) {
    names.emplace_back(to_string(known));
    all += (all.empty() ? "" : ", ") + names.back();
  }
  return {{name, "no such topology",
           fmt::format("the nearest is {}, of {}", nearest_name(name, names).value_or(""), all)}};
}

int topology_command(TopologyArguments arguments) {
  TopologyQuestion& question = arguments.question;
  if (arguments.name.empty()) {
    if (!arguments.svg.empty() || question.in_pairs) {
      return fail({{arguments.svg.empty() ? "--pairs" : "--svg", "that is of one topology",
                    "name it, as in grapevine topology ring"}});
    }
    fmt::print("{}", topology_table(question.peers, question.seed));
    return 0;
  }
  if (const Problems problems = read_name(arguments.name, question.topology); !problems.empty()) {
    return fail(problems);
  }
  if (const auto problem = problem_of(question.topology, question.peers)) return fail({*problem});
  const auto not_in_pairs = problem_with_pairs(question.topology);
  if (question.in_pairs && not_in_pairs) return fail({*not_in_pairs});
  fmt::print("{}", topology_report(question));
  if (arguments.svg.empty()) return 0;
  std::ofstream file(arguments.svg);
  file << topology_svg(question);
  file.close();
  if (!file) {
    return fail({{arguments.svg, "cannot be written", "name a file in a folder that is there"}});
  }
  fmt::print("\na picture of that is in {}\n", arguments.svg);
  return 0;
}

int algorithms_command(const std::string& name, std::size_t peers, double parameters) {
  if (name.empty()) {
    fmt::print("{}", algorithms_table());
    return 0;
  }
  if (named_algorithm(name) == nullptr) {
    std::vector<std::string> names;
    for (const NamedAlgorithm& known : named_algorithms()) names.emplace_back(known.name);
    return fail({{name, "no such algorithm",
                  fmt::format("the nearest is {}; `grapevine algorithms` lists all",
                              nearest_name(name, names).value_or(""))}});
  }
  fmt::print("{}", algorithm_report(name, peers, parameters));
  return 0;
}

/// The rows of these subjects, or of all if none is named, each subject as soon as it is computed.
int theory_command(std::vector<std::string> ids) {
  std::erase(ids, "");
  for (const std::string& id : ids) {
    if (std::ranges::find(theory_subjects, id, &TheorySubject::id) != theory_subjects.end()) {
      continue;
    }
    return fail({{"--theory", fmt::format("the table has no '{}'", id), "write T1 to T14"}});
  }
  std::size_t rows = 0;
  std::size_t differing = 0;
  fmt::print("{}", theory_heading());
  for (const TheorySubject& subject : theory_subjects) {
    if (!ids.empty() && std::ranges::find(ids, subject.id) == ids.end()) continue;
    const std::vector<TheoryRow> of_subject = theory_rows(subject.id);
    rows += of_subject.size();
    for (const TheoryRow& row : of_subject) differing += row.ok ? 0 : 1;
    fmt::print("{}", theory_text(of_subject));
    std::fflush(stdout);
  }
  fmt::print("\n{}{} rows, {}\n", theory_legend(), rows,
             differing == 0 ? "all as expected" : fmt::format("{} DIFFER", differing));
  return differing == 0 ? 0 : 1;
}

std::string host_name() {
  char buffer[256] = {};
  return ::gethostname(buffer, sizeof buffer - 1) == 0 && buffer[0] != 0 ? buffer : "peer";
}

}  // namespace

int run_command_line(int argc, char** argv, const HostHooks& hooks) {
  if (sodium_init() < 0) {
    fmt::print(stderr, "the system's source of randomness does not work\n");
    return 1;
  }
  ::umask(077);
  CLI::App app{"Grapevine trains one model on many unlike machines with no master."};
  app.require_subcommand(1);
  app.set_version_flag("--version", GRAPEVINE_VERSION);
  int result = 0;

  auto* keygen = app.add_subcommand("keygen", "Make a peer's key pair");
  std::string key_file = "key";
  std::string key_name = host_name();
  keygen->add_option("FILE", key_file, "Where the secret key goes (mode 0600)")
      ->capture_default_str();
  keygen->add_option("--name", key_name, "The peer's name in allow-lists")->capture_default_str();
  keygen->footer("Example:\n  grapevine keygen key --name laptop >> authorized_peers");
  keygen->callback([&] { result = keygen_command(key_file, key_name); });

  auto* peer = app.add_subcommand("peer", "Run one peer");
  PeerArguments arguments;
  arguments.key = "key";
  arguments.authorized = "authorized_peers";
  peer->add_option("CONFIG", arguments.config, "The run's TOML file; without it a built-in task");
  peer->add_option("--key", arguments.key, "This peer's secret key, from keygen")
      ->capture_default_str();
  peer->add_option("--authorized", arguments.authorized, "The allow-list: one 'name key' a line")
      ->capture_default_str();
  peer->add_option("--name", arguments.name, "Name shown to people; default: the allow-list's");
  peer->add_option("--folder", arguments.folder,
                   "Run folder: events, metrics, checkpoints; default: run.folder/NAME");
  peer->add_option("--listen", arguments.listen,
                   "HOST:PORT to listen on, port 0 for any; without it the peer only dials out");
  peer->add_option("--advertise", arguments.advertise,
                   "HOST:PORT others dial, when it differs from --listen");
  peer->add_option("--dial-from", arguments.dial_from,
                   "Address of this machine that connections to others come from; default: the "
                   "system's choice");
  peer->add_option("--lane-port", arguments.lane_port,
                   "Port that bulk lanes listen on, beside --listen's; default: any free one");
  peer->add_option("--lane", arguments.lane,
                   "auto, tls, plain or unix, whatever network.lane of the config says");
  peer->add_option("--join", arguments.join, "HOST:PORT or NAME@HOST:PORT of a running peer");
  peer->add_option("--shard", arguments.shard,
                   "K/N: train on part K of N; default: the place in the allow-list");
  peer->add_option("--wait-for", arguments.wait_for, "Begin when so many peers are there")
      ->capture_default_str();
  peer->add_flag("--resume", arguments.resume, "Go on from the newest checkpoint in the folder");
  peer->add_flag("--quiet", arguments.quiet, "No progress lines");
  peer->footer(
      "Example:\n  grapevine peer configs/fashion-mlp.toml --listen 192.0.2.1:7000\n"
      "  grapevine peer configs/fashion-mlp.toml --listen 192.0.2.2:7000 --join 192.0.2.1:7000");
  peer->callback([&] { result = peer_command(arguments, hooks); });

  auto* launcher = app.add_subcommand("launch", "Run many peers on this machine");
  LaunchOptions launch_options;
  std::string launch_folder;
  launcher->add_option("CONFIG", launch_options.config,
                       "The run's TOML file; without it a built-in task that needs no data");
  launcher->add_option("-n,--peers", launch_options.peers, "Number of peers")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  launcher->add_option("--folder", launch_folder, "The run's folder; default: a new one");
  launcher->add_flag("--resume", launch_options.resume, "Go on with the run in --folder");
  launcher->add_option("--faults", launch_options.faults,
                       "A TOML file of what goes wrong: kills, stops, partitions, bad links; "
                       "default: the config's own [scenario]");
  launcher->footer(
      "Example:\n  grapevine launch -n 4 configs/fashion-mlp.toml\n"
      "  grapevine launch -n 8 configs/fashion-mlp.toml --faults configs/faults/churn.toml");
  launcher->callback([&] {
    launch_options.folder = launch_folder;
    launch_options.program = std::filesystem::read_symlink("/proc/self/exe");
    result = launch(launch_options);
  });

  auto* simulator = app.add_subcommand("sim", "Run many virtual peers on a virtual clock");
  SimulateOptions simulate_options;
  std::string curves_folder;
  simulator->add_option("CONFIG", simulate_options.config,
                        "A TOML file, with a [scenario]; without it a built-in task");
  simulator->add_option("--seed", simulate_options.seed, "Of everything that is drawn")
      ->capture_default_str();
  simulator->add_option("--folder", curves_folder,
                        "Where curves.csv and curves.svg go; default: a new run folder");
  simulator->add_flag("--trace", simulate_options.trace, "Print one line an event");
  bool check_invariants = false;
  simulator->add_flag("--check", check_invariants,
                      "Check every invariant after every event, heal at the end and wait for what "
                      "must come about; exit codes as with --swarm");
  SwarmOptions swarm_options;
  auto* swarm_option = simulator->add_option(
      "--swarm", swarm_options.worlds,
      "Instead of CONFIG: so many worlds drawn from the seeds from --seed on, with "
      "all invariants checked; exit code 3, 4 or 5 for unsafe, stuck or crashed");
  simulator
      ->add_flag("--shrink", swarm_options.shrink, "Make a world that fails as small as it gets")
      ->needs(swarm_option);
  std::vector<std::string> theory_ids;
  auto* theory_option =
      simulator
          ->add_option("--theory", theory_ids,
                       "Instead of CONFIG: what is known of mixing (T1 to T14, all unless some are "
                       "named), computed anew and beside it what is expected; exit code 1 if any "
                       "differs")
          ->expected(0, static_cast<int>(theory_subjects.size()))
          ->excludes(swarm_option);
  simulator->footer(
      "Example:\n  grapevine sim configs/wan-64.toml --seed 7\n  grapevine sim --swarm 2000\n"
      "  grapevine sim --theory T5 T12");
  simulator->callback([&] {
    if (theory_option->count() > 0) {
      result = theory_command(theory_ids);
      return;
    }
    if (swarm_option->count() > 0) {
      swarm_options.seed = simulate_options.seed;
      swarm_options.trace = simulate_options.trace;
      result = run_swarm(swarm_options);
      return;
    }
    simulate_options.folder = curves_folder;
    if (check_invariants) {
      result = check_scenario(simulate_options);
      return;
    }
    result = simulate(simulate_options);
  });

  auto* status = app.add_subcommand("status", "Show what a running peer knows");
  std::string status_folder;
  bool as_json = false;
  status->add_option("FOLDER", status_folder, "The peer's run folder")->required();
  status->add_flag("--json", as_json, "The whole document as JSON");
  status->footer("Example:\n  grapevine status runs/run-001/peer-0");
  status->callback([&] { result = status_command(status_folder, as_json); });

  auto* switcher = app.add_subcommand("switch", "Make a running swarm mix by another algorithm");
  SwitchArguments switched;
  switcher->add_option("FOLDER", switched.folder, "The run folder of any of its peers")->required();
  switcher->add_option("ALGORITHM", switched.algorithm,
                       "One that works in rounds, as `grapevine algorithms` lists them");
  switcher
      ->add_option("--set", switched.settings,
                   "A setting of [rounds], as rounds.gamma=0.2; may be given several times")
      ->allow_extra_args(false);
  switcher->add_option("--wait", switched.wait_s, "Seconds to wait until the swarm has agreed")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  switcher->footer(
      "All begin with it at one step that they agree on; run.mode has to be \"rounds\".\n"
      "Example:\n  grapevine switch runs/run-001/peer-0 choco --set rounds.codec_fraction=0.05");
  switcher->callback([&] { result = switch_command(switched); });

  auto* shown = app.add_subcommand("topology", "Show who mixes with whom, and how fast that is");
  TopologyArguments asked;
  Topology& topology = asked.question.topology;
  shown->add_option("NAME", asked.name, "As in gossip.topology; without it a table of all");
  shown->add_option("-n,--peers", asked.question.peers, "Number of peers")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, topology_peers_max));
  shown
      ->add_option("--rounds", asked.question.rounds,
                   "How many rounds to show; default: those until they begin again, at most 8")
      ->check(CLI::Range(1, 64));
  shown->add_option("--svg", asked.svg, "A file for a picture of those rounds");
  shown->add_flag("--pairs", asked.question.in_pairs,
                  "The exchanges of two that gossip makes of it, not the mixing matrices");
  shown
      ->add_option("--degree", topology.degree,
                   "random_regular: neighbours of each, default 4; base_k: k, the most partners "
                   "in a round, default 1")
      ->check(CLI::Range(1, 1024));
  shown->add_option("--dimensions", topology.dimensions, "moshpit: of the grid")
      ->capture_default_str()
      ->check(CLI::Range(1, 10));
  shown->add_flag("--lazy", topology.lazy, "Everybody keeps half of its model: (I + W) / 2");
  shown->add_option("--seed", asked.question.seed, "Of what is drawn")->capture_default_str();
  shown
      ->add_option("--parameters", asked.question.parameters,
                   "Numbers in the model, for the bytes that travel")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e15));
  shown->footer(
      "Example:\n  grapevine topology -n 64\n  grapevine topology base_k -n 5\n"
      "  grapevine topology ring -n 12 --pairs --rounds 4 --svg ring.svg");
  shown->callback([&] { result = topology_command(asked); });

  auto* algorithms =
      app.add_subcommand("algorithms", "List the published algorithms that have names");
  std::string algorithm;
  std::size_t algorithm_peers = 8;
  double algorithm_parameters = 1e6;
  algorithms->add_option("NAME", algorithm, "Show its settings and what it costs");
  algorithms->add_option("-n,--peers", algorithm_peers, "Number of peers")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, topology_peers_max));
  algorithms
      ->add_option("--parameters", algorithm_parameters,
                   "Numbers in the model, for the bytes that travel")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e9));
  algorithms->footer("Example:\n  grapevine algorithms\n  grapevine algorithms choco -n 16");
  algorithms->callback(
      [&] { result = algorithms_command(algorithm, algorithm_peers, algorithm_parameters); });

  auto* plan = app.add_subcommand("plan", "Show how a pipeline would work, by measuring its model");
  PlanOptions plan_options;
  plan->add_option("CONFIG", plan_options.config, "A TOML file with mode = \"pipeline\"")
      ->required();
  plan->add_option("-n,--peers", plan_options.peers, "Number of peers; default: run.peers")
      ->check(CLI::Range(1, 256));
  plan->add_option("--speeds", plan_options.speeds,
                   "How fast each peer is, where this machine is 1, as in 1,1,0.5; default: all "
                   "are like it")
      ->delimiter(',')
      ->check(CLI::Range(0.001, 1000.0));
  plan->add_option("--svg", plan_options.svg, "A file for a picture of the schedule");
  plan->add_option("--bandwidth", plan_options.bandwidth_mbit,
                   "Of every link, each way, in Mbit/s; default: sending takes no time")
      ->check(CLI::Range(0.001, 1e6));
  plan->add_option("--latency", plan_options.latency_ms, "Of every link, one way, in ms")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e5));
  plan->add_option("--seconds", plan_options.seconds, "About how long to measure")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 600.0));
  plan->footer(
      "Example:\n  grapevine plan configs/fashion-pipeline.toml\n"
      "  grapevine plan configs/fashion-pipeline.toml --speeds 1,1,0.5\n"
      "  grapevine plan configs/text-pipeline.toml -n 6 --bandwidth 100 --latency 5 --svg p.svg");
  plan->callback([&] { result = plan_command(plan_options); });

  auto* evaluate = app.add_subcommand("eval", "Print the accuracy of a checkpoint");
  EvaluateOptions evaluate_options;
  evaluate
      ->add_option("FILE", evaluate_options.file, "A step-*.safetensors or mean.safetensors file")
      ->required();
  evaluate->add_option("--config", evaluate_options.config,
                       "Evaluate on this config's test data instead of the checkpoint's own");
  evaluate->footer("Example:\n  grapevine eval runs/run-001/mean.safetensors");
  evaluate->callback([&] { result = evaluate_command(evaluate_options); });

  auto* merge = app.add_subcommand("merge", "Make one model of what several peers left");
  MergeOptions merge_options;
  merge
      ->add_option("FOLDER", merge_options.folders,
                   "The folders of peers, brought to this machine: the mean of their models or, of "
                   "a pipeline, all stages, each as the mean of its replicas")
      ->required();
  merge->add_option("--out", merge_options.out, "The file to write; `grapevine eval` reads it")
      ->capture_default_str();
  merge->add_option("--config", merge_options.config,
                    "The run's config, instead of the one stored in checkpoints");
  merge->footer("Example:\n  grapevine merge alice bob carol --out model.safetensors");
  merge->callback([&] { result = merge_command(merge_options); });

  auto* bench = app.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);
  auto* bench_reduce = bench->add_subcommand(
      "allreduce", "How long sums over several processes take, by size and number of peers");
  ReduceArguments reduce_arguments;
  BenchAllreduceOptions bench_options{.peers = {2, 4, 8}};
  bench_reduce->add_option("-n,--peers", bench_options.peers, "Numbers of peers, 2 to 64")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(2, 64));
  reduce_arguments.add_to(*bench_reduce);
  bench_reduce->add_option("--json", bench_options.json,
                           "A file for the rows as JSON, with the time of every operation");
  bench_reduce->footer(
      "Example:\n  grapevine bench allreduce\n"
      "  grapevine bench allreduce -n 4 --sizes 64KiB,16MiB --lane plain --algorithm ring");
  bench_reduce->callback([&] {
    const Problems problems = reduce_arguments.read(bench_options.task);
    bench_options.program = std::filesystem::read_symlink("/proc/self/exe");
    result = problems.empty() ? bench_allreduce(bench_options) : fail(problems);
  });

  // What the ranks of that are started with.
  auto* bench_rank = bench->add_subcommand("allreduce-rank")->group("");
  ReducePeerOptions rank_options;
  std::string rank_folder;
  bench_rank->add_option("FOLDER", rank_folder)->required();
  bench_rank->add_option("RANK", rank_options.rank)->required();
  bench_rank->add_option("--listen", rank_options.listen)->required();
  bench_rank->add_option("--lane-port", rank_options.lane_port)->required();
  bench_rank->add_option("--join", rank_options.join);
  reduce_arguments.add_to(*bench_rank);
  bench_rank->callback([&] {
    rank_options.folder = rank_folder;
    const Problems problems = reduce_arguments.read(rank_options.task);
    result = problems.empty() ? run_reduce_peer(rank_options) : fail(problems);
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "grapevine: {}\n", error.what());
    return 1;
  }
  return result;
}

}  // namespace gv
