// The names of transfers: every field of a name is preserved, and no two kinds share a name.
#include "consensus/message/transfer_id.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "consensus/message/message.hpp"

namespace gv {
namespace {

constexpr PeerId sender{7};

}  // namespace

TEST_CASE("the name of a piece keeps its largest fields", "[unit]") {
  const PieceName piece{.operation = 0xabcdef, .bucket = 255, .round = 4095, .segment = 0xfffff};
  const auto back = piece_named(piece_id(sender, 1, piece));
  REQUIRE(back);
  CHECK(back->operation == piece.operation);
  CHECK(back->bucket == piece.bucket);
  CHECK(back->round == piece.round);
  CHECK(back->segment == piece.segment);
}

TEST_CASE("the name of a pass keeps its largest fields", "[unit]") {
  for (const bool backward : {false, true}) {
    const PassName pass{0xabcdef, 0xffffffff, 0xffffffff, backward};
    CHECK(pass_named(pass_id(sender, 1, pass)) == pass);
  }
  TransferId id = pass_id(sender, 1, {});
  id.number |= std::uint64_t{2} << 32;  // No pass has a direction with this number.
  CHECK_FALSE(pass_named(id));
}

TEST_CASE("equal numbers of different kinds name different transfers", "[unit]") {
  const std::set<TransferId> ids = {exchange_id(sender, 1, 0),     state_id(sender, 1, 0),
                                    copy_id(sender, 1, 0, 0),      piece_id(sender, 1, {}),
                                    probe_id(sender, 1, 0, false), pass_id(sender, 1, {}),
                                    mixing_id(sender, 1, 0)};
  CHECK(ids.size() == 7);
  for (const TransferId& id : ids) {
    CHECK(piece_named(id).has_value() == (id.kind == TransferKind::piece));
    CHECK(pass_named(id).has_value() == (id.kind == TransferKind::pass));
    CHECK(id.kind <= last_value(id.kind));
  }
}

TEST_CASE("a message says which transfer it is about", "[unit]") {
  const Message refusal = Refuse{state_id(sender, 1, 2), Reason::busy};
  REQUIRE(transfer_of(refusal) != nullptr);
  CHECK(*transfer_of(refusal) == state_id(sender, 1, 2));
  CHECK(transfer_of(Ping{}) == nullptr);
}

}  // namespace gv
