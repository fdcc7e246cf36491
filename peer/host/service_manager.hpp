// Reports this process's state to the service manager that has started it.
#pragma once

#include <string_view>

namespace gv {

/// Sends `state`, such as "READY=1", to the socket that NOTIFY_SOCKET names, as sd_notify(3) of
/// systemd does. Never waits. Returns false if NOTIFY_SOCKET is not set, or if sending
/// fails: a peer runs on in either case.
bool tell_service_manager(std::string_view state);

}  // namespace gv
