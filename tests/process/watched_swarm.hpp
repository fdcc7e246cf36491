// Watched peers as real processes that end at exact points, and the sums that they apply.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/swarm.hpp"

namespace gv {

/// A growing file. fresh() returns the lines that were added since its last call.
class Tail {
 public:
  explicit Tail(std::filesystem::path file) : file_(std::move(file)) {}

  std::vector<std::string> fresh() {
    std::vector<std::string> lines;
    std::ifstream in(file_);
    in.seekg(at_);
    for (std::string line; std::getline(in, line) && !in.eof();) {
      lines.push_back(line);
      at_ = in.tellg();
    }
    return lines;
  }

 private:
  std::filesystem::path file_;
  std::streamoff at_ = 0;
};

/// Watched peers that step together, die, stand still and return. Every sum that they apply is
/// compared.
class WatchedSwarm {
 public:
  WatchedSwarm(std::size_t peers, const std::string& config) : swarm_(peers, config) {
    for (std::size_t number = 0; number < peers; ++number) {
      seen_.push_back(
          {Tail(swarm_.folder(number) / "events.jsonl"), Tail(swarm_.folder(number) / "sums")});
      start(number, {"--wait-for", std::to_string(peers)});
    }
    if (!works_again(std::chrono::seconds(60))) throw std::runtime_error("the peers do not begin");
  }

  /// Sets a point. The first peer that reaches it for the (`skip` + 1)th time sends itself the
  /// signal.
  void put_point(const std::string& point, const std::string& when, int signal, int skip) {
    const std::filesystem::path file = swarm_.point_file();
    std::ofstream(file.string() + ".new") << fmt::format("{}, {} {} {}", point, when, signal, skip);
    std::filesystem::rename(file.string() + ".new", file);
  }
  bool reached() const { return !std::filesystem::exists(swarm_.point_file()); }

  /// The number of the next peer to harm. All peers take turns.
  std::size_t next_victim() { return victims_++ % seen_.size(); }
  void kill(std::size_t number) { swarm_.kill(number); }
  void stop(std::size_t number) {
    swarm_.signal(number, SIGSTOP);
    seen_[number].stands_still = true;
  }
  /// True if exactly `count` fewer peers are working than at the last call of works_again().
  bool have_died(std::size_t count) { return working().size() + count == at_work_; }

  bool somebody_stands_still() {
    for (std::size_t number = 0; number < seen_.size(); ++number) {
      seen_[number].stands_still = swarm_.is_running(number) && swarm_.is_stopped(number);
      if (seen_[number].stands_still) return true;
    }
    return false;
  }
  void wake_all() {
    for (std::size_t number = 0; number < seen_.size(); ++number) {
      if (swarm_.is_running(number)) swarm_.signal(number, SIGCONT);
      seen_[number].stands_still = false;
    }
  }
  void bring_all_back() {
    for (std::size_t number = 0; number < seen_.size(); ++number) {
      if (!swarm_.is_running(number)) start(number, {});
    }
  }

  /// Waits until all working peers form one generation without any others, and each has finished a
  /// step in it. Returns false if that takes longer than `limit`.
  bool works_again(std::chrono::milliseconds limit) {
    const std::vector<std::size_t> able = working();
    at_work_ = able.size();
    return eventually(
        [&] {
          look();
          return std::ranges::all_of(able, [&](std::size_t number) {
            return seen_[number].generation_peers == able.size() &&
                   seen_[number].sums_in_generation > 0;
          });
        },
        limit);
  }

  /// True if exactly `count` peers run and are not stopped.
  bool are_working(std::size_t count) { return working().size() == count; }
  /// True if no peer has logged an event with that name.
  bool is_unheard_of(const std::string& event) {
    for (std::size_t number = 0; number < seen_.size(); ++number) {
      if (!swarm_.events(number, event).empty()) return false;
    }
    return true;
  }

  std::size_t states_adopted() {
    look();
    return adopted_;
  }
  std::size_t operations() const { return sums_of_.size(); }
  std::size_t sums() const { return sums_; }
  /// Empty if peers that made the same steps applied bit-identical sums.
  const std::string& sums_differ() const { return differ_; }

 private:
  struct Seen {
    Tail events;
    Tail sums;
    std::size_t generation_peers = 0;
    /// The number of sums since the peer was first seen in this generation.
    std::size_t sums_in_generation = 0;
    bool stands_still = false;
  };

  void start(std::size_t number, std::vector<std::string> extra) {
    swarm_.start(number, {.extra = std::move(extra), .watched = true});
  }

  std::vector<std::size_t> working() {
    std::vector<std::size_t> able;
    for (std::size_t number = 0; number < seen_.size(); ++number) {
      if (swarm_.is_running(number) && !seen_[number].stands_still) able.push_back(number);
    }
    return able;
  }

  void look() {
    for (Seen& peer : seen_) {
      for (const std::string& line : peer.sums.fresh()) {
        std::istringstream in(line);
        std::string lineage, operation, fingerprint;
        in >> lineage >> operation >> fingerprint;
        ++sums_;
        ++peer.sums_in_generation;
        const auto& [known, fresh] = sums_of_.try_emplace(lineage, fingerprint);
        if (known->second != fingerprint) differ_ = "operation " + operation;
      }
      for (const std::string& line : peer.events.fresh()) {
        const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
        if (!event.is_object()) continue;
        const std::string name = event.value("event", "");
        if (name == "state_adopted" || name == "stage_adopted") ++adopted_;
        if (name != "generation_began") continue;
        peer.generation_peers = event.value("peers", std::size_t{0});
        peer.sums_in_generation = 0;
      }
    }
  }

  Swarm swarm_;
  std::vector<Seen> seen_;
  std::size_t victims_ = 0;
  std::size_t at_work_ = 0;
  std::size_t adopted_ = 0;
  std::size_t sums_ = 0;
  std::map<std::string, std::string> sums_of_;  ///< Fingerprint of the sum behind each lineage.
  std::string differ_;
};

}  // namespace gv
