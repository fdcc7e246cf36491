// Where the messages of a round of mixing go.
#pragma once

#include <vector>

#include "consensus/mixing/mix_message.hpp"

namespace gv {

/// Messages of a round. The worker writes them before it says that they are ready.
struct MixOutbox {
  std::vector<MixMessage> messages;
  bool sound = true;  ///< All values are finite; otherwise there are no messages.
};

}  // namespace gv
