// Defines the keys of a scenario, and reads and writes them.
#include "sim/scenario_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.hpp"
#include "peer/config/setting_builders.hpp"

namespace gv {

// Functions for fields that are sets of peers. The table of settings finds them by the type
// PeerSet.

static std::string type_of(const PeerSet&, const settings::Bounds&) {
  return "peers, as \"all\", \"3\", \"0-7,12\" or \"any 2\"";
}

static std::optional<BadValue> read(const TomlValue& value, const settings::Bounds&,
                                    PeerSet& field) {
  std::string text;
  if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
    text = std::to_string(*whole);
  } else if (const auto* given = std::get_if<std::string>(&value.data)) {
    text = *given;
  }
  const auto set = PeerSet::parse(text);
  if (!set) {
    return BadValue{"not a set of peers", "write \"all\", numbers as \"0-7,12\", or \"any 2\""};
  }
  field = *set;
  return std::nullopt;
}

static std::string shown(const PeerSet& value) { return settings::shown(to_string(value)); }

namespace {

using namespace settings;

void append(const Section<Scenario>& head) {
  head.add("peers", GV_FIELD(peers), {0, scenario_peers_max},
           "number of virtual peers; 0 = run.peers");
  head.choice("work", GV_FIELD(work),
              {{"training", WorkKind::training},
               {"quadratic", WorkKind::quadratic},
               {"time", WorkKind::time}},
              "what virtual peers compute: training = the run's model; quadratic = a quadratic "
              "function with a known optimum; time = nothing");
  head.add("step_s", GV_FIELD(step), {1e-6, 1e6},
           "virtual time that one step takes a peer of speed factor 1");
  head.add("step_jitter", GV_FIELD(step_jitter), {0, 10},
           "relative standard deviation of that time");
  head.add("save_s", GV_FIELD(save), {0, 3600}, "virtual time that writing a checkpoint takes");
  head.add("until_s", GV_FIELD(until), {0.001, 1e9},
           "virtual time at which virtual peers end at the latest");
  head.add("sample_every_s", GV_FIELD(sample_every), {0, 1e9},
           "virtual time between two points of the curves; 0 = chosen by the length of the run");
  const auto vectors = head.with("work", {"quadratic", "time"});
  vectors.add("dimension", GV_FIELD(dimension), {1, 1e8}, "number of parameters of the model");
  vectors.add("stage_work", GV_FIELD(stage_work), {1, 1e6},
              "work of each stage of a pipeline, relative to the others; [] = equal");
  const auto quadratic = head.with("work", {"quadratic"});
  quadratic.add("noise", GV_FIELD(noise), {0, 1e6},
                "standard deviation of the noise in every gradient");
  quadratic.add("disagreement", GV_FIELD(disagreement), {0, 1e6},
                "standard deviation of the peers' own optima from the common one");
  head.add("neighbours", GV_FIELD(neighbours), {0, 4095},
           "number of other peers, drawn at random, that each virtual peer may meet; 0 = all");
  head.add(
      "tickets", GV_FIELD(tickets),
      "true = virtual peers join by tickets: peer 0 begins the swarm, and any peer may invite");
  head.add("hosts", GV_FIELD(hosts), {1, 4096},
           "number of hosts on which virtual peers are; peer k is on host k mod hosts");
  head.add("saboteurs", GV_FIELD(saboteurs),
           "virtual peers that send arbitrary messages and blocks under their own ids");
}

void append(const Section<SpeedRule>& rule) {
  rule.add("peers", GV_FIELD(peers), "peers to which the rule applies");
  rule.add("factor", GV_FIELD(factor), {0, 1e6, true}, "pace relative to the other peers");
}

void append(const Section<LinkRule>& rule) {
  rule.add("from", GV_FIELD(from), "peers at one end of the link");
  rule.add("to", GV_FIELD(to), "peers at the other end");
  rule.add("one_way", GV_FIELD(one_way),
           "true = the rule applies only to what travels from the first end to the other");
  rule.add("latency_s", GV_FIELD(quality.latency), {0, 3600}, "latency in one direction");
  rule.add("jitter_s", GV_FIELD(quality.jitter), {0, 3600},
           "largest addition to the latency, drawn uniformly");
  rule.add("bandwidth_mbit", GV_FIELD(quality.bandwidth), {0, 1e9},
           "bandwidth in megabits a second; 0 = unlimited");
  rule.add("loss", GV_FIELD(quality.loss), {0, 1},
           "probability that a message or block does not arrive");
  rule.add("duplicate", GV_FIELD(quality.duplicate), {0, 1}, "probability that it arrives twice");
  rule.add("reorder", GV_FIELD(quality.reorder), {0, 1}, "probability that it arrives late");
  rule.add("corrupt", GV_FIELD(quality.corrupt), {0, 1}, "probability that it arrives damaged");
}

void append(const Section<FaultRule>& rule) {
  rule.choice("kind", GV_FIELD(kind), named_choices(fault_names), "what goes wrong; required");
  rule.add("at_s", GV_FIELD(at), {0, 1e9}, "when the fault begins, counted from the start");
  rule.only_with("kind",
                 "kinds other than \"restart\", \"continue\", \"join\", \"heal\", \"switch\" and "
                 "\"revoke\"",
                 [](const FaultRule& r) { return may_last(r.kind); })
      .add("for_s", GV_FIELD(lasts), {0, 1e9},
           "how long it lasts; 0 = until another fault heals or continues it, or for ever");
  rule.add("every_s", GV_FIELD(every), {0, 1e9},
           "mean time between repetitions, which are drawn at random; 0 = once only");
  rule.add("until_s", GV_FIELD(until), {0, 9e9}, "no repetition begins after this time");
  rule.only_with("kind", "kinds other than \"heal\"",
                 [](const FaultRule& r) { return r.kind != FaultKind::heal; })
      .add("peers", GV_FIELD(peers), "peers that the fault affects");
  rule.only_with(
          "kind", "the faults of links or kind = \"revoke\"",
          [](const FaultRule& r) { return has_two_ends(r.kind) || r.kind == FaultKind::revoke; })
      .add("to", GV_FIELD(to), "peers at the other end of the links, or peers that are revoked");
  rule.with("kind", {"loss", "duplicate", "reorder", "corrupt"})
      .add("probability", GV_FIELD(probability), {0, 1}, "probability for each message");
  rule.with("kind", {"slow_cpu", "clock_rate"})
      .add("factor", GV_FIELD(factor), {0, 1000, true}, "new pace, relative to the pace before");
  rule.with("kind", {"clock_jump", "slow_disk"})
      .add("jump_s", GV_FIELD(jump), {0, 1e6},
           "how far the clock jumps, or how much longer writing takes");
  const auto slow_link = rule.with("kind", {"slow_link"});
  slow_link.add("latency_s", GV_FIELD(quality.latency), {0, 3600}, "latency that is added");
  slow_link.add("bandwidth_mbit", GV_FIELD(quality.bandwidth), {0, 1e9},
                "largest bandwidth in megabits a second; 0 = unchanged");
  rule.with("kind", {"switch"})
      .add("algorithm", GV_FIELD(algorithm),
           "mode in which all peers go on, or an algorithm that `grapevine algorithms` lists");
}

void append(const Section<HostileRule>& rule) {
  rule.add("peers", GV_FIELD(peers), "peers that are hostile; required");
  auto attacks = named_choices(attack_names);
  std::erase_if(attacks, [](const auto& named) { return named.second == AttackKind::honest; });
  rule.choice("attack", GV_FIELD(attack), std::move(attacks),
              "what the hostile peers do; required");
  rule.only_with("attack", "an attack that has one",
                 [](const HostileRule& r) { return has_strength(r.attack); })
      .add("strength", GV_FIELD(strength), {0, 1e9}, "strength of the attack; 0 = as published");
}

}  // namespace

