// Answers `grapevine doctor` and `grapevine ledger`: dials the asker back, offers it a lane to
// measure, and tells it of the common work.
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

/// Dials only the host that a request has come from, so that no asker can point this peer at
/// another machine. How often a key may ask is up to the control links. All calls on the thread of
/// `io`.
class Examiner {
 public:
  struct Options {
    std::string dial_from;  ///< Address to dial from; empty: the system's choice.
    std::size_t dials_max = 16;
    Duration patience = std::chrono::seconds(3);  ///< For each dial.
  };
  struct Callbacks {
    std::function<std::uint64_t()> wall_us;  ///< Microseconds since 1970.
    std::function<void(ExamAnswer&)> offer;  ///< Fills in the lanes' address and an echo.
    /// The common work as this peer knows it, in `bytes_max` bytes at most. Empty: tells nothing.
    std::function<std::string(std::size_t bytes_max)> ledger = {};
  };
  using Reply = std::function<void(const ExamAnswer&)>;

  Examiner(asio::io_context& io, Options options, Callbacks callbacks);
  ~Examiner();

  /// Answers once, at once or when the ports were dialled. `source` is the numeric address that the
  /// request comes from.
  void examine(const std::string& source, const ExamRequest& request, Reply reply);

 private:
  struct Dial;
  void dial(const asio::ip::address& host, std::uint16_t port,
            std::function<void(DialOutcome)> done);

  asio::io_context& io_;
  Options options_;
  Callbacks callbacks_;
  std::size_t dials_ = 0;  ///< Under way.
  /// Handlers hold this weakly: when it is gone, so is everything they would touch.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
