// Reads the tables of a file that describes peers.
#include "peer/config/peers_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "peer/config/setting_builders.hpp"

namespace gv {
namespace {

/// A [[peer]] table, in the units of the file.
struct PeerRow {
  std::string name;
  double gflops = 0;
  double memory_mb = 0;
};

/// The [links] table or a [[link]] table.
struct LinkRow {
  std::vector<std::string> peers;  ///< Empty for the [links] table.
  double latency_ms = 0;
  double bandwidth_mbit = 0;
};

using namespace settings;

void append_rows(const Section<PeerRow>& peer) {
  peer.add("name", GV_FIELD(name), "its name in the plan");
  peer.add("gflops", GV_FIELD(gflops), {1e-6, 1e9}, "speed");
  peer.add("memory_mb", GV_FIELD(memory_mb), {0, 1e9}, "limit; 0 = none");
}

void append_rows(const Section<LinkRow>& link) {
  link.add("peers", GV_FIELD(peers), "names of the peers that it connects, each with each");
  link.add("latency_ms", GV_FIELD(latency_ms), {0, 1e6}, "one way");
  link.add("bandwidth_mbit", GV_FIELD(bandwidth_mbit), {0, 1e9}, "each way; 0 = unlimited");
}

template <class Row>
std::vector<Setting<Row>> rows_of() {
  std::vector<Setting<Row>> list;
  append_rows(Section<Row>{list, ""});
  return list;
}

class PeersReading {
 public:
  PeersReading(std::string_view text, std::string_view name) : name_(name) {
    root_ = read_toml(text, name_, parsed_.problems);
  }

  ParsedPeers run() {
    for (const auto& [key, value] : root_) {
      if (key == "peer" || key == "link" || key == "links") continue;
      report(value.line, key, "unknown key", "write [[peer]], [links] and [[link]]");
    }
    read_peers();
    if (!parsed_.problems.empty()) return std::move(parsed_);
    const std::size_t count = parsed_.site.peers.size();
    parsed_.site.links.assign(count, std::vector<SplitLink>(count));
    read_links();
    return std::move(parsed_);
  }

 private:
  void report(std::size_t line, const std::string& path, std::string reason, std::string remedy) {
    parsed_.problems.push_back(
        {name_ + ":" + std::to_string(line) + ": " + path, std::move(reason), std::move(remedy)});
  }

  /// Returns the tables under `key`, with their lines. Reports a problem if the value is anything
  /// else.
  std::vector<std::pair<const TomlTable*, std::size_t>> tables(const std::string& key) {
    std::vector<std::pair<const TomlTable*, std::size_t>> found;
    const auto at = root_.find(key);
    if (at == root_.end()) return found;
    const auto* list = std::get_if<TomlList>(&at->second.data);
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const auto* table = std::get_if<TomlTable>(&(*list)[i].data);
      if (table != nullptr) found.emplace_back(table, (*list)[i].line);
    }
    if (list == nullptr || found.size() < list->size()) {
      report(at->second.line, key, "wrong type", "write one [[" + key + "]] for each");
    }
    return found;
  }

  template <class Row>
  std::optional<Row> row_of(const TomlTable& table, const std::string& path) {
    const std::size_t before = parsed_.problems.size();
    const std::vector<Setting<Row>> settings = rows_of<Row>();
    std::vector<std::string> names;
    Row row;
    for (const Setting<Row>& setting : settings) {
      names.emplace_back(setting.key);
      const auto found = table.find(names.back());
      if (found == table.end()) continue;
      if (const auto bad = setting.read(found->second, row)) {
        report(found->second.line, path + "." + names.back(), bad->reason, bad->remedy);
      }
    }
    for (const auto& [key, value] : table) {
      if (std::ranges::find(names, key) != names.end()) continue;
      report(value.line, path + "." + key, "unknown key", near_remedy(key, names));
    }
    if (parsed_.problems.size() > before) return std::nullopt;
    return row;
  }

  void read_peers() {
    const std::size_t before = parsed_.problems.size();
    const auto found = tables("peer");
    if (parsed_.problems.size() > before) return;
    if (found.empty() || found.size() > peers_in_file_max) {
      report(found.empty() ? 1 : found[peers_in_file_max].second, "peer",
             fmt::format("{} of them", found.size()),
             fmt::format("write one [[peer]] for each peer, at most {}", peers_in_file_max));
      return;
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::string path = fmt::format("peer[{}]", i);
      const auto& [table, line] = found[i];
      const std::optional<PeerRow> row = row_of<PeerRow>(*table, path);
      if (!row) continue;
      if (row->name.empty() || row->gflops == 0) {
        report(line, path, row->name.empty() ? "a peer without a name" : "a peer without a speed",
               row->name.empty() ? "add name = \"desk\"" : "add gflops = 8.0");
      } else if (index_of(row->name)) {
        report(line, path + ".name", "two peers are called " + shown(row->name),
               "give each a name of its own");
      } else {
        parsed_.site.peers.push_back({row->name, 1e9 * row->gflops, 1e6 * row->memory_mb});
      }
    }
  }

  std::optional<std::size_t> index_of(const std::string& name) const {
    const auto at = std::ranges::find(parsed_.site.peers, name, &SplitPeer::name);
    if (at == parsed_.site.peers.end()) return std::nullopt;
    return static_cast<std::size_t>(at - parsed_.site.peers.begin());
  }

  void read_links() {
    std::vector<std::size_t> all(parsed_.site.peers.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    if (const auto at = root_.find("links"); at != root_.end()) {
      const auto* table = std::get_if<TomlTable>(&at->second.data);
      if (table == nullptr) {
        report(at->second.line, "links", "wrong type", "write a table: [links]");
      } else if (table->contains("peers")) {
        report(table->at("peers").line, "links.peers", "[links] is about all peers",
               "write [[link]] for some of them");
      } else if (const auto row = row_of<LinkRow>(*table, "links")) {
        connect(all, *row);
      }
    }
    const auto found = tables("link");
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::string path = fmt::format("link[{}]", i);
      const auto row = row_of<LinkRow>(*found[i].first, path);
      if (!row) continue;
      std::vector<std::size_t> ends;
      for (const std::string& name : row->peers) {
        const auto peer = index_of(name);
        if (!peer) {
          report(found[i].second, path + ".peers", "no peer is called " + shown(name),
                 "name peers of this file");
        } else if (std::ranges::find(ends, *peer) == ends.end()) {
          ends.push_back(*peer);
        }
      }
      if (row->peers.size() < 2) {
        report(found[i].second, path, "a link without two ends",
               "add peers = [\"desk\", \"tower\"]");
      }
      connect(ends, *row);
    }
  }

  void connect(const std::vector<std::size_t>& ends, const LinkRow& row) {
    for (const std::size_t a : ends) {
      for (const std::size_t b : ends) {
        if (a != b) {
          parsed_.site.links[a][b] = {1e-3 * row.latency_ms, 1e6 / 8 * row.bandwidth_mbit};
        }
      }
    }
  }

  std::string name_;
  TomlTable root_;
  ParsedPeers parsed_;
};

}  // namespace

ParsedPeers parse_peers_text(std::string_view text, std::string_view name) {
  return PeersReading(text, name).run();
}

ParsedPeers parse_peers_file(const std::string& path) {
  ParsedPeers failed;
  const auto text = read_text_file(path, "description of peers", failed.problems);
  return text ? parse_peers_text(*text, path) : failed;
}

}  // namespace gv
