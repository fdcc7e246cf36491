// Buffers are reused as soon as they have no holder, and never before.
#include "base/reuse.hpp"

#include <catch2/catch.hpp>

#include "consensus/gossip/pair_exchange.hpp"

namespace gv {

TEST_CASE("a buffer is lent again once its last holder lets go, and a limited number is kept") {
  Reuse<int> pool(2);
  auto first = pool.take();
  auto second = pool.take();
  auto third = pool.take();
  CHECK(first != second);
  CHECK(third != first);
  CHECK(third != second);
  const int* kept = first.get();
  const std::weak_ptr<int> freed = third;
  auto also_first = first;
  first.reset();
  third.reset();
  CHECK(freed.expired());
  CHECK(pool.take() != also_first);
  also_first.reset();
  CHECK(pool.take().get() == kept);
}

TEST_CASE("a buffer is only given to be changed to the one who holds it alone") {
  Reuse<int> pool(1);
  std::shared_ptr<const int> held = pool.take();
  CHECK(pool.sole(held) == held);
  const auto also = held;
  CHECK(pool.sole(held) == nullptr);
  const std::shared_ptr<const int> foreign = std::make_shared<const int>(1);
  CHECK(pool.sole(foreign) == nullptr);
}

TEST_CASE("the memory of a snapshot that is offered is not lent for the next one") {
  PairExchange exchange(PeerId{1}, 1, {.elements = 4});
  auto snapshot = exchange.blank_snapshot();
  snapshot->values.assign(4, 1.0f);
  const Snapshot* offered = snapshot.get();
  exchange.set_snapshot(std::move(snapshot), 0.5f);
  Effects out;
  REQUIRE(exchange.start(Time{}, PeerId{2}, 0, out));
  auto next = exchange.blank_snapshot();
  CHECK(next.get() != offered);
  next->values.assign(4, 2.0f);
  exchange.set_snapshot(std::move(next), 0.5f);
  // The snapshot has been replaced, but the exchange in progress still refers to it.
  CHECK(exchange.blank_snapshot().get() != offered);
  CHECK(offered->values.front() == 1.0f);
  exchange.peer_gone(Time{}, PeerId{2}, out);
  CHECK(exchange.blank_snapshot().get() == offered);
}

TEST_CASE("without a snapshot to offer no memory of the model's size is kept") {
  PairExchange exchange(PeerId{1}, 1, {.elements = 2});
  auto snapshot = exchange.blank_snapshot();
  snapshot->values = {1, 2};
  const std::weak_ptr<Snapshot> offered = snapshot;
  exchange.set_snapshot(std::move(snapshot), 0.5f);
  auto filled = exchange.blank_snapshot();
  filled->values = {3, 4};
  exchange.set_snapshot(nullptr, 0);
  CHECK(offered.expired());
  // A job may still be filling another snapshot, which is then used like any other.
  CHECK(exchange.blank_snapshot() != filled);
  const std::weak_ptr<Snapshot> late = filled;
  const Force force{.values = std::make_shared<const std::vector<float>>(2, 2.0f), .scale = 0.5f};
  exchange.set_snapshot(std::move(filled), 0.5f, std::span(&force, 1));
  Effects out;
  REQUIRE(exchange.start(Time{}, PeerId{2}, 0, out));
  CHECK(exchange.snapshot()->values == std::vector<float>{4, 5});
  exchange.peer_gone(Time{}, PeerId{2}, out);
  exchange.set_snapshot(nullptr, 0);
  CHECK(late.expired());
}

TEST_CASE("forces go into a snapshot in place, unless somebody still needs what it was") {
  const bool shared = GENERATE(false, true);
  PairExchange exchange(PeerId{1}, 1, {.elements = 2});
  auto filled = exchange.blank_snapshot();
  filled->values = {1, 2};
  const Snapshot* first = filled.get();
  const SnapshotPtr other_holder = shared ? filled : nullptr;
  const Force force{.values = std::make_shared<const std::vector<float>>(2, 2.0f), .scale = 0.5f};
  exchange.set_snapshot(std::move(filled), 0.5f, std::span(&force, 1));
  Effects out;
  REQUIRE(exchange.start(Time{}, PeerId{2}, 0, out));
  CHECK(exchange.snapshot()->values == std::vector<float>{2, 3});
  CHECK((exchange.snapshot().get() == first) == !shared);
  if (shared) CHECK(other_holder->values == std::vector<float>{1, 2});
}

TEST_CASE("a partner that offers and aborts again and again makes a peer encode its model once") {
  const Codec codec =
      GENERATE(Codec{.kind = CodecKind::fp16}, Codec{.kind = CodecKind::top_k, .fraction = 0.5});
  PairExchange exchange(PeerId{1}, 1, {.elements = 4, .codec = codec});
  const auto load = [&](float value) {
    exchange.set_snapshot(
        std::make_shared<const Snapshot>(Snapshot{.values = std::vector<float>(4, value)}), 0.5f);
  };
  Effects out;
  std::uint64_t number = 0;
  const auto offered = [&](PeerId from) {
    const TransferId id{from, 9, ++number};
    exchange.receive(
        Time{}, from,
        Offer{
            .id = id, .elements = 4, .codec = static_cast<std::uint8_t>(codec.kind), .alpha = 0.5f},
        out);
    exchange.receive(Time{}, from, Abort{id, Reason::timed_out}, out);
    return out.transfers.back().payload;
  };
  load(1);
  const Payload first = offered(PeerId{2});
  for (int i = 0; i < 100; ++i) CHECK(offered(PeerId{2}).bytes.data() == first.bytes.data());
  CHECK(out.transfers.size() == 101);
  load(2);
  CHECK(offered(PeerId{2}).bytes.data() != first.bytes.data());
}

}  // namespace gv
