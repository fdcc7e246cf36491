// The socket of a hostile member.
#include "tests/process/insider.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>
#include <variant>

#include "consensus/membership/statement.hpp"
#include "net/allow_list.hpp"
#include "net/key_signer.hpp"

namespace gv {

namespace {

KeyPair key_of(Swarm& swarm, std::size_t number) {
  LoadedKeyPair loaded = load_key_pair(swarm.folder(number) / "key");
  if (!loaded.problems.empty()) throw std::runtime_error("no key");
  return loaded.pair;
}

}  // namespace

Insider::Insider(Swarm& swarm, std::size_t number, std::size_t target)
    : Insider(key_of(swarm, number), Swarm::name(number), key_of(swarm, target).public_key,
              swarm.status(target)["self"].value("listening", "")) {}

Insider::Insider(const KeyPair& own, std::string name, const PublicKey& there,
                 const std::string& address)
    : socket_(context_, zmq::socket_type::dealer), name_(std::move(name)), key_(own) {
  socket_.set(zmq::sockopt::linger, 0);
  dial_as(socket_, curve_keys(own), there);
  socket_.connect("tcp://" + address);
}

bool Insider::join(const std::string& advertise) {
  // The first answer states the settings that the peer expects. The second hello contains them.
  for (int hellos = 0; hellos < 2; ++hellos) {
    send(hello(advertise));
    bool answered = false;
    eventually(
        [&] {
          for (const Frame& frame : take()) {
            const auto* answer = std::get_if<Hello>(&frame);
            if (answer == nullptr || !answer->answer) continue;
            agreement_ = answer->agreement;
            answered = true;
          }
          return answered;
        },
        std::chrono::seconds(10));
    if (!answered) return false;
  }
  return true;
}

void Insider::send(const Frame& frame) {
  static_cast<void>(socket_.send(zmq::buffer(encode(frame)), zmq::send_flags::dontwait));
}

void Insider::send_parts(const std::vector<std::vector<std::byte>>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto more = i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    static_cast<void>(socket_.send(zmq::buffer(parts[i]), more | zmq::send_flags::dontwait));
  }
}

std::vector<Frame> Insider::take() {
  std::vector<Frame> frames;
  zmq::message_t bytes;
  while (socket_.recv(bytes, zmq::recv_flags::dontwait)) {
    Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
    if (decoded.frame) frames.push_back(*std::move(decoded.frame));
  }
  return frames;
}

Member Insider::self(const std::string& address) const {
  Member self{.id = peer_id(key_.public_key), .name = name_, .address = address};
  restate(self, KeySigner(key_, {}));
  return self;
}

Hello Insider::hello(const std::string& advertise) const {
  return {.name = name_, .advertise = advertise, .session = 1, .agreement = agreement_};
}

}  // namespace gv
