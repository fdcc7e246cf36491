// The targets `ticket`, `certificates` and `exam`: data from peers outside the swarm.
#include <algorithm>
#include <asio/io_context.hpp>
#include <string>

#include "base/check.hpp"
#include "consensus/trust/trust.hpp"
#include "net/examiner.hpp"
#include "net/key_signer.hpp"
#include "net/ticket.hpp"
#include "net/wire.hpp"
#include "tests/fuzz/target.hpp"

namespace gv::fuzz {
namespace {

constexpr std::uint64_t wall_s = 1'800'000'000;

KeyPair pair_of(std::uint8_t number) {
  std::array<std::uint8_t, 32> seed{};
  seed.fill(number);
  return key_pair_of_seed(seed);
}

void feed_ticket(std::span<const std::byte> bytes) {
  const ReadTicket read = read_ticket(text_of(bytes));
  if (!read.problem.empty()) return;
  const ReadTicket again = read_ticket(to_text(read.ticket));
  check(again.problem.empty() && to_text(again.ticket) == to_text(read.ticket),
        "a ticket that is written down is read as itself");
}

std::vector<Bytes> ticket_seeds() {
  Ticket ticket{.addresses = {"192.0.2.1:7000"},
                .swarm = pair_of(1).public_key,
                .inviter = pair_of(2).public_key,
                .secret = {3},
                .expires_s = wall_s};
  const Bytes one = bytes_of(to_text(ticket));
  ticket.addresses.push_back("[2001:db8::1]:7000");
  return {one, bytes_of(to_text(ticket))};
}

Certificate certificate_of(std::uint8_t issuer, std::uint8_t key) {
  Certificate made{.swarm = pair_of(1).public_key,
                   .issuer = pair_of(issuer).public_key,
                   .key = pair_of(key).public_key,
                   .name = "peer",
                   .may_invite = true,
                   .expires_s = wall_s + 1000};
  made.signature = KeySigner(pair_of(issuer), {}).sign(signed_bytes(made));
  return made;
}

/// Feeds a frame from a member or a stranger to a peer that has certificates of its own.
void feed_certificates(std::span<const std::byte> bytes) {
  const Decoded decoded = decode(bytes);
  if (!decoded.frame) return;
  const auto* message = std::get_if<Message>(&*decoded.frame);
  const auto* said = message == nullptr ? nullptr : std::get_if<Certificates>(message);
  if (said == nullptr) return;
  const KeySigner signer(pair_of(2), {});
  Trust trust({.swarm = pair_of(1).public_key, .self = pair_of(2).public_key, .wall_s = wall_s},
              signer, Rng(1));
  trust.restore({}, {certificate_of(1, 2)}, {});
  Effects out;
  trust.show({}, *said, View{}, out);
  trust.receive({}, PeerId{7}, *said, View{}, out);
  check(trust.certificates().size() <= 2 * certified_max, "the table of certificates is bounded");
  check(trust.revocations().size() <= issuers_max * revoked_max,
        "the table of revocations is bounded");
  for (const Outgoing& outgoing : out.messages) (void)encode(outgoing.message);
}

Revocation revocation_of(std::uint8_t issuer, std::uint8_t key) {
  Revocation made{.swarm = pair_of(1).public_key,
                  .issuer = pair_of(issuer).public_key,
                  .key = pair_of(key).public_key,
                  .signed_s = wall_s};
  if (issuer != 1) made.chain = {certificate_of(1, issuer)};
  made.signature = KeySigner(pair_of(issuer), {}).sign(signed_bytes(made));
  return made;
}

std::vector<Bytes> certificates_seeds() {
  const Certificates said{.held = {5},
                          .certificates = {certificate_of(1, 3), certificate_of(3, 4)},
                          .revocations = {revocation_of(1, 4)}};
  const Certificates each_other{
      .held = {5},
      .certificates = {certificate_of(1, 3)},
      .revocations = {revocation_of(3, 4), revocation_of(4, 3), revocation_of(2, 4)}};
  return {encode(Message(said)), encode(Message(each_other)), encode(Message(Certificates{}))};
}

/// Feeds a peer requests like those of `grapevine doctor`, and checks the peer's answers.
void feed_exam(std::span<const std::byte> bytes) {
  const Decoded decoded = decode(bytes);
  if (!decoded.frame) return;
  check(std::ranges::equal(encode(*decoded.frame), bytes), "a frame has one encoding");
  const auto* request = std::get_if<ExamRequest>(&*decoded.frame);
  if (request == nullptr) return;
  asio::io_context io;
  Examiner examiner(io, {}, {.wall_us = [] { return wall_s; }, .offer = [](ExamAnswer&) {}});
  // The source is empty, because the bytes must not determine which address is dialled.
  int answers = 0;
  examiner.examine("", *request, [&](const ExamAnswer& answer) {
    ++answers;
    check(answer.number == request->number, "an answer is that to its question");
  });
  check(answers == 1, "a question has one answer");
}

std::vector<Bytes> exam_seeds() {
  return {encode(ExamRequest{.number = 1, .control_port = 7000, .lane_port = 7001}),
          encode(ExamRequest{.number = 2, .wants_echo = true}),
          encode(ExamAnswer{.number = 3,
                            .wall_us = wall_s,
                            .seen_as = "192.0.2.1",
                            .control_port = DialOutcome::silent,
                            .lanes = "192.0.2.2:7001",
                            .lane = 4,
                            .token = {5}})};
}

}  // namespace

Target ticket_target() { return {.name = "ticket", .feed = feed_ticket, .seeds = ticket_seeds}; }
Target exam_target() { return {.name = "exam", .feed = feed_exam, .seeds = exam_seeds}; }
Target certificates_target() {
  return {.name = "certificates", .feed = feed_certificates, .seeds = certificates_seeds};
}

}  // namespace gv::fuzz
