// Answers `grapevine doctor` and `grapevine ledger`: dials back, offers an echo, sends the ledger.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.hpp"
#include "net/exam.hpp"

namespace gv {

/// Dials only the host from which a request has come, so that no asker can point this peer at
/// another machine. The control links limit how often a key may ask. All calls must come from the
/// thread of `io`.
class Examiner {
 public:
  struct Options {
    std::string dial_from;  ///< Address to dial from; empty means the system's choice.
    std::size_t dials_max = 16;
    Duration patience = std::chrono::seconds(3);  ///< Time limit for each dial.
  };
  struct Callbacks {
    std::function<std::uint64_t()> wall_us;  ///< Returns the time in microseconds since 1970.
    std::function<void(ExamAnswer&)> offer;  ///< Fills in the lanes' address and offers an echo.
    /// Returns this peer's account of the swarm's work, as a document of at most `bytes_max` bytes.
    /// If no function is set, answers contain no ledger.
    std::function<std::string(std::size_t bytes_max)> ledger = {};
  };
  using Reply = std::function<void(const ExamAnswer&)>;

  Examiner(asio::io_context& io, Options options, Callbacks callbacks);
  ~Examiner();

  /// Calls `reply` exactly once: immediately, or after the ports have been dialled. `source` is the
  /// numeric address from which the request comes.
  void examine(const std::string& source, const ExamRequest& request, Reply reply);

 private:
  struct Dial;
  void dial(const asio::ip::address& host, std::uint16_t port,
            std::function<void(DialOutcome)> done);

  asio::io_context& io_;
  Options options_;
  Callbacks callbacks_;
  std::size_t dials_ = 0;  ///< Number of dials under way.
  /// Handlers hold a weak pointer to this. Once it has expired, the objects that they use are gone.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
