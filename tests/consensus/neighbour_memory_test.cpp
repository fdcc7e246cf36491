// The references that two neighbours keep of each other stay equal through deaths, returns, aborted
// rounds and lost messages.
#include "consensus/mixing/neighbour_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/consensus/mixing_lab.hpp"

namespace gv {
namespace {

using Vector = MixingLab::Vector;

constexpr std::size_t elements = 40;

/// A set of peers, some of them present, in generations that may end in the middle of a round.
class Company {
 public:
  Company(const MixRule& rule, std::size_t peers) : rule_(rule) {
    const auto models = drawn_models(peers, elements);
    for (std::size_t i = 0; i < peers; ++i) {
      everybody_.push_back({models[i], Mixer<double>(rule, elements, 1), {}, false});
    }
  }

  /// Begins a generation with these peers in this order.
  void begin(std::vector<std::size_t> present) {
    present_ = std::move(present);
    std::vector<PeerId> order;
    for (const std::size_t peer : present_) order.push_back(PeerId{peer + 1});
    ++key_;
    round_ = 0;
    for (std::size_t rank = 0; rank < present_.size(); ++rank) {
      One& one = everybody_[present_[rank]];
      one.mixer.close_generation(one.left, one.unsent);
      one.left.clear();
      one.unsent = false;
      one.mixer.begin_generation(rank, order, key_, one.x);
    }
  }

  /// Every peer takes a step against the gradient of x^2 / 2, and then all peers mix. `spoil` may
  /// change a message, or lose it by returning nullopt; `from` and `to` are indices among all
  /// peers.
  using Spoil = std::function<std::optional<std::vector<std::byte>>(
      std::size_t from, std::size_t to, const std::vector<std::byte>& bytes)>;
  void round(double rate, const Spoil& spoil = {}) {
    std::vector<std::vector<MixMessage>> mail = send(rate, [](std::size_t) { return true; });
    for (std::size_t rank = 0; rank < present_.size(); ++rank) {
      std::vector<MixMessage> arrived;
      for (MixMessage& message : mail[rank]) {
        if (spoil) {
          auto now = spoil(present_[message.from], present_[rank], *message.bytes);
          if (!now) continue;
          message.bytes = std::make_shared<const std::vector<std::byte>>(*std::move(now));
        }
        arrived.push_back(message);
      }
      One& one = everybody_[present_[rank]];
      refused += one.mixer.mix(round_, one.x, arrived);
    }
    ++round_;
  }

  /// Runs a round in which no peer mixes. Peers for which `sends` is true send their messages. A
  /// message arrives, but is not read, if `comes` returns true.
  void break_off(double rate, const std::function<bool(std::size_t)>& sends,
                 const std::function<bool()>& comes) {
    const std::vector<std::vector<MixMessage>> mail = send(rate, sends);
    for (std::size_t rank = 0; rank < present_.size(); ++rank) {
      for (const MixMessage& message : mail[rank]) {
        if (comes()) everybody_[present_[rank]].left.push_back(message);
      }
    }
  }

  /// Restarts a peer with its model alone, or with the contents of a checkpoint.
  void restart(std::size_t peer, bool from_checkpoint) {
    One& one = everybody_[peer];
    const auto kept = one.mixer.lasting();
    one = {one.x, Mixer<double>(rule_, elements, 1), {}, false};
    if (!from_checkpoint) return;
    for (const auto& [name, values] : kept) one.mixer.restore(name, values);
  }

  /// True if each end of every edge holds exactly the other end's reference, to the bit.
  bool agrees() {
    for (std::size_t rank = 0; rank < present_.size(); ++rank) {
      Mixer<double>& mixer = everybody_[present_[rank]].mixer;
      for (const std::size_t to : mixer.plan().turn(rank, 0).out) {
        const Vector* copy = everybody_[present_[to]].mixer.memory()->shared(rank);
        if (copy == nullptr || *copy != mixer.memory()->own()) return false;
      }
    }
    return true;
  }

  Vector mean() const {
    Vector mean(elements, 0);
    for (const std::size_t peer : present_) {
      for (std::size_t k = 0; k < elements; ++k) mean[k] += everybody_[peer].x[k];
    }
    for (double& value : mean) value /= static_cast<double>(present_.size());
    return mean;
  }
  Vector& model(std::size_t peer) { return everybody_[peer].x; }

  std::size_t refused = 0;
  std::map<MixForm, int> sent;  ///< Number of messages sent, by form; one for each receiver.

 private:
  struct One {
    Vector x;
    Mixer<double> mixer;
    std::vector<MixMessage> left;
    bool unsent;
  };

