// Writes and reads the text form of a swarm's note: numbers separated by spaces.
#include "peer/node/swarm_note.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace gv {
namespace {

constexpr const char* samples_name = "swarm_samples";
constexpr const char* ran_name = "swarm_ran_ms";
constexpr const char* ledger_name = "swarm_ledger";
constexpr const char* done_name = "swarm_ledger_done";
constexpr const char* begun_name = "swarm_ledger_begun";
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

std::string text_of(const std::vector<ChunkRange>& ranges) {
  std::string text;
  for (const ChunkRange& range : ranges) {
    text += " " + std::to_string(range.begin) + " " + std::to_string(range.count);
  }
  return text;
}

std::string text_of(const std::vector<BegunChunk>& chunks) {
  std::string text;
  for (const BegunChunk& begun : chunks) {
    text += " " + std::to_string(begun.chunk) + " " + std::to_string(begun.made);
  }
  return text;
}

/// Reads ranges to the end of the text. Empty if one of them is invalid, or if there are too many.
std::vector<ChunkRange> ranges_in(std::istringstream numbers) {
  std::vector<ChunkRange> ranges;
  for (ChunkRange range; numbers >> range.begin >> range.count;) {
    if (!range.problem().empty() || ranges.size() == noted_ranges_max) return {};
    ranges.push_back(range);
  }
  return ranges;
}

/// The text of the note of that name; empty if there is none.
std::istringstream text_in(const Notes& notes, const char* name) {
  const auto found = notes.find(name);
  return std::istringstream(found != notes.end() ? found->second : "");
}

/// The number in the note of that name; 0 if there is none.
std::uint64_t number_in(const Notes& notes, const char* name) {
  std::istringstream text = text_in(notes, name);
  std::uint64_t number = 0;
  return text >> number ? number : 0;
}

/// Returns the note of the peer's ledger; nullopt if it is missing or invalid. Checkpoints of
/// earlier versions name only the chunks that their own peer had done.
std::optional<LedgerNote> ledger_in(const Notes& notes) {
  std::istringstream own = text_in(notes, ledger_name);
  LedgerNote ledger;
  if (!(own >> ledger.whole) || ledger.whole > chunk_number_max) return std::nullopt;
  ledger.mine = ranges_in(std::move(own));
  if (ledger.mine.size() > ledger_ranges_max) return std::nullopt;
  ledger.done = ranges_in(text_in(notes, done_name));
  std::istringstream begun = text_in(notes, begun_name);
  for (BegunChunk one; begun >> one.chunk >> one.made;) {
    if (ledger.begun.size() == leased_chunks_max) break;
    ledger.begun.push_back(one);
  }
  return ledger;
}

}  // namespace

void write(const SwarmNote& note, Notes& notes) {
  const auto ran = std::chrono::duration_cast<std::chrono::milliseconds>(note.ran).count();
  if (note.samples > 0) notes[samples_name] = std::to_string(note.samples);
  if (ran > 0) notes[ran_name] = std::to_string(ran);
  if (note.end) notes[end_name] = text_of(*note.end);
  if (!note.ledger) return;
  notes[ledger_name] = std::to_string(note.ledger->whole) + text_of(note.ledger->mine);
  if (!note.ledger->done.empty()) notes[done_name] = text_of(note.ledger->done);
  if (!note.ledger->begun.empty()) notes[begun_name] = text_of(note.ledger->begun);
  notes[chunk_name] = std::to_string(note.chunk_samples);
  notes[budget_name] = std::to_string(note.budget);
}

SwarmNote swarm_note_in(const Notes& notes) {
  const std::uint64_t ran_ms = std::min(number_in(notes, ran_name), ran_ms_max);
  SwarmNote note{.samples = number_in(notes, samples_name),
                 .ran = std::chrono::milliseconds(ran_ms),
                 .ledger = ledger_in(notes),
                 .chunk_samples = number_in(notes, chunk_name),
                 .budget = number_in(notes, budget_name)};
  // The number of samples in the chunks must not overflow.
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (note.ledger && note.ledger->whole > most / std::max<std::uint64_t>(1, note.chunk_samples)) {
    note.ledger.reset();
  }
  if (const auto text = notes.find(end_name); text != notes.end()) note.end = end_in(text->second);
  return note;
}

}  // namespace gv
