// Converts a peer's arguments to JSON and back.
#include "peer/host/given_peer.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace gv {

std::string given_text(const PeerArguments& arguments) {
  const HostOptions& host = arguments.host;
  return nlohmann::ordered_json{{"config", host.config_path},
                                {"key", arguments.key},
                                {"authorized", arguments.authorized},
                                {"name", host.name},
                                {"folder", arguments.folder},
                                {"listen", host.listen},
                                {"advertise", host.advertise},
                                {"dial_from", host.dial_from},
                                {"lane_port", host.lane_port},
                                {"lane", arguments.lane},
                                {"join", host.join},
                                {"shard", arguments.shard},
                                {"wait_for", host.wait_for},
                                {"resume", host.resume}}
      .dump();
}

Problems take_given(const std::string& text, PeerArguments& arguments) {
  try {
    const nlohmann::json given = nlohmann::json::parse(text);
    HostOptions& host = arguments.host;
    host.config_path = given.value("config", host.config_path);
    arguments.key = given.value("key", arguments.key);
    arguments.authorized = given.value("authorized", arguments.authorized);
    host.name = given.value("name", host.name);
    arguments.folder = given.value("folder", arguments.folder);
    host.listen = given.value("listen", host.listen);
    host.advertise = given.value("advertise", host.advertise);
    host.dial_from = given.value("dial_from", host.dial_from);
    host.lane_port = given.value("lane_port", host.lane_port);
    arguments.lane = given.value("lane", arguments.lane);
    host.join = given.value("join", host.join);
    arguments.shard = given.value("shard", arguments.shard);
    host.wait_for = given.value("wait_for", host.wait_for);
    host.resume = given.value("resume", host.resume);
    return {};
  } catch (const nlohmann::json::exception& error) {
    return {{given_variable, "it is not what a launcher writes there",
             "unset it, or start the program with `grapevine launch -n N -- PROGRAM`"}};
  }
}

}  // namespace gv
