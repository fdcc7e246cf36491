// Explores small worlds exhaustively, and prints how far the exploration got.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tests/explore/agreement_world.hpp"
#include "tests/explore/exchange_world.hpp"
#include "tests/explore/explorer.hpp"
#include "tests/explore/transfer_world.hpp"

namespace gv::explore {
namespace {

constexpr const char* usage =
    "explore agreement|exchange|transfer [--seconds S] [--memory GIB] [--broken] [bounds]\n"
    "  --broken   succeed only if a law is broken\n"
    "  bounds     --crashes N --losses N --duplicates N --breaks N (of lanes), and\n"
    "             agreement: --steps N --ballots N; exchange: --starts N;\n"
    "             transfer: --changes N (of the sources' states) --wants N (downloads)\n";

/// The command line. Bounds that are not given keep the values below.
struct Request {
  std::string world;
  Limits limits;
  bool expects_broken = false;
  std::map<std::string, int> bounds = {{"--crashes", 1}, {"--losses", 2},  {"--duplicates", 1},
                                       {"--breaks", 1},  {"--steps", 2},   {"--ballots", 3},
                                       {"--starts", 2},  {"--changes", 1}, {"--wants", 2}};

  Faults faults() const {
    return {bounds.at("--crashes"), bounds.at("--losses"), bounds.at("--duplicates"),
            bounds.at("--breaks")};
  }
};

std::optional<Request> parsed(int count, char** words) {
  if (count < 2) return std::nullopt;
  Request request{.world = words[1]};
  for (int i = 2; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--broken") {
      request.expects_broken = true;
      continue;
    }
    if (i + 1 == count) return std::nullopt;
    const char* value = words[++i];
    if (word == "--seconds") {
      request.limits.seconds = std::atof(value);
    } else if (word == "--memory") {
      request.limits.memory_gib = std::atof(value);
    } else if (request.bounds.contains(word)) {
      request.bounds[word] = std::atoi(value);
    } else {
      return std::nullopt;
    }
  }
  return request;
}

int print(const std::string& name, const Report& report, bool expects_broken) {
  std::printf("%s: %zu states, %zu moves, depth %zu, %zu left out, %.1f s, %.0f states/s: %s\n",
              name.c_str(), report.states, report.moves, report.depth, report.outside,
              report.seconds, static_cast<double>(report.states) / report.seconds,
              !report.broken.empty() ? "a law is broken"
              : report.exhausted     ? "exhausted, no law is broken"
                                     : "not exhausted, no law is broken so far");
  if (!report.broken.empty()) {
    std::printf("%s, after\n", report.broken.c_str());
    for (const std::string& move : report.way) std::printf("  %s\n", move.c_str());
  }
  return report.broken.empty() == expects_broken ? EXIT_FAILURE : EXIT_SUCCESS;
}

int run(int count, char** words) {
  const std::optional<Request> request = parsed(count, words);
  const auto report = [&](const auto& world) {
    return print(request->world, explore(world, request->limits), request->expects_broken);
  };
  if (request && request->world == "agreement") {
    const AgreementBound bound{
        .faults = request->faults(),
        .steps = static_cast<std::uint64_t>(request->bounds.at("--steps")),
        .ballots = static_cast<std::uint64_t>(request->bounds.at("--ballots"))};
    return report(AgreementWorld(bound));
  }
  if (request && request->world == "exchange") {
    const ExchangeBound bound{.faults = request->faults(),
                              .starts = request->bounds.at("--starts")};
    return report(ExchangeWorld(bound));
  }
  if (request && request->world == "transfer") {
    const TransferBound bound{.faults = request->faults(),
                              .changes = request->bounds.at("--changes"),
                              .wants = request->bounds.at("--wants")};
    return report(TransferWorld(bound));
  }
  std::fputs(usage, stderr);
  return 2;
}

}  // namespace
}  // namespace gv::explore

int main(int count, char** words) { return gv::explore::run(count, words); }
