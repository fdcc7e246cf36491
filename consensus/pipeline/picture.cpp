// Draws a schedule as rows of characters or as SVG boxes.
#include "consensus/pipeline/picture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace gv {
namespace {

using Action = PipelineAction;

constexpr double endless = std::numeric_limits<double>::infinity();

/// Formats `value` with `digits` decimal places.
std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string row_name(const PictureOptions& options, std::size_t worker) {
  return worker < options.rows.size() ? options.rows[worker] : "worker " + std::to_string(worker);
}

std::size_t widest_name(const PictureOptions& options, std::size_t workers) {
  std::size_t width = 0;
  for (std::size_t w = 0; w < workers; ++w) width = std::max(width, row_name(options, w).size());
  return width;
}

char letter(const PipelineInstruction& operation) {
  const auto digit = static_cast<char>(operation.micro_batch % 10);
  switch (operation.action) {
    case Action::forward:
      return static_cast<char>('0' + digit);
    case Action::backward:
    case Action::backward_input:
      return static_cast<char>('a' + digit);
    case Action::backward_weight:
      return static_cast<char>('A' + digit);
    case Action::update:
      return '#';
  }
  return '?';
}

/// The time of the shortest pass, in seconds. It sets the scale, because the shortest pass must
/// have room for a character or a number.
double shortest_pass(const PipelineTiming& timing) {
  double shortest = endless;
  for (const auto& worker : timing.workers) {
    for (const TimedOperation& timed : worker) {
      const double seconds = timed.end - timed.begin;
      if (timed.operation.action != Action::update && seconds > 0) {
        shortest = std::min(shortest, seconds);
      }
    }
  }
  return shortest;
}

/// The characters of one worker's slots. Each slot shows the instruction that fills most of it, or
/// idleness if more than half of it is idle. An instruction that fills no slot is shown in the slot
/// of its middle if that slot is free. An update is always shown.
std::string cells(const std::vector<TimedOperation>& worker, double slot_s, std::size_t slots) {
  constexpr std::size_t nobody = static_cast<std::size_t>(-1);
  std::vector<std::size_t> shown(slots, nobody);
  std::vector<double> taken(slots, 0);
  std::vector<double> most(slots, 0);
  for (std::size_t o = 0; o < worker.size(); ++o) {
    const TimedOperation& timed = worker[o];
    const auto first = static_cast<std::size_t>(std::max(0.0, timed.begin / slot_s - 1e-9));
    for (std::size_t i = first; i < slots; ++i) {
      const double begin = static_cast<double>(i) * slot_s;
      const double overlap = std::min(timed.end, begin + slot_s) - std::max(timed.begin, begin);
      if (begin >= timed.end) break;
      if (overlap <= 1e-9 * slot_s) continue;
      taken[i] += overlap;
      if (overlap <= most[i] * (1 + 1e-9)) continue;
      most[i] = overlap;
      shown[i] = o;
    }
  }
  std::string line(slots, '.');
  std::vector<bool> has_cell(worker.size(), false);
  for (std::size_t i = 0; i < slots; ++i) {
    if (taken[i] < slot_s / 2 || shown[i] == nobody) continue;
    line[i] = letter(worker[shown[i]].operation);
    has_cell[shown[i]] = true;
  }
  for (std::size_t o = 0; o < worker.size(); ++o) {
    const TimedOperation& timed = worker[o];
    if (has_cell[o]) continue;
    const auto middle = static_cast<std::size_t>((timed.begin + timed.end) / 2 / slot_s);
    char& cell = line[std::min(middle, slots - 1)];
    if (cell == '.' || timed.operation.action == Action::update) cell = letter(timed.operation);
  }
  return line;
}

std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return number(ms, ms < 10 ? 2 : ms < 100 ? 1 : 0) + " ms";
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

/// Rounds up to 1, 2 or 5 times a power of ten.
double tick_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

/// How an action looks in an SVG: its class, its text in the legend, and its fill colour.
struct Look {
  Action action;
  const char* name;
  const char* words;
  const char* fill;
};

constexpr Look looks[] = {
    {Action::forward, "forward", "forward", "#9cc9ee"},
    {Action::backward, "backward", "backward", "#f3b36b"},
    {Action::backward_input, "input", "backward: inputs", "#f3b36b"},
    {Action::backward_weight, "weight", "backward: weights", "#a9d18e"},
    {Action::update, "update", "update", "#6b4c9a"},
};

const Look& look_of(Action action) { return *std::ranges::find(looks, action, &Look::action); }

bool has(const PipelineTiming& timing, Action action) {
  return std::ranges::any_of(timing.workers, [&](const auto& worker) {
    return std::ranges::any_of(
        worker, [&](const TimedOperation& timed) { return timed.operation.action == action; });
  });
}

/// Escapes XML's special characters.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string text_svg(double x, double y, const std::string& attributes, const std::string& text) {
  return "<text x='" + number(x, 1) + "' y='" + number(y, 1) + "' " + attributes + ">" +
         escaped(text) + "</text>\n";
}

std::string rectangle_svg(double x, double y, double width, double height,
                          const std::string& classes, const std::string& title) {
  const std::string rectangle = "<rect x='" + number(x, 2) + "' y='" + number(y, 1) + "' width='" +
                                number(width, 2) + "' height='" + number(height, 1) + "' class='" +
                                classes + "'";
  if (title.empty()) return rectangle + "/>\n";
  return rectangle + "><title>" + escaped(title) + "</title></rect>\n";
}

