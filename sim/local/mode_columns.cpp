// Formats columns that are aligned to the right.
#include "sim/local/mode_columns.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gv {
namespace {

constexpr std::size_t width_min = 7;

/// The document's text in the column with heading `head`; empty if it has no such column.
std::string text_of(const nlohmann::json& document, const std::string& head) {
  for (const auto& column : document.value("columns", nlohmann::json::array())) {
    if (column.value("head", "") == head) return column.value("text", "");
  }
  return {};
}

}  // namespace

void ModeColumns::fit(const nlohmann::json& document) {
  for (const auto& column : document.value("columns", nlohmann::json::array())) {
    const std::string head = column.value("head", "");
    auto known = std::ranges::find(columns_, head, &std::pair<std::string, std::size_t>::first);
    if (known == columns_.end()) {
      columns_.emplace_back(head, std::max(head.size(), width_min));
      known = std::prev(columns_.end());
    }
    known->second = std::max(known->second, column.value("text", "").size());
  }
}

std::string ModeColumns::head() const {
  std::string line;
  for (const auto& [head, width] : columns_) line += fmt::format(" {:>{}}", head, width);
  return line;
}

std::string ModeColumns::cells(const nlohmann::json& document) const {
  std::string line;
  for (const auto& [head, width] : columns_) {
    line += fmt::format(" {:>{}}", text_of(document, head), width);
  }
  return line;
}

}  // namespace gv
