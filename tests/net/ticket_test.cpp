// Tickets as text, and the keys that follow from a ticket.
#include "net/ticket.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace gv {
namespace {

Ticket a_ticket() {
  return {.addresses = {"192.0.2.1:7000", "[2001:db8::1]:7000"},
          .swarm = generate_key_pair().public_key,
          .inviter = generate_key_pair().public_key,
          .secret = generate_ticket_secret(),
          .expires_s = 1'800'000'000};
}

}  // namespace

TEST_CASE("a ticket is read as it was written") {
  const Ticket ticket = a_ticket();
  const std::string text = to_text(ticket);
  const ReadTicket read = read_ticket("  " + text + "\n");
  REQUIRE(read.problem.empty());
  CHECK(read.ticket.addresses == ticket.addresses);
  CHECK(read.ticket.swarm == ticket.swarm);
  CHECK(read.ticket.inviter == ticket.inviter);
  CHECK(read.ticket.secret == ticket.secret);
  CHECK(read.ticket.expires_s == ticket.expires_s);
  CHECK(to_text(read.ticket) == text);
  // A ticket is short enough to be sent as one message, and a shell takes it as one word.
  CHECK(text.size() < 200);
  CHECK(
      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") ==
      std::string::npos);
}

TEST_CASE("a ticket that is cut off or mistyped is refused at any place") {
  const std::string text = to_text(a_ticket());
  for (std::size_t i = 0; i < text.size(); ++i) {
    INFO(i);
    CHECK_FALSE(read_ticket(text.substr(0, i)).problem.empty());
    std::string typo = text;
    typo[i] = typo[i] == 'x' ? 'y' : 'x';
    CHECK_FALSE(read_ticket(typo).problem.empty());
  }
  CHECK(read_ticket("hello").problem.find("no ticket") != std::string::npos);
  CHECK(read_ticket(text + "AAAA").problem.find("cut off or mistyped") != std::string::npos);
  CHECK_FALSE(read_ticket("gv1_" + std::string(100'000, 'A')).problem.empty());
}

TEST_CASE("the keys of a ticket follow from its secret and its swarm and its inviter") {
  const Ticket ticket = a_ticket();
  CHECK(guest_keys(ticket).public_key == guest_keys(ticket).public_key);
  Ticket other = ticket;
  other.secret[0] ^= 1;
  CHECK(guest_keys(other).public_key != guest_keys(ticket).public_key);
  other = ticket;
  other.inviter = ticket.swarm;
  CHECK(guest_keys(other).public_key != guest_keys(ticket).public_key);
  CHECK(visitor_keys(ticket.swarm).public_key != visitor_keys(ticket.inviter).public_key);
}

}  // namespace gv
