// A Unix socket in a running peer's folder, which serves its report as JSON and takes commands.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/problems.hpp"

namespace asio {
class io_context;
}

namespace gv {

/// Answers every connection to `<folder>/status.sock` (mode 0600) and then closes it. The answer to
/// an empty request is the peer's state; the answer to a command is its result.
class PeerSocket {
 public:
  struct Calls {
    std::function<std::string()> document;
    std::function<std::string(const std::string& command)> command;
  };

  /// `calls` are made on the loop's thread. A socket left by an earlier process is replaced. Throws
  /// std::runtime_error if the socket cannot be made.
  PeerSocket(asio::io_context& io, const std::filesystem::path& folder, Calls calls);
  ~PeerSocket();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Asks the peer that runs in `folder` for its state, or gives it a command. Returns nullopt if no
/// peer answers in time.
std::optional<std::string> ask_peer(const std::filesystem::path& folder,
                                    std::string_view command = {}, int timeout_ms = 2000);

/// Returns why a peer that runs in `folder`, or may run there, has not answered ask_peer(); nullopt
/// if no peer is known to run there.
std::optional<Problem> unanswering_peer(const std::filesystem::path& folder);

/// Returns the problem if a command that needs a peer's folder was given the folder of a launch;
/// nullopt for any other folder.
std::optional<Problem> launch_folder_problem(const std::filesystem::path& folder);

/// Returns the problem for a command that needs a running peer in `folder` but got no answer.
Problem no_answer_problem(const std::filesystem::path& folder);

/// Like ask_peer() above, but without waiting. Calls `then` once on the loop's thread, after this
/// function has returned.
void ask_peer(asio::io_context& io, const std::filesystem::path& folder, std::string_view command,
              std::chrono::milliseconds limit,
              std::function<void(std::optional<std::string>)> then);

}  // namespace gv