  std::vector<std::vector<MixMessage>> send(double rate,
                                            const std::function<bool(std::size_t)>& sends) {
    std::vector<std::vector<MixMessage>> mail(present_.size());
    for (std::size_t rank = 0; rank < present_.size(); ++rank) {
      One& one = everybody_[present_[rank]];
      one.mixer.begin_round(round_, one.x);
      for (double& value : one.x) value -= rate * value;
      one.mixer.end_steps(one.x, rate, 1);
      const auto messages = one.mixer.messages(round_, one.x);
      one.unsent = !sends(present_[rank]);
      for (const MixMessage& message : messages) {
        MixHeader header;
        std::memcpy(&header, message.bytes->data(), sizeof(header));
        for (const std::size_t to : message.to) {
          if (one.unsent) continue;
          mail[to].push_back(message);
          ++sent[header.form];
        }
      }
    }
    return mail;
  }

  MixRule rule_;
  std::vector<One> everybody_;
  std::vector<std::size_t> present_;
  std::uint64_t key_ = 0;
  std::uint64_t round_ = 0;
};

std::vector<MixRule> remembering_rules() {
  std::vector<MixRule> rules;
  for (const MixMemory memory : {MixMemory::difference, MixMemory::replicated_difference}) {
    for (const TopologyKind topology : {TopologyKind::ring, TopologyKind::complete}) {
      for (const Codec& codec : {Codec{}, Codec{.kind = CodecKind::top_k, .fraction = 0.2},
                                 Codec{.kind = CodecKind::sign}, Codec{.kind = CodecKind::qsgd}}) {
        rules.push_back(
            {.topology = {.kind = topology}, .gamma = 0.2, .codec = codec, .memory = memory});
      }
    }
  }
  return rules;
}

std::string text_of(const MixRule& rule) {
  return name_of(rule) + ", " + std::string(to_string(rule.codec.kind));
}

double difference(const Vector& a, const Vector& b) {
  double most = 0;
  for (std::size_t k = 0; k < a.size(); ++k) most = std::max(most, std::abs(a[k] - b[k]));
  return most;
}

}  // namespace

TEST_CASE("neighbours know the same of each other from the second round of any generation on",
          "[unit]") {
  for (const MixRule& rule : remembering_rules()) {
    INFO(text_of(rule));
    Rng rng(5);
    Company company(rule, 7);
    for (int generation = 0; generation < 60; ++generation) {
      std::vector<std::size_t> present;
      for (std::size_t peer = 0; peer < 7; ++peer) {
        if (rng.chance(0.75)) present.push_back(peer);
      }
      if (present.size() < 2) present = {0, 6};
      if (rng.chance(0.3)) company.restart(rng.below(7), rng.chance(0.5));
      company.begin(present);
      const auto rounds = rng.below(5);
      for (std::uint64_t round = 0; round < rounds; ++round) {
        company.round(0.01);
        if (round > 0) REQUIRE(company.agrees());
      }
      company.break_off(
          0.01, [&](std::size_t) { return rng.chance(0.7); }, [&] { return rng.chance(0.8); });
    }
    CHECK(company.refused == 0);
  }
}

TEST_CASE("references keep the mean through every generation", "[unit]") {
  for (const MixRule& rule : remembering_rules()) {
    if (rule.memory == MixMemory::replicated_difference) continue;
    INFO(text_of(rule));
    Rng rng(6);
    Company company(rule, 6);
    for (int generation = 0; generation < 20; ++generation) {
      std::vector<std::size_t> present{0, 1, 2, 3, 4, 5};
      present.erase(present.begin() + static_cast<std::ptrdiff_t>(rng.below(6)));
      company.begin(present);
      const Vector before = company.mean();
      for (int round = 0; round < 6; ++round) company.round(0);
      // The rounding error of a few hundred additions of numbers of size 1.
      CHECK(difference(company.mean(), before) < 1e-12);
      company.break_off(
          0, [&](std::size_t) { return rng.chance(0.7); }, [&] { return rng.chance(0.8); });
    }
  }
}

TEST_CASE("only who is new to a neighbour sends it the whole", "[unit]") {
  Company company(
      {.gamma = 0.2, .codec = {.kind = CodecKind::sign}, .memory = MixMemory::difference}, 6);
  company.begin({0, 1, 2, 3, 4, 5});
  for (int round = 0; round < 5; ++round) company.round(0.01);
  CHECK(company.sent[MixForm::whole] == 12);
  CHECK(company.sent[MixForm::hello] == 0);
  const auto all = [] { return true; };
  // Runs rounds of a new generation and counts the messages that contain a complete reference.
  const auto wholes_in = [&](const std::vector<std::size_t>& present) {
    company.begin(present);
    company.sent.clear();
    for (int round = 0; round < 5; ++round) company.round(0.01);
    return company.sent[MixForm::whole];
  };
  // In this round all messages arrive, but no peer mixes. Peers 2 and 4 become neighbours for the
  // first time.
  company.break_off(
      0.01, [](std::size_t) { return true; }, all);
  CHECK(wholes_in({0, 1, 2, 4, 5}) == 2);
  CHECK(company.sent[MixForm::hello] == 8);
  // A peer that could not send its last message undoes that message's change.
  company.break_off(
      0.01, [](std::size_t peer) { return peer != 1; }, all);
  CHECK(wholes_in({0, 1, 2, 4, 5}) == 0);
  // A peer that has sent its message does not undo the message's change, even if the generation's
  // first round is lost.
  company.break_off(
      0.01, [](std::size_t) { return true; }, all);
  company.begin({0, 1, 2, 4, 5});
  company.break_off(
      0.01, [](std::size_t) { return false; }, all);
  CHECK(wholes_in({0, 1, 2, 4, 5}) == 0);
  // A peer that has lost all copies receives them again, and sends its own reference once.
  company.restart(2, false);
  CHECK(wholes_in({0, 1, 2, 4, 5}) == 4);
  // A peer that returns receives its two neighbours' references, and sends its own to both.
  company.restart(3, true);
  CHECK(wholes_in({0, 1, 2, 3, 4, 5}) == 4);
}

TEST_CASE("a difference that is lost or damaged is made good by the whole", "[unit]") {
  const MixRule rule{
      .gamma = 0.2, .codec = {.kind = CodecKind::qsgd}, .memory = MixMemory::difference};
  for (const bool damaged : {false, true}) {
    Company company(rule, 5);
    company.begin({0, 1, 2, 3, 4});
    for (int round = 0; round < 4; ++round) company.round(0);
    company.sent.clear();
    company.round(
        0,
        [&](std::size_t from, std::size_t to,
            const std::vector<std::byte>& bytes) -> std::optional<std::vector<std::byte>> {
          if (from != 1 || to != 2) return bytes;
          if (!damaged) return std::nullopt;
          std::vector<std::byte> other = bytes;
          other.back() ^= std::byte{1};
          return other;
        });
    CHECK(company.refused == (damaged ? 1 : 0));
    CHECK_FALSE(company.agrees());
    company.round(0);  // Peer 2 reports which reference it lacks.
    CHECK_FALSE(company.agrees());
    company.round(0);  // Peer 2 receives the reference.
    CHECK(company.agrees());
    CHECK(company.sent[MixForm::whole] == 1);
    const Vector before = company.mean();
    for (int round = 0; round < 5; ++round) company.round(0);
    CHECK(difference(company.mean(), before) < 1e-12);
    CHECK(company.agrees());
  }
}

// Both swarms begin a new generation after ten rounds, so that they differ only in the restart.
TEST_CASE("a swarm that was stopped goes on as one that was not", "[unit]") {
  for (const MixRule& rule : remembering_rules()) {
    INFO(text_of(rule));
    Company stopped(rule, 5);
    Company other(rule, 5);
    for (Company* company : {&stopped, &other}) {
      company->begin({0, 1, 2, 3, 4});
      for (int round = 0; round < 10; ++round) company->round(0.05);
      for (std::size_t peer = 0; peer < 5; ++peer) {
        if (company == &stopped) company->restart(peer, true);
      }
      company->begin({0, 1, 2, 3, 4});
      for (int round = 0; round < 10; ++round) company->round(0.05);
    }
    for (std::size_t peer = 0; peer < 5; ++peer) CHECK(stopped.model(peer) == other.model(peer));
  }
}

TEST_CASE("a message of another form than the rule's is refused", "[unit]") {
  const MixRule rule{.codec = {.kind = CodecKind::qsgd}, .memory = MixMemory::difference};
  const MixRule plain;
  const Vector x(4, 1.0);
  const std::span<const double> word = x;
  for (const int form : {0, 1, 2, 3, 77}) {
    const auto bytes = write_message<double>(
        rule, {.form = MixForm{static_cast<std::uint16_t>(form)}}, {&word, 1}, Rng(1));
    INFO(form);
    // A hello has no values after the header.
    CHECK(read_message<double>(rule, 4, 0, *bytes).has_value() == (form < 2));
    if (form == 1) CHECK(read_message<double>(rule, 4, 0, *bytes)->values == x);
    // Rules without memory send only models.
    const auto other = write_message<double>(
        plain, {.form = MixForm{static_cast<std::uint16_t>(form)}}, {&word, 1}, Rng(1));
    CHECK(read_message<double>(plain, 4, 0, *other).has_value() == (form == 0));
  }
}

}  // namespace gv
