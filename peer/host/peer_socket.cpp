// Serves a peer's status socket, and queries other peers through their sockets.
#include "peer/host/peer_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "net/descriptor.hpp"
#include "net/socket_address.hpp"

namespace gv {
namespace {

constexpr const char* socket_name = "status.sock";
constexpr std::size_t document_bytes_max = 4 << 20;
constexpr std::size_t command_bytes_max = 64 << 10;
constexpr std::chrono::seconds command_time_max{5};
constexpr std::chrono::milliseconds accept_pause{20};

/// Opens a run folder. Its sockets are addressed through this descriptor.
Descriptor opened(const std::filesystem::path& folder) {
  return Descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

struct PeerSocket::Impl : std::enable_shared_from_this<PeerSocket::Impl> {
  Impl(asio::io_context& io, const std::filesystem::path& where, Calls made)
      : folder(where), handle(opened(where)), calls(std::move(made)), acceptor(io), pause(io) {
    if (!handle) {
      throw std::runtime_error(folder.string() + ": cannot be opened: " + std::strerror(errno));
    }
    ::unlink((folder / socket_name).c_str());
    const asio::local::stream_protocol::endpoint endpoint(socket_address(handle, socket_name));
    asio::error_code error;
    acceptor.open(endpoint.protocol());
    acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(16, error);
    if (error) {
      throw std::runtime_error((folder / socket_name).string() + ": " + error.message());
    }
    ::chmod((folder / socket_name).c_str(), 0600);
  }

  void accept() {
    acceptor.async_accept([self = shared_from_this()](asio::error_code error,
                                                      asio::local::stream_protocol::socket peer) {
      if (error == asio::error::operation_aborted || !self->acceptor.is_open()) return;
      if (!error) {
        self->answer(std::make_shared<Visit>(std::move(peer)));
        self->accept();
        return;
      }
      // Most likely no descriptors are left. Accepting again at once would be a busy loop.
      self->pause.expires_after(accept_pause);
      self->pause.async_wait([self](asio::error_code) {
        if (self->acceptor.is_open()) self->accept();
      });
    });
  }

  /// One connection of a client.
  struct Visit {
    explicit Visit(asio::local::stream_protocol::socket peer)
        : socket(std::move(peer)), timer(socket.get_executor()) {}
    asio::local::stream_protocol::socket socket;
    asio::steady_timer timer;
    std::string text;
  };

  void answer(const std::shared_ptr<Visit>& visit) {
    visit->timer.expires_after(command_time_max);
    visit->timer.async_wait([visit](asio::error_code cancelled) {
      asio::error_code ignored;
      if (!cancelled) visit->socket.close(ignored);
    });
    asio::async_read(
        visit->socket, asio::dynamic_buffer(visit->text, command_bytes_max),
        [self = shared_from_this(), visit](asio::error_code end, std::size_t) {
          if (end != asio::error::eof || !self->acceptor.is_open()) return;
          const Calls& calls = self->calls;
          visit->text = visit->text.empty() ? calls.document() : calls.command(visit->text);
          asio::async_write(visit->socket, asio::buffer(visit->text),
                            [visit](asio::error_code, std::size_t) { visit->timer.cancel(); });
        });
  }

  std::filesystem::path folder;
  Descriptor handle;
  Calls calls;
  asio::local::stream_protocol::acceptor acceptor;
  asio::steady_timer pause;
};

PeerSocket::PeerSocket(asio::io_context& io, const std::filesystem::path& folder, Calls calls)
    : impl_(std::make_shared<Impl>(io, folder, std::move(calls))) {
  impl_->accept();
}

PeerSocket::~PeerSocket() {
  asio::error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->pause.cancel();
  ::unlink((impl_->folder / socket_name).c_str());
}

namespace {

/// Waits until there is something to read. Returns false if nothing arrives within `limit`. A
/// signal does not end the wait.
bool await_reply(int fd, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + limit;
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  int found = 0;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    found = ::poll(&ready, 1, std::max(0, static_cast<int>(left.count())));
  } while (found < 0 && errno == EINTR);
  return found > 0;
}

/// Makes a non-blocking socket. A stopped peer accepts no connections, and a blocking socket would
/// hang once the queue of that peer is full.
Descriptor unix_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Connects to the peer that runs in `folder`. The system queues the connection, so this succeeds
/// even if the peer is stopped or busy. Returns the error number; 0 on success. EAGAIN means that a
/// peer runs there and its queue is full.
int connect_to(const std::filesystem::path& folder, const Descriptor& socket) {
  const Descriptor handle = opened(folder);
  if (!handle) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_address(handle, socket_name);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* there = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(socket.get(), there, sizeof address) == 0 ? 0 : errno;
}

}  // namespace

std::optional<std::string> ask_peer(const std::filesystem::path& folder, std::string_view command,
                                    int timeout_ms) {
  const Descriptor socket = unix_socket();
  if (connect_to(folder, socket) != 0) return std::nullopt;
  const int fd = socket.get();
  std::optional<std::string> answer;
  const bool told = ::send(fd, command.data(), command.size(), MSG_NOSIGNAL) ==
                        static_cast<ssize_t>(command.size()) &&
                    ::shutdown(fd, SHUT_WR) == 0;
  if (told) {
    std::string text;
    while (text.size() < document_bytes_max) {
      if (!await_reply(fd, std::chrono::milliseconds(timeout_ms))) break;
      char buffer[65536];
      const ssize_t got = ::read(fd, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) break;
      if (got == 0) {
        // A peer that is about to end closes the connection without an answer.
        if (!text.empty()) answer = std::move(text);
        break;
      }
      text.append(buffer, static_cast<std::size_t>(got));
    }
  }
  return answer;
}

std::optional<Problem> unanswering_peer(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / socket_name;
  if (::access(path.c_str(), R_OK | W_OK) != 0 && errno == EACCES) {
    return Problem{path.string(), "may be used only by the user who runs the peer",
                   "run the command as that user"};
  }
  const int error = connect_to(folder, unix_socket());
  if (error != 0 && error != EAGAIN) return std::nullopt;
  return Problem{folder.string(), "a peer runs here but does not answer",
                 "ask again in a moment; it may be busy, ending or stopped"};
}

std::optional<Problem> launch_folder_problem(const std::filesystem::path& folder) {
  const std::filesystem::path peer = folder / "peer-0";
  std::error_code ignored;
  if (!std::filesystem::is_directory(peer, ignored)) return std::nullopt;
  return Problem{folder.string(), "this is the folder of a launch",
                 "name one of its peers, as " + peer.string()};
}

Problem no_answer_problem(const std::filesystem::path& folder) {
  if (auto problem = unanswering_peer(folder)) return std::move(*problem);
  if (auto problem = launch_folder_problem(folder)) return std::move(*problem);
  return {folder.string(), "no running peer answers here",
          "give the run folder of a running peer, the one its first line names"};
}

void ask_peer(asio::io_context& io, const std::filesystem::path& folder, std::string_view command,
              std::chrono::milliseconds limit,
              std::function<void(std::optional<std::string>)> then) {
  struct Question {
    explicit Question(asio::io_context& loop) : socket(loop), timer(loop) {}
    asio::local::stream_protocol::socket socket;
    asio::steady_timer timer;
    std::string text;
  };
  const Descriptor handle = opened(folder);
  auto question = std::make_shared<Question>(io);
  asio::error_code error;
  // Opening a Unix socket never waits: it succeeds or fails at once.
  question->socket.open({}, error);
  if (!error) question->socket.non_blocking(true, error);
  if (!error) question->socket.connect({socket_address(handle, socket_name)}, error);
  // Commands are short, so the socket's buffer has room for the whole command.
  if (!error) asio::write(question->socket, asio::buffer(command), error);
  if (!error) question->socket.shutdown(asio::socket_base::shutdown_send, error);
  if (error) {
    asio::post(io, [then = std::move(then)] { then(std::nullopt); });
    return;
  }
  question->timer.expires_after(limit);
  question->timer.async_wait([question](asio::error_code cancelled) {
    asio::error_code ignored;
    if (!cancelled) question->socket.close(ignored);
  });
  asio::async_read(question->socket, asio::dynamic_buffer(question->text, document_bytes_max),
                   [question, then = std::move(then)](asio::error_code end, std::size_t) {
                     question->timer.cancel();
                     const bool whole = end == asio::error::eof && !question->text.empty();
                     then(whole ? std::optional(std::move(question->text)) : std::nullopt);
                   });
}

}  // namespace gv