template <class Rule>
std::span<const Setting<Rule>> scenario_settings() {
  static const std::vector<Setting<Rule>> all = [] {
    std::vector<Setting<Rule>> list;
    append(Section<Rule>{list, std::is_same_v<Rule, Scenario> ? "scenario" : ""});
    return list;
  }();
  return all;
}

template std::span<const Setting<Scenario>> scenario_settings();
template std::span<const Setting<SpeedRule>> scenario_settings();
template std::span<const Setting<LinkRule>> scenario_settings();
template std::span<const Setting<FaultRule>> scenario_settings();
template std::span<const Setting<HostileRule>> scenario_settings();

namespace {

class Reading {
 public:
  Reading(std::string_view text, std::string_view name) : name_(name) {
    root_ = read_toml(text, name_, parsed_.problems);
  }

  ParsedScenario run(bool alone) {
    for (const auto& [key, value] : root_) {
      if (key == "scenario") continue;
      if (alone) {
        report(value.line, key, "does not belong in a file of faults",
               "keep only [scenario] here; the rest goes into the run's config");
      }
    }
    const auto found = root_.find("scenario");
    if (found == root_.end()) return std::move(parsed_);
    parsed_.present = true;
    const auto* members = std::get_if<TomlTable>(&found->second.data);
    if (members == nullptr) {
      report(found->second.line, "scenario", "wrong type", "write a table: [scenario]");
      return std::move(parsed_);
    }
    Scenario& scenario = parsed_.scenario;
    read(*members, "scenario", scenario, {"speed", "link", "fault", "hostile"});
    read_list(*members, "speed", scenario.speeds);
    read_list(*members, "link", scenario.links);
    read_list(*members, "fault", scenario.faults);
    read_list(*members, "hostile", scenario.hostile);
    return std::move(parsed_);
  }

