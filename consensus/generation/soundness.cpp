// The rules that every message of a ballot obeys.
#include "consensus/generation/soundness.hpp"

#include <algorithm>
#include <cstddef>
#include <variant>
#include <vector>

namespace gv {
namespace {

/// The most steps that any config asks for.
constexpr std::uint64_t steps_max = 1'000'000'000'000;

bool has_repeats(std::vector<PeerId> peers) {
  std::ranges::sort(peers);
  return std::ranges::adjacent_find(peers) != peers.end();
}

/// The peer that sends the state to `peer`, which is in the generation.
PeerId source_of(const Generation& generation, PeerId peer) {
  const auto rank = std::ranges::find(generation.order, peer) - generation.order.begin();
  return generation.sources[static_cast<std::size_t>(rank)];
}

std::string problem(const ModelVersion& version, const GenerationPlanner& planner) {
  if (version.step > steps_max) return "it knows of more steps than any run has";
  if (version.samples > version.step * planner.samples_max()) {
    return "it counts more samples than its steps can have";
  }
  return "";
}

std::string problem(PeerId from, const Propose& message) {
  return message.ballot.proposer == from ? "" : "it proposes a ballot of another peer";
}

std::string problem(PeerId /*from*/, const Promise& message, const GenerationPlanner& planner) {
  const Answer& answer = message.answer;
  if (answer.speed < 0) return "it promises with a speed below 0";
  if (std::string bad = problem(answer.version, planner); !bad.empty()) return bad;
  for (const StageHolding& holding : answer.holdings) {
    if (std::string bad = problem(holding.version, planner); !bad.empty()) return bad;
  }
  if (std::string bad = planner.problem(answer); !bad.empty()) return bad;
  return planner.problem(answer.revision);
}

std::string problem(PeerId from, const Install& message, const GenerationPlanner& planner) {
  const Generation& generation = message.generation;
  const std::size_t peers = generation.order.size();
  if (generation.id.proposer != from) return "it installs a generation of another proposer";
  if (generation.sources.size() != peers || generation.shares.size() != peers) {
    return "not every peer of the generation it installs has a source and a share";
  }
  if (!generation.hosts.empty() && generation.hosts.size() != peers) {
    return "not every peer of the generation it installs has a host";
  }
  if (peers == 0) return "";  // In this generation all peers leave.
  if (has_repeats(generation.order)) return "the generation it installs names a peer twice";
  const bool is_closed = std::ranges::all_of(
      generation.sources, [&](PeerId source) { return generation.contains(source); });
  if (!is_closed) return "a source is not in the generation it installs";
  // If the sources waited for each other, no peer would ever get a state.
  const bool have_states = std::ranges::all_of(
      generation.sources, [&](PeerId source) { return source_of(generation, source) == source; });
  if (!have_states) return "a source in the generation it installs needs a source itself";
  if (std::string bad = problem(generation.version, planner); !bad.empty()) return bad;
  if (std::string bad = planner.problem(generation); !bad.empty()) return bad;
  return planner.problem(generation.revision);
}

std::string problem(PeerId /*from*/, const EndGeneration& message) {
  return has_repeats(message.blamed) ? "it blames a peer twice" : "";
}

std::string problem(PeerId /*from*/, const Refusals& message) {
  return has_repeats(message.peers) ? "it refuses a peer twice" : "";
}

}  // namespace

std::string unsoundness(PeerId from, const Message& message, const GenerationPlanner& planner) {
  return std::visit(
      [&](const auto& known) -> std::string {
        if constexpr (requires { problem(from, known, planner); }) {
          return problem(from, known, planner);
        } else if constexpr (requires { problem(from, known); }) {
          return problem(from, known);
        } else {
          return "";
        }
      },
      message);
}

bool has_sources_among(const std::vector<PeerId>& givers, const Generation& generation,
                       PeerId self) {
  const auto gives = [&](PeerId source) {
    return source == self || std::ranges::find(givers, source) != givers.end();
  };
  if (generation.contains(self) && !gives(source_of(generation, self))) return false;
  return std::ranges::all_of(generation.assignments, [&](const StageAssignment& assignment) {
    return assignment.carrier != self || gives(assignment.source);
  });
}

}  // namespace gv
