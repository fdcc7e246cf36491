// Writes and reads the text form of a swarm's note: numbers separated by spaces.
#include "peer/node/swarm_note.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

namespace gv {
namespace {

constexpr const char* samples_name = "swarm_samples";
constexpr const char* ran_name = "swarm_ran_ms";
constexpr const char* ledger_name = "swarm_ledger";
constexpr const char* chunk_name = "swarm_chunk_samples";
constexpr const char* budget_name = "swarm_budget";
constexpr const char* end_name = "swarm_end";

/// The longest training time that a note may state, in milliseconds. No run of this program can
/// have lasted longer.
constexpr std::uint64_t ran_ms_max = 1'000'000'000'000;

std::string text_of(const RunEnd& end) {
  // Rounded up, so that the limit read back is not below the config's own.
  const auto wall = std::chrono::ceil<std::chrono::milliseconds>(end.wall).count();
  std::ostringstream text;
  // The target must read back as the same number.
  text << std::setprecision(std::numeric_limits<double>::max_digits10) << end.budget << ' ' << wall
       << ' ' << end.target << ' ' << end.is_used_up << ' ' << end.is_time_over << ' '
       << end.is_target_reached << ' ' << end.models << ' ' << end.lineage;
  return text.str();
}

std::optional<RunEnd> end_in(const std::string& text) {
  std::istringstream numbers(text);
  RunEnd end;
  std::uint64_t wall_ms = 0;
  numbers >> end.budget >> wall_ms >> end.target >> end.is_used_up >> end.is_time_over >>
      end.is_target_reached >> end.models >> end.lineage;
  end.wall = std::chrono::milliseconds(std::min(wall_ms, ran_ms_max));
  return numbers ? std::optional(end) : std::nullopt;
}

std::string text_of(const LedgerEntry& ledger) {
  std::string text = std::to_string(ledger.whole);
  for (const ChunkRange& range : ledger.done) {
    text += " " + std::to_string(range.begin) + " " + std::to_string(range.count);
  }
  return text;
}

std::optional<LedgerEntry> ledger_in(const std::string& text) {
  std::istringstream numbers(text);
  LedgerEntry ledger;
  if (!(numbers >> ledger.whole)) return std::nullopt;
  for (ChunkRange range; numbers >> range.begin >> range.count;) ledger.done.push_back(range);
  const bool is_sound =
      ledger.problem().empty() &&
      std::ranges::all_of(ledger.done, [](auto range) { return range.problem().empty(); });
  return is_sound ? std::optional(std::move(ledger)) : std::nullopt;
}

/// The number in the note of that name; 0 if there is none.
std::uint64_t number_in(const Notes& notes, const char* name) {
  const auto found = notes.find(name);
  if (found == notes.end()) return 0;
  std::istringstream text(found->second);
  std::uint64_t number = 0;
  return text >> number ? number : 0;
}

}  // namespace

void write(const SwarmNote& note, Notes& notes) {
  const auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(note.ran).count();
  if (note.samples > 0) notes[samples_name] = std::to_string(note.samples);
  if (ran > 0) notes[ran_name] = std::to_string(ran);
  if (note.end) notes[end_name] = text_of(*note.end);
  if (!note.ledger) return;
  notes[ledger_name] = text_of(*note.ledger);
  notes[chunk_name] = std::to_string(note.chunk_samples);
  notes[budget_name] = std::to_string(note.budget);
}

SwarmNote swarm_note_in(const Notes& notes) {
  const std::uint64_t ran_ms = std::min(number_in(notes, ran_name), ran_ms_max);
  SwarmNote note{.samples = number_in(notes, samples_name),
                 .ran = std::chrono::milliseconds(ran_ms),
                 .ledger = {},
                 .chunk_samples = number_in(notes, chunk_name),
                 .budget = number_in(notes, budget_name)};
  if (const auto text = notes.find(ledger_name); text != notes.end()) {
    note.ledger = ledger_in(text->second);
  }
  if (const auto text = notes.find(end_name); text != notes.end()) note.end = end_in(text->second);
  return note;
}

}  // namespace gv