 private:
  void report(std::size_t line, const std::string& path, std::string reason, std::string remedy) {
    parsed_.problems.push_back(
        {name_ + ":" + std::to_string(line) + ": " + path, std::move(reason), std::move(remedy)});
  }

  template <class Rule>
  void read_list(const TomlTable& table, const std::string& key, std::vector<Rule>& rules) {
    const auto found = table.find(key);
    if (found == table.end()) return;
    const std::string path = "scenario." + key;
    const auto* list = std::get_if<TomlList>(&found->second.data);
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const auto* members = std::get_if<TomlTable>(&(*list)[i].data);
      if (members == nullptr) {
        list = nullptr;
        break;
      }
      Rule rule;
      const std::string item = path + "[" + std::to_string(i) + "]";
      const bool sound = read(*members, item, rule, {});
      if constexpr (std::is_same_v<Rule, FaultRule>) {
        if (!members->contains("kind")) {
          report((*list)[i].line, item, "a fault without a kind", "add kind = \"kill\" or another");
        } else if (sound) {
          check_fault(rule, item, (*list)[i].line);
        }
      }
      if constexpr (std::is_same_v<Rule, HostileRule>) {
        for (const auto& [needed, example] : {std::pair("peers", "peers = \"13-15\""),
                                              std::pair("attack", "attack = \"bit_flip\"")}) {
          if (members->contains(needed)) continue;
          report((*list)[i].line, item, fmt::format("hostile peers without {}", needed),
                 fmt::format("add {}", example));
        }
      }
      rules.push_back(std::move(rule));
    }
    if (list == nullptr) {
      report(found->second.line, path, "wrong type", "write one [[" + path + "]] for each");
    }
  }