constexpr double margin = 20;
constexpr double row_height = 34;
constexpr double box_height = 26;
constexpr double number_width = 16;  ///< The smallest width of a box that shows a number.

}  // namespace

std::string pipeline_text(const PipelineTiming& timing, const PictureOptions& options) {
  const double shortest = shortest_pass(timing);
  if (timing.makespan <= 0 || shortest == endless) return {};
  const std::size_t names = widest_name(options, timing.workers.size()) + 2;
  const std::size_t room = std::max<std::size_t>(options.columns, names + 20) - names;
  double slot_s = options.slot_s > 0 ? options.slot_s : shortest;
  slot_s = std::max(slot_s, timing.makespan / static_cast<double>(room));
  const auto slots =
      static_cast<std::size_t>(std::max(1.0, std::ceil(timing.makespan / slot_s - 1e-6)));
  std::string text;
  for (std::size_t w = 0; w < timing.workers.size(); ++w) {
    text += padded(row_name(options, w), names) + cells(timing.workers[w], slot_s, slots) + "\n";
  }
  const std::string end = milliseconds(timing.makespan);
  std::string axis = "0";
  if (slots > end.size() + 2) axis = padded(axis, slots - end.size()) + end;
  return text + padded("", names) + axis + "\n";
}

std::string pipeline_legend(const PipelineTiming& timing) {
  std::string text = "0-9  forward, by the last digit of the micro-batch\n";
  if (has(timing, Action::backward)) text += "a-j  backward, a for 0\n";
  if (has(timing, Action::backward_input)) text += "a-j  backward by the inputs, a for 0\n";
  if (has(timing, Action::backward_weight)) text += "A-J  backward by the weights, A for 0\n";
  if (has(timing, Action::update)) text += "#    update\n";
  return text + ".    nothing to do\n";
}

std::string pipeline_svg(const PipelineTiming& timing, const PictureOptions& options) {
  const double shortest = shortest_pass(timing);
  if (timing.makespan <= 0 || shortest == endless) return {};
  const std::size_t workers = timing.workers.size();
  const double left = margin + 7 * static_cast<double>(widest_name(options, workers)) + 10;
  const double top = 66;
  const double plot = std::clamp(number_width * timing.makespan / shortest, 700.0, 4000.0);
  const double width = left + plot + 2 * margin;
  const double bottom = top + row_height * static_cast<double>(workers);
  const double height = bottom + 46;
  const auto x = [&](double seconds) { return left + plot * seconds / timing.makespan; };
  std::string svg = "<svg xmlns='http://www.w3.org/2000/svg' width='" + number(width, 0) +
                    "' height='" + number(height, 0) + "' viewBox='0 0 " + number(width, 0) + " " +
                    number(height, 0) +
                    "'>\n<style>text{font:12px sans-serif;fill:#222}.title{font-size:15px}"
                    ".tick{font-size:10px;fill:#555}.grid{stroke:#e4e4e4}"
                    ".number{font-size:11px;pointer-events:none}.idle{fill:#f4f4f4}"
                    ".op,.sample{stroke:#fff;stroke-width:0.8}";
  for (const Look& look : looks) {
    svg += std::string(".") + look.name + "{fill:" + look.fill + "}";
  }
  svg += "</style>\n<rect width='100%' height='100%' fill='#fff'/>\n" +
         text_svg(margin, 24, "class='title'", options.title);
  double at = left;
  for (const Look& look : looks) {
    if (!has(timing, look.action)) continue;
    svg += rectangle_svg(at, 38, 14, 14, std::string("sample ") + look.name, "") +
           text_svg(at + 20, 49, "", look.words);
    at += 44 + 7 * static_cast<double>(std::string(look.words).size());
  }
  const double step = tick_step(1e3 * timing.makespan / (plot / 80));
  const int digits = step < 1 ? static_cast<int>(std::ceil(-std::log10(step) - 1e-9)) : 0;
  for (int i = 0; i * step <= 1e3 * timing.makespan + 1e-9; ++i) {
    const double tick = x(1e-3 * i * step);
    svg +=
        "<line x1='" + number(tick, 1) + "' y1='" + number(top - 4, 1) + "' x2='" +
        number(tick, 1) + "' y2='" + number(bottom + 4, 1) + "' class='grid'/>\n" +
        text_svg(tick, bottom + 17, "class='tick' text-anchor='middle'", number(i * step, digits));
  }
  svg += text_svg(left + plot / 2, bottom + 34, "class='tick' text-anchor='middle'", "ms");
  for (std::size_t w = 0; w < workers; ++w) {
    const double y = top + row_height * static_cast<double>(w);
    svg += text_svg(margin, y + box_height / 2 + 4, "", row_name(options, w)) +
           rectangle_svg(left, y, plot, box_height, "idle", "");
    for (const TimedOperation& timed : timing.workers[w]) {
      const Look& look = look_of(timed.operation.action);
      const double box = x(timed.end) - x(timed.begin);
      svg += rectangle_svg(
          x(timed.begin), y, box, box_height, std::string("op ") + look.name,
          to_string(timed.operation, true) + ", " + milliseconds(timed.end - timed.begin));
      if (timed.operation.action == Action::update || box < number_width - 4) continue;
      svg += text_svg(x(timed.begin) + box / 2, y + box_height / 2 + 4,
                      "class='number' text-anchor='middle'",
                      std::to_string(timed.operation.micro_batch));
    }
  }
  return svg + "</svg>\n";
}

}  // namespace gv
