// Reports this process's state to the service manager that started it.
#pragma once

#include <string_view>

namespace gv {

/// Sends `state`, such as "READY=1", to the socket named by NOTIFY_SOCKET, as systemd's
/// sd_notify(3) does. Never waits. Returns false if NOTIFY_SOCKET is not set or if sending fails,
/// for example because too many messages wait there. A peer continues in either case.
bool tell_service_manager(std::string_view state);

}  // namespace gv
