// The status socket, both ends, and the table made of its document.
#include "peer/status.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace gv {
namespace {

constexpr const char* socket_name = "status.sock";
constexpr std::size_t document_bytes_max = 4 << 20;
constexpr std::size_t command_bytes_max = 64 << 10;
constexpr std::chrono::seconds command_time_max{5};

/// A Unix socket's path has room for 107 characters and run folders can be deeper, so the folder is
/// named through a descriptor of it.
class FolderHandle {
 public:
  explicit FolderHandle(const std::filesystem::path& folder)
      : fd_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  ~FolderHandle() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderHandle(const FolderHandle&) = delete;
  FolderHandle& operator=(const FolderHandle&) = delete;

  bool is_open() const { return fd_ >= 0; }
  std::string socket_path() const { return fmt::format("/proc/self/fd/{}/{}", fd_, socket_name); }

 private:
  int fd_;
};

/// How lockstep makes its sums, for people; empty in another mode.
std::string ring_lines(const nlohmann::json& ring) {
  std::string order;
  for (const auto& name : ring.value("order", nlohmann::json::array())) {
    order += (order.empty() ? "" : " ") + name.get<std::string>();
  }
  std::string out = fmt::format("  sums by {}, in the order {}\n", ring.value("algorithm", ""),
                                order.empty() ? "that is being agreed on" : order);
  if (const auto link = ring.find("slowest_link"); link != ring.end()) {
    out += fmt::format("  slowest link {} to {}: {:.4g} MB/s, {:.3g} ms\n", link->value("from", ""),
                       link->value("to", ""), 1e-6 * link->value("bytes_per_second", 0.0),
                       1e3 * link->value("latency_s", 0.0));
  }
  return out;
}

/// Who carries which stage, for people, and where time goes.
std::string pipeline_lines(const nlohmann::json& pipeline) {
  std::string out = fmt::format("  schedule {}, router {}; waits {:.0f} % of its time in runs\n",
                                pipeline.value("schedule", ""), pipeline.value("router", ""),
                                100 * pipeline.value("waiting_part", 0.0));
  const auto work = pipeline.value("stage_work", std::vector<double>());
  std::size_t stage = 0;
  for (const auto& carriers : pipeline.value("stages", nlohmann::json::array())) {
    std::string names;
    for (const auto& name : carriers) names += " " + name.get<std::string>();
    out += fmt::format("  stage {} ({:.0f} % of the work):{}\n", stage,
                       stage < work.size() ? 100 * work[stage] : 0.0, names);
    ++stage;
  }
  return out;
}

/// Whom the peer mixes with, for people.
std::string rounds_lines(const nlohmann::json& rounds) {
  const auto names = [&](const char* key) {
    std::string text;
    for (const auto& name : rounds.value(key, nlohmann::json::array())) {
      text += (text.empty() ? "" : " ") + name.get<std::string>();
    }
    return text.empty() ? std::string("nobody") : text;
  };
  std::string out =
      fmt::format("  round {} of {} on {}, {} together: hears {}, is heard by {}; losses {}\n",
                  rounds.value("rounds", 0ULL), rounds.value("kind", ""),
                  rounds.value("topology", ""), rounds.value("together", 0ULL), names("hears"),
                  names("heard_by"), rounds.value("losses", 0ULL));
  if (rounds.value("ruling", 0ULL) > 0) {
    std::string settings = rounds.value("settings", "");
    while (!settings.empty() && settings.back() == '\n') settings.pop_back();
    for (std::size_t at = 0; (at = settings.find('\n', at)) != std::string::npos;) {
      settings.replace(at, 1, ", ");
    }
    out += fmt::format("  switched since step {} to {}\n", rounds.value("ruled_since", 0ULL),
                       settings);
  }
  return out;
}

/// The columns of a population's members.
constexpr const char* trial_head = "      rate momentum held-out";

std::string trial_of(const nlohmann::json& member) {
  const auto trial = member.find("trial");
  if (trial == member.end()) return fmt::format("{:>10} {:>8} {:>8}", "-", "-", "-");
  return fmt::format("{:>10.3g} {:>8.3g} {:>8.4f}", trial->value("learning_rate", 0.0),
                     trial->value("momentum", 0.0), trial->value("validation_loss", 0.0));
}

}  // namespace

struct StatusServer::Impl : std::enable_shared_from_this<StatusServer::Impl> {
  Impl(asio::io_context& io, const std::filesystem::path& where, Calls made)
      : folder(where), handle(where), calls(std::move(made)), acceptor(io) {
    if (!handle.is_open()) {
      throw std::runtime_error(folder.string() + ": cannot be opened: " + std::strerror(errno));
    }
    ::unlink((folder / socket_name).c_str());
    const asio::local::stream_protocol::endpoint endpoint(handle.socket_path());
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
      if (!error) self->answer(std::make_shared<Visit>(std::move(peer)));
      self->accept();
    });
  }

  /// Somebody at the other end.
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
  FolderHandle handle;
  Calls calls;
  asio::local::stream_protocol::acceptor acceptor;
};

