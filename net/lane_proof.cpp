// Sends and reads proofs over sockets, with descriptors beside them.
#include "net/lane_proof.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace gv {
namespace {

/// A message carries at most the descriptors of a ring and of a shared buffer.
constexpr std::size_t descriptors_max = 2;

/// Room for descriptors beside the bytes of a message.
union Ancillary {
  cmsghdr align;
  char bytes[CMSG_SPACE(descriptors_max * sizeof(int))];
};

}  // namespace

bool ArrivingProof::holds(const LaneToken& token, bool by_dialler) const {
  return is_complete() && proof.mark == plain_first_byte && proof.version == LaneProof{}.version &&
         same_proof(proof.proof, lane_proof(token, proof.lane, by_dialler));
}

bool send_proof(LaneConnection& connection, const LaneToken& token, std::uint64_t lane,
                bool dialled, const SharedBuffer* lent) {
  LaneProof proof{.lane = lane, .proof = lane_proof(token, lane, dialled)};
  iovec bytes{&proof, sizeof proof};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (connection.ring_out) {
    std::array<int, descriptors_max> descriptors{connection.ring_out->descriptor(),
                                                 lent != nullptr ? lent->descriptor() : -1};
    const std::size_t length = (lent != nullptr ? 2 : 1) * sizeof(int);
    message.msg_control = ancillary.bytes;
    message.msg_controllen = CMSG_SPACE(length);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(length);
    std::memcpy(CMSG_DATA(header), descriptors.data(), length);
  }
  return ::sendmsg(connection.socket.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof proof);
}

bool take_memory(LaneConnection& connection, const std::vector<Descriptor>& descriptors) {
  if (!connection.ring_out || descriptors.empty()) return false;
  connection.ring_in = RingReader::map(descriptors[0]);
  if (descriptors.size() == 1) return connection.ring_in.has_value();
  connection.borrowed = BorrowedBuffer::map(descriptors[1]);
  return connection.ring_in && connection.borrowed;
}

bool take_proof(LaneConnection& connection, ArrivingProof& arriving) {
  iovec bytes{reinterpret_cast<char*>(&arriving.proof) + arriving.got,
              sizeof(LaneProof) - arriving.got};
  Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof ancillary.bytes;
  const ssize_t got =
      ::recvmsg(connection.socket.native_handle(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + at, sizeof descriptor);
      arriving.descriptors.emplace_back(descriptor);
    }
  }
  arriving.got += static_cast<std::size_t>(got);
  return got > 0 && arriving.descriptors.size() <= descriptors_max &&
         (message.msg_flags & MSG_CTRUNC) == 0;
}

}  // namespace gv
