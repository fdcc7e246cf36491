// The texts of the reasons why peers refuse, drop or give up something.
#pragma once

#include <span>
#include <string_view>

#include "consensus/message/message.hpp"

namespace gv {

/// The texts of one reason, like FactInfo for a fact.
struct ReasonInfo {
  Reason reason = Reason::none;
  std::string_view name;      ///< In snake case; logs show the words with spaces.
  std::string_view sentence;  ///< What is wrong.
  std::string_view meaning;  ///< When a peer gives this reason, and what it and the others do then.
  std::string_view remedy;   ///< What a person can do; empty if there is nothing to do.
};

/// The texts of every reason except Reason::none, in the order of the enum.
std::span<const ReasonInfo> reason_infos();

}  // namespace gv
