// A hostile member that has a key from the allow-list, and a socket over which a test can send
// anything.
#pragma once

#include <string>
#include <vector>
#include <zmq.hpp>

#include "net/wire.hpp"
#include "tests/process/swarm.hpp"

namespace gv {

/// Talks to peer `target` of a swarm in the name of peer `number`, whose own process must not be
/// running.
class Insider {
 public:
  Insider(Swarm& swarm, std::size_t number, std::size_t target);
  /// Talks to the peer with the key `there` at `address`, in the name of the holder of `own`.
  Insider(const KeyPair& own, std::string name, const PublicKey& there, const std::string& address);

  /// Says hello with the settings that the peer expects, until the peer accepts us as a member.
  /// Returns false if the peer does not accept in time.
  bool join(const std::string& advertise = "");

  void send(const Frame& frame);
  /// Sends these frames unchanged, as one message in several parts.
  void send_parts(const std::vector<std::vector<std::byte>>& parts);

  /// The hellos and messages that arrived since the last call.
  std::vector<Frame> take();

  /// The statement that an honest peer would make about itself.
  Member self(const std::string& address = "") const;
  Hello hello(const std::string& advertise = "") const;

  zmq::socket_t& socket() { return socket_; }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
  std::string name_;
  KeyPair key_;
  std::vector<std::pair<std::string, std::string>> agreement_;
};

}  // namespace gv
