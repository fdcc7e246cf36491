// A hostile member: it has a key of the allow-list, and a socket that sends whatever a test wants.
#pragma once

#include <string>
#include <vector>
#include <zmq.hpp>

#include "net/wire.hpp"
#include "tests/process/swarm.hpp"

namespace gv {

/// Speaks with peer `target` of a swarm as peer `number` of it, which must not run itself.
class Insider {
 public:
  Insider(Swarm& swarm, std::size_t number, std::size_t target);

  /// Says hello until the peer takes us for a member: with the settings it wants to hear. False if
  /// it does not answer in time.
  bool join(const std::string& advertise = "");

  void send(const Frame& frame);
  /// Frames as they are, as one message in parts.
  void send_parts(const std::vector<std::vector<std::byte>>& parts);

  /// The hellos and messages that came since the last call.
  std::vector<Frame> take();

  /// What a sound peer would say of itself.
  Member self() const;
  Hello hello(const std::string& advertise = "") const;

  zmq::socket_t& socket() { return socket_; }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
  std::string name_;
  PublicKey key_{};
  std::vector<std::pair<std::string, std::string>> agreement_;
};

}  // namespace gv