  /// Returns false if a value was not understood.
  template <class Object>
  bool read(const TomlTable& members, const std::string& path, Object& object,
            const std::vector<std::string>& others) {
    const std::span<const Setting<Object>> settings = scenario_settings<Object>();
    std::vector<std::string> names = others;
    bool sound = true;
    for (const Setting<Object>& setting : settings) {
      names.emplace_back(setting.key);
      const auto found = members.find(names.back());
      if (found == members.end()) continue;
      if (const auto bad = setting.read(found->second, object)) {
        report(found->second.line, path + "." + names.back(), bad->reason, bad->remedy);
        sound = false;
      }
    }
    for (const auto& [key, value] : members) {
      if (std::ranges::find(others, key) != others.end()) continue;
      const auto known = std::ranges::find_if(
          settings, [&name = key](const Setting<Object>& setting) { return setting.key == name; });
      if (known == settings.end()) {
        report(value.line, path + "." + key, "unknown key", near_remedy(key, names));
      } else if (sound && !known->counts(object)) {
        report(value.line, path + "." + key, "has no effect here",
               "remove it; it counts with " + known->condition.words);
      }
    }
    return sound;
  }

  /// Adds a problem for each missing key that this kind of fault requires, and for a fault that
  /// cannot begin.
  void check_fault(const FaultRule& rule, const std::string& path, std::size_t line) {
    const auto lacks = [&](bool missing, const char* key, const char* example) {
      if (missing) {
        report(line, path, fmt::format("{} without {}", to_string(rule.kind), key),
               fmt::format("add {}", example));
      }
    };
    if (rule.until < rule.at) {
      report(line, path, "until_s is earlier than at_s, so the fault never begins",
             "write a larger until_s, or leave it out");
    }
    lacks(is_chance(rule.kind) && rule.probability == 0, "a probability", "probability = 0.05");
    lacks(rule.kind == FaultKind::clog && rule.lasts == Duration{}, "an end", "for_s = 2");
    lacks(rule.kind == FaultKind::slow_link && rule.quality.latency == Duration{} &&
              rule.quality.bandwidth == 0,
          "latency or bandwidth", "latency_s = 0.2 or bandwidth_mbit = 1");
    lacks((rule.kind == FaultKind::clock_jump || rule.kind == FaultKind::slow_disk) &&
              rule.jump == Duration{},
          "a time", "jump_s = 5");
    lacks((rule.kind == FaultKind::slow_cpu || rule.kind == FaultKind::clock_rate) &&
              rule.factor == 1,
          "a factor", "factor = 0.1");
    lacks(rule.kind == FaultKind::switch_to && rule.algorithm.empty(), "an algorithm",
          "algorithm = \"diffusion\"");
    lacks(rule.kind == FaultKind::revoke && rule.to.all, "whom", "to = \"3\"");
    lacks(rule.kind == FaultKind::partition && rule.peers.all, "peers on one side",
          "peers = \"0-3\"; the other side is everybody else");
  }

  std::string name_;
  TomlTable root_;
  ParsedScenario parsed_;
};

/// The keys whose values differ from the defaults, one on each line.
template <class Object>
std::string lines(const Object& object) {
  std::string text;
  for (const Setting<Object>& setting : scenario_settings<Object>()) {
    if (!setting.counts(object)) continue;
    const std::string value = setting.show(object);
    const bool required = setting.key == "kind" || setting.key == "attack";
    if (value != setting.show(Object{}) || required) {
      text += fmt::format("{} = {}\n", setting.key, value);
    }
  }
  return text;
}

template <class Rule>
std::string tables(std::string_view key, const std::vector<Rule>& rules) {
  std::string text;
  for (const Rule& rule : rules) text += fmt::format("\n[[scenario.{}]]\n{}", key, lines(rule));
  return text;
}

}  // namespace

ParsedScenario parse_scenario_text(std::string_view text, std::string_view name, bool alone) {
  return Reading(text, name).run(alone);
}

ParsedScenario parse_scenario_file(const std::string& path, bool alone) {
  ParsedScenario failed;
  const auto text = read_text_file(path, "scenario", failed.problems);
  return text ? parse_scenario_text(*text, path, alone) : failed;
}

std::string to_toml(const Scenario& scenario) {
  return "[scenario]\n" + lines(scenario) + tables("speed", scenario.speeds) +
         tables("link", scenario.links) + tables("fault", scenario.faults) +
         tables("hostile", scenario.hostile);
}

}  // namespace gv