StatusServer::StatusServer(asio::io_context& io, const std::filesystem::path& folder, Calls calls)
    : impl_(std::make_shared<Impl>(io, folder, std::move(calls))) {
  impl_->accept();
}

StatusServer::~StatusServer() {
  asio::error_code ignored;
  impl_->acceptor.close(ignored);
  ::unlink((impl_->folder / socket_name).c_str());
}

std::optional<std::string> ask_peer(const std::filesystem::path& folder, std::string_view command,
                                    int timeout_ms) {
  const FolderHandle handle(folder);
  if (!handle.is_open()) return std::nullopt;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = handle.socket_path();
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  std::optional<std::string> answer;
  const bool told =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, command.data(), command.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(command.size()) &&
      ::shutdown(fd, SHUT_WR) == 0;
  if (told) {
    std::string text;
    while (text.size() < document_bytes_max) {
      pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, timeout_ms) <= 0) break;
      char buffer[65536];
      const ssize_t got = ::read(fd, buffer, sizeof buffer);
      if (got < 0) break;
      if (got == 0) {
        answer = std::move(text);
        break;
      }
      text.append(buffer, static_cast<std::size_t>(got));
    }
  }
  ::close(fd);
  return answer;
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
  const FolderHandle handle(folder);
  auto question = std::make_shared<Question>(io);
  asio::error_code error;
  // On a Unix socket this waits for nobody: it succeeds at once or fails.
  question->socket.open({}, error);
  if (!error) question->socket.non_blocking(true, error);
  if (!error) question->socket.connect({handle.socket_path()}, error);
  // Commands are short, so there is room for one at once.
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
                     const bool whole = end == asio::error::eof;
                     then(whole ? std::optional(std::move(question->text)) : std::nullopt);
                   });
}

std::string status_table(const std::string& document) {
  const auto json = nlohmann::json::parse(document, nullptr, false);
  if (json.is_discarded()) return "the peer's answer is not valid JSON\n";
  std::string out;
  const auto self = json.value("self", nlohmann::json::object());
  out += fmt::format("peer {}  {}  {}\n", self.value("name", ""), self.value("id", ""),
                     json.value("phase", ""));
  out += fmt::format("  listening on {}  advertised as {}  lanes on {}\n",
                     self.value("listening", "nothing (dials out only)"),
                     self.value("advertised", "nothing"), self.value("lanes", "nothing"));
  out += fmt::format(
      "  step {} of {}  {:.1f} steps/s  {:.0f} samples/s  loss {:.4f}  accuracy {:.2f} %"
      "  learning rate {:.2g}\n",
      json.value("step", 0ULL), json.value("steps", 0ULL), json.value("steps_per_second", 0.0),
      json.value("samples_per_second", 0.0), json.value("loss", 0.0),
      100 * json.value("accuracy", 0.0), json.value("learning_rate", 0.0));
  if (const auto ring = json.find("ring"); ring != json.end()) {
    out += ring_lines(*ring);
  } else if (const auto pipeline = json.find("pipeline"); pipeline != json.end()) {
    out += pipeline_lines(*pipeline);
  } else if (const auto rounds = json.find("rounds"); rounds != json.end()) {
    out += rounds_lines(*rounds);
  } else {
    const auto exchanges = json.value("exchanges", nlohmann::json::object());
    out += fmt::format(
        "  spread {:.3g}  exchanges {} committed  {} refused  {} aborted  {} undecided\n",
        json.value("spread", 0.0), exchanges.value("committed", 0ULL),
        exchanges.value("refused", 0ULL), exchanges.value("aborted", 0ULL),
        exchanges.value("undecided", 0ULL));
  }
  const auto population = json.find("population");
  if (population != json.end()) {
    out += fmt::format("  in a population: copied others {} times\n",
                       population->value("copies", 0ULL));
  }
  out += '\n';
  out += fmt::format("{:<16} {:<10} {:<10} {:>10} {:>9}{}  {}\n", "member", "state", "phase",
                     "step", "steps/s", population == json.end() ? "" : trial_head, "address");
  for (const auto& member : json.value("members", nlohmann::json::array())) {
    out +=
        fmt::format("{:<16} {:<10} {:<10} {:>10} {:>9.1f}{}  {}\n", member.value("name", ""),
                    member.value("state", ""), member.value("phase", ""),
                    member.value("step", 0ULL), member.value("steps_per_second", 0.0),
                    population == json.end() ? "" : trial_of(member), member.value("address", ""));
  }
  const auto refusals = json.value("refusals", nlohmann::json::array());
  if (!refusals.empty()) out += "\nlast refusals\n";
  for (const auto& refusal : refusals) {
    out += fmt::format("  {:>9.2f} s  {:<20} {:<16} {}\n", refusal.value("t", 0.0),
                       refusal.value("event", ""), refusal.value("peer", ""),
                       refusal.value("why", ""));
  }
  return out;
}

}  // namespace gv
