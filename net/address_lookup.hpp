// Asks the system for the addresses of host names, on threads that nothing has to wait for.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace gv {

/// If a name server does not answer, the system's resolver takes half a minute and cannot be
/// interrupted. Asio's resolver would make the end of the loop wait for it. Here a thread that
/// still waits when this object ends is left alone: it uses only its own memory, and ends as soon
/// as the system answers. Names are looked up one at a time, so each object has at most one thread.
/// All calls must come from the loop's thread, and the loop must outlive this object.
class AddressLookup {
 public:
  using Addresses = asio::ip::tcp::resolver::results_type;
  struct Name {
    std::string host;
    std::string port;
    bool only_ipv4 = false;
  };
  /// Returns the addresses of a name, or none if there are none. It is called on other threads, may
  /// block, and must not throw.
  using Resolve = std::function<Addresses(const Name&)>;
  using Then = std::function<void(const Addresses&)>;

  /// Asks the system's resolver.
  static Addresses ask_system(const Name& name);

  explicit AddressLookup(asio::io_context& io, Resolve resolve = ask_system);
  /// Calls no more `then`, and waits for no lookup.
  ~AddressLookup();
  AddressLookup(const AddressLookup&) = delete;
  AddressLookup& operator=(const AddressLookup&) = delete;

  /// Calls `then` with the addresses, or with none if the lookup fails. If the system refuses a
  /// thread, it fails before this call returns. Once `asker` has expired, the name need not be
  /// looked up, and `then` is not called.
  void look_up(Name name, std::weak_ptr<const void> asker, Then then);

 private:
  struct Request {
    Name name;
    std::weak_ptr<const void> asker;
    Then then;
    /// A loop that only waits for this answer goes on.
    asio::executor_work_guard<asio::io_context::executor_type> work;
  };
  struct Loop;

  void start_next();
  void finish(const Addresses& found);

  Resolve resolve_;
  std::deque<Request> waiting_;
  std::optional<Request> current_;  ///< The request whose name is being looked up.
  std::shared_ptr<Loop> loop_;      ///< Shared with the thread.
};

}  // namespace gv
