// The texts of a fact: its name in logs, a sentence, its meaning, and what to do about it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/message/facts.hpp"

namespace gv {

/// The texts of one type of fact.
struct FactInfo {
  std::string_view name;  ///< Never changes. In snake case; the value of "event" in events.jsonl.
  /// What happened. `{peer}`, `{reason}`, `{detail}` and the names of numbers are placeholders.
  std::string_view sentence;
  std::string_view meaning;  ///< What the fact says about the run; may be empty.
  std::string_view remedy;   ///< What a person can do; empty if there is nothing to do.
};

/// One fact in the form that all logs and reports share.
struct FactText {
  FactInfo info;
  std::optional<PeerId> peer;    ///< The other peer concerned, if any.
  Reason reason = Reason::none;  ///< Set if something was refused, dropped or given up.
  std::string detail;            ///< A sentence fragment; may be empty.
  std::string remedy;            ///< The remedy for this fact, or else for its type.
  std::vector<std::pair<std::string_view, double>> numbers;  ///< Pairs of a name, which includes
                                                             ///< the unit, and a value.
};

FactText describe(const Fact& fact);

/// The fact's name alone.
std::string_view name_of(const Fact& fact);
template <class F>
std::string fact_name() {
  return std::string(name_of(Fact(F{})));
}

/// The fact's sentence, with peers named by `name_of`.
std::string sentence(const FactText& fact, const std::function<std::string(PeerId)>& name_of);

/// Counts the facts of each type.
class FactCounts {
 public:
  void add(const Fact& fact) { ++counts_[fact.index()]; }
  template <class F>
  std::uint64_t of() const {
    return counts_[Fact(F{}).index()];
  }
  /// The counts that are not 0.
  std::map<std::string, std::uint64_t> by_name() const;

  friend bool operator==(const FactCounts&, const FactCounts&) = default;

 private:
  std::array<std::uint64_t, std::variant_size_v<FactVariant>> counts_{};
};

/// The texts of every type of fact, in the order of the variant.
std::vector<FactInfo> fact_infos();

}  // namespace gv
