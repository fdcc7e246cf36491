// Splits TOML into statements, lets toml++ parse each one alone, and merges them into one table.
#include "peer/config/toml.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <utility>

namespace gv {

namespace {

constexpr std::size_t text_bytes_max = std::size_t{1} << 20;

// Both limits are a few times what any setting or list of layers needs. Code that walks a table
// recurses once per level.
constexpr std::size_t key_dots_max = 16;
constexpr std::size_t brackets_max = 32;

/// A key = value pair or a [header], and the line on which it starts.
struct Statement {
  std::string text;
  std::size_t line = 0;
};

/// Tracks whether strings and brackets are still open after the characters seen so far.
class Nesting {
 public:
  /// Processes one line without its newline.
  void feed(std::string_view line) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (!quote_.empty()) {
        i += inside_string(line, i);
      } else if (line[i] == '#') {
        return end_line();
      } else if (line[i] == '"' || line[i] == '\'') {
        const std::string triple(3, line[i]);
        quote_ = line.substr(i, 3) == triple ? triple : std::string(1, line[i]);
        i += quote_.size() - 1;
      } else if (line[i] == '[' || line[i] == '{') {
        ++depth_;
      } else if ((line[i] == ']' || line[i] == '}') && depth_ > 0) {
        --depth_;
      }
    }
    end_line();
  }

  bool in_text() const { return !quote_.empty(); }
  bool in_brackets() const { return depth_ > 0; }

 private:
  /// Returns how many characters to skip after the one at `i`.
  std::size_t inside_string(std::string_view line, std::size_t i) {
    if (line[i] == '\\' && quote_[0] == '"') return 1;
    if (line.substr(i, quote_.size()) != quote_) return 0;
    const std::size_t more = quote_.size() - 1;
    quote_.clear();
    return more;
  }

  void end_line() {
    // A plain string ends with its line, whether closed or not.
    if (quote_.size() == 1) quote_.clear();
  }

  std::string quote_;
  int depth_ = 0;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// True if a line can only be a new statement, which reveals an unclosed bracket above it.
bool starts_statement(std::string_view line) {
  static const std::regex pair(R"(\s*[A-Za-z0-9_.-]+\s*=.*)");
  static const std::regex header(R"(\s*\[\[?\s*[A-Za-z_][A-Za-z0-9_.-]*\s*\]\]?\s*(#.*)?)");
  return line.size() < 1000 && (std::regex_match(line.begin(), line.end(), pair) ||
                                std::regex_match(line.begin(), line.end(), header));
}

std::vector<Statement> split(std::string_view text) {
  std::vector<Statement> statements;
  const std::vector<std::string_view> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size();) {
    const std::string_view first = trimmed(lines[i]);
    if (first.empty() || first.front() == '#') {
      ++i;
      continue;
    }
    Statement statement{std::string(lines[i]), i + 1};
    Nesting nesting;
    if (first.front() != '[') nesting.feed(lines[i]);  // A header never spans several lines.
    for (++i; i < lines.size() && (nesting.in_text() || nesting.in_brackets()); ++i) {
      if (!nesting.in_text() && starts_statement(lines[i])) break;
      statement.text += '\n';
      statement.text += lines[i];
      nesting.feed(lines[i]);
    }
    statements.push_back(std::move(statement));
  }
  return statements;
}

/// Returns the position after the string whose opening quote is at `at`, as the parser sees it.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool is_long = text.substr(at, 3) == std::string(3, quote);
  for (std::size_t i = at + (is_long ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (text[i] == '\n' && !is_long) {
      return i;
    } else if (text[i] == quote) {
      if (!is_long) return i + 1;
      // Up to two quotes that belong to the string may precede the three quotes that close it.
      const std::size_t run = std::min(text.find_first_not_of(quote, i), text.size()) - i;
      if (run >= 3) return i + std::min(run, std::size_t{5});
      i += run - 1;
    }
  }
  return text.size();
}

std::string lower(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lowered;
}

/// Returns the number of edits between the names: 0 for names that differ only in their unit, and 1
/// if one contains the other.
std::size_t name_distance(std::string_view name, std::string_view candidate) {
  const std::string_view a = without_unit(name);
  const std::string_view b = without_unit(candidate);
  if (a == b) return 0;
  const bool holds = a.size() >= 4 && b.size() >= 4 &&
                     (a.find(b) != std::string_view::npos || b.find(a) != std::string_view::npos);
  return holds ? 1 : edit_distance(name, candidate);
}

