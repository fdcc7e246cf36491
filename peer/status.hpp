// What a running peer says of itself: a JSON document served on a Unix socket in its run folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace asio {
class io_context;
}

namespace gv {

/// Answers every connection to `<folder>/status.sock` (mode 0600) with one document and closes it.
class StatusServer {
 public:
  /// `document` is called on the loop's thread for every connection. Replaces a socket left behind
  /// by an earlier life. Throws std::runtime_error when the socket cannot be made.
  StatusServer(asio::io_context& io, const std::filesystem::path& folder,
               std::function<std::string()> document);
  ~StatusServer();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Asks the peer that runs in `folder`. Nothing when no peer answers there within the time.
std::optional<std::string> ask_status(const std::filesystem::path& folder, int timeout_ms = 2000);

/// The same without waiting: `then` is called once on the loop's thread, not from within this
/// call.
void ask_status(asio::io_context& io, const std::filesystem::path& folder,
                std::chrono::milliseconds limit,
                std::function<void(std::optional<std::string>)> then);

/// The document as a person reads it: own state, a table of members, the last refusals.
std::string status_table(const std::string& document);

}  // namespace gv
