// Tells the service manager that has started this process how it is.
#pragma once

#include <string_view>

namespace gv {

/// Sends `state`, such as "READY=1", to the socket that NOTIFY_SOCKET names, as sd_notify(3) of
/// systemd does. Never waits. Returns false if nobody is to be told, or if it cannot be told:
/// a peer runs on in either case.
bool tell_service_manager(std::string_view state);

}  // namespace gv