TomlValue convert(const toml::node& node, std::size_t line_before) {
  TomlValue value;
  value.line = line_before + node.source().begin.line;
  if (const auto* boolean = node.as_boolean()) {
    value.data = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    value.data = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    value.data = real->get();
  } else if (const auto* text = node.as_string()) {
    value.data = text->get();
  } else if (const auto* array = node.as_array()) {
    TomlList list;
    for (const toml::node& item : *array) list.push_back(convert(item, line_before));
    value.data = std::move(list);
  } else if (const auto* table = node.as_table()) {
    TomlTable members;
    for (const auto& [key, item] : *table) {
      members.emplace(std::string(key.str()), convert(item, line_before));
    }
    value.data = std::move(members);
  } else {
    value.data = TomlOther{};
  }
  return value;
}

/// Describes the mistake in a statement that toml++ refused. Where possible, the description uses
/// terms that an operator knows.
Problem explain(const Statement& statement, std::string place, const std::string& parser_says) {
  const std::size_t equals = statement.text.find('=');
  static const std::regex with_unit(R"([+-]?[0-9][0-9_.]*\s*[A-Za-z%]+\s*(#.*)?)");
  static const std::regex bare_word(R"([A-Za-z_][A-Za-z0-9_-]*\s*(#.*)?)");
  if (equals != std::string::npos && statement.text.size() < 1000) {
    place += ": " + std::string(trimmed(std::string_view(statement.text).substr(0, equals)));
    std::string value(trimmed(std::string_view(statement.text).substr(equals + 1)));
    const bool has_unit = std::regex_match(value, with_unit);
    const bool is_word = std::regex_match(value, bare_word);
    value = trimmed(std::string_view(value).substr(0, value.find('#')));
    if (has_unit) {
      return {std::move(place), "wrong unit: a number must stand alone, not as " + value,
              "write only the number; the unit is the end of the key's name"};
    }
    if (is_word) {
      return {std::move(place), value + " is neither in quotes nor true or false",
              "write \"" + value + "\" (or true or false, in small letters)"};
    }
  }
  return {std::move(place), "not TOML: " + parser_says,
          "write key = value or [section], one a line"};
}

/// Adds statements to one table, in order.
class Merger {
 public:
  Merger(std::string_view name, Problems& problems) : name_(name), problems_(problems) {}

  void add(const Statement& statement) {
    const bool is_header = trimmed(statement.text).front() == '[';
    if (nests_too_deeply(statement.text)) {
      problems_.push_back({place(statement.line),
                           "a key of more than 16 dots, or brackets more than 32 deep",
                           "write key = value or [section]; no setting is so deep"});
      if (is_header) section_ = nullptr;
      return;
    }
    toml::table parsed;
    try {
      parsed = toml::parse(statement.text);
    } catch (const toml::parse_error& error) {
      const std::size_t line = statement.line - 1 + std::max(error.source().begin.line, 1U);
      // An unclosed bracket is noticed at the end of a statement, but has to be fixed at its start.
      const bool unclosed = statement.text.find('\n') != std::string::npos;
      problems_.push_back(explain(statement, place(unclosed ? statement.line : line),
                                  std::string(error.description())));
      // It is not known to which section the next keys belong, so skip them.
      if (is_header) section_ = nullptr;
      return;
    }
    TomlValue value = convert(parsed, statement.line - 1);
    auto& members = std::get<TomlTable>(value.data);
    if (is_header) {
      section_ = open(members, {}, root_, statement.line);
    } else if (section_ != nullptr) {
      merge(std::move(members), {}, *section_, statement.line);
    }
  }

  bool is_empty() const { return root_.empty(); }
  TomlTable take() { return std::move(root_); }

 private:
  std::string place(std::size_t line) const { return name_ + ":" + std::to_string(line); }

  void conflict(std::size_t line, const std::string& path, std::size_t first_line) {
    problems_.push_back({place(line) + ": " + path,
                         "duplicate key, first set on line " + std::to_string(first_line),
                         "keep one of the two"});
  }

  /// Follows the path in a header and opens the table there. Returns null if something else is
  /// there.
  TomlTable* open(TomlTable& header, const std::string& above, TomlTable& parent,
                  std::size_t line) {
    auto& [key, value] = *header.begin();
    const std::string path = above.empty() ? key : above + "." + key;
    // A header [[path]] adds a table to a list.
    if (std::holds_alternative<TomlList>(value.data)) {
      TomlValue& here = parent.try_emplace(key, TomlValue{TomlList{}, line}).first->second;
      auto* rows = std::get_if<TomlList>(&here.data);
      if (rows == nullptr) return conflict(line, path, here.line), nullptr;
      rows->push_back(TomlValue{TomlTable{}, line});
      return &std::get<TomlTable>(rows->back().data);
    }
    auto& inner = std::get<TomlTable>(value.data);
    TomlValue& here = parent.try_emplace(key, TomlValue{TomlTable{}, line}).first->second;
    auto* table = std::get_if<TomlTable>(&here.data);
    if (table == nullptr) return conflict(line, path, here.line), nullptr;
    if (!inner.empty()) return open(inner, path, *table, line);
    const auto [first, is_new] = headers_.try_emplace(path, line);
    if (!is_new) {
      problems_.push_back(
          {place(line) + ": [" + path + "]",
           "duplicate section, first opened on line " + std::to_string(first->second),
           "put its keys there"});
    }
    return table;
  }

  void merge(TomlTable&& from, const std::string& above, TomlTable& into, std::size_t line) {
    for (auto& [key, value] : from) {
      const std::string path = above.empty() ? key : above + "." + key;
      const auto found = into.find(key);
      if (found == into.end()) {
        into.emplace(key, std::move(value));
        continue;
      }
      auto* existing = std::get_if<TomlTable>(&found->second.data);
      auto* added = std::get_if<TomlTable>(&value.data);
      if (existing != nullptr && added != nullptr) {
        // Dotted keys may open the same table twice.
        merge(std::move(*added), path, *existing, line);
      } else {
        conflict(line, path, found->second.line);
      }
    }
  }

  std::string name_;
  Problems& problems_;
  TomlTable root_;
  TomlTable* section_ = &root_;
  std::map<std::string, std::size_t> headers_;
};

}  // namespace

std::string_view kind_of(const TomlValue& value) {
  constexpr std::array<std::string_view, 7> names{"true or false", "a whole number", "a number",
                                                  "a text",        "a date or time", "a list",
                                                  "a section"};
  return names[value.data.index()];
}

bool nests_too_deeply(std::string_view text) {
  std::size_t dots = 0;
  std::size_t brackets = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = end_of_string(text, i) - 1;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.') {
      if (++dots > key_dots_max) return true;
    } else if (std::string_view("[]{}=,\n").find(c) != std::string_view::npos) {
      dots = 0;
      if (c == '[' || c == '{') ++brackets;
      if ((c == ']' || c == '}') && brackets > 0) --brackets;
      if (brackets > brackets_max) return true;
    }
  }
  return false;
}

/// A text that has this many mistakes before any valid statement is not TOML.
constexpr std::size_t strange_statements_max = 5;

TomlTable read_toml(std::string_view text, std::string_view name, Problems& problems) {
  if (text.size() > text_bytes_max) {
    problems.push_back({std::string(name), "longer than 1 MiB", "this is not a config"});
    return {};
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // A byte order mark is harmless.
  Merger merger(name, problems);
  const std::size_t before = problems.size();
  for (const Statement& statement : split(text)) {
    if (merger.is_empty() && problems.size() - before >= strange_statements_max) {
      problems.push_back({std::string(name),
                          "nothing in it is TOML so far, so the rest is not read",
                          "give the path of a .toml file"});
      break;
    }
    // A longer list helps no one, and the parser needs seconds for a few thousand statements.
    if (problems.size() >= problems_max) break;
    merger.add(statement);
  }
  return merger.take();
}

std::optional<std::string> read_text_file(const std::string& path, std::string_view what,
                                          Problems& problems) {
  const std::string name(what);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    problems.push_back({path, "a folder, not a file", "give the path of a " + name + " file"});
    return std::nullopt;
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    const bool is_there = path == "-" || std::filesystem::exists(path, error);
    const std::string no_file = "no such " + name + " file";
    problems.push_back({path, is_there ? "a " + name + " must be a regular file" : no_file,
                        "give the path of a .toml file"});
    return std::nullopt;
  }
  if (std::filesystem::file_size(path, error) > text_bytes_max) {
    problems.push_back({path, "longer than 1 MiB", "this is not a " + name});
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    problems.push_back({path, "cannot be read", "check its permissions"});
    return std::nullopt;
  }
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return cost[i * columns + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      at(i, j) = std::min(
          {at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

std::string_view without_unit(std::string_view name) {
  constexpr std::array<std::string_view, 14> units{"steps", "epochs",  "s",   "ms",    "us",
                                                   "sec",   "seconds", "min", "bytes", "kib",
                                                   "mib",   "gib",     "mb",  "gb"};
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos) return name;
  const std::string_view end = name.substr(underscore + 1);
  const bool has_unit = std::find(units.begin(), units.end(), end) != units.end();
  return has_unit ? name.substr(0, underscore) : name;
}

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  // The table of edits grows with the product of the lengths, and names come from outside.
  const std::string wanted = lower(name.substr(0, 64));
  std::optional<std::string> best;
  // With more edits than this, the two names have hardly a letter in common.
  std::size_t limit = std::max<std::size_t>(wanted.size(), 3) / 3 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = name_distance(wanted, lower(candidate));
    if (distance >= limit) continue;
    best = candidate;
    limit = distance;
  }
  return best;
}

std::string near_remedy(std::string_view key, std::span<const std::string> valid) {
  const auto nearest = nearest_name(key, valid);
  return nearest ? "the nearest valid one is " + *nearest
                 : std::string("remove it: no valid one is near");
}

}  // namespace gv
